/* Factors of products in 16 bits: the definition. A row of activations is rounded once, its products with weights in
 * 16 bits are exact in f32, and sums are those of f32 (docs/decisions/0071-halves-on-cuda.md). */
#ifndef TERN_OPS_REF_HALVES_H
#define TERN_OPS_REF_HALVES_H

#include <stdint.h>

#include "ops/halves.h"

/* A row of activations, rounded to nearest even.
 *
 *   BF16: out[c] = bf16(x[c])
 *   F16:  out[c] = f16(x[c] * 2^k) * 2^-k, where 2^14 <= m * 2^k < 2^15, m = the largest |x[c]|, a NaN ignored, and
 *         -126 <= k <= 126: no row overflows, and an element keeps 11 bits down to 2^-28 of the largest
 *
 * NaN and infinities stay what they are. x and out may be the same. */
void tern_ref_round_row(tern_halves halves, const float *x, uint32_t cols, float *out);

/* A row of weights, in place: f16(w), whose largest finite number is 65,504. Nothing for BF16, which they are. */
void tern_ref_round_weights(tern_halves halves, float *w, uint32_t cols);

#endif
