/* Several processes that train one model: passes of a step are shared out in turn, optimiser states by whole tensors.
 * Work that one process would do in turn is done here in the same order, so that the bits are the same. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/op.h"
#include "train/trainer/internal.h"

static const tern_ranks *ranks_of(const tern_trainer *t)
{
    return t->params.ranks;
}

static uint32_t count_ranks(const tern_trainer *t)
{
    return ranks_of(t) ? ranks_of(t)->n : 1;
}

bool tern_trainer__owns(const tern_trainer *t, const tern_trainer_weight *m)
{
    return !ranks_of(t) || m->owner == ranks_of(t)->rank;
}

void tern_trainer__assign_owners(tern_trainer *t)
{
    uint64_t taken[TERN_MAX_RANKS] = {0};
    for (size_t i = 0; ranks_of(t) && i < t->tensors.n_trainable; i++) {
        tern_trainer_weight *m = t->tensors.trainable[i];
        for (uint32_t r = 1; r < ranks_of(t)->n; r++)
            if (taken[r] < taken[m->owner]) m->owner = r;
        taken[m->owner] += (uint64_t)m->info.rows * m->info.cols;
    }
}

tern_status tern_trainer__check_ranks(const tern_trainer *t, tern_error *err)
{
    const tern_trainer_params *p = &t->params;
    if (!p->ranks) return TERN_OK;
    if (p->optimizer_in_backward)
        return tern_fail(
            err, TERN_INVALID_ARGUMENT,
            "--optimizer-in-backward in %u processes: gradients of all processes are added first, so leave it out",
            p->ranks->n);
    if (p->accumulate >= p->ranks->n) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "accumulate %u in %u processes, which share the passes of a step: %u or more expected",
                     p->accumulate, p->ranks->n, p->ranks->n);
}

static tern_buffer *master_of(const tern_trainer_weight *m)
{
    return m->info.ternary ? m->states[TERN_STATE_MASTER] : m->buffer;
}

/* The part of each tensor that every rank has, in the order in which the backward makes gradients. */
static void list_tensors(tern_trainer *t, tern_state state)
{
    for (size_t i = 0; i < t->tensors.n_trainable; i++) {
        tern_trainer_weight *m = t->tensors.trainable[t->exchange.order[i]];
        const bool gradients = state == TERN_STATE_GRADIENT;
        t->exchange.tensors[i] = (tern_collective_tensor){.buffer = gradients ? m->pass : master_of(m),
                                                          .sum = gradients ? m->states[state] : NULL,
                                                          .bytes = tern_trainer__state_bytes(m, state),
                                                          .owner = m->owner};
    }
}

/* The bytes of all tensors of a state. */
static uint64_t most_of_one_owner(const tern_trainer *t)
{
    uint64_t bytes[TERN_MAX_RANKS] = {0}, most = 1;
    for (size_t i = 0; i < t->tensors.n_trainable; i++) {
        const tern_trainer_weight *m = t->tensors.trainable[i];
        bytes[m->owner] += tern_trainer__state_bytes(m, TERN_STATE_GRADIENT); /* f32: no state is larger */
        most = bytes[m->owner] > most ? bytes[m->owner] : most;
    }
    return most;
}

tern_status tern_trainer__open_exchange(tern_trainer *t, tern_error *err)
{
    const size_t n = count_ranks(t);
    const size_t losses = n * t->plan.n_tokens * sizeof(float),
                 norms = n * (t->tensors.n_trainable + 1) * sizeof(float),
                 counts = n * t->config->n_layers * t->config->n_experts * sizeof(uint64_t);
    size_t bytes = losses > norms ? losses : norms;
    if (!ranks_of(t)) return TERN_OK;
    bytes = bytes > counts ? bytes : counts;
    t->exchange.gathered = tern_alloc_aligned(bytes, 64);
    t->exchange.tensors = tern_calloc(t->tensors.n_trainable, sizeof *t->exchange.tensors);
    t->exchange.order = tern_calloc(t->tensors.n_trainable, sizeof *t->exchange.order);
    if (!t->exchange.gathered || !t->exchange.tensors || !t->exchange.order)
        return tern_fail_alloc(err, bytes + t->tensors.n_trainable *
                                                (sizeof *t->exchange.tensors + sizeof *t->exchange.order));
    t->exchange.sums_are_zero = true;
    return tern_collective_open(&t->exchange.collective, t->backend, t->params.ranks, most_of_one_owner(t), err);
}

void tern_trainer__close_exchange(tern_trainer *t)
{
    tern_collective_close(t->exchange.collective);
    tern_free(t->exchange.tensors);
    tern_free(t->exchange.order);
    tern_free_aligned(t->exchange.gathered);
}

/* ---- the backward in parts: gradients that are complete are exchanged while the rest is computed */

/* A tensor, and the last op that touches its gradient. */
typedef struct gradient_end {
    size_t last;
    uint32_t tensor;
} gradient_end;

