/* Reading a SPIR-V module: its types, constants, variables, functions and labels. */
#include <stdlib.h>
#include <string.h>

#include "support/spirv_parts.h"

enum {
    DECORATION_ARRAY_STRIDE = 6,
    DECORATION_BUILT_IN = 11,
    DECORATION_COHERENT = 23,
    DECORATION_BINDING = 33,
    DECORATION_OFFSET = 35
};
enum { STORAGE_UNIFORM = 2, STORAGE_WORKGROUP = 4, STORAGE_PUSH_CONSTANT = 9, STORAGE_BUFFER = 12 };

static uint32_t opcode(const uint32_t *i)
{
    return i[0] & 0xffff;
}

static bool is_type(uint32_t op)
{
    return (op >= OP_TYPE_VOID && op <= OP_TYPE_FUNCTION) || op == OP_TYPE_COOPERATIVE;
}

static void decorate(spirv_module *m, const uint32_t *i)
{
    spirv_id *id = &m->ids[i[1]];
    switch (i[2]) {
    case DECORATION_ARRAY_STRIDE: id->array_stride = i[3]; break;
    case DECORATION_BUILT_IN: id->built_in = i[3]; break;
    case DECORATION_BINDING: id->binding = i[3]; break;
    case DECORATION_COHERENT: id->coherent = true; break;
    default: break;
    }
}

/* Offsets of members come before the type itself. */
static spirv_type *type_of_id(spirv_module *m, uint32_t id)
{
    if (!m->ids[id].type) m->ids[id].type = calloc(1, sizeof(spirv_type));
    return m->ids[id].type;
}

static bool lay_out_struct(spirv_module *m, spirv_type *t)
{
    uint32_t end = 0;
    if (t->count > SPIRV_MAX_MEMBERS) return false;
    for (uint32_t k = 0; k < t->count; k++) {
        const spirv_type *member = m->ids[t->members[k]].type;
        if (t->offsets[k] == 0) t->offsets[k] = end;
        end = t->offsets[k] + member->bytes;
        t->words += member->words;
    }
    t->bytes = end;
    return true;
}

/* Component, scope, rows, columns, use. Each invocation keeps all of it, a word for each element. */
static bool make_matrix(const spirv_module *m, spirv_type *t, const uint32_t *i)
{
    t->component = i[2];
    t->columns = m->ids[i[5]].value;
    t->count = t->words = m->ids[i[4]].value * t->columns;
    t->stride = 4;
    t->bytes = t->words * 4;
    return t->words > 0;
}

static bool make_type(spirv_module *m, const uint32_t *i)
{
    spirv_type *t = type_of_id(m, i[1]);
    const spirv_type *of = NULL;
    t->op = opcode(i);
    m->ids[i[1]].is_type = true;
    switch (t->op) {
    case OP_TYPE_VOID:
    case OP_TYPE_FUNCTION: return true;
    case OP_TYPE_POINTER: t->component = i[3], t->count = i[2], t->words = 2; return true;
    case OP_TYPE_BOOL: t->words = 1, t->bytes = 4; return true;
    case OP_TYPE_INT: t->words = 1, t->bytes = i[2] / 8; return i[2] == 32 || i[2] == 8;
    case OP_TYPE_FLOAT: t->words = 1, t->bytes = i[2] / 8; return i[2] == 32 || i[2] == 16;
    case OP_TYPE_COOPERATIVE: return make_matrix(m, t, i);
    case OP_TYPE_STRUCT: t->count = (i[0] >> 16) - 2, t->members = i + 2; return lay_out_struct(m, t);
    default: break;
    }
    of = m->ids[i[2]].type;
    t->component = i[2];
    t->count = t->op == OP_TYPE_RUNTIME_ARRAY ? 0 : t->op == OP_TYPE_ARRAY ? m->ids[i[3]].value : i[3];
    t->stride = m->ids[i[1]].array_stride;
    if (t->stride == ~0u || t->stride < of->bytes) t->stride = of->bytes; /* matrices and bool are wider here */
    t->words = t->count * of->words;
    t->bytes = t->count * t->stride;
    return true;
}

/* Room for the words of a value among those of an invocation. */
static uint32_t reserve(spirv_module *m, uint32_t n)
{
    m->n_words += n;
    return m->n_words - n;
}

static void make_variable(spirv_module *m, const uint32_t *i)
{
    spirv_id *id = &m->ids[i[2]];
    const spirv_type *pointee = m->ids[id->type->component].type;
    id->storage = i[3];
    if (id->coherent && id->binding < SPIRV_MAX_BINDINGS) m->coherent[id->binding] = true;
    id->at = 0;
    if (i[3] == STORAGE_WORKGROUP) {
        id->at = m->workgroup_bytes;
        m->workgroup_bytes += (pointee->bytes + 15) / 16 * 16;
    } else if (i[3] != STORAGE_BUFFER && i[3] != STORAGE_UNIFORM && i[3] != STORAGE_PUSH_CONSTANT) {
        id->at = reserve(m, (pointee->bytes + 3) / 4) * 4;
    }
}

