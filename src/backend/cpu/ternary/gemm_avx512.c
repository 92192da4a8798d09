/* Ternary rows times many tokens on AVX-512 with VNNI: tiles of 64 rows by six tokens. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/ternary/ternary.h"

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

/* Four rows of 16 bytes in each register, one in each lane of 128 bits: in[i] lane l is row 4 l + i. Out: out[j] has
 * dword j of each row. */
static inline void transpose_dwords(const __m512i in[4], __m512i out[4])
{
    const __m512i a = _mm512_unpacklo_epi32(in[0], in[1]), b = _mm512_unpackhi_epi32(in[0], in[1]);
    const __m512i c = _mm512_unpacklo_epi32(in[2], in[3]), d = _mm512_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm512_unpacklo_epi64(a, c);
    out[1] = _mm512_unpackhi_epi64(a, c);
    out[2] = _mm512_unpacklo_epi64(b, d);
    out[3] = _mm512_unpackhi_epi64(b, d);
}

static inline void interleave(uint8_t rows[LANES][TERN_PANEL_COLS_MAX], uint32_t c, uint8_t out[][LANES * VECTORS][4])
{
    __m512i in[4], columns[4];
    for (int i = 0; i < 4; i++) {
        in[i] = _mm512_castsi128_si512(_mm_load_si128((const void *)(rows[i] + c)));
        in[i] = _mm512_inserti32x4(in[i], _mm_load_si128((const void *)(rows[4 + i] + c)), 1);
        in[i] = _mm512_inserti32x4(in[i], _mm_load_si128((const void *)(rows[8 + i] + c)), 2);
        in[i] = _mm512_inserti32x4(in[i], _mm_load_si128((const void *)(rows[12 + i] + c)), 3);
    }
    transpose_dwords(in, columns);
    for (int j = 0; j < 4; j++) _mm512_store_si512(out[j], columns[j]);
}

#include "backend/cpu/ternary/gemm.inc"
