/* T160 on 512-bit registers, for the levels that differ in how a byte is looked up.
 *
 * Included at the end of one file for each level, which defines before
 *
 *   #define TERN_LEVEL;  typedef struct tables;  static inline tables load_tables(void);
 *   static inline tern_avx512__t160 look_up(const tables *t, __m512i bytes);
 *
 * A block is one register: field k of its 64 bytes are 64 elements in a row. As in two_bit_avx512.c, most fields are
 * masked and not shifted; each lane's sum is shifted once, exactly, at the end. It grows by at most 4 * 128 * 128 for
 * each block. */
#include <immintrin.h>

#include "backend/cpu/ternary.h"
#include "backend/cpu/vectors_avx512.h"
#include "quant/t160.h"

/* Block n of a row: which of its bytes exist, and which of the elements of each code. */
typedef struct t160_masks {
    uint32_t lanes;
    __mmask64 bytes, elements[5];
} t160_masks;

static inline __mmask64 first_64(uint32_t n)
{
    return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
}

/* Masks of a block of n elements, 1 to 320. */
static inline t160_masks masks_of(uint32_t n)
{
    t160_masks m = {.lanes = (uint32_t)tern_t160_lanes(n)};
    m.bytes = first_64(m.lanes);
    for (uint32_t k = 0; k < 5; k++) {
        const uint32_t begin = k * m.lanes, left = n > begin ? n - begin : 0;
        m.elements[k] = first_64(left < m.lanes ? left : m.lanes);
    }
    return m;
}

/* Adds a block times five vectors of activations: fields 0 and 2 to the first sum, 1 and 3 to the second, which counts
 * four times, the fifth code to the third, which counts 64 times. (With a sum for each field gcc runs out of
 * registers.) */
static inline __attribute__((always_inline)) void add_block(tern_avx512__t160 c, const __m512i x[5], __m512i sums[3])
{
    const __m512i even = _mm512_set1_epi8(0x03), odd = _mm512_set1_epi8(0x0c), upper = _mm512_srli_epi16(c.four, 4);
    sums[0] = _mm512_dpbusd_epi32(sums[0], _mm512_and_si512(c.four, even), x[0]);
    sums[1] = _mm512_dpbusd_epi32(sums[1], _mm512_and_si512(c.four, odd), x[1]);
    sums[0] = _mm512_dpbusd_epi32(sums[0], _mm512_and_si512(upper, even), x[2]);
    sums[1] = _mm512_dpbusd_epi32(sums[1], _mm512_and_si512(upper, odd), x[3]);
    sums[2] = _mm512_dpbusd_epi32(sums[2], c.fifth_64, x[4]);
}

/* The sum of the three, each shifted down. */
static inline __attribute__((always_inline)) __m512i sum_fields(const __m512i sums[3])
{
    const __m512i odd = _mm512_srai_epi32(sums[1], 2), fifth = _mm512_srai_epi32(sums[2], 6);
    return _mm512_add_epi32(sums[0], _mm512_add_epi32(odd, fifth));
}

/* Sums of the whole blocks of n_rows rows (a constant, 1 to 4). */
static inline __attribute__((always_inline)) void blocks_dot(const uint8_t *w, size_t row_bytes, int n_rows,
                                                             uint32_t n_blocks, const int8_t *x, size_t ahead,
                                                             __m512i out[4])
{
    const tables t = load_tables();
    __m512i sums[4][3], xs[5];
    TERN_UNROLL for (int i = 0; i < 3 * n_rows; i++) sums[i / 3][i % 3] = _mm512_setzero_si512();
    for (; n_blocks; n_blocks--, w += TERN_T160_BYTES, x += TERN_T160_ELEMENTS) {
        TERN_UNROLL for (int k = 0; k < 5; k++) xs[k] = _mm512_loadu_si512(x + 64 * k);
        TERN_UNROLL for (int r = 0; r < n_rows; r++)
        {
            const uint8_t *block = w + (size_t)r * row_bytes;
            _mm_prefetch((const char *)block + ahead, _MM_HINT_T0);
            add_block(look_up(&t, _mm512_loadu_si512(block)), xs, sums[r]);
        }
    }
    TERN_UNROLL for (int r = 0; r < n_rows; r++) out[r] = sum_fields(sums[r]);
}

