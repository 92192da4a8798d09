/* The ternary encodings on NEON. */
#include "backend/cpu/ternary/rows_neon.h"

#define TERN_LEVEL neon
#define TERN_GEMM  tern_cpu__ternary_gemm_neon

/* 16-bit lanes take two products of at most 256 from each vector: twenty vectors fit well. */
static inline sums add_products(sums s, const codes *c, const int8_t *x, int n)
{
    int16x8_t pairs = vdupq_n_s16(0);
    for (int i = 0; i < n; i++) {
        const int8x16_t raw = vreinterpretq_s8_u8(c[i]), xs = vld1q_s8(x + WIDTH * i);
        pairs = vmlal_s8(pairs, vget_low_s8(raw), vget_low_s8(xs));
        pairs = vmlal_high_s8(pairs, raw, xs);
    }
    return vpadalq_s16(s, pairs);
}

#include "backend/cpu/ternary/rows.inc"

DEFINE_UNPACK(i2_s)
DEFINE_UNPACK(tq2_0)
TERN_TERNARY_KERNEL(i2_s, TERN_LEVEL, TERN_GEMM, gemv_i2_s, unpack_i2_s, TERN_PANEL_COLS, 6)
TERN_TERNARY_KERNEL(tq2_0, TERN_LEVEL, TERN_GEMM, gemv_tq2_0, unpack_tq2_0, TERN_PANEL_COLS, 6)
