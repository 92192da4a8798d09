/* Sums of gradients, in loops that compilers turn into vectors. */
#include "base/flush.h"
#include "train/collective.h"

static uint32_t exponent(float x)
{
    return tern_f32_bits(x) & 0x7f800000u;
}

static uint32_t add_floats(const float *was, const float *restrict g, size_t n, float *sum)
{
    uint32_t infinite = 0;
    for (size_t i = 0; i < n; i++) {
        sum[i] = tern_flush(tern_flush(was[i]) + tern_flush(g[i]));
        infinite |= exponent(g[i]) == 0x7f800000u;
    }
    return infinite;
}

static uint32_t first_sum(const float *restrict g, size_t n, float *restrict sum)
{
    uint32_t infinite = 0;
    for (size_t i = 0; i < n; i++) {
        sum[i] = tern_flush(g[i]);
        infinite |= exponent(g[i]) == 0x7f800000u;
    }
    return infinite;
}

bool tern_collective_add_pass(const float *was, const float *g, size_t n, float *sum)
{
    return (was ? add_floats(was, g, n, sum) : first_sum(g, n, sum)) == 0;
}
