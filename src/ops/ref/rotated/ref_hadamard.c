/* Signs and a Hadamard transform of blocks: the definition. */
#include "ops/ref/rotated/hadamard.h"

#include <math.h>
#include <stddef.h>

static void transform(float *v, uint32_t n)
{
    const float scale = (float)(1 / sqrt(n));
    for (uint32_t d = 1; d < n; d *= 2)
        for (uint32_t i = 0; i < n; i++) {
            if (i & d) continue;
            const float a = v[i], b = v[i + d];
            v[i] = a + b;
            v[i + d] = a - b;
        }
    for (uint32_t i = 0; i < n; i++) v[i] *= scale;
}

static void multiply(const float *x, const float *signs, uint32_t cols, float *y)
{
    for (uint32_t c = 0; c < cols; c++) y[c] = signs ? signs[c] * x[c] : x[c];
}

void tern_ref_hadamard(const float *x, const float *signs, uint32_t cols, uint32_t block, float *y)
{
    multiply(x, signs, cols, y);
    for (uint32_t c = 0; c < cols; c += block) transform(y + c, block);
}

void tern_ref_hadamard_inverse(const float *x, const float *signs, uint32_t cols, uint32_t block, float *y)
{
    multiply(x, NULL, cols, y);
    for (uint32_t c = 0; c < cols; c += block) transform(y + c, block);
    multiply(y, signs, cols, y);
}
