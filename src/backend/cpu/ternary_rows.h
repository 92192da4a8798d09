/* All ternary encodings for vectors of 16 or 32 bytes: included at the end of one file for each level.
 *
 * A block of each encoding is decoded to vectors of raw codes in natural order; one token's products are added up row
 * by row, many tokens take the codes through the level's gemm. The file defines before
 *
 *   enum { WIDTH };                bytes of a vector
 *   #define TERN_LEVEL             avx2, ...
 *   #define TERN_GEMM              the level's gemm
 *   typedef codes;                 a vector of WIDTH raw codes;  void store(uint8_t *to, codes c);
 *   typedef sums;                  32-bit sums of one row;  sums zero(void);  int32_t total(sums s);
 *   sums add_products(sums s, const codes *c, const int8_t *x, int n);    n <= 320 / WIDTH vectors
 *   void decode_SLOT(const uint8_t *block, codes *out);    for i2_s, tq2_0, tq1_0, t160 (a whole block of 64 bytes) */
#include <string.h>

#include "backend/cpu/ternary.h"
#include "backend/cpu/tq1_0.h"
#include "quant/t160.h"

enum { SIDE_BY_SIDE = 4, MAX_CODES = 320 / WIDTH };

typedef void (*decode_fn)(const uint8_t *block, codes *out);

/* How the blocks of an encoding lie. */
typedef struct blocks {
    decode_fn decode;
    uint32_t elements, bytes;
} blocks;

/* Sums of n_rows rows (a constant) over n_blocks blocks. */
static inline __attribute__((always_inline)) void blocks_dot(const blocks *b, const uint8_t *w, size_t row_bytes,
                                                             int n_rows, uint32_t n_blocks, const int8_t *x, sums *out)
{
    const size_t ahead = tern_cpu__prefetch_bytes(row_bytes, (uint32_t)n_rows);
    sums s[SIDE_BY_SIDE];
    TERN_UNROLL for (int r = 0; r < n_rows; r++) s[r] = zero();
    for (; n_blocks; n_blocks--, w += b->bytes, x += b->elements) TERN_UNROLL for (int r = 0; r < n_rows; r++)
        {
            codes c[MAX_CODES];
            const uint8_t *block = w + (size_t)r * row_bytes;
            __builtin_prefetch(block + ahead, 0, 3);
            b->decode(block, c);
            s[r] = add_products(s[r], c, x, (int)(b->elements / WIDTH));
        }
    TERN_UNROLL for (int r = 0; r < n_rows; r++) out[r] = s[r];
}

static inline __attribute__((always_inline)) void gemv(const blocks *b, const tern_cpu__product *p, const int8_t *x,
                                                       int32_t sum, int32_t *dots)
{
    const uint32_t n_blocks = p->cols / b->elements;
    sums s[SIDE_BY_SIDE];
    uint32_t r = 0;
    for (; r + SIDE_BY_SIDE <= p->n_rows; r += SIDE_BY_SIDE) {
        blocks_dot(b, p->w + r * p->row_bytes, p->row_bytes, SIDE_BY_SIDE, n_blocks, x, s);
        for (uint32_t i = 0; i < SIDE_BY_SIDE; i++) dots[r + i] = total(s[i]) - sum;
    }
    for (; r < p->n_rows; r++) {
        blocks_dot(b, p->w + r * p->row_bytes, p->row_bytes, 1, n_blocks, x, s);
        dots[r] = total(s[0]) - sum;
    }
}

/* Raw codes of whole blocks. */
static inline __attribute__((always_inline)) void unpack(const blocks *b, const uint8_t *row, uint32_t first,
                                                         uint32_t n, uint8_t *out)
{
    row += first / b->elements * b->bytes;
    for (uint32_t i = 0; i < n / b->elements; i++, row += b->bytes, out += b->elements) {
        codes c[MAX_CODES];
        b->decode(row, c);
        for (uint32_t v = 0; v < b->elements / WIDTH; v++) store(out + v * WIDTH, c[v]);
    }
}

