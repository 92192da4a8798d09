/* Dropout. */
#include "ops/ref/backward.h"
#include "ops/ref/update.h"

void tern_ref_dropout(const float *x, size_t n, float p, uint32_t seed, uint32_t index, float *y)
{
    const uint32_t threshold = tern_ref_dropout_threshold(p);
    const float factor = 1 / (1 - p);
    for (size_t i = 0; i < n; i++)
        y[i] = tern_ref_random_bits(seed, index + (uint32_t)i) >= threshold ? x[i] * factor : 0;
}
