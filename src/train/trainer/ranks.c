/* Several processes that train one model: passes of a step are shared out in turn, optimiser states by whole tensors.
 * What one process would do in turn is done here in the same order, so that the bits are the same. */
#include <string.h>

#include "base/alloc.h"
#include "train/trainer/internal.h"

static const tern_ranks *ranks_of(const tern_trainer *t)
{
    return t->params.ranks;
}

uint32_t tern_trainer__n_ranks(const tern_trainer *t)
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
    for (size_t i = 0; ranks_of(t) && i < t->n_learning; i++) {
        tern_trainer_weight *m = t->learning[i];
        for (uint32_t r = 1; r < ranks_of(t)->n; r++)
            if (taken[r] < taken[m->owner]) m->owner = r;
        taken[m->owner] += (uint64_t)m->shown.rows * m->shown.cols;
    }
}

tern_status tern_trainer__check_ranks(const tern_trainer *t, tern_error *err)
{
    const tern_trainer_params *p = &t->params;
    if (!p->ranks) return TERN_OK;
    if (p->optimizer_in_backward)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "the optimiser in the backward in %u processes, whose gradients are added up first: leave it "
                         "out (--optimizer-in-backward)",
                         p->ranks->n);
    if (p->accumulate >= p->ranks->n) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "accumulate %u in %u processes, which share the passes of a step: %u or more expected",
                     p->accumulate, p->ranks->n, p->ranks->n);
}

static tern_buffer *master_of(const tern_trainer_weight *m)
{
    return m->shown.ternary ? m->states[TERN_STATE_MASTER] : m->buffer;
}

/* What every rank has of each tensor, in the order in which the backward makes gradients. */
static void list_tensors(tern_trainer *t, tern_state state)
{
    for (size_t i = 0; i < t->n_learning; i++) {
        tern_trainer_weight *m = t->learning[t->order[i]];
        const bool gradients = state == TERN_STATE_GRADIENT;
        t->exchanged[i] = (tern_collective_tensor){.buffer = gradients ? m->pass : master_of(m),
                                                   .sum = gradients ? m->states[state] : NULL,
                                                   .bytes = tern_trainer__state_bytes(m, state),
                                                   .owner = m->owner};
    }
}

/* Of all tensors of a state. */
static uint64_t most_of_one_owner(const tern_trainer *t)
{
    uint64_t bytes[TERN_MAX_RANKS] = {0}, most = 1;
    for (size_t i = 0; i < t->n_learning; i++) {
        const tern_trainer_weight *m = t->learning[i];
        bytes[m->owner] += tern_trainer__state_bytes(m, TERN_STATE_GRADIENT); /* f32: no state is larger */
        most = bytes[m->owner] > most ? bytes[m->owner] : most;
    }
    return most;
}

tern_status tern_trainer__open_exchange(tern_trainer *t, tern_error *err)
{
    const size_t n = tern_trainer__n_ranks(t);
    const size_t losses = n * t->plan.n_tokens * sizeof(float), norms = n * (t->n_learning + 1) * sizeof(float),
                 counts = n * t->config->n_layers * t->config->n_experts * sizeof(uint64_t);
    size_t bytes = losses > norms ? losses : norms;
    if (!ranks_of(t)) return TERN_OK;
    bytes = bytes > counts ? bytes : counts;
    t->gathered = tern_alloc_aligned(bytes, 64);
    t->exchanged = tern_calloc(t->n_learning, sizeof *t->exchanged);
    t->order = tern_calloc(t->n_learning, sizeof *t->order);
    if (!t->gathered || !t->exchanged || !t->order)
        return tern_fail_alloc(err, bytes + t->n_learning * (sizeof *t->exchanged + sizeof *t->order));
    t->no_sums = true;
    return tern_collective_open(&t->collective, t->backend, t->params.ranks, most_of_one_owner(t), err);
}

