/* Log-probabilities of tokens. */
#include <math.h>

#include "infer/batch/batch_internal.h"
#include "infer/sample/internal.h"

/* What a softmax subtracts from logits. */
typedef struct softmax_stats {
    double highest, log_sum;
} softmax_stats;

static softmax_stats softmax_stats_of(const float *logits, uint32_t n_vocab)
{
    const double highest = (double)tern_logits__max(logits, n_vocab);
    double sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - highest);
    return (softmax_stats){highest, log(sum)};
}

static float logprob_of(float logit, softmax_stats b)
{
    return (float)((double)logit - b.highest - b.log_sum);
}

float tern_logprob__of(const float *logits, uint32_t n_vocab, int32_t id)
{
    return logprob_of(logits[id], softmax_stats_of(logits, n_vocab));
}

void tern_logprob__top(const float *logits, uint32_t n_vocab, uint32_t n, tern_token_logprob *top)
{
    uint32_t n_found = 0;
    for (uint32_t id = 0; id < n_vocab && n; id++) {
        if (n_found == n && !(logits[id] > top[n - 1].logprob)) continue;
        uint32_t at = n_found < n ? n_found++ : n - 1;
        for (; at > 0 && logits[id] > top[at - 1].logprob; at--) top[at] = top[at - 1];
        top[at] = (tern_token_logprob){(int32_t)id, logits[id]};
    }
    if (n_found == 0) return;
    const softmax_stats b = softmax_stats_of(logits, n_vocab);
    for (uint32_t i = 0; i < n_found; i++) top[i].logprob = logprob_of(top[i].logprob, b);
}
