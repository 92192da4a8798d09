/* The screen of the output table on AVX-512 with VNNI: a vector of 64 columns, or 32 behind a mask, at a time. Codes
 * stay where they lie in their bytes; what is multiplied by 2^k so has a sum of its own, which is shifted once a row.
 */
#include <immintrin.h>

#include "backend/cpu/kernels.h"

enum {
    AHEAD = 1024, /* bytes that prefetching runs ahead */
    STREAMS = 8   /* parts of the rows that are read side by side: memory answers several streams sooner than one */
};

/* The digits of a group's columns. */
typedef struct digits {
    const int8_t *high, *low; /* low: or NULL */
    uint32_t n;               /* columns of a vector */
    __mmask64 mask;
} digits;

/* The sums of codes times 2^k, by digits. */
typedef struct sums {
    __m512i high, low;
} sums;

#define INLINE static inline __attribute__((always_inline))

INLINE void add(sums *s, const digits *x, uint32_t v, __m512i u)
{
    const uint32_t at = v * x->n;
    s->high = _mm512_dpbusd_epi32(s->high, u, _mm512_maskz_loadu_epi8(x->mask, x->high + at));
    if (x->low) s->low = _mm512_dpbusd_epi32(s->low, u, _mm512_maskz_loadu_epi8(x->mask, x->low + at));
}

INLINE __m512i load(const digits *x, const uint8_t *w)
{
    _mm_prefetch((const char *)w + AHEAD, _MM_HINT_T0);
    return _mm512_maskz_loadu_epi8(x->mask, w);
}

static inline __m512i only(__m512i bytes, int mask)
{
    return _mm512_and_si512(bytes, _mm512_set1_epi8((char)mask));
}

static inline __m512i down(__m512i bytes, int shift)
{
    return _mm512_srlv_epi16(bytes, _mm512_set1_epi16((short)shift));
}

INLINE void add_3(sums s[8], const digits *x, const uint8_t *w)
{
    __m512i bytes[3];
    for (uint32_t p = 0; p < 3; p++) {
        bytes[p] = load(x, w + p * x->n);
        add(&s[0], x, p, only(bytes[p], 7));
        add(&s[3], x, 3 + p, only(bytes[p], 7 << 3));
    }
    add(&s[0], x, 6, _mm512_or_si512(only(down(bytes[0], 6), 3), only(down(bytes[2], 4), 4)));
    add(&s[0], x, 7, _mm512_or_si512(only(down(bytes[1], 6), 3), only(down(bytes[2], 5), 4)));
}

INLINE void add_2(sums s[8], const digits *x, const uint8_t *w)
{
    for (uint32_t p = 0; p < 2; p++) {
        const __m512i bytes = load(x, w + p * x->n);
        for (uint32_t k = 0; k < 4; k++) add(&s[2 * k], x, 4 * p + k, only(bytes, 3 << 2 * k));
    }
}

INLINE void add_1(sums s[8], const digits *x, const uint8_t *w)
{
    const __m512i bytes = load(x, w);
    for (uint32_t v = 0; v < TERN_SCREEN_VECTORS; v++) add(&s[v], x, v, only(bytes, 1 << v));
}

INLINE void add_group(sums s[8], uint32_t bits, const digits *x, const uint8_t *w)
{
    if (bits == 3) add_3(s, x, w);
    else if (bits == 2) add_2(s, x, w);
    else add_1(s, x, w);
}

/* The sums of the lanes of two vectors. */
static inline void total(__m512i high, __m512i low, int32_t *to_high, int32_t *to_low)
{
    const __m512i both = _mm512_add_epi32(_mm512_unpacklo_epi32(high, low), _mm512_unpackhi_epi32(high, low));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64(both, 1));
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    *to_high = _mm_cvtsi128_si32(two);
    if (to_low) *to_low = _mm_extract_epi32(two, 1);
}

INLINE void row(const uint8_t *w, uint32_t halves, uint32_t bits, const int8_t *high, const int8_t *low,
                int32_t *to_high, int32_t *to_low)
{
    sums s[8];
    for (int k = 0; k < 8; k++) s[k] = (sums){_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (uint32_t i = 0; i < halves / 2; i++, w += 64 * bits) {
        const uint32_t at = i * 2 * TERN_SCREEN_HALF;
        add_group(s, bits, &(digits){high + at, bits == 3 ? low + at : NULL, 64, ~(__mmask64)0}, w);
    }
    if (halves % 2) {
        const uint32_t at = (halves - 1) * TERN_SCREEN_HALF;
        add_group(s, bits, &(digits){high + at, bits == 3 ? low + at : NULL, 32, 0xffffffff}, w);
    }
    for (uint32_t k = bits; k < 8; k += bits) { /* where sums were made: 3; 2, 4, 6; 1 to 7 */
        s[0].high = _mm512_add_epi32(s[0].high, _mm512_srai_epi32(s[k].high, k));
        s[0].low = _mm512_add_epi32(s[0].low, _mm512_srai_epi32(s[k].low, k));
    }
    total(s[0].high, s[0].low, to_high, bits == 3 ? to_low : NULL);
}

/* `bits` is a constant of each copy of this. */
INLINE void rows(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                 const int8_t *low, int32_t *dots)
{
    const size_t row_bytes = (size_t)halves * 32 * bits;
    const uint32_t each = n_rows / STREAMS;
    for (uint32_t i = 0; i < n_rows; i++) {
        const uint32_t r = i < each * STREAMS ? i % STREAMS * each + i / STREAMS : i;
        row(w + r * row_bytes, halves, bits, high, low, dots + r, dots + n_rows + r);
    }
}

void tern_cpu__screen_avx512(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                             const int8_t *low, int32_t *dots)
{
    if (bits == 3) rows(w, n_rows, halves, 3, high, low, dots);
    else if (bits == 2) rows(w, n_rows, halves, 2, high, low, dots);
    else rows(w, n_rows, halves, 1, high, low, dots);
}
