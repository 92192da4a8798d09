/* The screen of the output table on AVX2. A pair of products is at least -62 * 128 * 2, which fits 16 bits. */
#include <immintrin.h>

#include "backend/cpu/kernels.h"

enum { AHEAD = 4096 }; /* bytes that prefetching runs ahead */

typedef struct sums {
    __m256i high, low;
} sums;

static inline __m256i dot(__m256i sum, __m256i u, const int8_t *x)
{
    const __m256i pairs = _mm256_maddubs_epi16(u, _mm256_loadu_si256((const void *)x));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline void add(sums *s, __m256i u, const int8_t *high, const int8_t *low)
{
    s->high = dot(s->high, u, high);
    s->low = dot(s->low, u, low);
}

/* One half (32 columns of each plane) of a group. */
static inline void add_half(sums *s, const uint8_t *w, const int8_t *high, const int8_t *low)
{
    const __m256i six = _mm256_set1_epi8(0x3f);
    __m256i bytes[3];
    for (int p = 0; p < 3; p++) {
        _mm_prefetch((const char *)w + p * 64 + AHEAD, _MM_HINT_T0);
        bytes[p] = _mm256_loadu_si256((const void *)(w + p * 64));
        add(s, _mm256_and_si256(bytes[p], six), high + p * 64, low + p * 64);
    }
    const __m256i low_two = _mm256_and_si256(_mm256_srli_epi16(bytes[0], 6), _mm256_set1_epi8(0x03));
    const __m256i middle_two = _mm256_and_si256(_mm256_srli_epi16(bytes[1], 4), _mm256_set1_epi8(0x0c));
    const __m256i high_two = _mm256_and_si256(_mm256_srli_epi16(bytes[2], 2), _mm256_set1_epi8(0x30));
    add(s, _mm256_or_si256(_mm256_or_si256(low_two, middle_two), high_two), high + 192, low + 192);
}

static inline int32_t total(__m256i v)
{
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_hadd_epi32(x, x);
    return _mm_cvtsi128_si32(_mm_hadd_epi32(x, x));
}

void tern_cpu__screen_avx2(const uint8_t *w, uint32_t n_rows, uint32_t groups, const int8_t *high, const int8_t *low,
                           int32_t *dots)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        sums s = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (uint32_t g = 0; g < groups; g++, w += TERN_SCREEN_BYTES)
            for (uint32_t half = 0; half < 64; half += 32)
                add_half(&s, w + half, high + g * TERN_SCREEN_GROUP + half, low + g * TERN_SCREEN_GROUP + half);
        dots[r] = total(s.high);
        dots[n_rows + r] = total(s.low);
    }
}
