/* Dense weights times activations that are int8 by blocks: the definition. The weights' blocks lie in the columns of a
 * row; the activations of a block share one scale, so that the integers of a block are exact and only one product of
 * floats for each block and row is rounded (docs/decisions/0068-int8-by-default.md). */
#ifndef TERN_OPS_REF_BLOCKS_H
#define TERN_OPS_REF_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "quant/encoding_id.h"

enum {
    TERN_BLOCKS_RUN = 16, /* columns of which the activations' sum is kept */
    TERN_BLOCKS_MAX = 256 /* columns of the longest block */
};

/* n rows of activations of `cols` columns in blocks of the weights' block_elements, 32 to 256
 * (tern_quantize_blocks_fn). */
typedef struct tern_q8_blocks {
    const int8_t *x;     /* row t at x + t * stride */
    const float *scales; /* [n][cols / block] */
    const int32_t *sums; /* [n][cols / 16]: of the int8 of each run of 16 columns */
    size_t stride;
    uint32_t n;
} tern_q8_blocks;

/* A row to int8 by blocks.
 *
 *   m = max(max |x|, 1e-30) over the block, a NaN ignored and infinities as the largest finite f32;
 *   q[c] = round_half_even(x[c] * (127 / m)), NaN and infinities of x as above
 *   scales[b] = m / 127, or NaN where an element of the block is not finite, so that it shows in every product
 *   sums[i] = sum of q[16 i .. 16 i + 15]
 *
 * x  in  [cols] f32, cols a multiple of `block`, which is 32, 64, 128 or 256; aligned to 4 bytes only. Exact bits. */
typedef void (*tern_quantize_blocks_fn)(const float *x, uint32_t cols, uint32_t block, int8_t *q, float *scales,
                                        int32_t *sums);

/* Rows of weights times rows of activations. Block b of a row, with its scale d, codes q and scales sc of runs (1 for
 * encodings that have none) and, where there are minima, their scale dmin and minima m of runs:
 *
 *   A = sum_run sc[run] * sum_(c in run) q[c] * x[c],   M = sum_run m[run] * sum_(c in run) x[c]     exact in int32
 *   y = y + (d * dx) * (float)A;   y = y - (dmin * dx) * (float)M     dx = x.scales[b]; all are rounded, no fma
 *
 * for the blocks in order, starting from y = +0: one chain, as kernels have rows in the lanes of their vectors.
 *
 *   w  in   n_rows rows of `row_bytes` bytes each, scales finite; q of mxfp4 is twice its numbers and d half its scale;
 *          dmin of q4_1 and q5_1 is -m, and their minima are 1
 *   y  out  y[t * y_stride + r]
 *
 * Exact bits: the same for every level, number of threads and number of tokens. Thread-safe on distinct y. No
 * allocation. */
typedef void (*tern_blocks_fn)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,
                               const tern_q8_blocks *x, float *y, size_t y_stride);

/* The plain definitions. */
void tern_ref_quantize_blocks(const float *x, uint32_t cols, uint32_t block, int8_t *q, float *scales, int32_t *sums);
#define TERN_REF_INT8(X, name, NAME, elements, bytes)                                                                  \
    void tern_ref_int8_##name(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,                      \
                              const tern_q8_blocks *x, float *y, size_t y_stride);
TERN_ENCODING_INT8_LIST(TERN_REF_INT8, )
#undef TERN_REF_INT8

#endif
