/* Q6_K rows on AVX-512 with VBMI. */
#include "backend/cpu/floats/avx512.h"

#undef LEVEL
#define LEVEL avx512vbmi

#include "backend/cpu/floats/floats.h"

INLINE void spread_groups(__m512i values, vec out[4])
{
    const __m512i base = _mm512_set1_epi32(0x43000000);
    const __m512i lane = _mm512_slli_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), 16);
    UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512i from = _mm512_add_epi32(lane, _mm512_set1_epi32(i << 20));
        out[i] = _mm512_castsi512_ps(_mm512_mask_permutexvar_epi8(base, 0x4444444444444444u, from, values));
    }
}

#include "backend/cpu/dense/q6_k_avx512.inc"
