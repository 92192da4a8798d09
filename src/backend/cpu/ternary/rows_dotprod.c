/* The ternary encodings on NEON with dot products. */
#include "backend/cpu/ternary/rows_neon.h"

#define TERN_LEVEL dotprod
#define TERN_GEMM  tern_cpu__ternary_gemm_dotprod

static inline sums add_products(sums s, const codes *c, const int8_t *x, int n)
{
    for (int i = 0; i < n; i++) s = vdotq_s32(s, vreinterpretq_s8_u8(c[i]), vld1q_s8(x + WIDTH * i));
    return s;
}

#include "backend/cpu/ternary/rows.inc"
