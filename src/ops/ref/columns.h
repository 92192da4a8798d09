/* Ternary weights by columns: what a product reads when most of its inputs are 0
 * (docs/decisions/0038-sparse-ffn.md).
 *
 * A panel is TERN_COLUMNS_ROWS rows of a weight, column after column. Byte j of a column has the raw codes (0, 1, 2 for
 * -1, 0, +1) of rows j, 64 + j, 128 + j and 192 + j, the first in its lowest two bits. */
#ifndef TERN_OPS_REF_COLUMNS_H
#define TERN_OPS_REF_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

enum { TERN_COLUMNS_BYTES = 64, TERN_COLUMNS_ROWS = 4 * TERN_COLUMNS_BYTES };

/* dots[r] += sum_i raw(panel, cols[i], r) * x[i], r < TERN_COLUMNS_ROWS: exact integers.
 *
 *   panel      in      column c of it begins at panel + c * col_bytes; 64-byte aligned, as is col_bytes
 *   cols, x    in      [n] columns and any int8; n >= 1. Which column comes twice counts twice
 *   dots       in/out  [TERN_COLUMNS_ROWS], 64-byte aligned
 *
 * No int16 accumulator may wrap or saturate for any input. Thread-safe on distinct dots. No allocation. */
typedef void (*tern_columns_fn)(const uint8_t *panel, size_t col_bytes, const uint32_t *cols, const int8_t *x,
                                uint32_t n, int32_t *dots);

void tern_ref_columns(const uint8_t *panel, size_t col_bytes, const uint32_t *cols, const int8_t *x, uint32_t n,
                      int32_t *dots);

#endif
