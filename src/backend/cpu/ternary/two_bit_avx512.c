/* The encodings with four codes in a byte (i2_s, tq2_0) on AVX-512 with VNNI.
 *
 * A group is 32 bytes, 128 codes: bits of one significance of all its bytes are 32 elements in a row. The group is
 * copied to both halves of a register and masked, one field in each half, so that it meets 64 activations in natural
 * order. Fields are not shifted down: a lane's sum comes out 1, 4, 16 or 64 times too large and is shifted once at the
 * end, exactly. A lane grows by at most 4 * 192 * 128 for each group: it cannot wrap below 2.7 million columns. */
#include <immintrin.h>

#include "backend/cpu/ternary/few_avx512.h"
#include "backend/cpu/ternary/ternary.h"
#include "backend/cpu/ternary/vectors_avx512.h"

/* Where groups lie, two and two, and the fields (masks and shifts of the lower and upper half) of elements 0-63 and
 * 64-127. */
typedef struct two_bit {
    uint32_t pair_bytes;
    uint8_t shift[4];
} two_bit;

static const two_bit i2_s = {64, {6, 4, 2, 0}}, tq2_0 = {66, {0, 2, 4, 6}};

typedef struct fields {
    __m512i mask[2], shift[2];
} fields;

static inline __m512i halves(int low, int high)
{
    return _mm512_inserti64x4(_mm512_set1_epi32(low), _mm256_set1_epi32(high), 1);
}

static inline fields fields_of(const two_bit *e)
{
    fields f;
    for (int i = 0; i < 2; i++) {
        f.mask[i] = halves((int)(0x03030303u << e->shift[2 * i]), (int)(0x03030303u << e->shift[2 * i + 1]));
        f.shift[i] = halves(e->shift[2 * i], e->shift[2 * i + 1]);
    }
    return f;
}

/* Adds one group times 128 activations to two sums. */
static inline __attribute__((always_inline)) void add_group(const uint8_t *group, const fields *f, __m512i x0,
                                                            __m512i x1, __m512i sum[2])
{
    const __m512i bytes = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)group));
    sum[0] = _mm512_dpbusd_epi32(sum[0], _mm512_and_si512(bytes, f->mask[0]), x0);
    sum[1] = _mm512_dpbusd_epi32(sum[1], _mm512_and_si512(bytes, f->mask[1]), x1);
}

static inline __attribute__((always_inline)) void add_groups(const uint8_t *w, size_t row_bytes, int n_rows,
                                                             const fields *f, const int8_t *x, __m512i sums[][2])
{
    const __m512i x0 = _mm512_loadu_si512(x), x1 = _mm512_loadu_si512(x + 64);
    TERN_UNROLL for (int r = 0; r < n_rows; r++) add_group(w + (size_t)r * row_bytes, f, x0, x1, sums[r]);
}

/* Sums of n_rows rows (a constant, 1 to 4) before the activations' own sum is taken away. */
static inline __attribute__((always_inline)) void rows_dot(const two_bit *e, const uint8_t *w, size_t row_bytes,
                                                           int n_rows, uint32_t cols, const int8_t *x, size_t ahead,
                                                           __m512i out[4])
{
    const fields f = fields_of(e);
    __m512i sums[4][2];
    TERN_UNROLL for (int i = 0; i < 8; i++) sums[i / 2][i % 2] = _mm512_setzero_si512();
    const uint32_t n_pairs = cols / 256;
    for (uint32_t i = 0; i < n_pairs; i++, w += e->pair_bytes, x += 256) {
        TERN_UNROLL for (int r = 0; r < n_rows; r++)
            _mm_prefetch((const char *)w + (size_t)r * row_bytes + ahead, _MM_HINT_T0);
        add_groups(w, row_bytes, n_rows, &f, x, sums);
        add_groups(w + 32, row_bytes, n_rows, &f, x + 128, sums);
    }
    if (cols % 256) add_groups(w, row_bytes, n_rows, &f, x, sums);
    TERN_UNROLL for (int r = 0; r < n_rows; r++) out[r] =
        _mm512_add_epi32(_mm512_srav_epi32(sums[r][0], f.shift[0]), _mm512_srav_epi32(sums[r][1], f.shift[1]));
}

static inline __attribute__((always_inline)) void gemv(const two_bit *e, const tern_cpu__product *p, const int8_t *x,
                                                       int32_t sum, int32_t *dots)
{
    const tern_avx512__rows rows = tern_avx512__rows_of(p);
    __m512i sums[4];
    for (uint32_t i = 0; i < rows.n; i++) {
        const uint32_t r = i * rows.step;
        rows_dot(e, p->w + r * p->row_bytes, rows.apart * p->row_bytes, 4, p->cols, x, rows.ahead, sums);
        tern_avx512__store_4(sums, sum, dots + r, rows.apart);
    }
    for (uint32_t r = 4 * rows.n; r < p->n_rows; r++) {
        rows_dot(e, p->w + r * p->row_bytes, p->row_bytes, 1, p->cols, x, rows.ahead, sums);
        dots[r] = _mm512_reduce_add_epi32(sums[0]) - sum;
    }
}

/* Raw codes of n columns from `first` (a multiple of 256), group by group. */
static inline __attribute__((always_inline)) void codes(const two_bit *e, const uint8_t *row, uint32_t first,
                                                        uint32_t n, uint8_t *out)
{
    const __m512i shift[2] = {halves(e->shift[0], e->shift[1]), halves(e->shift[2], e->shift[3])};
    const __m512i low = _mm512_set1_epi8(3);
    for (uint32_t c = 0; c < n; c += 128) {
        const uint8_t *group = row + (first + c) / 256 * e->pair_bytes + c % 256 / 4;
        const __m512i bytes = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)group));
        for (int i = 0; i < 2; i++)
            _mm512_storeu_si512(out + c + 64 * i, _mm512_and_si512(_mm512_srlv_epi32(bytes, shift[i]), low));
    }
}

#define DEFINE(slot)                                                                                                   \
    static void gemv_##slot(const tern_cpu__product *p, const int8_t *x, int32_t sum, int32_t *dots)                   \
    {                                                                                                                  \
        gemv(&slot, p, x, sum, dots);                                                                                  \
    }                                                                                                                  \
    void tern_avx512__codes_##slot(const uint8_t *row, uint32_t cols, uint32_t first, uint32_t n, uint8_t *out)        \
    {                                                                                                                  \
        (void)cols;                                                                                                    \
        codes(&slot, row, first, n, out);                                                                              \
    }                                                                                                                  \
    void tern_cpu__##slot##_avx512(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,                 \
                                   const tern_q8_rows *x, int32_t *dots, size_t dots_stride)                           \
    {                                                                                                                  \
        const tern_cpu__product p = {w, row_bytes, n_rows, cols, x, dots, dots_stride};                                \
        if (x->n < TERN_AVX512_FEW_MIN) tern_cpu__gemv_tokens(gemv_##slot, &p);                                        \
        else if (x->n <= TERN_AVX512_FEW_MAX) tern_avx512__few(&p, slot.pair_bytes, slot.shift);                       \
        else tern_cpu__ternary_gemm_avx512(&p, tern_avx512__codes_##slot, TERN_PANEL_COLS);                            \
    }
DEFINE(i2_s)
DEFINE(tq2_0)
