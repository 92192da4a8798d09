/* The screen of the output table on AVX-512 with VNNI: three planes as they are, the fourth gathered from their top
 * bits. */
#include <immintrin.h>

#include "backend/cpu/kernels.h"

enum { AHEAD = 4096 }; /* bytes that prefetching runs ahead */

typedef struct sums {
    __m512i high, low;
} sums;

static inline void add(sums *s, __m512i u, const int8_t *high, const int8_t *low)
{
    s->high = _mm512_dpbusd_epi32(s->high, u, _mm512_loadu_si512(high));
    s->low = _mm512_dpbusd_epi32(s->low, u, _mm512_loadu_si512(low));
}

/* Two bits of each byte at another place; what a 16-bit shift brings in from the neighbour is masked off. */
static inline __m512i top_bits(__m512i bytes, int shift, int mask)
{
    return _mm512_and_si512(_mm512_srlv_epi16(bytes, _mm512_set1_epi16((short)shift)), _mm512_set1_epi8((char)mask));
}

static inline void add_group(sums s[2], const uint8_t *w, const int8_t *high, const int8_t *low)
{
    const __m512i six = _mm512_set1_epi8(0x3f);
    __m512i bytes[3];
    for (int p = 0; p < 3; p++) {
        _mm_prefetch((const char *)w + p * 64 + AHEAD, _MM_HINT_T1);
        bytes[p] = _mm512_loadu_si512(w + p * 64);
        add(&s[p % 2], _mm512_and_si512(bytes[p], six), high + p * 64, low + p * 64);
    }
    const __m512i last = _mm512_or_si512(_mm512_or_si512(top_bits(bytes[0], 6, 0x03), top_bits(bytes[1], 4, 0x0c)),
                                         top_bits(bytes[2], 2, 0x30));
    add(&s[1], last, high + 192, low + 192);
}

void tern_cpu__screen_avx512(const uint8_t *w, uint32_t n_rows, uint32_t groups, const int8_t *high, const int8_t *low,
                             int32_t *dots)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        sums s[2] = {{_mm512_setzero_si512(), _mm512_setzero_si512()},
                     {_mm512_setzero_si512(), _mm512_setzero_si512()}};
        for (uint32_t g = 0; g < groups; g++, w += TERN_SCREEN_BYTES)
            add_group(s, w, high + g * TERN_SCREEN_GROUP, low + g * TERN_SCREEN_GROUP);
        dots[r] = _mm512_reduce_add_epi32(_mm512_add_epi32(s[0].high, s[1].high));
        dots[n_rows + r] = _mm512_reduce_add_epi32(_mm512_add_epi32(s[0].low, s[1].low));
    }
}
