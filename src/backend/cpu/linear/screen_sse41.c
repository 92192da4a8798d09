/* The screen of the output table on SSE4.1. Eight pairs of products are at least -8 * 2 * 7 * 128, which fits 16 bits.
 */
#include <smmintrin.h>

#include "backend/cpu/kernels.h"

/* 16 columns of each vector of a group: their digits, and the sums in 16 bits. */
typedef struct part {
    const int8_t *high, *low; /* low: or NULL */
    uint32_t n;               /* columns of a vector */
    __m128i sums[2];
} part;

static inline __m128i load(const void *p)
{
    return _mm_loadu_si128(p);
}

static inline void add(part *g, uint32_t v, __m128i u)
{
    g->sums[0] = _mm_add_epi16(g->sums[0], _mm_maddubs_epi16(u, load(g->high + v * g->n)));
    if (g->low) g->sums[1] = _mm_add_epi16(g->sums[1], _mm_maddubs_epi16(u, load(g->low + v * g->n)));
}

static inline __m128i down(__m128i bytes, int shift, int mask)
{
    return _mm_and_si128(_mm_srl_epi16(bytes, _mm_cvtsi32_si128(shift)), _mm_set1_epi8((char)mask));
}

static inline void add_3(part *g, const uint8_t *w)
{
    __m128i bytes[3];
    for (uint32_t p = 0; p < 3; p++) {
        bytes[p] = load(w + p * g->n);
        add(g, p, down(bytes[p], 0, 7));
        add(g, 3 + p, down(bytes[p], 3, 7));
    }
    add(g, 6, _mm_or_si128(down(bytes[0], 6, 3), down(bytes[2], 4, 4)));
    add(g, 7, _mm_or_si128(down(bytes[1], 6, 3), down(bytes[2], 5, 4)));
}

static inline void add_2(part *g, const uint8_t *w)
{
    for (uint32_t p = 0; p < 2; p++) {
        const __m128i bytes = load(w + p * g->n);
        for (uint32_t k = 0; k < 4; k++) add(g, 4 * p + k, down(bytes, 2 * (int)k, 3));
    }
}

static inline void add_1(part *g, const uint8_t *w)
{
    const __m128i bytes = load(w);
    for (uint32_t v = 0; v < TERN_SCREEN_VECTORS; v++) add(g, v, down(bytes, (int)v, 1));
}

/* A group with vectors of n columns. */
static inline void add_group(__m128i sums[2], const uint8_t *w, uint32_t n, uint32_t bits, const int8_t *high,
                             const int8_t *low)
{
    for (uint32_t q = 0; q < n; q += 16) {
        part g = {high + q, bits == 3 ? low + q : NULL, n, {_mm_setzero_si128(), _mm_setzero_si128()}};
        if (bits == 3) add_3(&g, w + q);
        else if (bits == 2) add_2(&g, w + q);
        else add_1(&g, w + q);
        for (int d = 0; d < (bits == 3 ? 2 : 1); d++)
            sums[d] = _mm_add_epi32(sums[d], _mm_madd_epi16(g.sums[d], _mm_set1_epi16(1)));
    }
}

static inline int32_t total(__m128i v)
{
    const __m128i two = _mm_hadd_epi32(v, v);
    return _mm_cvtsi128_si32(_mm_hadd_epi32(two, two));
}

static inline void rows(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                        const int8_t *low, int32_t *dots)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        __m128i sums[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
        for (uint32_t i = 0; i < halves; i += 2) {
            const uint32_t n = halves - i < 2 ? 32 : 64, at = i * TERN_SCREEN_HALF;
            add_group(sums, w, n, bits, high + at, bits == 3 ? low + at : NULL);
            w += (size_t)n * bits;
        }
        dots[r] = total(sums[0]);
        if (bits == 3) dots[n_rows + r] = total(sums[1]);
    }
}

void tern_cpu__screen_sse41(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                            const int8_t *low, int32_t *dots)
{
    if (bits == 3) rows(w, n_rows, halves, 3, high, low, dots);
    else if (bits == 2) rows(w, n_rows, halves, 2, high, low, dots);
    else rows(w, n_rows, halves, 1, high, low, dots);
}
