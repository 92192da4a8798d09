/* What changes logits before a token is chosen: biases, and penalties for tokens that were there already. */
#include "infer/sampler_internal.h"

bool tern_sampler__has_penalties(const tern_sampler_params *params)
{
    bool on = params->repetition_penalty != 1 || params->presence_penalty != 0 || params->frequency_penalty != 0;
    return on && params->penalty_last_n > 0;
}

void tern_sampler__bias(float *logits, const tern_sampler_params *params)
{
    for (uint32_t i = 0; i < params->n_biases; i++) logits[params->biases[i].id] += params->biases[i].bias;
}

static float penalised(float logit, const tern_sampler_params *p, uint32_t count)
{
    logit = logit > 0 ? logit / p->repetition_penalty : logit * p->repetition_penalty;
    return logit - p->frequency_penalty * (float)count - p->presence_penalty;
}

void tern_sampler__penalise(float *logits, uint32_t n_vocab, const tern_sampler_params *params, const int32_t *history,
                            uint32_t n, uint32_t *counts)
{
    uint32_t first = n > params->penalty_last_n ? n - params->penalty_last_n : 0;
    for (uint32_t i = first; i < n; i++)
        if (history[i] >= 0 && (uint32_t)history[i] < n_vocab) counts[history[i]]++;
    for (uint32_t i = first; i < n; i++) {
        int32_t id = history[i];
        if (id < 0 || (uint32_t)id >= n_vocab || counts[id] == 0) continue;
        logits[id] = penalised(logits[id], params, counts[id]);
        counts[id] = 0;
    }
}

/* Whether a token from below can come up. */
static bool can_raise(const tern_sampler_params *p)
{
    for (uint32_t i = 0; i < p->n_biases; i++)
        if (p->biases[i].bias > 0) return true;
    return tern_sampler__has_penalties(p) &&
           (p->repetition_penalty < 1 || p->presence_penalty < 0 || p->frequency_penalty < 0);
}

/* Each bias and each penalised token can push one of the highest down, and the next one takes its place. */
uint32_t tern_sampler_wanted(const tern_sampler_params *params)
{
    uint64_t n = params->temperature == 0 ? 1 : params->top_k;
    if (n == 0 || can_raise(params)) return 0;
    n += params->n_biases;
    if (tern_sampler__has_penalties(params)) n += params->penalty_last_n;
    return n > UINT32_MAX ? 0 : (uint32_t)n;
}
