/* 32 codes of nibbles and of base-3 digits, for levels with vectors of 256 bits or more. */
#ifndef TERN_BACKEND_CPU_BLOCKS_NIBBLES_AVX2_H
#define TERN_BACKEND_CPU_BLOCKS_NIBBLES_AVX2_H

#include <immintrin.h>

#define NIBBLES_32(p)         (codes_32) two_nibbles(p)
#define LOOK_UP_32(p, values) (codes_32) numbers_of_nibbles(p, values)
#define FIRST_DIGITS(v)       (codes_32) thirds_of_bytes((__m256i)(v))

/* 16 bytes, and the same shifted down by four bits. */
static inline __m256i two_nibbles(const void *p)
{
    const __m256i q = _mm256_broadcastsi128_si256(_mm_loadu_si128(p));
    const __m256i shifts = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
    return _mm256_and_si256(_mm256_srlv_epi32(q, shifts), _mm256_set1_epi8(15));
}

/* The bytes of a table of 16 at those nibbles. */
static inline __m256i numbers_of_nibbles(const void *p, const void *values)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(values)), two_nibbles(p));
}

/* 3 v / 256: 1 for bytes above 85, 2 for those above 170. */
static inline __m256i thirds_of_bytes(__m256i v)
{
    const __m256i one = _mm256_set1_epi8(1), above_85 = _mm256_subs_epu8(v, _mm256_set1_epi8(85)),
                  above_170 = _mm256_subs_epu8(v, _mm256_set1_epi8((char)170));
    return _mm256_add_epi8(_mm256_min_epu8(above_85, one), _mm256_min_epu8(above_170, one));
}

#endif
