/* Floats that every device agrees on, for what must give the same bits on a CPU and on a GPU. */
#ifndef TERN_BASE_HELD_H
#define TERN_BASE_HELD_H

#include "base/half.h"

/* x, held where devices differ: NaN becomes +0, an infinity the largest finite float of its sign, and what is smaller
 * than 2^-125 becomes +0. GPUs flush subnormal numbers or do not, before rounding or after it, which can show up to
 * 2^-126; a number of the next power of two is out of doubt. */
static inline uint32_t tern_held_bits(uint32_t bits)
{
    const uint32_t size = bits & 0x7fffffffu;
    uint32_t held = size < 0x01000000u ? 0 : bits;
    held = size >= 0x7f800000u ? (bits & 0x80000000u) | 0x7f7fffffu : held;
    return size > 0x7f800000u ? 0 : held;
}

static inline float tern_held(float x)
{
    return tern_f32_from_bits(tern_held_bits(tern_f32_bits(x)));
}

static inline float tern_held_add(float a, float b)
{
    return tern_held(a + b);
}

static inline float tern_held_sub(float a, float b)
{
    return tern_held(a - b);
}

static inline float tern_held_mul(float a, float b)
{
    return tern_held(a * b);
}

static inline float tern_held_div(float a, float b)
{
    return tern_held(a / b);
}

#endif
