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

static inline __m256i add_codes(__m256i s, __m256i c, __m256i x)
{
    return _mm256_dpbusd_avx_epi32(s, c, x);
}

static inline __m256i in_32(__m256i s)
{
    return s;
}

#include "backend/cpu/ternary/few_256.inc"

/* Tiles of a decoded panel (gemm.inc) have twelve sums under way instead of eight, which pays for the decoding from
 * about 40 tokens on, by the latency and the ports of vpdpbusd. */
enum { FEW_MAX = 48 };
DEFINE_UNPACK(i2_s)
DEFINE_UNPACK(tq2_0)

static void multiply_i2_s(const tern_cpu__product *p)
{
    if (p->x->n <= FEW_MAX) few_i2_s(p);
    else TERN_GEMM(p, unpack_i2_s, TERN_PANEL_COLS);
}

static void multiply_tq2_0(const tern_cpu__product *p)
{
    if (p->x->n <= FEW_MAX) few_tq2_0(p);
    else TERN_GEMM(p, unpack_tq2_0, TERN_PANEL_COLS);
}

TERN_FEW_KERNEL(i2_s, TERN_LEVEL, multiply_i2_s)
TERN_FEW_KERNEL(tq2_0, TERN_LEVEL, multiply_tq2_0)
