/* Columns of 16 rows to vectors whose lanes are rows, on AVX-512. */
#ifndef TERN_BACKEND_CPU_TILES_INTERLEAVE_AVX512_H
#define TERN_BACKEND_CPU_TILES_INTERLEAVE_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* Four rows of 16 bytes in each register, one in each lane of 128 bits: in[i] lane l is row 4 l + i. Out: out[j] has
 * dword j of each row. */
static inline void tern_avx512__transpose_dwords(const __m512i in[4], __m512i out[4])
{
    const __m512i a = _mm512_unpacklo_epi32(in[0], in[1]), b = _mm512_unpackhi_epi32(in[0], in[1]);
    const __m512i c = _mm512_unpacklo_epi32(in[2], in[3]), d = _mm512_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm512_unpacklo_epi64(a, c);
    out[1] = _mm512_unpackhi_epi64(a, c);
    out[2] = _mm512_unpacklo_epi64(b, d);
    out[3] = _mm512_unpackhi_epi64(b, d);
}

/* Columns 0 .. 15 of 16 rows, `stride` bytes apart and aligned to 16 bytes: out[j * out_stride + 4 r + k] = column
 * 4 j + k of row r; out and out_stride are multiples of 64. */
static inline void tern_avx512__interleave(const void *rows, size_t stride, void *out, size_t out_stride)
{
    const uint8_t *from = rows;
    __m512i in[4], columns[4];
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *row = from + i * stride;
        in[i] = _mm512_castsi128_si512(_mm_load_si128((const void *)row));
        in[i] = _mm512_inserti32x4(in[i], _mm_load_si128((const void *)(row + 4 * stride)), 1);
        in[i] = _mm512_inserti32x4(in[i], _mm_load_si128((const void *)(row + 8 * stride)), 2);
        in[i] = _mm512_inserti32x4(in[i], _mm_load_si128((const void *)(row + 12 * stride)), 3);
    }
    tern_avx512__transpose_dwords(in, columns);
    for (size_t j = 0; j < 4; j++) _mm512_store_si512((uint8_t *)out + j * out_stride, columns[j]);
}

#endif