static int compare_ends(const void *a, const void *b)
{
    const gradient_end *x = a, *y = b;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static bool touches(const tern_graph *g, const tern_op *op, const tern_weight *weight)
{
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) {
        const uint32_t value = tern_op_view(op, i).value;
        const tern_value *v = value == TERN_NO_VALUE ? NULL : &g->values[value];
        if (v && v->kind == TERN_VALUE_STATE && v->state == TERN_STATE_GRADIENT && v->weight == weight) return true;
    }
    return false;
}

/* A tensor that no op touches comes last. */
static size_t last_op(const tern_graph *g, const tern_weight *weight)
{
    size_t i = g->n_ops;
    while (i > 0 && !touches(g, &g->ops[i - 1], weight)) i--;
    return i ? i - 1 : g->n_ops - 1;
}

/* Parts of about as many bytes of gradients; tensors whose gradients one op makes whole are in one. */
static size_t choose_parts(tern_trainer *t, const gradient_end *all, size_t *ends)
{
    uint64_t total = 0, sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < t->tensors.n_trainable; i++)
        total += tern_trainer__state_bytes(t->tensors.trainable[i], TERN_STATE_GRADIENT);
    for (size_t i = 0; i + 1 < t->tensors.n_trainable; i++) {
        sum += tern_trainer__state_bytes(t->tensors.trainable[all[i].tensor], TERN_STATE_GRADIENT);
        if (sum * TERN_TRAINER_PARTS < total * (n + 1) || all[i].last == all[i + 1].last) continue;
        t->exchange.part_ends[n] = i + 1;
        ends[n++] = all[i].last + 1;
    }
    t->exchange.part_ends[n] = t->tensors.n_trainable;
    ends[n++] = t->graphs.all[TERN_TRAINER_STEP].graph.n_ops;
    return n;
}

/* A fingerprint that the others must have as well: a sum of where the parts end and of their contents. */
static uint64_t hash_parts(const tern_trainer *t)
{
    uint64_t sum = 0xcbf29ce484222325u + t->exchange.n_parts;
    for (size_t i = 0; i < t->exchange.n_parts; i++) sum = (sum ^ t->exchange.part_ends[i]) * 0x100000001b3u;
    for (size_t i = 0; i < t->tensors.n_trainable; i++) sum = (sum ^ t->exchange.order[i]) * 0x100000001b3u;
    return sum;
}

static tern_status compare_ranks(const tern_trainer *t, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const uint64_t mine = hash_parts(t);
    uint64_t all[TERN_MAX_RANKS];
    size_t bytes[TERN_MAX_RANKS];
    for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = sizeof mine;
    TERN_TRY(ranks->gather(ranks, &mine, bytes, all, err));
    for (uint32_t r = 0; r < ranks->n; r++)
        if (all[r] != mine)
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "rank %u makes gradients in another order than rank %u: devices of one kind expected", r,
                             ranks->rank);
    return TERN_OK;
}

tern_status tern_trainer__cut_backward(tern_trainer *t, tern_error *err)
{
    tern_trainer_graph *g = &t->graphs.all[TERN_TRAINER_STEP];
    size_t ends[TERN_TRAINER_PARTS];
    if (!t->params.ranks) return TERN_OK;
    gradient_end *all = tern_calloc(t->tensors.n_trainable, sizeof *all);
    if (!all) return tern_fail_alloc(err, t->tensors.n_trainable * sizeof *all);
    for (uint32_t i = 0; i < t->tensors.n_trainable; i++)
        all[i] = (gradient_end){last_op(&g->graph, &t->tensors.trainable[i]->weight), i};
    qsort(all, t->tensors.n_trainable, sizeof *all, compare_ends);
    for (size_t i = 0; i < t->tensors.n_trainable; i++) t->exchange.order[i] = all[i].tensor;
    t->exchange.n_parts = choose_parts(t, all, ends);
    tern_free(all);
    TERN_TRY(compare_ranks(t, err));
    return tern_bound_cut(&g->bound, ends, t->exchange.n_parts, err);
}

tern_status tern_trainer__clear_pass_gradients(tern_trainer *t, tern_error *err)
{
    const tern_train_params none = {0};
    return ranks_of(t) ? tern_trainer__run_graph(t, TERN_TRAINER_CLEAR, &none, err) : TERN_OK;
}

/* The tensor that part i has made whole. */
static tern_status exchange_part(tern_trainer *t, size_t i, const tern_collective_passes *passes, tern_error *err)
{
    const size_t first = i ? t->exchange.part_ends[i - 1] : 0;
    return tern_collective_add(t->exchange.collective, t->exchange.tensors + first, t->exchange.part_ends[i] - first,
                               passes, err);
}

/* Where copies go on while the device computes, a part is read once the next one has begun; elsewhere, as soon as it is
 * done, and only what is on its way between the ranks goes on meanwhile. */
