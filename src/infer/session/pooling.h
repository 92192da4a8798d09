/* Hidden states of a text, as they come, to one vector. */
#ifndef TERN_INFER_SESSION_POOLING_H
#define TERN_INFER_SESSION_POOLING_H

#include "tern/infer.h"

/* Sums in f64, in the order of the tokens: so the vector does not depend on how they were cut into steps. */
typedef struct tern_pool_states {
    tern_pooling pooling;
    uint32_t n_embd, n; /* states in the sum */
    double *sum;        /* [n_embd] */
} tern_pool_states;

/* Errors: INVALID_ARGUMENT (no such pooling), OUT_OF_MEMORY. */
tern_status tern_pool_states_init(tern_pool_states *pool, tern_pooling pooling, uint32_t n_embd, tern_error *err);
void tern_pool_states_deinit(tern_pool_states *pool);
/* The states [n][n_embd] of tokens `first` .. first + n - 1 of a text of n_tokens; of a first token 0 it begins anew.
 */
void tern_pool_states_add(tern_pool_states *pool, const float *states, uint32_t first, uint32_t n, uint32_t n_tokens);
/* The mean of what counts, out [n_embd]; normalised: of length 1. */
void tern_pool_states_finish(const tern_pool_states *pool, bool normalize, float *out);

#endif
