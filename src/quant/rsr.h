/* Redundant Segment Reduction: a binary or ternary matrix sorted by column patterns, once, so that its product with a
 * vector adds up every input once for each block of k rows.
 *
 * The matrix [rows][cols] is cut into blocks of k rows (the last one filled up with rows of zeros). Every column of a
 * block is a pattern of k digits, and columns with the same pattern form a group. Their inputs are added up once, and
 * the sum goes to the rows that the pattern names. The group of the pattern 0 is dropped. Columns beyond 65,535 are cut
 * into panels, each with groups of its own, so that column numbers fit 16 bits. A unit is one block of one panel; units
 * lie block after block, panel after panel in each.
 *
 * Source: RSR (arXiv:2411.06360); the layout of slices is ours (SELL-C-sigma, arXiv:1307.6209, with groups as the
 * rows). */
#ifndef TERN_QUANT_RSR_H
#define TERN_QUANT_RSR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_pool tern_pool; /* base/pool.h */

enum {
    TERN_RSR_MAX_K = 16,          /* a pattern's rows fit a 16-bit mask */
    TERN_RSR_MAX_COUNTING_K = 12, /* beyond, patterns are sorted and not counted */
    TERN_RSR_MAX_PANEL = 65535,
    TERN_RSR_LANES = 16
};

typedef enum tern_rsr_kind {
    TERN_RSR_TERNARY, /* -1, 0, +1 */
    TERN_RSR_BINARY,  /* 0, 1 */
    TERN_RSR_SIGNS    /* -1, +1: kept as the binary matrix B of (w + 1) / 2, y = 2 (B x) - sum x */
} tern_rsr_kind;

typedef enum tern_rsr_sort {
    TERN_RSR_SORT_AUTO,     /* counting where there are at most 4 patterns for each column of a panel, else radix */
    TERN_RSR_SORT_COUNTING, /* one bucket for each of 3^k (binary: 2^k) patterns; k <= 12 */
    TERN_RSR_SORT_RADIX     /* 8 bits of the pattern's number at a time; any k */
} tern_rsr_sort;

/* Where the matrix comes from: rows first .. first + n - 1 as codes [n][cols]. Called from several threads at once. */
typedef struct tern_rsr_source {
    tern_status (*read)(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err);
    void *context;
    uint32_t rows, cols;
} tern_rsr_source;

/* Zero-initialised except for k: ternary, on the calling thread. */
typedef struct tern_rsr_options {
    tern_rsr_kind kind;
    uint32_t k; /* 1 to 16 */
    tern_rsr_sort sort;
    uint32_t panel_cols; /* 0: 65,535 */
    tern_pool *pool;     /* blocks are shared out over it; the result is the same with any number of threads */
} tern_rsr_options;

/* Columns up to `end` (in the sorted columns of a unit, from the end of the group before) have this pattern. Bit i of
 * pos is set where row i of the block has +1, of neg where it has -1. */
typedef struct tern_rsr_group {
    uint16_t end, pos, neg;
} tern_rsr_group;

/* The matrix as slices of 16 groups side by side, sorted by length. A kernel adds up the 16 groups of a slice with one
 * gather for each step, and their sums come out as one vector. */
typedef struct tern_rsr_slices {
    tern_rsr_kind kind;
    uint32_t k, rows, cols, panel_cols, n_blocks, n_panels;
    const uint32_t *first_slice, *first_vector; /* [n_units + 1] */
    const uint16_t *lengths;                    /* [n_slices]: vectors of a slice */
    const uint16_t *masks; /* [n_slices][2][k]: of each row the lanes with +1, then of each row the lanes with -1 */
    const uint16_t *index; /* [n_vectors][16]: a column of the panel, or the panel's number of columns: no column */
    const uint8_t *bytes;  /* the whole as files hold it (docs/reference/formats/rsr.md), 64-byte aligned when owned */
    size_t n_bytes;
    bool owned;
} tern_rsr_slices;

/* Errors: LIMIT (k, columns of a panel, more than 2^32 - 1 units or entries); INVALID_ARGUMENT (no rows or columns, a
 * code that the kind does not have: row, column, value); OUT_OF_MEMORY, and those of the source. */
/* `origin` is kept in the bytes: tern_rsr_origin of the weight that the matrix comes from, 0 for none. Equal inputs
 * give equal bytes. */
tern_status tern_rsr_slices_build(tern_rsr_slices *out, const tern_rsr_source *source, const tern_rsr_options *options,
                                  uint64_t origin, tern_error *err);
/* Borrows n untrusted bytes at an address that is a multiple of 4: everything is checked, every column is in at most
 * one group of a unit. Errors: MALFORMED (what was found, what was expected), UNSUPPORTED (version), INVALID_ARGUMENT
 * (address). */
tern_status tern_rsr_slices_open(tern_rsr_slices *out, const void *bytes, size_t n, tern_error *err);
void tern_rsr_slices_deinit(tern_rsr_slices *slices);
/* The number that build has put there. */
uint64_t tern_rsr_slices_origin(const tern_rsr_slices *slices);

/* The rows of a block that serve a matrix with so many columns best (docs/internals/rsr.md). */
uint32_t tern_rsr_default_k(uint32_t cols);

/* A number that tells a weight's bytes from others. */
uint64_t tern_rsr_origin(const void *bytes, size_t n);

/* The first column of a panel, and how many it has. */
static inline uint32_t tern_rsr_panel_width(uint32_t cols, uint32_t panel_cols, uint32_t panel)
{
    const uint32_t left = cols - panel * panel_cols;
    return left < panel_cols ? left : panel_cols;
}

#endif
