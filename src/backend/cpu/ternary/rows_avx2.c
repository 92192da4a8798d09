/* The ternary encodings on AVX2. */
#include "backend/cpu/ternary/rows_256.h"

#define TERN_LEVEL avx2
#define TERN_GEMM  tern_cpu__ternary_gemm_avx2

/* 16-bit sums of two products, at most 2 * 2 * 128 each: ten of them fit well. */
static inline sums add_products(sums s, const codes *c, const int8_t *x, int n)
{
    __m256i pairs = _mm256_maddubs_epi16(c[0], load_32(x));
    for (int i = 1; i < n; i++) pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(c[i], load_32(x + WIDTH * i)));
    return _mm256_add_epi32(s, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "backend/cpu/ternary/rows.inc"

/* 16-bit sums, of 64 times two products of at most 256: -32768 at worst. */
static inline __m256i add_codes(__m256i s, __m256i c, __m256i x)
{
    s = _mm256_add_epi16(s, _mm256_maddubs_epi16(c, x));
    __asm__("" : "+x"(s)); /* gcc would add up products of several steps first, in memory */
    return s;
}

static inline __m256i in_32(__m256i s)
{
    return _mm256_madd_epi16(s, _mm256_set1_epi16(1));
}

#include "backend/cpu/ternary/few_256.inc"

/* More tokens than some, too: decoding whole panels first (gemm.inc) takes 1.3 to 2 times as long for 512. */
TERN_FEW_KERNEL(i2_s, TERN_LEVEL, few_i2_s)
TERN_FEW_KERNEL(tq2_0, TERN_LEVEL, few_tq2_0)
