/* Small pieces that the AVX-512 ternary kernels share. */
#ifndef TERN_BACKEND_CPU_VECTORS_AVX512_H
#define TERN_BACKEND_CPU_VECTORS_AVX512_H

#include <immintrin.h>

/* 64 bytes of t160 as the product wants them: the first four codes in fields of two bits, the fifth in the top two
 * bits. */
typedef struct tern_avx512__t160 {
    __m512i four, fifth_64;
} tern_avx512__t160;

/* The sums of the 16 lanes of four vectors. */
static inline __m128i tern_avx512__sum_4(const __m512i v[4])
{
    __m256i half[4];
    for (int i = 0; i < 4; i++)
        half[i] = _mm256_add_epi32(_mm512_castsi512_si256(v[i]), _mm512_extracti64x4_epi64(v[i], 1));
    const __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(half[0], half[1]), _mm256_hadd_epi32(half[2], half[3]));
    return _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

#endif
