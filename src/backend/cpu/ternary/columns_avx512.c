/* Ternary weights by columns on AVX-512 with VNNI: four columns at a time. Their packed bytes are interleaved, so that
 * the four of one row lie in a lane; fields are masked and not shifted, a lane's sum comes out 1, 4, 16 or 64 times too
 * large and is shifted once at the end, exactly. A lane grows by at most 4 * 192 * 128 for four columns: it cannot wrap
 * below 87,000 columns. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/ternary/ternary.h"

enum { AT_ONCE = 4, FIELDS = 4 };

/* Bytes of four columns to [row][column] in 32-bit lanes: vector k has rows 4 k .. 4 k + 3 of each 16. */
static inline __attribute__((always_inline)) void interleave(const __m512i in[AT_ONCE], __m512i out[4])
{
    const __m512i low_01 = _mm512_unpacklo_epi8(in[0], in[1]), high_01 = _mm512_unpackhi_epi8(in[0], in[1]);
    const __m512i low_23 = _mm512_unpacklo_epi8(in[2], in[3]), high_23 = _mm512_unpackhi_epi8(in[2], in[3]);
    out[0] = _mm512_unpacklo_epi16(low_01, low_23);
    out[1] = _mm512_unpackhi_epi16(low_01, low_23);
    out[2] = _mm512_unpacklo_epi16(high_01, high_23);
    out[3] = _mm512_unpackhi_epi16(high_01, high_23);
}

static inline __attribute__((always_inline)) void add_four(const __m512i in[AT_ONCE], __m512i x,
                                                           __m512i sums[FIELDS][4])
{
    __m512i rows[4];
    interleave(in, rows);
    TERN_UNROLL for (int f = 0; f < FIELDS; f++)
    {
        const __m512i mask = _mm512_set1_epi8((char)(3 << 2 * f));
        TERN_UNROLL for (int k = 0; k < 4; k++) sums[f][k] =
            _mm512_dpbusd_epi32(sums[f][k], _mm512_and_si512(rows[k], mask), x);
    }
}

/* Adds the sums of field f, shifted down, to its 64 rows: from the order of `interleave` to that of rows. */
static inline __attribute__((always_inline)) void add_field(const __m512i sums[4], unsigned shift, int32_t *dots)
{
    __m512i s[4], even[2], odd[2];
    TERN_UNROLL for (int k = 0; k < 4; k++) s[k] = _mm512_srai_epi32(sums[k], shift);
    /* s[k] has, in its quarter q, rows 16 q + 4 k ..: quarters are exchanged */
    even[0] = _mm512_shuffle_i32x4(s[0], s[1], 0x44), even[1] = _mm512_shuffle_i32x4(s[0], s[1], 0xee);
    odd[0] = _mm512_shuffle_i32x4(s[2], s[3], 0x44), odd[1] = _mm512_shuffle_i32x4(s[2], s[3], 0xee);
    TERN_UNROLL for (int q = 0; q < 4; q++)
    {
        const __m512i row = q % 2 ? _mm512_shuffle_i32x4(even[q / 2], odd[q / 2], 0xdd)
                                  : _mm512_shuffle_i32x4(even[q / 2], odd[q / 2], 0x88);
        int32_t *to = dots + 16 * q;
        _mm512_store_si512(to, _mm512_add_epi32(_mm512_load_si512(to), row));
    }
}

void tern_cpu__columns_avx512(const uint8_t *panel, size_t col_bytes, const uint32_t *cols, const int8_t *x, uint32_t n,
                              int32_t *dots)
{
    __m512i sums[FIELDS][4], in[AT_ONCE];
    TERN_UNROLL for (int i = 0; i < 16; i++) sums[i / 4][i % 4] = _mm512_setzero_si512();
    uint32_t i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        int32_t four;
        memcpy(&four, x + i, sizeof four);
        TERN_UNROLL for (uint32_t k = 0; k < AT_ONCE; k++) in[k] = _mm512_load_si512(panel + cols[i + k] * col_bytes);
        add_four(in, _mm512_set1_epi32(four), sums);
    }
    if (i < n) {
        int8_t rest[AT_ONCE] = {0};
        int32_t four;
        memcpy(rest, x + i, n - i);
        memcpy(&four, rest, sizeof four);
        for (uint32_t k = 0; k < AT_ONCE; k++)
            in[k] = _mm512_load_si512(panel + cols[i + k < n ? i + k : i] * col_bytes);
        add_four(in, _mm512_set1_epi32(four), sums);
    }
    TERN_UNROLL for (unsigned f = 0; f < FIELDS; f++) add_field(sums[f], 2 * f, dots + TERN_COLUMNS_BYTES * f);
}
