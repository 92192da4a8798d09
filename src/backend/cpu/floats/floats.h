/* The vocabulary of the float kernels of all levels: vectors of VEC floats, and the 16 lanes of a sum made of them.
 *
 * A level's header (avx512.h, avx2.h, neon.h, simd128.h) defines LEVEL, vec, ivec (VEC int32), VEC and
 *   vec_load, vec_store               any address
 *   vec_set, _add, _sub, _mul, _div, _fma (a * b + c), _abs
 *   vec_held(v)                       v; where it gains, kept in a register instead of read from memory at each use
 *   vec_max(a, b)                     b where a is NaN; b is never NaN
 *   vec_where_positive(g, v)          v where g > 0, else +0, where g is NaN too
 *   vec_clamp(x, low, high)           NaN where x is NaN
 *   vec_finite                        NaN to 0, infinities to the largest finite values
 *   vec_largest                       the largest of VEC floats, none NaN
 *   vec_load_f16, _bf16, _i8          VEC stored values to floats; vec_store_f16 back
 *   vec_set_f16                       one f16 to all lanes (eight bytes are read)
 *   bvec, bvec_look_up(table, at)     16 bytes; byte at[i] of the table, all below 16
 *   vec_round, ivec_*                 to int32, half to even; saturating store to int8; sum
 *   vec_add_exponent(p, t)            the bits of p plus the bits of t shifted left by 23
 *   vec_exp_edges(x, y, ...)          y, but 0 for x < low, infinity for x > high, x for NaN
 *   vec_load_pairs, vec_store_pairs   2 * VEC floats, even ones in first, odd ones in second
 *   lanes_sum                         16 lanes to their sum by the tree of ref.h
 *   lanes_sum_16, lanes_max_16        the same for 16 rows of 16 lanes; the largest of each row, none NaN
 *   TILE_ROWS, VALUE_VECS             how many rows of weights, and vectors of V, go with four tokens in registers */
#ifndef TERN_BACKEND_CPU_FLOATS_FLOATS_H
#define TERN_BACKEND_CPU_FLOATS_FLOATS_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "backend/cpu/kernels.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define JOIN_(slot, level) tern_cpu__##slot##_##level
#define JOIN(slot, level)  JOIN_(slot, level)
/* Keeps an array in memory, where broadcasting an element costs no shuffle; compilers would rather keep a register. */
#define IN_MEMORY(array) __asm__("" : "+m"(array))

/* The name of this level's kernel for a slot. */
#define KERNEL_NAME(slot) JOIN(slot, LEVEL)

enum { PARTS = TERN_LANES / VEC }; /* vectors in the 16 lanes */

typedef struct lanes {
    vec v[PARTS];
} lanes;

INLINE lanes lanes_zero(void)
{
    lanes l;
    UNROLL
    for (int i = 0; i < PARTS; i++) l.v[i] = vec_set(0);
    return l;
}

/* acc + a * x for the 16 floats at x. */
INLINE lanes lanes_fma(lanes a, const float *x, lanes acc)
{
    UNROLL
    for (int i = 0; i < PARTS; i++) acc.v[i] = vec_fma(a.v[i], vec_load(x + i * VEC), acc.v[i]);
    return acc;
}

INLINE void lanes_store(float *p, lanes l)
{
    UNROLL
    for (int i = 0; i < PARTS; i++) vec_store(p + i * VEC, l.v[i]);
}

/* tern_ref_exp of each element. */
INLINE vec vec_exp(vec x)
{
    const vec shift = vec_set(TERN_EXP_ROUND);
    vec t = vec_fma(x, vec_set(TERN_EXP_LOG2E), shift);
    vec n = vec_sub(t, shift);
    vec r = vec_fma(n, vec_set(-TERN_EXP_LN2_LOW), vec_fma(n, vec_set(-TERN_EXP_LN2_HIGH), x));
    vec p = vec_fma(vec_set(TERN_EXP_C6), r, vec_set(TERN_EXP_C5));
    p = vec_fma(p, r, vec_set(TERN_EXP_C4));
    p = vec_fma(p, r, vec_set(TERN_EXP_C3));
    p = vec_fma(p, r, vec_set(0.5f));
    p = vec_fma(p, r, vec_set(1));
    p = vec_fma(p, r, vec_set(1));
    return vec_exp_edges(x, vec_add_exponent(p, t), TERN_EXP_LOW, TERN_EXP_HIGH, HUGE_VALF);
}

/* tern_ref_softcap of each element. */
INLINE vec vec_softcap(vec x, float cap)
{
    const vec t = vec_exp(vec_mul(x, vec_set(2.0f / cap)));
    return vec_sub(vec_set(cap), vec_div(vec_set(cap + cap), vec_add(t, vec_set(1))));
}

#endif
