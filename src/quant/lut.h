/* Ternary matrices as bytes that index tables of partial sums (docs/internals/lut.md): what the look-up kernels of a
 * CPU read.
 *
 * Rows stand in strips of TERN_LUT_ROWS. A strip is one group of columns after the other. A group of one byte has that
 * of every row, one of several has all bytes of 64 rows, then of the other 64, each byte for all 64 rows:
 *
 *   width 2: 4 columns, 1 byte; bits 0-3 are 3 (a + 1) + b + 1 of the codes a, b of the first two, bits 4-7 the same of
 *            the other two
 *   width 3: 42 columns, 9 bytes; n = sum of code[i] 3^i of three columns lies in -13 .. 13. Bytes 2-8 are |n| of
 *            triples 0 (bits 0-3) to 13 (bits 4-7 of the last); bit 7 - i of bytes 0 and 1 says that n < 0 in triple i
 *            and 7 + i, i < 7; bit 0 of them is 1
 *   width 5: 5 columns, 1 byte; n = sum of code[i] 3^i lies in -121 .. 121: bits 0-6 are |n|, bit 7 says that n < 0
 *
 * Rows and columns that the matrix does not have count as zeros. */
#ifndef TERN_QUANT_LUT_H
#define TERN_QUANT_LUT_H

#include <stddef.h>
#include <stdint.h>

enum {
    TERN_LUT_ROWS = 128,
    TERN_LUT_MAX_WIDTH = 5,
    TERN_LUT_MAX_COLS = 42,
    TERN_LUT_MAX_BYTES = 9,
    TERN_LUT_MAX_INDEX = 121, /* of width 5 */
    TERN_LUT3_ROWS = 64,      /* that bytes of a group stand together for */
    TERN_LUT3_TRIPLES = 14,   /* of a group */
    TERN_LUT3_SIGNS = 2       /* the bytes before the indices */
};

/* Columns of a group. */
static inline uint32_t tern_lut_group_cols(uint32_t width)
{
    return width == 2 ? 4 : width == 3 ? 42 : 5;
}

/* Bytes of a group in one row. */
static inline uint32_t tern_lut_group_bytes(uint32_t width)
{
    return width == 3 ? TERN_LUT_MAX_BYTES : 1;
}

static inline uint32_t tern_lut_groups(uint32_t width, uint32_t cols)
{
    return (cols + tern_lut_group_cols(width) - 1) / tern_lut_group_cols(width);
}

/* Bytes of one strip. */
static inline size_t tern_lut_strip_bytes(uint32_t width, uint32_t cols)
{
    return (size_t)tern_lut_groups(width, cols) * tern_lut_group_bytes(width) * TERN_LUT_ROWS;
}

/* Where the bytes of a row begin in a group; width 3: they are TERN_LUT3_ROWS apart. */
static inline uint32_t tern_lut_row_at(uint32_t width, uint32_t row)
{
    return row / TERN_LUT3_ROWS * TERN_LUT3_ROWS * tern_lut_group_bytes(width) + row % TERN_LUT3_ROWS;
}

/* Packs one strip.
 *
 *   width   2, 3 or 5
 *   codes   in   [n_rows][cols] of -1, 0, +1; n_rows at most TERN_LUT_ROWS
 *   out     out  tern_lut_strip_bytes, every byte is written
 *
 * Thread-safe on distinct out. */
void tern_lut_pack(uint32_t width, const int8_t *codes, uint32_t n_rows, uint32_t cols, uint8_t *out);
/* The inverse. */
void tern_lut_unpack(uint32_t width, const uint8_t *strip, uint32_t n_rows, uint32_t cols, int8_t *codes);

/* The codes of an index: `width` of them, of width 2 from bits 0-3 alone, of width 3 without a sign. Indices that are
 * never written give codes of -1 .. 1 too, or -1 .. 4 (width 2). */
void tern_lut_index_codes(uint32_t width, uint8_t index, int8_t codes[TERN_LUT_MAX_WIDTH]);

#endif
