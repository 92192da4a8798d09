/* Peak of smmla. */
#include <arm_neon.h>

#include "backend/cpu/measure/peak.h"

uint64_t tern_cpu__peak_i8mm(uint64_t n)
{
    enum { SUMS = 12 };
    if (n == 0) return SUMS * 32;
    int32x4_t sums[SUMS];
    const int8x16_t a = vdupq_n_s8(1), b = vdupq_n_s8((int8_t)n);
    for (int i = 0; i < SUMS; i++) sums[i] = vdupq_n_s32((int8_t)i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = vmmlaq_s32(sums[i], a, b);
    for (int i = 1; i < SUMS; i++) sums[0] = vaddq_s32(sums[0], sums[i]);
    return (uint64_t)vaddvq_s32(sums[0]);
}
