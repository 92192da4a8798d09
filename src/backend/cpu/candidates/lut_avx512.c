/* Look-ups of two columns on AVX-512: tables of 16 bytes in each quarter of a register. */
#include <immintrin.h>

#include "ops/ref/lut.h"

typedef struct tables {
    __m512i low[2], high[2]; /* of each pair of columns */
} tables;

static inline __m512i quarter(const int8_t *p)
{
    return _mm512_broadcast_i32x4(_mm_load_si128((const void *)p));
}

static inline tables load_tables(const int8_t *p)
{
    return (tables){.low = {quarter(p), quarter(p + 32)}, .high = {quarter(p + 16), quarter(p + 48)}};
}

static inline void look_up(const tables *t, __m512i codes, __m512i bytes[2])
{
    const __m512i four = _mm512_set1_epi8(15);
    const __m512i first = _mm512_and_si512(codes, four), second = _mm512_and_si512(_mm512_srli_epi16(codes, 4), four);
    bytes[0] = _mm512_add_epi8(bytes[0], _mm512_shuffle_epi8(t->low[0], first));
    bytes[1] = _mm512_add_epi8(bytes[1], _mm512_shuffle_epi8(t->high[0], first));
    bytes[0] = _mm512_add_epi8(bytes[0], _mm512_shuffle_epi8(t->low[1], second));
    bytes[1] = _mm512_add_epi8(bytes[1], _mm512_shuffle_epi8(t->high[1], second));
}

#define TERN_LUT_NAME         tern_cpu__lut2_avx512
#define TERN_LUT_TABLE        TERN_LUT2_TABLE
#define TERN_LUT_SHORT_GROUPS TERN_LUT2_SHORT_GROUPS
#include "backend/cpu/candidates/lut_512.inc"
