/* Bytes of 16 columns to the dwords of 16 lanes on AVX-512, four groups at once. */
#ifndef TERN_BACKEND_CPU_DENSE_BYTES_AVX512_H
#define TERN_BACKEND_CPU_DENSE_BYTES_AVX512_H

#include <immintrin.h>

/* Byte b of dword j is byte 16 b + j of v. */
static inline __m512i transpose_bytes(__m512i v)
{
    const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, v), bytes);
}

#endif
