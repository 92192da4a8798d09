/* From logits to a token: penalties, temperature and the usual cuts, reproducible from a seed. */
#ifndef TERN_INFER_SAMPLER_H
#define TERN_INFER_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY bans the token */
} tern_logit_bias;

/* Zero-initialised is not the default: start from TERN_SAMPLER_DEFAULTS. */
typedef struct tern_sampler_params {
    float temperature;        /* 0: greedy */
    uint32_t top_k;           /* 0: off */
    float top_p;              /* 1: off */
    float min_p;              /* 0: off */
    float typical_p;          /* 1: off */
    float repetition_penalty; /* 1: off; divides positive logits, multiplies negative ones (Keskar et al., CTRL, 2019) */
    float presence_penalty;   /* 0: off; subtracted once for each token seen */
    float frequency_penalty;  /* 0: off; subtracted for each time it was seen */
    uint32_t penalty_last_n;  /* how many of the last tokens count */
    uint64_t seed;
    const tern_logit_bias *biases; /* borrowed for the sampler's life */
    uint32_t n_biases;
} tern_sampler_params;

#define TERN_SAMPLER_DEFAULTS                                                                                      \
    ((tern_sampler_params){.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .typical_p = 1.0f,    \
                           .repetition_penalty = 1.0f, .penalty_last_n = 64})

typedef struct tern_sampler tern_sampler;

/* Allocates all it will need. Errors: INVALID_ARGUMENT (the parameter, its value and its range), OUT_OF_MEMORY. */
tern_status tern_sampler_open(tern_sampler **sampler, uint32_t n_vocab, const tern_sampler_params *params, tern_error *err);
void tern_sampler_close(tern_sampler *sampler);
/* Back to the seed. */
void tern_sampler_reset(tern_sampler *sampler);

/* Chooses a token. `logits` [n_vocab] is changed in place. `history` are the tokens so far (the last penalty_last_n count). Order: bias, penalties,
 * then greedy (lowest index of the maximum), or temperature, top-k, typical, top-p, min-p, softmax and a draw (checklist D-30). NaN logits never win;
 * with no finite logit at all the lowest index wins. Same seed and logits give the same token on every machine. No allocation. */
int32_t tern_sampler_next(tern_sampler *sampler, float *logits, const int32_t *history, uint32_t n_history);

#endif
