/* Several processes that train one model: passes of a step are shared out in turn, optimiser states by whole tensors.
 * What one process would do in turn is done here in the same order, so that the bits are the same. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/ref/update.h"
#include "train/trainer_internal.h"

enum { PIECE = 1 << 20 }; /* bytes of one block of an exchange, whole f32 */

static const tern_ranks *ranks_of(const tern_trainer *t)
{
    return t->params.ranks;
}

uint32_t tern_trainer__n_ranks(const tern_trainer *t)
{
    return ranks_of(t) ? ranks_of(t)->n : 1;
}

bool tern_trainer__owns(const tern_trainer *t, const tern_trainer_made *m)
{
    return !ranks_of(t) || m->owner == ranks_of(t)->rank;
}

void tern_trainer__share(tern_trainer *t)
{
    uint64_t taken[TERN_MAX_RANKS] = {0};
    for (size_t i = 0; ranks_of(t) && i < t->n_learning; i++) {
        tern_trainer_made *m = t->learning[i];
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

/* ---- pieces: what is exchanged of the tensors of each rank, in order */

/* The tensors of one owner, piece by piece. */
typedef struct walk {
    uint32_t owner;
    size_t tensor;
    uint64_t at; /* bytes of it that are done */
} walk;

typedef struct piece {
    tern_trainer_made *made; /* NULL: there is none */
    uint64_t at;
    size_t bytes; /* 0: there is none */
} piece;

static piece next_piece(const tern_trainer *t, tern_state state, walk *w)
{
    for (; w->tensor < t->n_learning; w->tensor++, w->at = 0) {
        tern_trainer_made *m = t->learning[w->tensor];
        const uint64_t left = tern_trainer__state_bytes(m, state) - w->at;
        if (m->owner != w->owner || left == 0) continue;
        const piece p = {m, w->at, left < PIECE ? (size_t)left : PIECE};
        w->at += p.bytes;
        return p;
    }
    return (piece){0};
}

/* The next piece of each rank; false: none has one. */
static bool next_pieces(const tern_trainer *t, tern_state state, walk *walks, piece *pieces)
{
    bool any = false;
    for (uint32_t r = 0; r < ranks_of(t)->n; r++) {
        walks[r].owner = r;
        pieces[r] = next_piece(t, state, &walks[r]);
        any = any || pieces[r].bytes;
    }
    return any;
}

tern_status tern_trainer__make_exchange(tern_trainer *t, tern_error *err)
{
    const size_t n = tern_trainer__n_ranks(t);
    const size_t losses = n * t->plan.n_tokens * sizeof(float), norms = n * (t->n_learning + 1) * sizeof(float),
                 counts = n * t->config->n_layers * t->config->n_experts * sizeof(uint64_t);
    size_t bytes = (2 * n + 1) * (size_t)PIECE;
    if (!ranks_of(t)) return TERN_OK;
    bytes = bytes > losses ? bytes : losses;
    bytes = bytes > norms ? bytes : norms;
    bytes = bytes > counts ? bytes : counts;
    t->exchange = tern_alloc_aligned(bytes, 64);
    t->zeros = tern_calloc(1, PIECE);
    return t->exchange && t->zeros ? TERN_OK : tern_fail_alloc(err, bytes);
}

/* ---- gradients */

/* What this rank's pass has made of every piece, to whom it belongs; it leaves zeros. */
static tern_status take_own(tern_trainer *t, const piece *pieces, uint8_t *out, size_t *bytes, tern_error *err)
{
    tern_backend *b = t->backend;
    for (uint32_t r = 0; r < ranks_of(t)->n; r++) {
        bytes[r] = pieces[r].bytes;
        if (bytes[r] == 0) continue;
        TERN_TRY(b->buffer_read(b, pieces[r].made->pass, pieces[r].at, out, bytes[r], err));
        TERN_TRY(b->buffer_write(b, pieces[r].made->pass, pieces[r].at, t->zeros, bytes[r], err));
        out += bytes[r];
    }
    return TERN_OK;
}

static bool all_finite(const float *x, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) finite = finite && isfinite(x[i]);
    return finite;
}

/* Adds the gradients of n passes, in their order, to the sum: the steps of SGD that one process takes
 * (tern_graph_in_backward.sums). */
static tern_status add_passes(tern_trainer *t, const piece *p, const float *gradients, uint32_t n, float *sum,
                              tern_error *err)
{
    static const tern_sgd add = {.lr = -1};
    const size_t n_floats = p->bytes / sizeof(float);
    tern_backend *b = t->backend;
    tern_buffer *to = p->made ? p->made->states[TERN_STATE_GRADIENT] : NULL;
    if (p->bytes == 0) return TERN_OK;
    TERN_TRY(b->buffer_read(b, to, p->at, sum, p->bytes, err));
    for (uint32_t i = 0; i < n; i++) {
        t->work.infinite = t->work.infinite || !all_finite(gradients + i * n_floats, n_floats);
        tern_ref_sgd(&add, gradients + i * n_floats, n_floats, sum, NULL);
    }
    return b->buffer_write(b, to, p->at, sum, p->bytes, err);
}

tern_status tern_trainer__add_round(tern_trainer *t, uint32_t n_active, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    walk walks[TERN_MAX_RANKS] = {0};
    piece pieces[TERN_MAX_RANKS];
    uint8_t *out = t->exchange, *in = out + (size_t)ranks->n * PIECE, *sum = in + (size_t)ranks->n * PIECE;
    while (next_pieces(t, TERN_STATE_GRADIENT, walks, pieces)) {
        size_t out_bytes[TERN_MAX_RANKS] = {0}, in_bytes[TERN_MAX_RANKS] = {0};
        const piece *mine = &pieces[ranks->rank];
        if (ranks->rank < n_active) TERN_TRY(take_own(t, pieces, out, out_bytes, err));
        for (uint32_t r = 0; r < n_active; r++) in_bytes[r] = mine->bytes;
        TERN_TRY(ranks->swap(ranks, out, out_bytes, in, in_bytes, err));
        TERN_TRY(add_passes(t, mine, (const float *)(void *)in, n_active, (float *)(void *)sum, err));
    }
    return TERN_OK;
}

/* ---- losses, norms, counts: all have those of all */

tern_status tern_trainer__add_losses(tern_trainer *t, uint32_t n_active, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const size_t n = t->plan.n_tokens;
    const float *all = (const float *)(void *)t->exchange;
    size_t bytes[TERN_MAX_RANKS] = {0};
    for (uint32_t r = 0; r < n_active; r++) bytes[r] = n * sizeof(float);
    TERN_TRY(ranks->gather(ranks, t->losses, bytes, t->exchange, err));
    for (size_t i = 0; i < n_active * n; i++) t->work.sum += (double)all[i];
    return TERN_OK;
}

tern_status tern_trainer__gather_norms(tern_trainer *t, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const size_t n = t->n_learning + 1;
    const float *all = (const float *)(void *)t->exchange;
    size_t bytes[TERN_MAX_RANKS];
    if (!ranks) return TERN_OK;
    for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = n * sizeof(float);
    t->norms[n - 1] = t->work.infinite;
    TERN_TRY(ranks->gather(ranks, t->norms, bytes, t->exchange, err));
    for (size_t i = 0; i < t->n_learning; i++) t->norms[i] = all[t->learning[i]->owner * n + i];
    for (uint32_t r = 0; r < ranks->n; r++) t->work.infinite = t->work.infinite || all[r * n + n - 1] != 0;
    return TERN_OK;
}

tern_status tern_trainer__add_counts(tern_trainer *t, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const size_t n = (size_t)t->config->n_layers * t->config->n_experts;
    const uint64_t *all = (const uint64_t *)(void *)t->exchange;
    size_t bytes[TERN_MAX_RANKS];
    if (!t->expert_rows) return TERN_OK;
    for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = n * sizeof *all;
    TERN_TRY(ranks->gather(ranks, t->expert_rows, bytes, t->exchange, err));
    memset(t->expert_rows, 0, n * sizeof *all);
    for (size_t i = 0; i < ranks->n * n; i++) t->expert_rows[i % n] += all[i];
    return TERN_OK;
}

/* ---- states */

static tern_buffer *master_of(const tern_trainer_made *m)
{
    return m->shown.ternary ? m->states[TERN_STATE_MASTER] : m->buffer;
}

tern_status tern_trainer__send_masters(tern_trainer *t, tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    tern_backend *b = t->backend;
    walk walks[TERN_MAX_RANKS] = {0};
    piece pieces[TERN_MAX_RANKS];
    uint8_t *all = t->exchange;
    while (next_pieces(t, TERN_STATE_MASTER, walks, pieces)) {
        size_t bytes[TERN_MAX_RANKS] = {0}, before = 0;
        for (uint32_t r = 0; r < ranks->n; r++) bytes[r] = pieces[r].bytes;
        for (uint32_t r = 0; r < ranks->rank; r++) before += bytes[r];
        const piece *mine = &pieces[ranks->rank];
        if (mine->bytes) TERN_TRY(b->buffer_read(b, master_of(mine->made), mine->at, all + before, mine->bytes, err));
        TERN_TRY(ranks->gather(ranks, all + before, bytes, all, err));
        const uint8_t *at = all;
        for (uint32_t r = 0; r < ranks->n; at += bytes[r], r++)
            if (bytes[r] && r != ranks->rank)
                TERN_TRY(b->buffer_write(b, master_of(pieces[r].made), pieces[r].at, at, bytes[r], err));
    }
    return TERN_OK;
}

tern_status tern_trainer__read_shared(tern_trainer *t, const tern_trainer_made *m, tern_state state, uint8_t *bytes,
                                      tern_error *err)
{
    tern_ranks *ranks = t->params.ranks;
    const uint64_t whole = tern_trainer__state_bytes(m, state);
    const bool mine = m->owner == ranks->rank, wants = ranks->rank == 0;
    for (uint64_t at = 0; at < whole; at += PIECE) {
        size_t out[TERN_MAX_RANKS] = {0}, in[TERN_MAX_RANKS] = {0};
        const size_t n = whole - at < PIECE ? (size_t)(whole - at) : PIECE;
        if (mine) TERN_TRY(t->backend->buffer_read(t->backend, m->states[state], at, t->exchange, n, err));
        if (mine) out[0] = n;
        if (wants) in[m->owner] = n;
        TERN_TRY(ranks->swap(ranks, t->exchange, out, wants ? bytes + at : t->exchange + PIECE, in, err));
    }
    return TERN_OK;
}
