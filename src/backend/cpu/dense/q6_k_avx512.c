/* Q6_K rows on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/dense/bytes_avx512.h"
#include "backend/cpu/floats/floats.h"

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