tern_status tern_trainer__clear_pass_gradients(tern_trainer *t, tern_error *err)
{
    const tern_train_params none = {0};
    return ranks_of(t) ? tern_trainer__run_graph(t, TERN_TRAINER_CLEAR, &none, err) : TERN_OK;
}

/* What part i has made whole. */
static tern_status exchange_part(tern_trainer *t, size_t i, const tern_collective_passes *passes, tern_error *err)
{
    const size_t first = i ? t->part_ends[i - 1] : 0;
    return tern_collective_add(t->collective, t->exchanged + first, t->part_ends[i] - first, passes, err);
}

/* Where copies go on while the device computes, a part is read once the next one has begun; elsewhere, as soon as it is
 * done, and only what is on its way between the ranks goes on meanwhile. */
tern_status tern_trainer__run_backward_parts(tern_trainer *t, const tern_bound_graph *pass, tern_error *err)
{
    tern_collective_passes passes = {.n = t->n_active, .first = t->no_sums, .infinite = &t->work.infinite};
    const size_t behind = pass && t->backend->copies ? 1 : 0;
    t->no_sums = false;
    list_tensors(t, TERN_STATE_GRADIENT);
    for (size_t i = 0; i < t->n_parts + behind; i++) {
        const bool runs = i < t->n_parts;
        if (pass && runs) TERN_TRY(tern_bound_start_part(pass, i, err));
        passes.beside = behind && runs;
        if (i >= behind) TERN_TRY(exchange_part(t, i - behind, &passes, err));
    }
    return TERN_OK;
}

tern_status tern_trainer__finish_exchange(tern_trainer *t, tern_error *err)
{
    return tern_collective_end(t->collective, err);
}

/* ---- losses, norms, counts: all have those of all */

tern_status tern_trainer__gather_losses(tern_trainer *t, uint32_t n_active, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const size_t n = t->plan.n_tokens;
    const float *all = (const float *)(void *)t->gathered;
    size_t bytes[TERN_MAX_RANKS] = {0};
    for (uint32_t r = 0; r < n_active; r++) bytes[r] = n * sizeof(float);
    TERN_TRY(ranks->gather(ranks, t->losses, bytes, t->gathered, err));
    for (size_t i = 0; i < n_active * n; i++) t->work.sum += (double)all[i];
    return TERN_OK;
}

tern_status tern_trainer__gather_norms(tern_trainer *t, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const size_t n = t->n_learning + 1;
    const float *all = (const float *)(void *)t->gathered;
    size_t bytes[TERN_MAX_RANKS];
    if (!ranks) return TERN_OK;
    for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = n * sizeof(float);
    t->norms[n - 1] = t->work.infinite;
    TERN_TRY(ranks->gather(ranks, t->norms, bytes, t->gathered, err));
    for (size_t i = 0; i < t->n_learning; i++) t->norms[i] = all[t->learning[i]->owner * n + i];
    for (uint32_t r = 0; r < ranks->n; r++) t->work.infinite = t->work.infinite || all[r * n + n - 1] != 0;
    return TERN_OK;
}

tern_status tern_trainer__gather_expert_counts(tern_trainer *t, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const size_t n = (size_t)t->config->n_layers * t->config->n_experts;
    const uint64_t *all = (const uint64_t *)(void *)t->gathered;
    size_t bytes[TERN_MAX_RANKS];
    if (!t->expert_rows) return TERN_OK;
    for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = n * sizeof *all;
    TERN_TRY(ranks->gather(ranks, t->expert_rows, bytes, t->gathered, err));
    memset(t->expert_rows, 0, n * sizeof *all);
    for (size_t i = 0; i < ranks->n * n; i++) t->expert_rows[i % n] += all[i];
    return TERN_OK;
}

/* ---- states */

tern_status tern_trainer__broadcast_masters(tern_trainer *t, tern_error *err)
{
    list_tensors(t, TERN_STATE_MASTER);
    TERN_TRY(tern_collective_spread(t->collective, t->exchanged, t->n_learning, err));
    return tern_collective_end(t->collective, err);
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
