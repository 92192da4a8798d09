/* fmaf, at a bearable price where the CPU lacks the instruction: there the C library's takes 130 ns. */
#ifndef TERN_OPS_REF_FMA_H
#define TERN_OPS_REF_FMA_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && !defined(__FMA__)
#define TERN_REF_HAS_FMA __builtin_cpu_supports("fma") /* then the C library calls it */
#elif defined(__wasm__)
#define TERN_REF_HAS_FMA 0 /* and the C library's is wrong for some subnormal results */
#else
#define TERN_REF_HAS_FMA 1
#endif

/* a * b + c, rounded once. The product is exact in f64. Their sum is rounded to odd (Boldo and Melquiond, "Emulation of
 * FMA and correctly rounded sums", IEEE Trans. Computers 57, 2008): where it is inexact and its last bit 0, the
 * neighbour towards the error is taken. Then the second rounding, to 24 bits or fewer, is right. */
static inline float tern_ref__fmaf_in_doubles(float a, float b, float c)
{
    const double product = (double)a * (double)b, addend = (double)c, sum = product + addend;
    const double part = sum - product,
                 error = (product - (sum - part)) + (addend - part); /* NaN where sum is infinite */
    const int64_t inexact = error > 0 || error < 0, inwards = -(int64_t)((error > 0) != (sum > 0));
    int64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    const int64_t step = inexact & ~bits & 1;
    bits += (step ^ inwards) - inwards;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}

static inline float tern_ref__fmaf(float a, float b, float c)
{
    return TERN_REF_HAS_FMA ? fmaf(a, b, c) : tern_ref__fmaf_in_doubles(a, b, c);
}

#endif
