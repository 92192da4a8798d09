/* TQ1_0 on AVX-512 with VNNI: bytes are copied to where their digits belong, multiplied by powers of 3, and cut. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/ternary/ternary.h"
#include "backend/cpu/ternary/tq1_0.h"
#include "backend/cpu/ternary/vectors_avx512.h"

typedef struct tables {
    __m512i power[4];
} tables;

static inline tables load_tables(void)
{
    tables t;
    for (int i = 0; i < 4; i++) t.power[i] = _mm512_load_si512(tern_cpu__tq1_0_powers + 32 * i);
    return t;
}

/* Each byte times its power of 3, modulo 256, as even and odd bytes in words. */
static inline __m512i multiply_bytes(__m512i bytes, __m512i power)
{
    const __m512i odd = _mm512_set1_epi16((int16_t)0xff00);
    const __m512i evens = _mm512_mullo_epi16(bytes, power);
    const __m512i odds = _mm512_mullo_epi16(_mm512_and_si512(bytes, odd), power);
    return _mm512_ternarylogic_epi32(odd, odds, evens, 0xca);
}

/* The next digit of each byte times 64: the top two bits of floor(3 * byte / 4) = byte - ceil(byte / 4). */
static inline __m512i digit_64(__m512i bytes)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m512i quarter = _mm512_avg_epu8(_mm512_avg_epu8(bytes, zero), zero);
    return _mm512_and_si512(_mm512_sub_epi8(bytes, quarter), _mm512_set1_epi8((char)0xc0));
}

/* The codes of a block times 64, in natural order. */
static inline __attribute__((always_inline)) void block_codes_64(const tables *t, const uint8_t *block,
                                                                 __m512i codes[4])
{
    int32_t last;
    memcpy(&last, block + TERN_TQ1_0_FOURS, sizeof last);
    const __m512i fives_32 = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)block));
    const __m512i fives_16 = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(block + TERN_TQ1_0_FIVES_16)));
    const __m512i bytes[4] = {
        fives_32,
        fives_32,
        _mm512_mask_mov_epi64(fives_32, 0xf0, fives_16),
        _mm512_mask_set1_epi32(fives_16, 0xf000, last),
    };
    TERN_UNROLL for (int i = 0; i < 4; i++) codes[i] = digit_64(multiply_bytes(bytes[i], t->power[i]));
}

/* Sums of n_rows rows (a constant, 1 to 4), 64 times too large, before the activations' own sum is taken away. A lane
 * grows by at most 4 * 4 * 128 * 128 for each block, so it cannot wrap below two million columns. */
static inline __attribute__((always_inline)) void rows_dot(const uint8_t *w, size_t row_bytes, int n_rows,
                                                           uint32_t n_blocks, const int8_t *x, __m512i sums[4])
{
    const tables t = load_tables();
    const size_t ahead = tern_cpu__prefetch_bytes(row_bytes, (uint32_t)n_rows);
    TERN_UNROLL for (int r = 0; r < n_rows; r++) sums[r] = _mm512_setzero_si512();
    for (; n_blocks; n_blocks--, w += TERN_TQ1_0_BYTES, x += TERN_TQ1_0_ELEMENTS)
        TERN_UNROLL for (int r = 0; r < n_rows; r++)
        {
            __m512i codes[4];
            const uint8_t *block = w + (size_t)r * row_bytes;
            _mm_prefetch((const char *)block + ahead, _MM_HINT_T1);
            block_codes_64(&t, block, codes);
            TERN_UNROLL for (int i = 0; i < 4; i++) sums[r] =
                _mm512_dpbusd_epi32(sums[r], codes[i], _mm512_loadu_si512(x + 64 * i));
        }
    TERN_UNROLL for (int r = 0; r < n_rows; r++) sums[r] = _mm512_srai_epi32(sums[r], 6);
}

static void gemv(const tern_cpu__product *p, const int8_t *x, int32_t sum, int32_t *dots)
{
    const uint32_t n_blocks = p->cols / TERN_TQ1_0_ELEMENTS;
    uint32_t r = 0;
    __m512i sums[4];
    for (; r + 4 <= p->n_rows; r += 4) {
        rows_dot(p->w + r * p->row_bytes, p->row_bytes, 4, n_blocks, x, sums);
        _mm_storeu_si128((void *)(dots + r), _mm_sub_epi32(tern_avx512__sum_4(sums), _mm_set1_epi32(sum)));
    }
    for (; r < p->n_rows; r++) {
        rows_dot(p->w + r * p->row_bytes, p->row_bytes, 1, n_blocks, x, sums);
        dots[r] = _mm512_reduce_add_epi32(sums[0]) - sum;
    }
}

void tern_avx512__codes_tq1_0(const uint8_t *row, uint32_t cols, uint32_t first, uint32_t n, uint8_t *out)
{
    (void)cols;
    const tables t = load_tables();
    row += first / TERN_TQ1_0_ELEMENTS * TERN_TQ1_0_BYTES;
    for (uint32_t c = 0; c < n; c += TERN_TQ1_0_ELEMENTS, row += TERN_TQ1_0_BYTES) {
        __m512i block[4];
        block_codes_64(&t, row, block);
        for (int i = 0; i < 4; i++) _mm512_storeu_si512(out + c + 64 * i, _mm512_srli_epi16(block[i], 6));
    }
}

TERN_TERNARY_KERNEL(tq1_0, avx512, tern_cpu__ternary_gemm_avx512, gemv, tern_avx512__codes_tq1_0, TERN_PANEL_COLS, 6)
