/* RSR by its definition: columns sorted by comparison, made unique, multiplied. */
#ifndef TERN_BENCH_RSR_SORTED_H
#define TERN_BENCH_RSR_SORTED_H

#include <stdint.h>

#include "base/error.h"

/* Each block's columns are given codes (ternary: the bits of +1 rows, then those of -1
 * rows, row 0 the highest), sorted by comparison, made unique, their inputs added up, and the pattern matrix multiplied
 * with the sums.
 *
 *   codes  in   [rows][cols] -1, 0, +1
 *   x      in   [cols] integers
 *   y      out  [rows]
 *
 * Errors: OUT_OF_MEMORY, LIMIT (k above 16). */
tern_status rsr_sorted(const int8_t *codes, uint32_t rows, uint32_t cols, uint32_t k, const int32_t *x, int64_t *y,
                       tern_error *err);

#endif
