/* Backward of the rotary position embedding: rotation by the negative angle. */
#include "ops/ref/backward.h"

static void rotate_back(float *a, float *b, const float *cs)
{
    float x = *a, y = *b;
    *a = x * cs[0] + y * cs[1];
    *b = y * cs[0] - x * cs[1];
}

void tern_ref_rope_halves_backward(float *dx, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    uint32_t half = head_dim / 2;
    for (uint32_t h = 0; h < n_heads; h++, dx += head_dim)
        for (uint32_t i = 0; i < half; i++) rotate_back(dx + i, dx + half + i, cs + 2 * i);
}

void tern_ref_rope_adjacent_backward(float *dx, uint32_t n_heads, uint32_t head_dim, const float *cs)
{
    for (uint32_t h = 0; h < n_heads; h++, dx += head_dim)
        for (uint32_t i = 0; i < head_dim / 2; i++) rotate_back(dx + 2 * i, dx + 2 * i + 1, cs + 2 * i);
}
