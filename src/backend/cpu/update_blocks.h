/* What the optimiser's kernels of every level share: blocks of masters and states as held floats. They are plain loops
 * over blocks that stay in the first cache, which compilers turn into vectors; the file that includes this is compiled
 * for the level. LEVEL is its name. */
#ifndef TERN_BACKEND_CPU_UPDATE_BLOCKS_H
#define TERN_BACKEND_CPU_UPDATE_BLOCKS_H

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "base/held.h"

#define INLINE             static inline __attribute__((always_inline))
#define JOIN_(slot, level) tern_cpu__##slot##_##level
#define JOIN(slot, level)  JOIN_(slot, level)
#define KERNEL_NAME(slot)  JOIN(slot, LEVEL)

enum { BLOCK = TERN_STATE_BLOCK };

/* All bits, or none. In masks, as compilers would make branches of a choice. */
INLINE uint32_t mask(bool yes)
{
    return 0u - (uint32_t)yes;
}

/* tern_held of what is no NaN: the result of an operation on held numbers. */
INLINE float settled(float x)
{
    const uint32_t bits = tern_f32_bits(x), size = bits & 0x7fffffffu;
    const uint32_t held = size > 0x7f7fffffu ? 0x7f7fffffu : size;
    return tern_f32_from_bits((held | (bits & 0x80000000u)) & mask(size > 0x00ffffffu));
}

/* The same of what is not negative. */
INLINE float settled_size(float x)
{
    const uint32_t bits = tern_f32_bits(x), held = bits > 0x7f7fffffu ? 0x7f7fffffu : bits;
    return tern_f32_from_bits(held & mask(bits > 0x00ffffffu));
}

INLINE void load_floats(const float *from, size_t n, float *restrict x)
{
    for (size_t i = 0; i < n; i++) x[i] = tern_held(from[i]);
}

INLINE void load_bf16(const uint16_t *from, size_t n, float *restrict x)
{
    for (size_t i = 0; i < n; i++) x[i] = tern_held(tern_bf16_to_f32(from[i]));
}

INLINE void load(tern_dtype dtype, const void *from, size_t at, size_t n, float *restrict x)
{
    if (dtype == TERN_DTYPE_BF16) load_bf16((const uint16_t *)from + at, n, x);
    else load_floats((const float *)from + at, n, x);
}

INLINE void store_nearest(const float *restrict x, size_t n, uint16_t *to)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = tern_f32_bits(x[i]);
        to[i] = (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    }
}

INLINE float largest(const float *restrict x, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t size = tern_f32_bits(x[i]) & 0x7fffffffu;
        most = size > most ? size : most;
    }
    return tern_f32_from_bits(most);
}

#endif
