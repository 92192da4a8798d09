/* Peak of smlal on 128-bit registers. */
#include <arm_neon.h>

#include "backend/cpu/measure/peak.h"

uint64_t tern_cpu__peak_neon(uint64_t n)
{
    enum { SUMS = 12 };
    if (n == 0) return SUMS * 8;
    int16x8_t sums[SUMS];
    const int8x8_t a = vdup_n_s8(1), b = vdup_n_s8((int8_t)n);
    for (int i = 0; i < SUMS; i++) sums[i] = vdupq_n_s16((int8_t)i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = vmlal_s8(sums[i], a, b);
    for (int i = 1; i < SUMS; i++) sums[0] = vaddq_s16(sums[0], sums[i]);
    return (uint64_t)vaddvq_s16(sums[0]);
}

/* Counts f32 multiply-adds. The sums converge: neither infinite nor denormal. */
uint64_t tern_cpu__fma_peak_neon(uint64_t n)
{
    enum { SUMS = 12 };
    if (n == 0) return SUMS * 4;
    float32x4_t sums[SUMS];
    const float32x4_t a = vdupq_n_f32(0.5f), b = vdupq_n_f32((float)(n % 1000) + 1);
    for (int i = 0; i < SUMS; i++) sums[i] = vdupq_n_f32((float)i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = vfmaq_f32(b, sums[i], a);
    for (int i = 1; i < SUMS; i++) sums[0] = vaddq_f32(sums[0], sums[i]);
    return (uint64_t)vgetq_lane_f32(sums[0], 0);
}