#define DEFINE(slot, elements, bytes)                                                                                  \
    static const blocks slot = {decode_##slot, elements, bytes};                                                       \
    static void gemv_##slot(const tern_cpu__product *p, const int8_t *x, int32_t sum, int32_t *dots)                   \
    {                                                                                                                  \
        gemv(&slot, p, x, sum, dots);                                                                                  \
    }                                                                                                                  \
    static void unpack_##slot(const uint8_t *row, uint32_t cols, uint32_t first, uint32_t n, uint8_t *out)             \
    {                                                                                                                  \
        (void)cols;                                                                                                    \
        unpack(&slot, row, first, n, out);                                                                             \
    }
DEFINE(i2_s, 128, 32)
DEFINE(tq2_0, 256, 66)
DEFINE(tq1_0, TERN_TQ1_0_ELEMENTS, TERN_TQ1_0_BYTES)
DEFINE(t160, TERN_T160_ELEMENTS, TERN_T160_BYTES)

/* A row of t160 may end in a shorter block, whose codes lie `lanes` apart instead of 64. Its bytes and activations are
 * spread out to a whole block, with activation 0 where there is no element. */

/* How many elements the k-th codes of a block are. */
static uint32_t short_count(uint32_t n, uint32_t lanes, uint32_t k)
{
    const uint32_t begin = k * lanes;
    if (n <= begin) return 0;
    return n - begin < lanes ? n - begin : lanes;
}

static void decode_short(const uint8_t *w, uint32_t lanes, codes *out)
{
    uint8_t bytes[TERN_T160_BYTES] = {0};
    memcpy(bytes, w, lanes);
    decode_t160(bytes, out);
}

static void add_short_t160(const tern_cpu__product *p, uint32_t n, const int8_t *x, int32_t *dots)
{
    const uint32_t lanes = (uint32_t)tern_t160_lanes(n), before = p->cols - n;
    int8_t spread[TERN_T160_ELEMENTS] = {0};
    for (uint32_t k = 0; k < 5; k++)
        memcpy(spread + TERN_T160_BYTES * k, x + before + k * lanes, short_count(n, lanes, k));
    for (uint32_t r = 0; r < p->n_rows; r++) {
        codes c[MAX_CODES];
        decode_short(p->w + r * p->row_bytes + before / TERN_T160_ELEMENTS * TERN_T160_BYTES, lanes, c);
        dots[r] += total(add_products(zero(), c, spread, MAX_CODES));
    }
}

static void gemv_ragged_t160(const tern_cpu__product *p, const int8_t *x, int32_t sum, int32_t *dots)
{
    gemv_t160(p, x, sum, dots);
    if (p->cols % TERN_T160_ELEMENTS) add_short_t160(p, p->cols % TERN_T160_ELEMENTS, x, dots);
}

static void unpack_ragged_t160(const uint8_t *row, uint32_t cols, uint32_t first, uint32_t n, uint8_t *out)
{
    const uint32_t rest = n % TERN_T160_ELEMENTS, lanes = (uint32_t)tern_t160_lanes(rest), whole = n - rest;
    uint8_t raw[TERN_T160_ELEMENTS];
    codes c[MAX_CODES];
    unpack_t160(row, cols, first, whole, out);
    if (rest == 0) return;
    decode_short(row + (first + whole) / TERN_T160_ELEMENTS * TERN_T160_BYTES, lanes, c);
    for (uint32_t v = 0; v < MAX_CODES; v++) store(raw + v * WIDTH, c[v]);
    for (uint32_t k = 0; k < 5; k++)
        memcpy(out + whole + k * lanes, raw + TERN_T160_BYTES * k, short_count(rest, lanes, k));
}

TERN_TERNARY_KERNEL(i2_s, TERN_LEVEL, TERN_GEMM, gemv_i2_s, unpack_i2_s, TERN_PANEL_COLS, 6)
TERN_TERNARY_KERNEL(tq2_0, TERN_LEVEL, TERN_GEMM, gemv_tq2_0, unpack_tq2_0, TERN_PANEL_COLS, 6)
TERN_TERNARY_KERNEL(tq1_0, TERN_LEVEL, TERN_GEMM, gemv_tq1_0, unpack_tq1_0, TERN_PANEL_COLS, 6)
TERN_TERNARY_KERNEL(t160, TERN_LEVEL, TERN_GEMM, gemv_ragged_t160, unpack_ragged_t160, TERN_PANEL_COLS_T160, 6)
