/* Multiplying by looking up: tables of the sums that a few int8 inputs can have, and a strip of rows that indexes them.
 *
 * An input is written with two digits, x = low + 16 high, -8 <= low <= 7, -8 <= high <= 8. Sums of low and of high
 * digits are bytes: a table has one of each for every index. Bytes add up to bytes for 3 groups of columns before they
 * have to be widened. */
#ifndef TERN_OPS_REF_LUT_H
#define TERN_OPS_REF_LUT_H

#include "quant/lut.h"

enum {
    TERN_LUT2_TABLE = 64,     /* of 4 columns: [pair of columns][low, high][16] */
    TERN_LUT3_TABLE = 448,    /* of 42 columns: [triple][low, high][16] */
    TERN_LUT5_TABLE = 256,    /* of 5 columns: [low, high][128] */
    TERN_LUT_BYTE_GROUPS = 3, /* groups of widths 2 and 5 whose sums fit a byte */
    TERN_LUT3_BYTE_TRIPLES = 5,
    TERN_LUT2_SHORT_GROUPS = 63, /* and 16 bits, for any inputs */
    TERN_LUT3_SHORT_GROUPS = 6,
    TERN_LUT5_SHORT_GROUPS = 51
};

/* Tables of n columns: entry i of a table is the sum of the digits with the codes of index i. Entries that no index
 * names (width 2: 9 .. 15; 3: 14, 15; 5: 122 .. 127) are 0.
 *
 *   x       in   [n]; nothing past it is read, columns after it count as zeros
 *   tables  out  one for each group of columns, 64-byte aligned
 *
 * Thread-safe on distinct tables. No allocation. */
typedef void (*tern_lut_tables_fn)(const int8_t *x, uint32_t n, int8_t *tables);

/* Rows of one strip times the inputs of the tables, exact integers.
 *
 *   codes     in   [n_groups][bytes of a group][TERN_LUT_ROWS], quant/lut.h; 64-byte aligned
 *   tables    in   [n_groups] tables, 64-byte aligned
 *   n_groups  at least 1
 *   dots      out  [TERN_LUT_ROWS], 64-byte aligned
 *
 * Thread-safe on distinct dots. No allocation. */
typedef void (*tern_lut_fn)(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots);

void tern_ref_lut2_tables(const int8_t *x, uint32_t n, int8_t *tables);
void tern_ref_lut3_tables(const int8_t *x, uint32_t n, int8_t *tables);
void tern_ref_lut5_tables(const int8_t *x, uint32_t n, int8_t *tables);
void tern_ref_lut2(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots);
void tern_ref_lut3(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots);
void tern_ref_lut5(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots);

#endif
