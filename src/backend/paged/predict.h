/* Which experts of the next layer a token is likely to take, by what tokens before it have taken. */
#ifndef TERN_BACKEND_PAGED_PREDICT_H
#define TERN_BACKEND_PAGED_PREDICT_H

#include <stdint.h>

#include "base/error.h"

typedef struct tern_predict {
    uint32_t n_layers, n_experts;
    uint16_t *times; /* [n_layers][n_experts] that a token took it */
    uint16_t *after; /* [n_layers][n_experts][n_experts] that it then took this one of the next layer */
} tern_predict;

/* More than 64 MiB of counts are not kept: then nothing is likely ever. Errors: OUT_OF_MEMORY. */
tern_status tern_predict_init(tern_predict *predict, uint32_t n_layers, uint32_t n_experts, tern_error *err);
void tern_predict_deinit(tern_predict *predict); /* zeroed is fine */

/* A token took these n experts of a layer and then these n of the next one. */
void tern_predict_note(tern_predict *predict, uint32_t layer, const uint32_t *experts, const uint32_t *next,
                       uint32_t n);
/* Experts of the next layer that tokens with these n of a layer took more often than not, the likeliest first, at most
 * n, into out. Returns how many. */
uint32_t tern_predict_likely(const tern_predict *predict, uint32_t layer, const uint32_t *experts, uint32_t n,
                             uint32_t *out);

#endif
