/* Peaks on SSE4.1: of pmaddubsw alone, and of f32 multiply-adds, each rounded once. */
#include "backend/cpu/floats/sse41.h"

#include "backend/cpu/measure/peak.h"

uint64_t tern_cpu__peak_sse41(uint64_t n)
{
    enum { SUMS = 12 };
    if (n == 0) return SUMS * 16;
    __m128i sums[SUMS];
    const __m128i b = _mm_set1_epi8((char)n);
    for (int i = 0; i < SUMS; i++) sums[i] = _mm_set1_epi32(i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = _mm_maddubs_epi16(sums[i], b);
    for (int i = 1; i < SUMS; i++) sums[0] = _mm_add_epi32(sums[0], sums[i]);
    return (uint64_t)(uint32_t)ivec_sum(sums[0]);
}

/* The sums converge: neither infinite nor denormal. */
uint64_t tern_cpu__fma_peak_sse41(uint64_t n)
{
    enum { SUMS = 8 };
    if (n == 0) return SUMS * VEC;
    vec sums[SUMS];
    const vec a = vec_set(0.5f), b = vec_set((float)(n % 1000) + 1);
    for (int i = 0; i < SUMS; i++) sums[i] = vec_set((float)i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = vec_fma(sums[i], a, b);
    for (int i = 1; i < SUMS; i++) sums[0] = vec_add(sums[0], sums[i]);
    return (uint64_t)_mm_cvttss_si32(sums[0]);
}
