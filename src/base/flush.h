/* Floats that every device agrees on, for what must give the same bits on a CPU and on a GPU. */
#ifndef TERN_BASE_FLUSH_H
#define TERN_BASE_FLUSH_H

#include "base/half.h"

/* x without what devices treat differently: NaN becomes +0, an infinity the largest finite float of its sign, and a
 * magnitude below 2^-125 becomes +0. (GPUs may flush subnormal numbers, before rounding or after it, which can show up
 * to 2^-126; a number of the next power of two is out of doubt.) */
static inline uint32_t tern_flush_bits(uint32_t bits)
{
    const uint32_t size = bits & 0x7fffffffu;
    uint32_t flushed = size < 0x01000000u ? 0 : bits;
    flushed = size >= 0x7f800000u ? (bits & 0x80000000u) | 0x7f7fffffu : flushed;
    return size > 0x7f800000u ? 0 : flushed;
}

static inline float tern_flush(float x)
{
    return tern_f32_from_bits(tern_flush_bits(tern_f32_bits(x)));
}

static inline float tern_flush_add(float a, float b)
{
    return tern_flush(a + b);
}

static inline float tern_flush_sub(float a, float b)
{
    return tern_flush(a - b);
}

static inline float tern_flush_mul(float a, float b)
{
    return tern_flush(a * b);
}

static inline float tern_flush_div(float a, float b)
{
    return tern_flush(a / b);
}

#endif
