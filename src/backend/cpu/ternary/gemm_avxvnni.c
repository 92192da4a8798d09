/* Ternary rows times many tokens on AVX-VNNI. */
#include "backend/cpu/ternary/gemm_256.h"

enum { TOKENS = 6, RUN = TERN_PANEL_COLS_MAX };
#define TERN_GEMM     tern_cpu__ternary_gemm_avxvnni
#define TERN_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)

static inline sum add_step(sum s, vector codes, vector x)
{
    return _mm256_dpbusd_avx_epi32(s, codes, x);
}

static inline void add_sums(int32_t *dots, uint32_t n, bool first, int32_t start, sum s)
{
    add_sums_32(dots, n, first, start, s);
}

#include "backend/cpu/ternary/gemm.inc"
