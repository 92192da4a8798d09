/* Peak of vpdpbusd on 256-bit registers. */
#include <immintrin.h>

#include "backend/cpu/measure/peak.h"

uint64_t tern_cpu__peak_avxvnni(uint64_t n)
{
    enum { SUMS = 12 };
    if (n == 0) return SUMS * 32;
    __m256i sums[SUMS];
    const __m256i a = _mm256_set1_epi8(1), b = _mm256_set1_epi8((char)n);
    for (int i = 0; i < SUMS; i++) sums[i] = _mm256_set1_epi32(i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = _mm256_dpbusd_avx_epi32(sums[i], a, b);
    for (int i = 1; i < SUMS; i++) sums[0] = _mm256_add_epi32(sums[0], sums[i]);
    return (uint64_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(sums[0]));
}
