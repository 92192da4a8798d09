/* Peak of vpdpbusd on 512-bit registers. */
#include <immintrin.h>

#include "backend/cpu/measure/peak.h"

uint64_t tern_cpu__peak_avx512(uint64_t n)
{
    enum { SUMS = 12 };
    if (n == 0) return SUMS * 64;
    __m512i sums[SUMS];
    const __m512i a = _mm512_set1_epi8(1), b = _mm512_set1_epi8((char)n);
    for (int i = 0; i < SUMS; i++) sums[i] = _mm512_set1_epi32(i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = _mm512_dpbusd_epi32(sums[i], a, b);
    for (int i = 1; i < SUMS; i++) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
    return (uint64_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(sums[0]));
}

/* Counts f32 multiply-adds. The sums converge: neither infinite nor denormal. */
uint64_t tern_cpu__fma_peak_avx512(uint64_t n)
{
    enum { SUMS = 12 };
    if (n == 0) return SUMS * 16;
    __m512 sums[SUMS];
    const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps((float)(n % 1000) + 1);
    for (int i = 0; i < SUMS; i++) sums[i] = _mm512_set1_ps((float)i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = _mm512_fmadd_ps(sums[i], a, b);
    for (int i = 1; i < SUMS; i++) sums[0] = _mm512_add_ps(sums[0], sums[i]);
    return (uint64_t)_mm_cvttss_si32(_mm512_castps512_ps128(sums[0]));
}
