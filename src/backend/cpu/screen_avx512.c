/* The screen of the output table on AVX-512 with VNNI: seven planes as they are, the eighth gathered from their top bits. */
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

static inline void add_group(sums *s, const uint8_t *w, const int8_t *high, const int8_t *low)
{
    const __m512i seven = _mm512_set1_epi8(0x7f);
    __m512i last = _mm512_setzero_si512();
    for (int p = 0; p < 7; p++) {
        _mm_prefetch((const char *)w + p * 64 + AHEAD, _MM_HINT_T0);
        const __m512i bytes = _mm512_loadu_si512(w + p * 64);
        add(s, _mm512_and_si512(bytes, seven), high + p * 64, low + p * 64);
        /* bit 7 of each byte to bit p; what a 16-bit shift brings in from the neighbour is masked off */
        const __m512i bit = _mm512_and_si512(_mm512_srlv_epi16(bytes, _mm512_set1_epi16((short)(7 - p))), _mm512_set1_epi8((char)(1 << p)));
        last = _mm512_or_si512(last, bit);
    }
    add(s, last, high + 448, low + 448);
}

void tern_cpu__screen_avx512(const uint8_t *w, uint32_t n_rows, uint32_t groups, const int8_t *high, const int8_t *low,
                             int32_t *dots)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        sums s = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        for (uint32_t g = 0; g < groups; g++, w += TERN_SCREEN_BYTES)
            add_group(&s, w, high + g * TERN_SCREEN_GROUP, low + g * TERN_SCREEN_GROUP);
        dots[r] = _mm512_reduce_add_epi32(s.high);
        dots[n_rows + r] = _mm512_reduce_add_epi32(s.low);
    }
}