tern_status tern_trainer__run_backward_parts(tern_trainer *t, const tern_bound_graph *pass, tern_error *err)
{
    tern_collective_passes passes = {
        .n = t->exchange.n_active, .first = t->exchange.sums_are_zero, .infinite = &t->pending.infinite};
    const size_t behind = pass && t->backend->copies ? 1 : 0;
    t->exchange.sums_are_zero = false;
    list_tensors(t, TERN_STATE_GRADIENT);
    for (size_t i = 0; i < t->exchange.n_parts + behind; i++) {
        const bool runs = i < t->exchange.n_parts;
        if (pass && runs) TERN_TRY(tern_bound_start_part(pass, i, err));
        passes.beside = behind && runs;
        if (i >= behind) TERN_TRY(exchange_part(t, i - behind, &passes, err));
    }
    return TERN_OK;
}

tern_status tern_trainer__finish_exchange(tern_trainer *t, tern_error *err)
{
    return tern_collective_end(t->exchange.collective, err);
}

/* ---- losses, norms, counts: all have those of all */

tern_status tern_trainer__gather_losses(tern_trainer *t, uint32_t n_active, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const size_t n = t->plan.n_tokens;
    const float *all = (const float *)(void *)t->exchange.gathered;
    size_t bytes[TERN_MAX_RANKS] = {0};
    for (uint32_t r = 0; r < n_active; r++) bytes[r] = n * sizeof(float);
    TERN_TRY(ranks->gather(ranks, t->losses, bytes, t->exchange.gathered, err));
    for (size_t i = 0; i < n_active * n; i++) t->pending.sum += (double)all[i];
    return TERN_OK;
}

tern_status tern_trainer__gather_norms(tern_trainer *t, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const size_t n = t->tensors.n_trainable + 1;
    const float *all = (const float *)(void *)t->exchange.gathered;
    size_t bytes[TERN_MAX_RANKS];
    if (!ranks) return TERN_OK;
    for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = n * sizeof(float);
    t->norms[n - 1] = t->pending.infinite;
    TERN_TRY(ranks->gather(ranks, t->norms, bytes, t->exchange.gathered, err));
    for (size_t i = 0; i < t->tensors.n_trainable; i++) t->norms[i] = all[t->tensors.trainable[i]->owner * n + i];
    for (uint32_t r = 0; r < ranks->n; r++) t->pending.infinite = t->pending.infinite || all[r * n + n - 1] != 0;
    return TERN_OK;
}

tern_status tern_trainer__gather_expert_counts(tern_trainer *t, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const size_t n = (size_t)t->config->n_layers * t->config->n_experts;
    const uint64_t *all = (const uint64_t *)(void *)t->exchange.gathered;
    size_t bytes[TERN_MAX_RANKS];
    if (!t->experts.rows) return TERN_OK;
    for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = n * sizeof *all;
    TERN_TRY(ranks->gather(ranks, t->experts.rows, bytes, t->exchange.gathered, err));
    memset(t->experts.rows, 0, n * sizeof *all);
    for (size_t i = 0; i < ranks->n * n; i++) t->experts.rows[i % n] += all[i];
    return TERN_OK;
}

/* ---- states */

tern_status tern_trainer__broadcast_masters(tern_trainer *t, tern_error *err)
{
    list_tensors(t, TERN_STATE_MASTER);
    TERN_TRY(tern_collective_spread(t->exchange.collective, t->exchange.tensors, t->tensors.n_trainable, err));
    return tern_collective_end(t->exchange.collective, err);
}

enum { READ_BYTES = 64 << 20 };

tern_status tern_trainer__read_from_owner(tern_trainer *t, const tern_trainer_weight *m, tern_state state,
                                          uint8_t *bytes, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const uint64_t whole = tern_trainer__state_bytes(m, state);
    const bool mine = m->owner == ranks->rank, wants = ranks->rank == 0;
    uint8_t *room = wants ? NULL : mine ? tern_alloc(tern_size_of(whole < READ_BYTES ? whole : READ_BYTES)) : NULL;
    tern_status status = TERN_OK;
    if (mine && !wants && !room) return tern_fail_alloc(err, READ_BYTES);
    for (uint64_t at = 0; at < whole && status == TERN_OK; at += READ_BYTES) {
        tern_ranks_block out[TERN_MAX_RANKS] = {0}, in[TERN_MAX_RANKS] = {0};
        const size_t n = whole - at < READ_BYTES ? (size_t)(whole - at) : READ_BYTES;
        uint8_t *to = wants ? bytes + at : room;
        if (mine) status = t->backend->buffer_read(t->backend, m->states[state], at, to, n, err);
        if (mine) out[0] = (tern_ranks_block){to, n};
        if (wants) in[m->owner] = (tern_ranks_block){to, n};
        if (status == TERN_OK) status = ranks->swap_start(ranks, 0, out, in, err);
        if (status == TERN_OK) status = ranks->swap_finish(ranks, 0, err);
    }
    if (status == TERN_OK) tern_free(room);
    return status;
}
