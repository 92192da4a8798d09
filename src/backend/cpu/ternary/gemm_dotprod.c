/* Ternary rows times many tokens on NEON with dot products: tiles of 16 rows by six tokens. */
#include "backend/cpu/ternary/gemm_neon.h"

enum { VECTORS = 4, TOKENS = 6, RUN = TERN_PANEL_COLS_MAX };
#define TERN_GEMM     tern_cpu__ternary_gemm_dotprod
#define TERN_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)

typedef int32x4_t sum;

static inline sum zero(void)
{
    return vdupq_n_s32(0);
}

static inline sum add_step(sum s, vector codes, vector x)
{
    return vdotq_s32(s, codes, x);
}

static inline void add_sums(int32_t *dots, uint32_t n, bool first, int32_t start, sum s)
{
    add_sums_32(dots, n, first, start, s);
}

static inline void interleave(uint8_t rows[LANES][TERN_PANEL_COLS_MAX], uint32_t c, uint8_t out[][LANES * VECTORS][4])
{
    interleave_4(rows, c, out[0][0], sizeof out[0]);
}

#include "backend/cpu/ternary/gemm.inc"
