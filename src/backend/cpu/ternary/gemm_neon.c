/* Ternary rows times many tokens on NEON: tiles of 8 rows by six tokens. A 16-bit lane takes one product of at most 256
 * a step, so sums are widened after 64 steps. */
#include "backend/cpu/ternary/gemm_neon.h"

enum { VECTORS = 2, TOKENS = 6, RUN = 64 };
#define TERN_GEMM     tern_cpu__ternary_gemm_neon
#define TERN_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)

/* Rows 0 and 1, rows 2 and 3: four columns each. */
typedef struct sum {
    int16x8_t low, high;
} sum;

static inline sum zero(void)
{
    return (sum){vdupq_n_s16(0), vdupq_n_s16(0)};
}

static inline sum add_step(sum s, vector codes, vector x)
{
    return (sum){vmlal_s8(s.low, vget_low_s8(codes), vget_low_s8(x)), vmlal_high_s8(s.high, codes, x)};
}

static inline void add_sums(int32_t *dots, uint32_t n, bool first, int32_t start, sum s)
{
    add_sums_32(dots, n, first, start, vpaddq_s32(vpaddlq_s16(s.low), vpaddlq_s16(s.high)));
}

static inline void interleave(uint8_t rows[LANES][TERN_PANEL_COLS_MAX], uint32_t c, uint8_t out[][LANES * VECTORS][4])
{
    interleave_4(rows, c, out[0][0], sizeof out[0]);
}

#include "backend/cpu/ternary/gemm.inc"
