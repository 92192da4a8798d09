/* Running a dispatch on the simulated GPU: workgroups, invocations, control flow, barriers. */
#include <stdlib.h>
#include <string.h>

#include "support/spirv_parts.h"

/* What workgroup memory holds at first: as a float NaN. */
#define UNWRITTEN 0xffe5a5a5u

enum { MOST_INSTRUCTIONS = 200000000, SEMANTICS_UNIFORM = 0x40, SEMANTICS_WORKGROUP = 0x100, STORAGE_FUNCTION = 7 };
/* clang-format off */
enum {
    BUILT_IN_NUM_WORKGROUPS = 24, BUILT_IN_WORKGROUP_ID = 26, BUILT_IN_LOCAL_ID = 27, BUILT_IN_GLOBAL_ID = 28,
    BUILT_IN_LOCAL_INDEX = 29, BUILT_IN_SUBGROUP_SIZE = 36, BUILT_IN_NUM_SUBGROUPS = 38, BUILT_IN_SUBGROUP_ID = 40,
    BUILT_IN_SUBGROUP_LANE = 41
};
/* clang-format on */

static void copy(spirv_machine *machine, spirv_invocation *v, uint32_t to, uint32_t from)
{
    memcpy(spirv_value(machine, v, to), spirv_value(machine, v, from), spirv_words(machine, from) * sizeof(uint32_t));
}

static void call(spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n)
{
    if (v->depth == SPIRV_MAX_CALLS) {
        spirv_fail(machine, v, "more than %d calls in each other", SPIRV_MAX_CALLS);
        return;
    }
    v->calls[v->depth++] = v->pc;
    uint32_t pc = machine->m->ids[i[3]].label;
    for (uint32_t k = 4; k < n; k++, pc += 3)
        copy(machine, v, machine->m->words[pc + 2], i[k]); /* its parameters come first */
    v->pc = pc;
}

/* Back behind the call, whose words are (length, type, result, ...). */
static void give_back(spirv_machine *machine, spirv_invocation *v, const uint32_t *value)
{
    if (v->depth == 0) {
        v->state = SPIRV_DONE;
        return;
    }
    v->pc = v->calls[--v->depth];
    const uint32_t *i = machine->m->words + v->pc;
    if (value) copy(machine, v, i[2], *value);
    v->pc += i[0] >> 16;
}

static uint32_t target_of(const spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n)
{
    const uint32_t op = i[0] & 0xffff, value = op == OP_BRANCH ? 0 : *spirv_value(machine, v, i[1]);
    if (op == OP_BRANCH) return i[1];
    if (op == OP_BRANCH_CONDITIONAL) return i[value ? 2 : 3];
    for (uint32_t k = 3; k + 1 < n; k += 2)
        if (i[k] == value) return i[k + 1];
    return i[2];
}

/* A variable of a function: back to its first value at each call. */
static void begin_variable(spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n)
{
    const spirv_id *ids = machine->m->ids;
    if (n > 4) spirv_store(machine, v, ids[i[4]].type, spirv_value(machine, v, i[2]), spirv_value(machine, v, i[4]));
}

/* One instruction that does not wait; false when it is not one. */
static bool step(spirv_machine *machine, spirv_invocation *v, const uint32_t *i, uint32_t n)
{
    switch (i[0] & 0xffff) {
    case OP_BRANCH:
    case OP_BRANCH_CONDITIONAL:
    case OP_SWITCH: v->pc = machine->m->ids[target_of(machine, v, i, n)].label; return true;
    case OP_RETURN: give_back(machine, v, NULL); return true;
    case OP_RETURN_VALUE: give_back(machine, v, &i[1]); return true;
    case OP_CALL: call(machine, v, i, n); return true;
    case OP_LABEL:
    case OP_LOOP_MERGE:
    case OP_MEMORY_BARRIER:
    case OP_SELECTION_MERGE: break;
    case OP_VARIABLE: begin_variable(machine, v, i, n); break;
    case OP_LOAD:
        spirv_load(machine, v, machine->m->ids[i[2]].type, spirv_value(machine, v, i[3]),
                   spirv_value(machine, v, i[2]));
        break;
    case OP_STORE:
        spirv_store(machine, v, machine->m->ids[i[2]].type, spirv_value(machine, v, i[1]),
                    spirv_value(machine, v, i[2]));
        break;
    case OP_ACCESS_CHAIN: spirv_access_chain(machine, v, i, n); break;
    case OP_ARRAY_LENGTH: spirv_array_length(machine, v, i); break;
    case OP_EXT_INST:
        if (!spirv_extended(machine, v, i)) return false;
        break;
    default:
        if ((i[0] & 0xffff) >= OP_ATOMIC_LOAD && (i[0] & 0xffff) <= OP_ATOMIC_LAST) spirv_atomic(machine, v, i);
        else if (!spirv_compute(machine, v, i, n)) return false;
        break;
    }
    v->pc += n;
    return true;
}

