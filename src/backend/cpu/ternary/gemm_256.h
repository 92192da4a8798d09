/* Pieces of the 256-bit gemms: four columns of eight rows in a vector, tiles of 16 rows. */
#ifndef TERN_BACKEND_CPU_TERNARY_GEMM_256_H
#define TERN_BACKEND_CPU_TERNARY_GEMM_256_H

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/ternary/ternary.h"

enum { LANES = 8, VECTORS = 2 };

typedef __m256i vector, sum;

static inline vector load(const uint8_t *codes)
{
    return _mm256_load_si256((const void *)codes);
}

static inline vector broadcast(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
}

static inline sum zero(void)
{
    return _mm256_setzero_si256();
}

/* add_sums of gemm.inc, for sums of 32 bits. Rows that are all there are stored without a mask: a masked store takes
 * AMD's cores as long as three steps of a tile. */
static inline void add_sums_32(int32_t *dots, uint32_t n, bool first, int32_t start, __m256i s)
{
    const __m256i starts = _mm256_set1_epi32(start);
    if (n >= LANES) {
        const __m256i before = first ? starts : _mm256_loadu_si256((const void *)dots);
        _mm256_storeu_si256((void *)dots, _mm256_add_epi32(before, s));
        return;
    }
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i rows = _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)n), lanes);
    const __m256i before = first ? starts : _mm256_maskload_epi32(dots, rows);
    _mm256_maskstore_epi32(dots, rows, _mm256_add_epi32(before, s));
}

static inline void interleave(uint8_t rows[LANES][TERN_PANEL_COLS_MAX], uint32_t c, uint8_t out[][LANES * VECTORS][4])
{
    __m256i in[4], *const to[4] = {(void *)out[0], (void *)out[1], (void *)out[2], (void *)out[3]};
    for (int i = 0; i < 4; i++)
        in[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128((const void *)(rows[i] + c))),
                                        _mm_load_si128((const void *)(rows[4 + i] + c)), 1);
    const __m256i a01 = _mm256_unpacklo_epi32(in[0], in[1]), a23 = _mm256_unpackhi_epi32(in[0], in[1]);
    const __m256i b01 = _mm256_unpacklo_epi32(in[2], in[3]), b23 = _mm256_unpackhi_epi32(in[2], in[3]);
    _mm256_store_si256(to[0], _mm256_unpacklo_epi64(a01, b01));
    _mm256_store_si256(to[1], _mm256_unpackhi_epi64(a01, b01));
    _mm256_store_si256(to[2], _mm256_unpacklo_epi64(a23, b23));
    _mm256_store_si256(to[3], _mm256_unpackhi_epi64(a23, b23));
}

#endif