/* Adds the last n elements, fewer than a block, of n_rows rows. */
static void add_short_block(const uint8_t *w, size_t row_bytes, int n_rows, uint32_t n, const int8_t *x, __m512i out[4])
{
    const tables t = load_tables();
    const t160_masks m = masks_of(n);
    __m512i xs[5];
    for (uint32_t k = 0; k < 5; k++) xs[k] = _mm512_maskz_loadu_epi8(m.elements[k], x + k * m.lanes);
    for (int r = 0; r < n_rows; r++) {
        __m512i sums[3] = {0};
        add_block(look_up(&t, _mm512_maskz_loadu_epi8(m.bytes, w + (size_t)r * row_bytes)), xs, sums);
        out[r] = _mm512_add_epi32(out[r], sum_fields(sums));
    }
}

/* Sums of n_rows rows (a constant, 1 to 4) from `row` on, `apart` from each other, before the activations' own sum is
 * taken away. */
static inline __attribute__((always_inline)) void rows_dot(const tern_cpu__product *p, uint32_t row, uint32_t apart,
                                                           int n_rows, const int8_t *x, size_t ahead, __m512i out[4])
{
    const uint8_t *w = p->w + row * p->row_bytes;
    const size_t row_bytes = apart * p->row_bytes;
    const uint32_t n_blocks = p->cols / TERN_T160_ELEMENTS, rest = p->cols % TERN_T160_ELEMENTS;
    blocks_dot(w, row_bytes, n_rows, n_blocks, x, ahead, out);
    if (rest)
        add_short_block(w + n_blocks * TERN_T160_BYTES, row_bytes, n_rows, rest, x + n_blocks * TERN_T160_ELEMENTS,
                        out);
}

static void gemv(const tern_cpu__product *p, const int8_t *x, int32_t sum, int32_t *dots)
{
    const tern_avx512__rows rows = tern_avx512__rows_of(p);
    __m512i sums[4];
    for (uint32_t i = 0; i < rows.n; i++) {
        const uint32_t r = i * rows.step;
        rows_dot(p, r, rows.apart, 4, x, rows.ahead, sums);
        tern_avx512__store_4(sums, sum, dots + r, rows.apart);
    }
    for (uint32_t r = 4 * rows.n; r < p->n_rows; r++) {
        rows_dot(p, r, 1, 1, x, rows.ahead, sums);
        dots[r] = _mm512_reduce_add_epi32(sums[0]) - sum;
    }
}

/* Raw codes of one block of n elements. */
static inline void block_codes(const tables *t, const uint8_t *block, uint32_t n, uint8_t *out)
{
    const t160_masks m = masks_of(n);
    const tern_avx512__t160 c = look_up(t, _mm512_maskz_loadu_epi8(m.bytes, block));
    const __m512i low = _mm512_set1_epi8(3);
    for (uint32_t k = 0; k < 4; k++) {
        const __m512i field = _mm512_srlv_epi16(c.four, _mm512_set1_epi16((int16_t)(2 * k)));
        _mm512_mask_storeu_epi8(out + k * m.lanes, m.elements[k], _mm512_and_si512(field, low));
    }
    _mm512_mask_storeu_epi8(out + 4 * m.lanes, m.elements[4], _mm512_and_si512(_mm512_srli_epi16(c.fifth_64, 6), low));
}

static void codes(const uint8_t *row, uint32_t cols, uint32_t first, uint32_t n, uint8_t *out)
{
    (void)cols;
    const tables t = load_tables();
    row += first / TERN_T160_ELEMENTS * TERN_T160_BYTES;
    for (uint32_t c = 0; c < n; c += TERN_T160_ELEMENTS, row += TERN_T160_BYTES)
        block_codes(&t, row, n - c < TERN_T160_ELEMENTS ? n - c : TERN_T160_ELEMENTS, out + c);
}

TERN_TERNARY_KERNEL(t160, TERN_LEVEL, tern_cpu__ternary_gemm_avx512, gemv, codes, TERN_PANEL_COLS_T160, 9)
