/* The memory of the simulated GPU: pointers, bounds and races. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "support/spirv_parts.h"

char spirv_message[512];

void spirv_fail(spirv_machine *machine, const spirv_invocation *v, const char *format, ...)
{
    if (machine->failed) return;
    machine->failed = true;
    int n = snprintf(spirv_message, sizeof spirv_message, "workgroup %u,%u,%u, ", machine->group[0], machine->group[1],
                     machine->group[2]);
    if (v)
        n += snprintf(spirv_message + n, sizeof spirv_message - (size_t)n, "invocation %u, word %u: ", v->index, v->pc);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(spirv_message + n, sizeof spirv_message - (size_t)n, format, arguments);
    va_end(arguments);
}

static const char *name_of(uint32_t memory)
{
    static char name[32];
    if (memory == SPIRV_WORKGROUP) return "workgroup memory";
    snprintf(name, sizeof name, "binding %u", memory - SPIRV_FIRST_BINDING);
    return name;
}

/* Whether what `who` did at `time` may meet what the invocation does now: nothing was between. Workgroup
 * memory is each workgroup's own; a binding it must have taken over from the others, and it must be coherent. */
static bool meets(const spirv_machine *machine, uint32_t memory, uint32_t time, uint32_t who, uint32_t me,
                  uint32_t epoch)
{
    if (time < machine->dispatch_time) return false;
    if (time < machine->group_time)
        return memory != SPIRV_WORKGROUP && !(machine->acquired && machine->m->coherent[memory - SPIRV_FIRST_BINDING]);
    return time >= epoch && who != me;
}

static void trace(spirv_machine *machine, spirv_invocation *v, spirv_trace *t, uint32_t memory, uint32_t offset,
                  bool write)
{
    const bool shared = memory == SPIRV_WORKGROUP;
    const uint32_t epoch = shared ? machine->workgroup_time : machine->storage_time;
    if (meets(machine, memory, t->write_time, t->writer, v->index, epoch))
        spirv_fail(machine, v, "%s at byte %u: %s while invocation %u of %s writes it", name_of(memory), offset,
                   write ? "written" : "read", t->writer,
                   t->write_time < machine->group_time ? "another workgroup" : "the same workgroup");
    else if (write && meets(machine, memory, t->read_time, t->reader, v->index, epoch))
        spirv_fail(machine, v, "%s at byte %u: written while invocation %u of %s reads it", name_of(memory), offset,
                   t->reader, t->read_time < machine->group_time ? "another workgroup" : "the same workgroup");
    if (write) {
        t->write_time = machine->time;
        t->writer = v->index;
    } else {
        /* of several readers the one that a writer cannot be */
        t->reader = t->read_time >= epoch && t->reader != v->index ? ~0u : v->index;
        t->read_time = machine->time;
    }
}

uint32_t *spirv_at(spirv_machine *machine, spirv_invocation *v, const uint32_t pointer[2], uint32_t offset, bool write,
                   bool atomic)
{
    const uint64_t at = (uint64_t)pointer[1] + offset;
    if (pointer[0] == SPIRV_OWN) return v->env + at / 4;
    spirv_memory *memory = &machine->workgroup;
    uint64_t first = 0, bytes = memory->bytes;
    if (pointer[0] >= SPIRV_FIRST_BINDING) {
        const spirv_binding *b = &machine->d->bindings[pointer[0] - SPIRV_FIRST_BINDING];
        memory = b->memory;
        first = b->offset;
        bytes = b->bytes;
        if (write && !b->written)
            spirv_fail(machine, v, "%s is written, but said to be only read", name_of(pointer[0]));
        v->worked |= pointer[0] > SPIRV_FIRST_BINDING + 1; /* neither the uniform block nor the parameters */
    }
    if (!memory || at / 4 * 4 + 4 > bytes)
        spirv_fail(machine, v, "%s at byte %llu: it has %llu", name_of(pointer[0]), (unsigned long long)at,
                   (unsigned long long)bytes);
    if (machine->failed) return NULL;
    const uint64_t word = (first + at) / 4;
    if (atomic) machine->saw_atomic = true;
    else if (memory->traces) trace(machine, v, &memory->traces[word], pointer[0], (uint32_t)at, write);
    return machine->failed ? NULL : &memory->words[word];
}

void spirv_move(spirv_machine *machine, spirv_invocation *v, const spirv_type *scalar, const uint32_t pointer[2],
                uint32_t offset, bool write, uint32_t *value)
{
    uint32_t *at = spirv_at(machine, v, pointer, offset, write, false);
    const uint32_t shift = scalar->bytes < 4 ? (pointer[1] + offset) % 4 * 8 : 0;
    const uint32_t mask = scalar->bytes < 4 ? ((1u << 8 * scalar->bytes) - 1) << shift : ~0u;
    if (at && write) *at = (*at & ~mask) | (*value << shift & mask);
    else if (at) *value = (*at & mask) >> shift;
}

