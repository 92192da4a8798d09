/* The parts of the gradients of linear layers: a product of f32 matrices that continues from existing sums, and rows of
 * a weight as f32. */
#ifndef TERN_OPS_REF_GEMM_H
#define TERN_OPS_REF_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/encoding_id.h"

enum {
    TERN_GEMM_M = 256, /* the most rows of a and c */
    TERN_GEMM_K = 256, /* the most products of a chain */
    TERN_GEMM_WORKSPACE = (TERN_GEMM_M + 16) * (TERN_GEMM_K + 16)
};

/* c[i][j] = chain over l of a(i, l) * b[l][j], from c[i][j]: fmaf, l ascending (backward.h). A chain over more than
 * TERN_GEMM_K products is several of these.
 *
 *   a  in      a[i * a_stride + l]; with a_columns a[l * a_stride + i]; times a_scales[l] (rounded) where that is not
 *              NULL
 *   b  in      b[l * b_stride + j]           c  in/out  c[i * c_stride + j]
 * With bf16 both factors are then rounded to bf16, to nearest even: products are exact.
 *
 *   workspace  TERN_GEMM_WORKSPACE floats of the caller, which the kernel may fill
 *
 * 1 <= m <= TERN_GEMM_M, 1 <= k <= TERN_GEMM_K, n >= 1; nothing outside of the three matrices is read or written. Any
 * address. Exact bits. Thread-safe on distinct c and workspace. No allocation. */
typedef struct tern_gemm_args {
    uint32_t m, n, k;
    const float *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride;
    bool a_columns, bf16;
    const float *a_scales; /* [k] or NULL */
    float *workspace;
} tern_gemm_args;

typedef void (*tern_gemm_fn)(const tern_gemm_args *args);
void tern_ref_gemm(const tern_gemm_args *args);

/* Elements of rows of a weight to f32; of ternary encodings the codes -1, 0, +1, without any scale.
 *
 *   w    in   n_rows rows, row_bytes apart, each from the start of a block on; cols a multiple of the block's elements
 *             (i8, f16, bf16: any; t160: or all that is left of the row)
 *   out  out  out[r * out_stride + c]; what lies from cols up to the next multiple of 256 may be overwritten with
 *             anything, and must be there
 *
 * i8 are plain int8. Code 11 is 0. Exact, but a zero may have either sign. Thread-safe on distinct out. No allocation.
 */
typedef void (*tern_decode_fn)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,
                               size_t out_stride);

#define TERN_REF_DECODE(slot)                                                                                          \
    void tern_ref_decode_##slot(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,        \
                                size_t out_stride);
TERN_REF_DECODE(i8)
TERN_REF_DECODE(f16)
TERN_REF_DECODE(bf16)
#define TERN_REF_DECODE_BLOCKS(X, name, NAME, elements, bytes) TERN_REF_DECODE(name)
TERN_ENCODING_BLOCK_LIST(TERN_REF_DECODE_BLOCKS, )
#undef TERN_REF_DECODE_BLOCKS
TERN_REF_DECODE(i2_s)
TERN_REF_DECODE(tq2_0)
TERN_REF_DECODE(tq1_0)
TERN_REF_DECODE(t160)
#undef TERN_REF_DECODE

#endif
