/* Ternary matrices as bytes that index tables of partial sums (docs/lut.md): what the look-up kernels of a CPU read.
 *
 * Rows stand in strips of TERN_LUT_ROWS. A strip is one group of columns after the other, a group one byte for each
 * row:
 *
 *   width 2: 4 columns; bits 0-3 are 3 (a + 1) + b + 1 of the codes a, b of the first two, bits 4-7 the same of the
 * other two width 5: 5 columns; n = sum of code[i] 3^i lies in -121 .. 121: bits 0-6 are |n|, bit 7 says that n < 0
 *
 * Rows and columns that the matrix does not have count as zeros. */
#ifndef TERN_QUANT_LUT_H
#define TERN_QUANT_LUT_H

#include <stddef.h>
#include <stdint.h>

enum { TERN_LUT_ROWS = 128, TERN_LUT_MAX_COLS = 5, TERN_LUT_MAX_INDEX = 121 };

/* Columns of a group: what one byte holds. */
static inline uint32_t tern_lut_group_cols(uint32_t width)
{
    return width == 2 ? 4 : 5;
}

static inline uint32_t tern_lut_groups(uint32_t width, uint32_t cols)
{
    return (cols + tern_lut_group_cols(width) - 1) / tern_lut_group_cols(width);
}

/* Bytes of one strip. */
static inline size_t tern_lut_strip_bytes(uint32_t width, uint32_t cols)
{
    return (size_t)tern_lut_groups(width, cols) * TERN_LUT_ROWS;
}

/* Packs one strip.
 *
 *   width   2 or 5
 *   codes   in   [n_rows][cols] of -1, 0, +1; n_rows at most TERN_LUT_ROWS
 *   out     out  tern_lut_strip_bytes, every byte is written
 *
 * Thread-safe on distinct out. */
void tern_lut_pack(uint32_t width, const int8_t *codes, uint32_t n_rows, uint32_t cols, uint8_t *out);
/* The inverse. */
void tern_lut_unpack(uint32_t width, const uint8_t *strip, uint32_t n_rows, uint32_t cols, int8_t *codes);

/* The codes of a byte, tern_lut_group_cols of them. Bytes that are never written give codes of -1 .. 1 too, or -1 .. 4
 * (width 2). */
void tern_lut_byte_codes(uint32_t width, uint8_t byte, int8_t codes[TERN_LUT_MAX_COLS]);

#endif
