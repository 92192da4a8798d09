/* The ternary encodings on SSE4.1. */
#include "backend/cpu/ternary/rows_sse41.h"

#define TERN_LEVEL sse41
#define TERN_GEMM  tern_cpu__ternary_gemm_sse41

/* 16-bit sums of two products, at most 2 * 2 * 128 each: twenty of them fit well. */
static inline sums add_products(sums s, const codes *c, const int8_t *x, int n)
{
    __m128i pairs = _mm_maddubs_epi16(c[0], load_16(x));
    for (int i = 1; i < n; i++) pairs = _mm_add_epi16(pairs, _mm_maddubs_epi16(c[i], load_16(x + WIDTH * i)));
    return _mm_add_epi32(s, _mm_madd_epi16(pairs, _mm_set1_epi16(1)));
}

#include "backend/cpu/ternary/rows.inc"

DEFINE_UNPACK(i2_s)
DEFINE_UNPACK(tq2_0)
TERN_TERNARY_KERNEL(i2_s, TERN_LEVEL, TERN_GEMM, gemv_i2_s, unpack_i2_s, TERN_PANEL_COLS, 6)
TERN_TERNARY_KERNEL(tq2_0, TERN_LEVEL, TERN_GEMM, gemv_tq2_0, unpack_tq2_0, TERN_PANEL_COLS, 6)
