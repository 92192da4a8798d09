/* Peaks of f32 multiply-adds for each level. */
#include "fma_peak.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { SUMS = 12 };

__attribute__((target("avx2,fma"))) static uint64_t peak_avx2(uint64_t n)
{
    if (n == 0) return SUMS * 8;
    __m256 sums[SUMS];
    const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps((float)n);
    for (int i = 0; i < SUMS; i++) sums[i] = _mm256_set1_ps((float)i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = _mm256_fmadd_ps(sums[i], a, b);
    for (int i = 1; i < SUMS; i++) sums[0] = _mm256_add_ps(sums[0], sums[i]);
    return (uint64_t)_mm_cvttss_si32(_mm256_castps256_ps128(sums[0]));
}

__attribute__((target("avx512f"))) static uint64_t peak_avx512(uint64_t n)
{
    if (n == 0) return SUMS * 16;
    __m512 sums[SUMS];
    const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps((float)n);
    for (int i = 0; i < SUMS; i++) sums[i] = _mm512_set1_ps((float)i);
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = _mm512_fmadd_ps(sums[i], a, b);
    for (int i = 1; i < SUMS; i++) sums[0] = _mm512_add_ps(sums[0], sums[i]);
    return (uint64_t)_mm_cvttss_si32(_mm512_castps512_ps128(sums[0]));
}

static const struct {
    const char *level;
    tern_bench_fma_fn fn;
} peaks[] = {{"avx2", peak_avx2}, {"avx512", peak_avx512}, {"avx512vbmi", peak_avx512}};

tern_bench_fma_fn tern_bench_fma_of(const char *level)
{
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
        if (!strcmp(peaks[i].level, level)) return peaks[i].fn;
    return NULL;
}
#else
tern_bench_fma_fn tern_bench_fma_of(const char *level)
{
    (void)level;
    return NULL;
}
#endif
