/* The screen of the output table on AVX2. Eight pairs of products are at least -8 * 2 * 7 * 128, which fits 16 bits. */
#include <immintrin.h>

#include "backend/cpu/kernels.h"

enum {
    AHEAD = 1024, /* bytes that prefetching runs ahead */
    STREAMS = 8   /* parts of the rows that are read side by side: memory answers several streams sooner than one */
};

/* 32 columns of each vector of a group: their digits, and the sums in 16 bits. */
typedef struct part {
    const int8_t *high, *low; /* low: or NULL */
    uint32_t n;               /* columns of a vector */
    __m256i sums[2];
} part;

static inline __m256i dot(__m256i sum, __m256i u, const int8_t *x)
{
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(u, _mm256_loadu_si256((const void *)x)));
}

static inline void add(part *g, uint32_t v, __m256i u)
{
    g->sums[0] = dot(g->sums[0], u, g->high + v * g->n);
    if (g->low) g->sums[1] = dot(g->sums[1], u, g->low + v * g->n);
}

static inline __m256i load(const uint8_t *w)
{
    _mm_prefetch((const char *)w + AHEAD, _MM_HINT_T0);
    return _mm256_loadu_si256((const void *)w);
}

static inline __m256i down(__m256i bytes, int shift, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift)), _mm256_set1_epi8((char)mask));
}

static inline void add_3(part *g, const uint8_t *w)
{
    __m256i bytes[3];
    for (uint32_t p = 0; p < 3; p++) {
        bytes[p] = load(w + p * g->n);
        add(g, p, down(bytes[p], 0, 7));
        add(g, 3 + p, down(bytes[p], 3, 7));
    }
    add(g, 6, _mm256_or_si256(down(bytes[0], 6, 3), down(bytes[2], 4, 4)));
    add(g, 7, _mm256_or_si256(down(bytes[1], 6, 3), down(bytes[2], 5, 4)));
}

static inline void add_2(part *g, const uint8_t *w)
{
    for (uint32_t p = 0; p < 2; p++) {
        const __m256i bytes = load(w + p * g->n);
        for (uint32_t k = 0; k < 4; k++) add(g, 4 * p + k, down(bytes, 2 * (int)k, 3));
    }
}

static inline void add_1(part *g, const uint8_t *w)
{
    const __m256i bytes = load(w);
    for (uint32_t v = 0; v < TERN_SCREEN_VECTORS; v++) add(g, v, down(bytes, (int)v, 1));
}

static inline __m256i widen(__m256i sum, __m256i sixteen)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(sixteen, _mm256_set1_epi16(1)));
}

/* A group with vectors of n columns. */
static inline void add_group(__m256i sums[2], const uint8_t *w, uint32_t n, uint32_t bits, const int8_t *high,
                             const int8_t *low)
{
    for (uint32_t q = 0; q < n; q += 32) {
        part g = {high + q, bits == 3 ? low + q : NULL, n, {_mm256_setzero_si256(), _mm256_setzero_si256()}};
        if (bits == 3) add_3(&g, w + q);
        else if (bits == 2) add_2(&g, w + q);
        else add_1(&g, w + q);
        for (int d = 0; d < (bits == 3 ? 2 : 1); d++) sums[d] = widen(sums[d], g.sums[d]);
    }
}

static inline int32_t total(__m256i v)
{
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_hadd_epi32(x, x);
    return _mm_cvtsi128_si32(_mm_hadd_epi32(x, x));
}

static inline void row(const uint8_t *w, uint32_t halves, uint32_t bits, const int8_t *high, const int8_t *low,
                       int32_t *to_high, int32_t *to_low)
{
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (uint32_t i = 0; i < halves; i += 2) {
        const uint32_t n = halves - i < 2 ? 32 : 64, at = i * TERN_SCREEN_HALF;
        add_group(sums, w, n, bits, high + at, bits == 3 ? low + at : NULL);
        w += (size_t)n * bits;
    }
    *to_high = total(sums[0]);
    if (bits == 3) *to_low = total(sums[1]);
}

static inline void rows(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                        const int8_t *low, int32_t *dots)
{
    const size_t row_bytes = (size_t)halves * 32 * bits;
    const uint32_t each = n_rows / STREAMS;
    for (uint32_t i = 0; i < n_rows; i++) {
        const uint32_t r = i < each * STREAMS ? i % STREAMS * each + i / STREAMS : i;
        row(w + r * row_bytes, halves, bits, high, low, dots + r, dots + n_rows + r);
    }
}

void tern_cpu__screen_avx2(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                           const int8_t *low, int32_t *dots)
{
    if (bits == 3) rows(w, n_rows, halves, 3, high, low, dots);
    else if (bits == 2) rows(w, n_rows, halves, 2, high, low, dots);
    else rows(w, n_rows, halves, 1, high, low, dots);
}
