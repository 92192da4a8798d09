/* RSR slices on AVX2: two gathers for the 16 groups of a step; masks are spread to lanes, rows are kept in memory. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/kernels.h"

enum { AHEAD = 2048 }; /* bytes of the index array */

#define INLINE static inline __attribute__((always_inline))

typedef struct halves_i32 {
    __m256i low, high;
} halves_i32;

/* The lowest byte of each gathered dword is the input. */
INLINE __m256i gather_i8(const uint16_t *index, const int8_t *x)
{
    const __m256i at = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)index));
    return _mm256_srai_epi32(_mm256_slli_epi32(_mm256_i32gather_epi32((const int *)(const void *)x, at, 1), 24), 24);
}

/* All ones in the lanes of bits first .. first + 7. */
INLINE __m256i spread(uint16_t mask, int first)
{
    const __m256i bits = _mm256_slli_epi32(_mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128), first);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask), bits), bits);
}

INLINE __m256i signed_i32(__m256i row, uint16_t pos, uint16_t neg, int first, __m256i sums)
{
    row = _mm256_add_epi32(row, _mm256_and_si256(spread(pos, first), sums));
    return _mm256_sub_epi32(row, _mm256_and_si256(spread(neg, first), sums));
}

INLINE int32_t total(halves_i32 v)
{
    const __m256i a = _mm256_add_epi32(v.low, v.high);
    __m128i b = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    b = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(b, _mm_shuffle_epi32(b, 0xb1)));
}

void tern_cpu__rsr_i8_avx2(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    const uint32_t k = u->k;
    const uint16_t *masks = u->masks, *index = u->index;
    halves_i32 rows[16];
    memset(rows, 0, sizeof rows);
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * k) {
        halves_i32 sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (uint32_t s = u->lengths[slice]; s; s--, index += 16) {
            __builtin_prefetch((const char *)index + AHEAD);
            sums.low = _mm256_add_epi32(sums.low, gather_i8(index, x));
            sums.high = _mm256_add_epi32(sums.high, gather_i8(index + 8, x));
        }
        for (uint32_t r = 0; r < k; r++) {
            rows[r].low = signed_i32(rows[r].low, masks[r], masks[k + r], 0, sums.low);
            rows[r].high = signed_i32(rows[r].high, masks[r], masks[k + r], 8, sums.high);
        }
    }
    for (uint32_t r = 0; r < k; r++) y[r] += total(rows[r]);
}

enum { RUN = 255 }; /* steps whose sums of int8 fit 16 bits */

/* The sums of 4 tokens over `steps` steps of 8 of the groups, token 0 in the lowest byte of a gathered dword. */
INLINE void sums_i8x4(const uint16_t *index, uint32_t steps, const int8_t *x, __m256i sums[4])
{
    for (uint32_t left = steps; left;) {
        const uint32_t n = left < RUN ? left : RUN;
        __m256i even = _mm256_setzero_si256(), odd = even;
        for (uint32_t s = 0; s < n; s++, index += 16) {
            const __m256i at = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)index));
            const __m256i v = _mm256_i32gather_epi32((const int *)(const void *)x, at, 4);
            even = _mm256_add_epi16(even, _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8));
            odd = _mm256_add_epi16(odd, _mm256_srai_epi16(v, 8));
        }
        sums[0] = _mm256_add_epi32(sums[0], _mm256_srai_epi32(_mm256_slli_epi32(even, 16), 16));
        sums[1] = _mm256_add_epi32(sums[1], _mm256_srai_epi32(_mm256_slli_epi32(odd, 16), 16));
        sums[2] = _mm256_add_epi32(sums[2], _mm256_srai_epi32(even, 16));
        sums[3] = _mm256_add_epi32(sums[3], _mm256_srai_epi32(odd, 16));
        left -= n;
    }
}

/* Adds 8 groups' sums of 4 tokens to the rows. */
INLINE void add_sums_i8x4(const uint16_t *masks, uint32_t k, int first, const __m256i sums[4], __m256i rows[16][4])
{
    for (uint32_t r = 0; r < k; r++) {
        const __m256i pos = spread(masks[r], first), neg = spread(masks[k + r], first);
        for (int t = 0; t < 4; t++) {
            const __m256i sum = _mm256_add_epi32(rows[r][t], _mm256_and_si256(pos, sums[t]));
            rows[r][t] = _mm256_sub_epi32(sum, _mm256_and_si256(neg, sums[t]));
        }
    }
}

void tern_cpu__rsr_i8x4_avx2(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    const uint16_t *masks = u->masks, *index = u->index;
    __m256i rows[16][4];
    memset(rows, 0, sizeof rows);
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * u->k) {
        for (int first = 0; first < 16; first += 8) {
            __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                               _mm256_setzero_si256()};
            sums_i8x4(index + first, u->lengths[slice], x, sums);
            add_sums_i8x4(masks, u->k, first, sums, rows);
        }
        index += (size_t)u->lengths[slice] * 16;
    }
    for (uint32_t r = 0; r < u->k; r++)
        for (uint32_t t = 0; t < 4; t++)
            y[t * TERN_RSR_Y + r] += total((halves_i32){rows[r][t], _mm256_setzero_si256()});
}
