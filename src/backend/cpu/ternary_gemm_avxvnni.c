/* Ternary rows times many tokens on AVX-VNNI. */
#include "backend/cpu/ternary_gemm_256.h"

enum { RUN = TERN_PANEL_COLS_MAX };
#define TERN_GEMM tern_cpu__ternary_gemm_avxvnni

static inline sum add_step(sum s, vector codes, vector x)
{
    return _mm256_dpbusd_avx_epi32(s, codes, x);
}

static inline void widen(sum s, int32_t rows[LANES])
{
    _mm256_storeu_si256((void *)rows, s);
}

#include "backend/cpu/ternary_gemm.h"
