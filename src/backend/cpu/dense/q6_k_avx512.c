/* Q6_K rows on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/floats/floats.h"

/* Byte b of dword j is byte 16 b + j of v. */
INLINE __m512i transpose_bytes(__m512i v)
{
    const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, v), bytes);
}

INLINE void spread_groups(__m512i values, vec out[4])
{
    const __m512i v = transpose_bytes(values), mask = _mm512_set1_epi32(0x003f0000),
                  base = _mm512_set1_epi32(0x43000000);
    const __m512i third[4] = {_mm512_slli_epi32(v, 16), _mm512_slli_epi32(v, 8), v, _mm512_srli_epi32(v, 8)};
    UNROLL
    for (int i = 0; i < 4; i++) /* base | (third & mask) */
        out[i] = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(base, third[i], mask, 0xf8));
}

#include "backend/cpu/dense/q6_k_avx512.inc"
