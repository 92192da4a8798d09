/* Peak of vpmaddubsw alone: adding the products up costs more, so no kernel comes near. */
#include <immintrin.h>

#include "backend/cpu/measure/peak.h"

uint64_t tern_cpu__peak_avx2(uint64_t n)
{
    enum { SUMS = 12 };
    if (n == 0) return SUMS * 32;
    __m256i sums[SUMS];
    const __m256i b = _mm256_set1_epi8((char)n);
    for (int i = 0; i < SUMS; i++) sums[i] = _mm256_set1_epi32(i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = _mm256_maddubs_epi16(sums[i], b);
    for (int i = 1; i < SUMS; i++) sums[0] = _mm256_add_epi32(sums[0], sums[i]);
    return (uint64_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(sums[0]));
}

/* Counts f32 multiply-adds. The sums converge: neither infinite nor denormal. */
uint64_t tern_cpu__fma_peak_avx2(uint64_t n)
{
    enum { SUMS = 12 };
    if (n == 0) return SUMS * 8;
    __m256 sums[SUMS];
    const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps((float)(n % 1000) + 1);
    for (int i = 0; i < SUMS; i++) sums[i] = _mm256_set1_ps((float)i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = _mm256_fmadd_ps(sums[i], a, b);
    for (int i = 1; i < SUMS; i++) sums[0] = _mm256_add_ps(sums[0], sums[i]);
    return (uint64_t)_mm_cvttss_si32(_mm256_castps256_ps128(sums[0]));
}
