/* Gradual quantisation of activations. */
#include <math.h>

#include "ops/ref/backward.h"

static float absmax(const float *x, uint32_t cols)
{
    float most = 0;
    for (uint32_t c = 0; c < cols; c++) most = fmaxf(most, fabsf(x[c]));
    return most;
}

/* In pieces, so that no row of int8 is needed: what stands behind each gives it the scale of the whole row. */
void tern_ref_fake_quantize(const float *x, uint32_t cols, float blend, float *y)
{
    enum { PIECE = 256 };
    const float most = absmax(x, cols);
    for (uint32_t at = 0; at < cols; at += PIECE - 1) {
        float piece[PIECE], inv_scale;
        int8_t q[PIECE];
        int32_t sum;
        uint32_t n = cols - at < PIECE - 1 ? cols - at : PIECE - 1;
        for (uint32_t c = 0; c < n; c++) piece[c] = x[at + c];
        piece[n] = most;
        tern_ref_quantize(piece, n + 1, q, PIECE, &inv_scale, &sum);
        for (uint32_t c = 0; c < n; c++) y[at + c] = piece[c] + blend * ((float)q[c] * inv_scale - piece[c]);
    }
}