/* All words of a value, in order. */
static void walk(spirv_machine *machine, spirv_invocation *v, const spirv_type *type, const uint32_t pointer[2],
                 uint32_t offset, bool write, uint32_t **value)
{
    const spirv_id *ids = machine->m->ids;
    if (machine->failed) return;
    if (type->op == OP_TYPE_STRUCT) {
        for (uint32_t k = 0; k < type->count; k++)
            walk(machine, v, ids[type->members[k]].type, pointer, offset + type->offsets[k], write, value);
    } else if (type->count) {
        for (uint32_t k = 0; k < type->count; k++)
            walk(machine, v, ids[type->component].type, pointer, offset + k * type->stride, write, value);
    } else {
        spirv_move(machine, v, type, pointer, offset, write, (*value)++);
    }
}

/* A whole word among the invocation's own, where nothing is checked: most variables are such words. */
static bool is_own_word(const spirv_type *type, const uint32_t pointer[2])
{
    return pointer[0] == SPIRV_OWN && type->words == 1 && type->bytes == 4 && !type->count;
}

void spirv_load(spirv_machine *machine, spirv_invocation *v, const spirv_type *type, const uint32_t pointer[2],
                uint32_t *out)
{
    if (is_own_word(type, pointer)) {
        *out = v->env[pointer[1] / 4];
        return;
    }
    walk(machine, v, type, pointer, 0, false, &out);
}

void spirv_store(spirv_machine *machine, spirv_invocation *v, const spirv_type *type, const uint32_t pointer[2],
                 const uint32_t *value)
{
    if (is_own_word(type, pointer)) {
        v->env[pointer[1] / 4] = *value;
        return;
    }
    uint32_t *from = (uint32_t *)(uintptr_t)value;
    walk(machine, v, type, pointer, 0, true, &from);
}

void spirv_access_chain(spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n)
{
    const spirv_id *ids = machine->m->ids;
    const uint32_t *base = spirv_value(machine, v, i[3]);
    const spirv_type *type = ids[ids[i[3]].type->component].type;
    uint64_t offset = base[1];
    for (uint32_t k = 4; k < n; k++) {
        const uint32_t index = *spirv_value(machine, v, i[k]);
        if (type->op != OP_TYPE_RUNTIME_ARRAY && index >= type->count)
            spirv_fail(machine, v, "element %u of %u", index, type->count);
        if (machine->failed) return;
        offset += type->op == OP_TYPE_STRUCT ? type->offsets[index] : (uint64_t)index * type->stride;
        type = ids[type->op == OP_TYPE_STRUCT ? type->members[index] : type->component].type;
    }
    if (offset > UINT32_MAX - 64)
        spirv_fail(machine, v, "%s at byte %llu", name_of(base[0]), (unsigned long long)offset);
    uint32_t *out = spirv_value(machine, v, i[2]);
    out[0] = base[0];
    out[1] = (uint32_t)offset;
}

/* type, result, pointer at a struct, member: of a binding that is nothing but one array without a length. */
void spirv_array_length(spirv_machine *machine, spirv_invocation *v, const uint32_t *i)
{
    const spirv_id *ids = machine->m->ids;
    const uint32_t *base = spirv_value(machine, v, i[3]);
    const spirv_type *block = ids[ids[i[3]].type->component].type, *array = ids[block->members[i[4]]].type;
    const spirv_binding *b = &machine->d->bindings[base[0] - SPIRV_FIRST_BINDING];
    *spirv_value(machine, v, i[2]) = (uint32_t)((b->bytes - block->offsets[i[4]]) / array->stride);
}

static uint32_t changed(uint32_t op, uint32_t old, uint32_t value)
{
    const int32_t a = (int32_t)old, b = (int32_t)value;
    switch (op) {
    case 229: return value;
    case 234: return old + value;
    case 235: return old - value;
    case 236: return (uint32_t)(a < b ? a : b);
    case 237: return old < value ? old : value;
    case 238: return (uint32_t)(a > b ? a : b);
    case 239: return old > value ? old : value;
    case 240: return old & value;
    case 241: return old | value;
    case 242: return old ^ value;
    default: return old;
    }
}

/* type, result, pointer, scope, semantics, value; a store: pointer, scope, semantics, value. */
void spirv_atomic(spirv_machine *machine, spirv_invocation *v, const uint32_t *i)
{
    const uint32_t op = i[0] & 0xffff;
    const bool store = op == OP_ATOMIC_STORE;
    if (op == 230 || op == 232 || op == 233) {
        spirv_fail(machine, v, "atomic operation %u is not known", op);
        return;
    }
    uint32_t *at = spirv_at(machine, v, spirv_value(machine, v, i[store ? 1 : 3]), 0, op != OP_ATOMIC_LOAD, true);
    if (!at) return;
    if (!store) *spirv_value(machine, v, i[2]) = *at;
    if (op != OP_ATOMIC_LOAD)
        *at = store ? *spirv_value(machine, v, i[4]) : changed(op, *at, *spirv_value(machine, v, i[6]));
}
