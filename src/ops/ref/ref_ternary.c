/* The ternary products, defined element by element: decode one code, multiply, add. */
#include "ops/ref/gemm.h"
#include "ops/ref/ref.h"
#include "quant/t160.h"

/* The code of column c in one row, -1, 0 or +1. */
typedef int32_t (*code_fn)(const uint8_t *row, uint32_t c, uint32_t cols);

/* Groups of 128 in 32 bytes: byte b holds elements b, b + 32, b + 64, b + 96, the first in the top two bits. */
static int32_t code_i2_s(const uint8_t *row, uint32_t c, uint32_t cols)
{
    (void)cols;
    const uint8_t byte = row[c / 128 * 32 + c % 32];
    return (byte >> (6 - c % 128 / 32 * 2) & 3) - 1;
}

/* Blocks of 256 in 64 bytes and an f16 scale: two groups of 128, the first element in the low two bits. */
static int32_t code_tq2_0(const uint8_t *row, uint32_t c, uint32_t cols)
{
    (void)cols;
    const uint8_t byte = row[c / 256 * 66 + c % 256 / 128 * 32 + c % 32];
    return (byte >> (c % 128 / 32 * 2) & 3) - 1;
}

/* The n-th base-3 digit of a byte that stands for the fraction byte / 256, -1, 0 or +1. */
static int32_t fraction_digit(uint8_t byte, uint32_t n)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    const uint8_t shifted = (uint8_t)(byte * power[n]);
    return (shifted * 3 >> 8) - 1;
}

/* Blocks of 256 in 32 bytes of 5 (strided by 32), 16 bytes of 5 (by 16), 4 bytes of 4 (by 4), and an f16 scale. */
static int32_t code_tq1_0(const uint8_t *row, uint32_t c, uint32_t cols)
{
    (void)cols;
    const uint8_t *block = row + c / 256 * 54;
    const uint32_t e = c % 256;
    if (e < 160) return fraction_digit(block[e % 32], e / 32);
    if (e < 240) return fraction_digit(block[32 + e % 16], (e - 160) / 16);
    return fraction_digit(block[48 + e % 4], (e - 240) / 4);
}

/* Blocks of 320 in 64 bytes, the rest of the row in a shorter one; see quant/t160.h. */
static int32_t code_t160(const uint8_t *row, uint32_t c, uint32_t cols)
{
    const uint32_t block = c / TERN_T160_ELEMENTS, e = c % TERN_T160_ELEMENTS, left = cols - block * TERN_T160_ELEMENTS;
    const uint32_t lanes = (uint32_t)tern_t160_lanes(left < TERN_T160_ELEMENTS ? left : TERN_T160_ELEMENTS);
    const uint8_t byte = row[block * TERN_T160_BYTES + e % lanes];
    return (int32_t)(tern_t160_fields(byte) >> (2 * (e / lanes)) & 3) - 1;
}

static void multiply(code_fn code, const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,
                     const tern_q8_rows *x, int32_t *dots, size_t dots_stride)
{
    for (uint32_t t = 0; t < x->n; t++)
        for (uint32_t r = 0; r < n_rows; r++) {
            int32_t dot = 0;
            for (uint32_t c = 0; c < cols; c++) dot += code(w + r * row_bytes, c, cols) * x->x[t * x->stride + c];
            dots[t * dots_stride + r] = dot;
        }
}

#define DEFINE(slot)                                                                                                   \
    void tern_ref_##slot(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const tern_q8_rows *x,    \
                         int32_t *dots, size_t dots_stride)                                                            \
    {                                                                                                                  \
        multiply(code_##slot, w, row_bytes, n_rows, cols, x, dots, dots_stride);                                       \
    }
DEFINE(i2_s)
DEFINE(tq2_0)
DEFINE(tq1_0)
DEFINE(t160)

static void decode(code_fn code, const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,
                   size_t out_stride)
{
    for (size_t r = 0; r < n_rows; r++)
        for (uint32_t c = 0; c < cols; c++) {
            const int32_t value = code(w + r * row_bytes, c, cols);
            out[r * out_stride + c] = value > 1 ? 0 : (float)value;
        }
}

#define DEFINE_DECODE(slot)                                                                                            \
    void tern_ref_decode_##slot(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,        \
                                size_t out_stride)                                                                     \
    {                                                                                                                  \
        decode(code_##slot, w, row_bytes, n_rows, cols, out, out_stride);                                              \
    }
DEFINE_DECODE(i2_s)
DEFINE_DECODE(tq2_0)
DEFINE_DECODE(tq1_0)
DEFINE_DECODE(t160)
