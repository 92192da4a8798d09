/* Which experts of the next layer a token is likely to take. */
#include "backend/paged/predict.h"

#include "base/alloc.h"

enum { MOST_BYTES = 64 << 20, FEWEST = 8 /* tokens that say anything */ };

tern_status tern_predict_init(tern_predict *p, uint32_t n_layers, uint32_t n_experts, tern_error *err)
{
    const uint64_t n = (uint64_t)n_layers * n_experts;
    *p = (tern_predict){.n_layers = n_layers, .n_experts = n_experts};
    if (n * n_experts * sizeof *p->after > MOST_BYTES) return TERN_OK;
    p->times = tern_calloc((size_t)n, sizeof *p->times);
    p->after = tern_calloc((size_t)(n * n_experts), sizeof *p->after);
    if (p->times && p->after) return TERN_OK;
    tern_predict_deinit(p);
    return tern_fail_alloc(err, n * n_experts * sizeof *p->after);
}

void tern_predict_deinit(tern_predict *p)
{
    tern_free(p->times);
    tern_free(p->after);
    *p = (tern_predict){0};
}

static uint16_t *row_of(const tern_predict *p, uint32_t layer, uint32_t expert)
{
    return p->after + ((size_t)layer * p->n_experts + expert) * p->n_experts;
}

/* Old uses count half. */
static void make_room(const tern_predict *p, uint32_t layer, uint32_t expert)
{
    uint16_t *times = &p->times[(size_t)layer * p->n_experts + expert], *row = row_of(p, layer, expert);
    if (*times < UINT16_MAX) return;
    *times /= 2;
    for (uint32_t e = 0; e < p->n_experts; e++) row[e] /= 2;
}

void tern_predict_note(tern_predict *p, uint32_t layer, const uint32_t *experts, const uint32_t *next, uint32_t n)
{
    for (uint32_t i = 0; p->after && i < n; i++) {
        make_room(p, layer, experts[i]);
        p->times[(size_t)layer * p->n_experts + experts[i]]++;
        for (uint32_t k = 0; k < n; k++) row_of(p, layer, experts[i])[next[k]]++;
    }
}

static uint32_t score_of(const tern_predict *p, uint32_t layer, const uint32_t *experts, uint32_t n, uint32_t next)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += row_of(p, layer, experts[i])[next];
    return sum;
}

uint32_t tern_predict_likely(const tern_predict *p, uint32_t layer, const uint32_t *experts, uint32_t n, uint32_t *out)
{
    uint32_t times = 0, n_out = 0;
    for (uint32_t i = 0; p->after && i < n; i++) times += p->times[(size_t)layer * p->n_experts + experts[i]];
    if (times < FEWEST) return 0;
    for (uint32_t e = 0; e < p->n_experts; e++) {
        const uint32_t score = score_of(p, layer, experts, n, e);
        uint32_t at = n_out;
        if (2 * score <= times) continue;
        while (at > 0 && score_of(p, layer, experts, n, out[at - 1]) < score) at--;
        if (at == n) continue;
        if (n_out < n) n_out++;
        for (uint32_t i = n_out - 1; i > at; i--) out[i] = out[i - 1];
        out[at] = e;
    }
    return n_out;
}
