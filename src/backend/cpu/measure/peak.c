/* Which loops measure the peaks of a level. */
#include "backend/cpu/measure/peak.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Multiply-adds that the compiler may use any instruction of the base CPU for. */
static uint64_t peak_scalar(uint64_t n)
{
    enum { SUMS = 64 };
    if (n == 0) return SUMS;
    int32_t sums[SUMS];
    for (int i = 0; i < SUMS; i++) sums[i] = i;
    for (int8_t b = (int8_t)n; n > 0; n--, b++)
        for (int i = 0; i < SUMS; i++) sums[i] = (int32_t)((uint32_t)sums[i] * 3u + (uint32_t)b);
    for (int i = 1; i < SUMS; i++) sums[0] ^= sums[i];
    return (uint64_t)(uint32_t)sums[0];
}

/* Through the C library, as the definitions go, so that even a base CPU without the instruction has a number. */
static uint64_t fma_peak_scalar(uint64_t n)
{
    enum { SUMS = 16 };
    if (n == 0) return SUMS;
    float sums[SUMS] = {0};
    const float b = (float)(n % 1000) + 1;
    while (n--)
        for (int i = 0; i < SUMS; i++) sums[i] = fmaf(sums[i], 0.5f, b);
    for (int i = 1; i < SUMS; i++) sums[0] += sums[i];
    return (uint64_t)sums[0];
}

static const struct {
    const char *level;
    tern_cpu_peak_fn dots, fma;
} peaks[] = {
    {"scalar", peak_scalar, fma_peak_scalar},
#if defined(__x86_64__)
    {"sse41", tern_cpu__peak_sse41, tern_cpu__fma_peak_sse41},
    {"avx2", tern_cpu__peak_avx2, tern_cpu__fma_peak_avx2},
    {"avxvnni", tern_cpu__peak_avxvnni, tern_cpu__fma_peak_avx2},
    {"avx512", tern_cpu__peak_avx512, tern_cpu__fma_peak_avx512},
    {"avx512vbmi", tern_cpu__peak_avx512, tern_cpu__fma_peak_avx512},
    {"amx", tern_cpu__peak_amx, tern_cpu__fma_peak_avx512},
#elif defined(__aarch64__)
    {"neon", tern_cpu__peak_neon, tern_cpu__fma_peak_neon},
    {"dotprod", tern_cpu__peak_dotprod, tern_cpu__fma_peak_neon},
    {"i8mm", tern_cpu__peak_i8mm, tern_cpu__fma_peak_neon},
#elif defined(__wasm_simd128__)
    {"simd128", tern_cpu__peak_simd128, tern_cpu__fma_peak_simd128},
#endif
    {NULL, NULL, NULL},
};

tern_cpu_peak_fn tern_cpu_peak_of(const char *level)
{
    for (size_t i = 0; peaks[i].level; i++)
        if (!strcmp(peaks[i].level, level)) return peaks[i].dots;
    return NULL;
}

tern_cpu_peak_fn tern_cpu_fma_peak_of(const char *level)
{
    for (size_t i = 0; peaks[i].level; i++)
        if (!strcmp(peaks[i].level, level)) return peaks[i].fma;
    return NULL;
}
