/* Ternary rows times many tokens on SSE4.1: tiles of 8 rows by five tokens. Two products of at most 256 make a 16-bit
 * sum; 64 of those reach -32768 at worst, so sums are widened after 64 steps. */
#include <smmintrin.h>
#include <string.h>

#include "backend/cpu/ternary/ternary.h"

enum { LANES = 4, VECTORS = 2, TOKENS = 5, RUN = 64 };
#define TERN_GEMM     tern_cpu__ternary_gemm_sse41
#define TERN_TILES(X) X(1) X(2) X(3) X(4) X(5)

typedef __m128i vector, sum;

static inline vector load(const uint8_t *codes)
{
    return _mm_load_si128((const void *)codes);
}

static inline vector broadcast(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm_set1_epi32(four);
}

static inline sum zero(void)
{
    return _mm_setzero_si128();
}

static inline sum add_step(sum s, vector codes, vector x)
{
    return _mm_add_epi16(s, _mm_maddubs_epi16(codes, x));
}

static inline void add_sums(int32_t *dots, uint32_t n, bool first, int32_t start, sum s)
{
    int32_t rows[LANES];
    _mm_storeu_si128((void *)rows, _mm_madd_epi16(s, _mm_set1_epi16(1)));
    for (uint32_t i = 0; i < n && i < LANES; i++) dots[i] = rows[i] + (first ? start : dots[i]);
}

static inline void interleave(uint8_t rows[LANES][TERN_PANEL_COLS_MAX], uint32_t c, uint8_t out[][LANES * VECTORS][4])
{
    __m128i in[LANES];
    for (int i = 0; i < LANES; i++) in[i] = _mm_load_si128((const void *)(rows[i] + c));
    const __m128i a01 = _mm_unpacklo_epi32(in[0], in[1]), a23 = _mm_unpackhi_epi32(in[0], in[1]);
    const __m128i b01 = _mm_unpacklo_epi32(in[2], in[3]), b23 = _mm_unpackhi_epi32(in[2], in[3]);
    _mm_store_si128((void *)out[0], _mm_unpacklo_epi64(a01, b01));
    _mm_store_si128((void *)out[1], _mm_unpackhi_epi64(a01, b01));
    _mm_store_si128((void *)out[2], _mm_unpacklo_epi64(a23, b23));
    _mm_store_si128((void *)out[3], _mm_unpackhi_epi64(a23, b23));
}

#include "backend/cpu/ternary/gemm.inc"