/* Until the invocation waits or ends. */
static void run_one(spirv_machine *machine, spirv_invocation *v)
{
    while (v->state == SPIRV_RUNS && !machine->failed) {
        const uint32_t *i = machine->m->words + v->pc, op = i[0] & 0xffff;
        if (op == OP_CONTROL_BARRIER) v->state = SPIRV_AT_BARRIER;
        else if ((op >= OP_GROUP_FIRST && op <= OP_GROUP_LAST) ||
                 (op >= OP_COOPERATIVE_LOAD && op <= OP_COOPERATIVE_MULTIPLY))
            v->state = SPIRV_AT_SUBGROUP;
        else if (!step(machine, v, i, i[0] >> 16)) spirv_fail(machine, v, "instruction %u is not known", op);
        v->instructions++;
        if (++machine->instructions - machine->group_began > MOST_INSTRUCTIONS)
            spirv_fail(machine, v, "more than %d instructions in this workgroup", MOST_INSTRUCTIONS);
    }
}

/* Whether all invocations [first, first + n) wait at one place. One that has ended does so nowhere. */
static bool together(spirv_machine *machine, uint32_t first, uint32_t n, spirv_state state)
{
    const spirv_invocation *v = &machine->invocations[first];
    for (uint32_t k = 0; k < n; k++)
        if (v[k].state != state || v[k].pc != v->pc) return false;
    return true;
}

static void release(spirv_machine *machine, uint32_t first, uint32_t n)
{
    for (uint32_t k = first; k < first + n; k++) {
        spirv_invocation *v = &machine->invocations[k];
        v->state = SPIRV_RUNS;
        v->pc += machine->m->words[v->pc] >> 16;
    }
}

static bool pass_subgroups(spirv_machine *machine)
{
    const uint32_t size = machine->d->subgroup_size;
    bool passed = false;
    for (uint32_t first = 0; size && first < machine->n_invocations; first += size) {
        const uint32_t left = machine->n_invocations - first, n = left < size ? left : size;
        if (!together(machine, first, n, SPIRV_AT_SUBGROUP)) continue;
        spirv_subgroup(machine, machine->invocations + first, n, machine->m->words + machine->invocations[first].pc);
        release(machine, first, n);
        passed = true;
    }
    return passed;
}

static bool pass_barrier(spirv_machine *machine)
{
    if (!together(machine, 0, machine->n_invocations, SPIRV_AT_BARRIER)) return false;
    spirv_invocation *first = &machine->invocations[0];
    const uint32_t *i = machine->m->words + first->pc, semantics = *spirv_value(machine, first, i[3]);
    machine->time++;
    if (semantics & SEMANTICS_WORKGROUP) machine->workgroup_time = machine->time;
    if (semantics & SEMANTICS_UNIFORM) {
        machine->storage_time = machine->time;
        machine->acquired |= machine->saw_atomic && machine->d->fences;
    }
    release(machine, 0, machine->n_invocations);
    return true;
}

static bool all_done(const spirv_machine *machine)
{
    for (uint32_t k = 0; k < machine->n_invocations; k++)
        if (machine->invocations[k].state != SPIRV_DONE) return false;
    return true;
}

static void explain_standstill(spirv_machine *machine)
{
    for (uint32_t k = 0; k < machine->n_invocations; k++) {
        spirv_invocation *v = &machine->invocations[k];
        if (v->state == SPIRV_DONE) continue;
        spirv_fail(machine, v, "waits at a %s that others do not reach",
                   v->state == SPIRV_AT_BARRIER ? "barrier" : "subgroup operation");
    }
}

static void built_in_value(const spirv_machine *machine, uint32_t built_in, uint32_t index, uint32_t out[3])
{
    const uint32_t *size = machine->m->size, subgroup = machine->d->subgroup_size ? machine->d->subgroup_size : 1;
    const uint32_t local[] = {index % size[0], index / size[0] % size[1], index / size[0] / size[1]};
    for (uint32_t k = 0; k < 3; k++) {
        if (built_in == BUILT_IN_WORKGROUP_ID) out[k] = machine->group[k];
        if (built_in == BUILT_IN_NUM_WORKGROUPS) out[k] = machine->d->groups[k];
        if (built_in == BUILT_IN_LOCAL_ID) out[k] = local[k];
        if (built_in == BUILT_IN_GLOBAL_ID) out[k] = machine->group[k] * size[k] + local[k];
    }
    if (built_in == BUILT_IN_LOCAL_INDEX) *out = index;
    if (built_in == BUILT_IN_SUBGROUP_SIZE) *out = subgroup;
    if (built_in == BUILT_IN_NUM_SUBGROUPS) *out = (machine->n_invocations + subgroup - 1) / subgroup;
    if (built_in == BUILT_IN_SUBGROUP_ID) *out = index / subgroup;
    if (built_in == BUILT_IN_SUBGROUP_LANE) *out = index % subgroup;
}

