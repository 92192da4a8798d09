/* From a sampler's parameters to the logits that it needs. */
#include "infer/sample/wanted.h"

#include <math.h>

#include "infer/sample/sampler.h"
#include "ops/ref/ref.h"

/* A sum of weights that hardly ever decides; the highest weighs 1. Repeating a step costs this much less often than a
 * smaller one makes it read. */
static const float TAIL = 0x1p-10f;
/* A bound of a logarithm, for the roundings of the sampler's. */
static const float SLACK = 1e-3f;

/* Without top-k. */
static void need_without_top_k(tern_logits_needed *needed, const tern_sampler_params *p)
{
    const float lowest = TERN_EXP_LOW; /* what lies lower weighs 0 */
    if (p->typical_p < 1) return;
    needed->n_top = 1;
    if (p->top_p >= 1 && p->min_p > 0) {
        needed->reach = p->temperature * (fminf(-logf(p->min_p), -lowest) + SLACK);
        return;
    }
    needed->sharpness = 1 / p->temperature;
    needed->tail = TAIL;
}

tern_logits_needed tern_logits_needed_by(const tern_sampler_params *p)
{
    tern_logits_needed needed = {.biases = p->biases, .n_biases = p->n_biases};
    if (tern_sampler_has_chain(p)) return (tern_logits_needed){0};
    if (tern_sampler_has_penalties(p)) needed.n_recent = p->penalty_last_n;
    if (p->temperature == 0) needed.n_top = 1;
    else if (p->top_k) needed.n_top = p->top_k;
    else need_without_top_k(&needed, p);
    return needed;
}

void tern_wanted_begin(tern_wanted *wanted, uint32_t *n_top)
{
    wanted->n_pinned = 0;
    wanted->reach = wanted->sharpness = wanted->tail = 0;
    *n_top = 1;
}

static bool pin_id(tern_wanted *wanted, int32_t id)
{
    if (wanted->n_pinned == TERN_WANTED_MAX_PINNED) return false;
    wanted->pinned[wanted->n_pinned++] = (uint32_t)id;
    return true;
}

/* The smaller sharpness and the smaller tail leave less out, for both. */
static void add_tail(tern_wanted *wanted, const tern_logits_needed *needed)
{
    if (!(needed->tail > 0)) return;
    const bool first = !(wanted->tail > 0);
    wanted->tail = first ? needed->tail : fminf(wanted->tail, needed->tail);
    wanted->sharpness = first ? needed->sharpness : fminf(wanted->sharpness, needed->sharpness);
}

void tern_wanted_add(tern_wanted *wanted, uint32_t *n_top, const tern_logits_needed *needed, const int32_t *tokens,
                     uint32_t n, uint32_t n_outputs)
{
    const uint64_t back = (uint64_t)needed->n_recent + n_outputs;
    bool fits = needed->n_top > 0;
    for (uint32_t i = 0; i < needed->n_biases && fits; i++) fits = pin_id(wanted, needed->biases[i].id);
    for (uint32_t i = needed->n_recent && n > back ? (uint32_t)(n - back) : 0; i < n && needed->n_recent && fits; i++)
        fits = pin_id(wanted, tokens[i]);
    wanted->reach = fmaxf(wanted->reach, needed->reach);
    add_tail(wanted, needed);
    if (*n_top) *n_top = !fits ? 0 : *n_top > needed->n_top ? *n_top : needed->n_top;
}
