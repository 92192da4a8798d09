/* The ternary encodings on NEON with I8MM: one token by dot products, as its products are of two. */
#include "backend/cpu/ternary/rows_neon.h"

#define TERN_LEVEL i8mm
#define TERN_GEMM  tern_cpu__ternary_gemm_i8mm

static inline sums add_products(sums s, const codes *c, const int8_t *x, int n)
{
    for (int i = 0; i < n; i++) s = vdotq_s32(s, vreinterpretq_s8_u8(c[i]), vld1q_s8(x + WIDTH * i));
    return s;
}

#include "backend/cpu/ternary/rows.inc"

DEFINE_UNPACK(i2_s)
DEFINE_UNPACK(tq2_0)
TERN_TERNARY_KERNEL(i2_s, TERN_LEVEL, TERN_GEMM, gemv_i2_s, unpack_i2_s, TERN_PANEL_COLS, 6)
TERN_TERNARY_KERNEL(tq2_0, TERN_LEVEL, TERN_GEMM, gemv_tq2_0, unpack_tq2_0, TERN_PANEL_COLS, 6)