static void begin(spirv_machine *machine, uint32_t index)
{
    const spirv_module *m = machine->m;
    spirv_invocation *v = &machine->invocations[index];
    memcpy(v->env, m->initial, m->n_words * sizeof *v->env);
    for (uint32_t k = 0; k < m->n_built_ins; k++) {
        const spirv_id *id = &m->ids[m->built_ins[k]];
        uint32_t value[3] = {0};
        built_in_value(machine, id->built_in, index, value);
        memcpy(v->env + id->at / 4, value, m->ids[id->type->component].type->words * sizeof *value);
    }
    v->index = index;
    v->pc = m->ids[m->entry].label;
    v->state = SPIRV_RUNS;
    v->depth = 0;
    v->worked = false;
    v->instructions = 0;
}

/* What a workgroup's invocations did, and could have done while the busiest of them was at work. */
static void note_work(const spirv_machine *machine, spirv_figures *figures)
{
    uint64_t sum = 0, most = 0;
    bool worked = false;
    for (uint32_t k = 0; k < machine->n_invocations; k++) {
        const spirv_invocation *v = &machine->invocations[k];
        sum += v->instructions;
        most = v->instructions > most ? v->instructions : most;
        worked |= v->worked;
    }
    if (!worked) return;
    figures->done += sum;
    figures->possible += most * machine->n_invocations;
}

static void run_group(spirv_machine *machine, spirv_figures *figures)
{
    machine->group_time = machine->workgroup_time = machine->storage_time = ++machine->time;
    machine->saw_atomic = machine->acquired = false;
    machine->group_began = machine->instructions;
    for (uint64_t k = 0; k < machine->workgroup.bytes / 4; k++) machine->workgroup.words[k] = UNWRITTEN;
    for (uint32_t k = 0; k < machine->n_invocations; k++) begin(machine, k);
    uint64_t barriers = 0;
    while (!machine->failed && !all_done(machine)) {
        for (uint32_t k = 0; k < machine->n_invocations; k++) run_one(machine, &machine->invocations[k]);
        if (machine->failed || all_done(machine) || pass_subgroups(machine)) continue;
        if (pass_barrier(machine)) barriers++;
        else explain_standstill(machine);
    }
    if (barriers > figures->barriers) figures->barriers = barriers;
    note_work(machine, figures);
}

static bool open_machine(spirv_machine *machine)
{
    const spirv_module *m = machine->m;
    machine->n_invocations = m->size[0] * m->size[1] * m->size[2];
    machine->invocations = calloc(machine->n_invocations, sizeof *machine->invocations);
    uint32_t *env = malloc((size_t)machine->n_invocations * m->n_words * sizeof *env);
    machine->workgroup = (spirv_memory){.words = malloc(m->workgroup_bytes + 4),
                                        .bytes = m->workgroup_bytes,
                                        .traces = calloc(m->workgroup_bytes / 4 + 1, sizeof(spirv_trace))};
    if (!machine->invocations || !env || !machine->workgroup.words || !machine->workgroup.traces) abort();
    for (uint32_t k = 0; k < machine->n_invocations; k++) machine->invocations[k].env = env + (size_t)k * m->n_words;
    return true;
}

static void close_machine(spirv_machine *machine)
{
    free(machine->invocations[0].env);
    free(machine->invocations);
    free(machine->workgroup.words);
    free(machine->workgroup.traces);
}

const char *spirv_run(const spirv_dispatch *d, bool backwards, spirv_figures *figures)
{
    static uint32_t time; /* goes on, because memory remembers it from one dispatch to the next */
    spirv_machine machine = {.d = d, .m = d->module, .time = ++time};
    const uint32_t n = d->groups[0] * d->groups[1] * d->groups[2];
    machine.dispatch_time = machine.time;
    open_machine(&machine);
    for (uint32_t k = 0; k < n && !machine.failed; k++) {
        const uint32_t at = backwards ? n - 1 - k : k;
        memcpy(machine.group,
               (uint32_t[]){at % d->groups[0], at / d->groups[0] % d->groups[1], at / d->groups[0] / d->groups[1]},
               sizeof machine.group);
        run_group(&machine, figures);
    }
    close_machine(&machine);
    time = machine.time;
    figures->instructions += machine.instructions;
    return machine.failed ? spirv_message : NULL;
}
