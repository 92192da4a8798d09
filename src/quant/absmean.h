/* The scale of ternary weights, max(mean |w|, 1e-5), as an exact sum of integers: the same bits in any order, on any
 * device (docs/decisions/0018-exact-updates.md).
 *
 *   every weight is flushed first (base/flush.h); E = the largest exponent field (0: all weights are 0)
 *   unit = 2^(E - 158), so that the largest |w| is below 2^32 units
 *   sum  = sum of |w| in units, each rounded to the nearest integer, a half up
 *   mean = sum * unit / n, rounded once to the nearest float, a half to even
 *
 * Each rounding is at most half of 2^-31 of the largest weight, and they cancel. */
#ifndef TERN_QUANT_ABSMEAN_H
#define TERN_QUANT_ABSMEAN_H

#include <stddef.h>

#include "base/flush.h"

/* |w| in units, from its flushed bits; their exponent field is at most `exponent`. */
static inline uint32_t tern_absmean_units(uint32_t bits, uint32_t exponent)
{
    const uint32_t down = exponent - (bits >> 23 & 255u), digits = ((bits & 0x7fffffu) | 0x800000u) << 8;
    if ((bits & 0x7fffffffu) == 0 || down > 32) return 0;
    if (down == 0) return digits;
    return (down == 32 ? 0 : digits >> down) + (digits >> (down - 1) & 1u);
}

/* The largest exponent field of n weights, and the sum of their magnitudes for an exponent that is not below it.
 * n is below 2^32. Parts of a tensor may be taken apart: the largest of the exponents, then the sum of the sums. */
uint32_t tern_absmean_exponent(const float *w, size_t n);
uint64_t tern_absmean_sum(const float *w, size_t n, uint32_t exponent);
/* max(mean, 1e-5). n 0: 1e-5. */
float tern_absmean_scale(uint64_t sum, uint32_t n, uint32_t exponent);
/* All of it. */
float tern_absmean(const float *w, size_t n);

#endif
