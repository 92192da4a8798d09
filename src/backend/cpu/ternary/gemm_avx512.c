/* Ternary rows times many tokens on AVX-512 with VNNI: tiles of 64 rows by six tokens. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/ternary/ternary.h"
#include "backend/cpu/tiles/interleave_avx512.h"

enum { LANES = 16, VECTORS = 4, TOKENS = 6, RUN = TERN_PANEL_COLS_MAX };
#define TERN_GEMM     tern_cpu__ternary_gemm_avx512
#define TERN_TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)

typedef __m512i vector, sum;

static inline vector load(const uint8_t *codes)
{
    return _mm512_load_si512(codes);
}

static inline vector broadcast(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
}

static inline sum zero(void)
{
    return _mm512_setzero_si512();
}

static inline sum add_step(sum s, vector codes, vector x)
{
    return _mm512_dpbusd_epi32(s, codes, x);
}

static inline void add_sums(int32_t *dots, uint32_t n, bool first, int32_t start, sum s)
{
    const __mmask16 rows = n >= LANES ? 0xffff : (__mmask16)((1u << n) - 1);
    const __m512i before = first ? _mm512_set1_epi32(start) : _mm512_maskz_loadu_epi32(rows, dots);
    _mm512_mask_storeu_epi32(dots, rows, _mm512_add_epi32(before, s));
}

static inline void interleave(uint8_t rows[LANES][TERN_PANEL_COLS_MAX], uint32_t c, uint8_t out[][LANES * VECTORS][4])
{
    tern_avx512__interleave(rows[0] + c, TERN_PANEL_COLS_MAX, out, sizeof *out);
}

#include "backend/cpu/ternary/gemm.inc"
