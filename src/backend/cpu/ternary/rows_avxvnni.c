/* The ternary encodings on AVX-VNNI. */
#include "backend/cpu/ternary/rows_256.h"

#define TERN_LEVEL avxvnni
#define TERN_GEMM  tern_cpu__ternary_gemm_avxvnni

static inline sums add_products(sums s, const codes *c, const int8_t *x, int n)
{
    for (int i = 0; i < n; i++) s = _mm256_dpbusd_avx_epi32(s, c[i], load_32(x + WIDTH * i));
    return s;
}

#include "backend/cpu/ternary/rows.inc"