/* Whether an instruction has a result, at words 1 (type) and 2 (id). */
static bool has_result(uint32_t op)
{
    switch (op) {
    case OP_STORE:
    case OP_CONTROL_BARRIER:
    case OP_MEMORY_BARRIER:
    case OP_ATOMIC_STORE:
    case OP_COOPERATIVE_STORE:
    case OP_FUNCTION_END:
    case OP_DECORATE:
    case OP_MEMBER_DECORATE: return false;
    default: break;
    }
    return op == OP_EXT_INST || (op > OP_TYPE_FUNCTION && op < OP_LOOP_MERGE) || op > OP_RETURN_VALUE + 1;
}

static bool make_value(spirv_module *m, const uint32_t *i)
{
    spirv_id *id = &m->ids[i[2]];
    id->type = m->ids[i[1]].type;
    if (!id->type || !m->ids[i[1]].is_type) return false;
    m->places[i[2]] = (spirv_place){reserve(m, id->type->words), id->type->words};
    if (opcode(i) == OP_VARIABLE) make_variable(m, i);
    if (opcode(i) == OP_VARIABLE && id->built_in != ~0u) {
        if (m->n_built_ins == SPIRV_MAX_BUILT_INS) return false;
        m->built_ins[m->n_built_ins++] = i[2];
    }
    if (opcode(i) == OP_CONSTANT) id->value = i[3];
    return true;
}

static bool read_instruction(spirv_module *m, const uint32_t *i)
{
    const uint32_t op = opcode(i);
    if (op == OP_ENTRY_POINT) m->entry = i[2];
    else if (op == OP_EXECUTION_MODE && i[2] == 17) memcpy(m->size, i + 3, sizeof m->size);
    else if (op == OP_DECORATE) decorate(m, i);
    else if (op == OP_MEMBER_DECORATE && i[3] == DECORATION_OFFSET && i[2] < SPIRV_MAX_MEMBERS)
        type_of_id(m, i[1])->offsets[i[2]] = i[4];
    else if (is_type(op)) return make_type(m, i);
    else if (op == OP_LABEL) m->ids[i[1]].label = (uint32_t)(i - m->words) + 2;
    else if (op == OP_FUNCTION) m->ids[i[2]].label = (uint32_t)(i - m->words) + (i[0] >> 16);
    else if (has_result(op)) return make_value(m, i);
    return true;
}

/* Push constants stand for the uniform block, binding 0. */
static uint32_t memory_of(const spirv_id *variable)
{
    if (variable->storage == STORAGE_WORKGROUP) return SPIRV_WORKGROUP;
    if (variable->storage == STORAGE_PUSH_CONSTANT) return SPIRV_FIRST_BINDING;
    return variable->binding == ~0u ? SPIRV_OWN : SPIRV_FIRST_BINDING + variable->binding;
}

static void fill(spirv_module *m, const uint32_t *i)
{
    const spirv_id *id = &m->ids[i[2]];
    uint32_t *to = m->initial + m->places[i[2]].first;
    switch (opcode(i)) {
    case OP_TRUE: *to = 1; break;
    case OP_CONSTANT: *to = i[3]; break;
    case OP_CONSTANT_COMPOSITE:
        for (uint32_t k = 3; k < i[0] >> 16; k++) {
            const spirv_place part = m->places[i[k]];
            memcpy(to, m->initial + part.first, part.words * sizeof *to);
            to += part.words;
        }
        break;
    case OP_VARIABLE:
        to[0] = memory_of(id);
        to[1] = id->at;
        break;
    default: break;
    }
}

static bool each(spirv_module *m, bool (*visit)(spirv_module *m, const uint32_t *i))
{
    for (size_t at = 5; at < m->n; at += m->words[at] >> 16) {
        if (m->words[at] >> 16 == 0 || at + (m->words[at] >> 16) > m->n) return false;
        if (!visit(m, m->words + at)) return false;
    }
    return true;
}

static bool fill_instruction(spirv_module *m, const uint32_t *i)
{
    const uint32_t op = opcode(i);
    if ((op >= OP_TRUE && op <= OP_CONSTANT_NULL) || op == OP_VARIABLE) fill(m, i);
    return true;
}

spirv_module *spirv_open(const uint32_t *words, size_t n, const char **error)
{
    spirv_module *m = calloc(1, sizeof *m);
    m->words = words;
    m->n = n;
    m->bound = n > 5 ? words[3] : 0;
    m->ids = calloc(m->bound, sizeof *m->ids);
    m->places = calloc(m->bound, sizeof *m->places);
    for (uint32_t i = 0; i < m->bound; i++) {
        spirv_id *id = &m->ids[i];
        id->storage = id->built_in = id->binding = id->array_stride = ~0u;
    }
    bool good = each(m, read_instruction) && m->entry && m->size[0];
    m->initial = calloc(m->n_words + 1, sizeof *m->initial);
    if (good && each(m, fill_instruction)) return m;
    *error = "SPIR-V with a type or an instruction that the simulated GPU does not know";
    spirv_close(m);
    return NULL;
}

void spirv_close(spirv_module *m)
{
    if (!m) return;
    for (uint32_t i = 0; i < m->bound; i++)
        if (m->ids[i].is_type) free(m->ids[i].type);
    free(m->ids);
    free(m->places);
    free(m->initial);
    free(m);
}
