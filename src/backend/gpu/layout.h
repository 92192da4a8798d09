/* Weights in the memory of a GPU: in which format, in slices of which size, and the way there and back. */
#ifndef TERN_BACKEND_GPU_LAYOUT_H
#define TERN_BACKEND_GPU_LAYOUT_H

#include "backend/gpu/caps.h"
#include "base/error.h"

typedef struct tern_encoding tern_encoding; /* quant/encoding.h */
typedef struct tern_weight tern_weight;     /* quant/weight.h */

/* The layout of a weight in device memory. A device of small bindings holds it in slices of whole rows. Slice i starts
 * at i * slice_bytes of the weight's buffer and has slice_rows rows (the last slice may have fewer) of row_bytes each.
 * Row scales, if any, follow at scales_offset from the slice's start, one f32 for each row. */
/* A row in each format:
 *
 *   TERNARY        every ternary encoding: i2_s groups, rows padded to whole groups of 128 (32 bytes) and to 16 bytes
 *   F32 to BF16    as in the file
 *   Q8_0           [cols] int8, then an f16 scale for each 32
 *   Q6_K           blocks of 208 bytes (ql, qh, scales), then their f16 d
 *   Q4_K, Q5_K     as in the file
 *   Q4_0 to IQ4_NL 16 bytes of nibbles for each 32 columns; in Q5 their words of fifth bits; their f16 d, or d and m
 *   Q3_K           the file's blocks in 112 bytes each
 *   Q2_K           blocks of 80 bytes (scales, pairs), then their f16 d and dmin
 *   Q2_0           pairs of bits, then an f16 d for each 64 (pq2_0: every scale twice; ptq1_0 as pq2_0)
 *   Q1_0           bits, then an f16 d for each 128
 *   MXFP4          as Q4_0, with a byte e in place of d */
typedef enum tern_gpu_format {
    TERN_GPU_TERNARY,
#define FORMAT(name, number, vec, unit, coop, join) TERN_GPU_##name,
#include "backend/gpu/formats.def"
#undef FORMAT
    TERN_GPU_FORMAT_COUNT
} tern_gpu_format;

typedef struct tern_gpu_layout {
    tern_gpu_format format;
    uint32_t rows, cols;
    uint32_t row_bytes; /* a multiple of 16 */
    uint32_t slice_rows, n_slices;
    uint64_t scales_offset; /* 0: the tensor has one scale, or none */
    uint64_t slice_bytes;   /* a multiple of 256, at most max_binding */
    uint64_t bytes;         /* n_slices * slice_bytes */
} tern_gpu_layout;

/* Errors: UNSUPPORTED (the encoding; a row longer than a binding). */
tern_status tern_gpu_layout_of(tern_gpu_layout *layout, const tern_weight *w, const tern_gpu_caps *caps,
                               tern_error *err);
/* Whether row r of the weight is, as it lies in the file, row r of the layout: w->data + r * row_bytes may then be
 * copied as it is. */
bool tern_gpu_layout_is_file(const tern_gpu_layout *layout, const tern_weight *w);
/* Writes rows [first, first + n) of the weight in its layout, n * row_bytes bytes, to out; row scales are the caller's
 * to copy (w->row_scales + first). Any number of threads, on distinct rows. Errors: OUT_OF_MEMORY. */
tern_status tern_gpu_pack_rows(const tern_gpu_layout *layout, const tern_weight *w, uint32_t first, uint32_t n,
                               uint8_t *out, tern_error *err);

/* The way back: in which encoding, and n rows of the layout at `in` as rows of that. Ternary weights give their codes
 * alone, as i2_s, or as t160 where rows have no whole groups of i2_s; what was rewritten (tern_encoding.rewrite) stays
 * so. Errors: OUT_OF_MEMORY. */
const tern_encoding *tern_gpu_unpacked(const tern_gpu_layout *layout, const tern_weight *w);
tern_status tern_gpu_unpack_rows(const tern_gpu_layout *layout, const tern_weight *w, const uint8_t *in, uint32_t n,
                                 uint8_t *out, tern_error *err);

#endif
