/* Ternary rows times many tokens on NEON with I8MM, whose product is of two rows by two tokens, eight columns each:
 * tiles of 8 rows by eight tokens. */
#include <arm_neon.h>

#include "backend/cpu/ternary/ternary.h"

enum { LANES = 4, VECTORS = 2, TOKENS = 8, STEP = 8, GROUP = 2, RUN = TERN_PANEL_COLS_MAX };
#define TERN_GEMM     tern_cpu__ternary_gemm_i8mm
#define TERN_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define TAKE_X(x, at) two_tokens((x)[0] + (at), (x)[1] + (at))
#define SUM_OF(s, k)  token_of(s, k)

typedef int8x16_t x_vector;

/* Rows 0 and 1, rows 2 and 3. */
typedef struct vector {
    int8x16_t low, high;
} vector;

/* The sums of two rows: row 0 by both tokens, row 1 by both. */
typedef struct sum {
    int32x4_t low, high;
} sum;

static inline vector load(const uint8_t *codes)
{
    return (vector){vreinterpretq_s8_u8(vld1q_u8(codes)), vreinterpretq_s8_u8(vld1q_u8(codes + 16))};
}

static inline x_vector two_tokens(const int8_t *a, const int8_t *b)
{
    return vcombine_s8(vld1_s8(a), vld1_s8(b));
}

static inline sum zero(void)
{
    return (sum){vdupq_n_s32(0), vdupq_n_s32(0)};
}

static inline sum add_step(sum s, vector codes, x_vector x)
{
    return (sum){vmmlaq_s32(s.low, codes.low, x), vmmlaq_s32(s.high, codes.high, x)};
}

static inline int32x4_t token_of(sum s, int k)
{
    return k == 0 ? vuzp1q_s32(s.low, s.high) : vuzp2q_s32(s.low, s.high);
}

static inline void add_sums(int32_t *dots, uint32_t n, bool first, int32_t start, int32x4_t s)
{
    int32_t rows[LANES];
    vst1q_s32(rows, s);
    for (uint32_t i = 0; i < n && i < LANES; i++) dots[i] = rows[i] + (first ? start : dots[i]);
}

static inline void interleave(uint8_t rows[LANES][TERN_PANEL_COLS_MAX], uint32_t c,
                              uint8_t out[][LANES * VECTORS][STEP])
{
    for (int i = 0; i < LANES; i++) {
        const uint8x16_t row = vld1q_u8(rows[i] + c);
        vst1_u8(out[0][i], vget_low_u8(row));
        vst1_u8(out[1][i], vget_high_u8(row));
    }
}

#include "backend/cpu/ternary/gemm.inc"
