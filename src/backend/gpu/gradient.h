/* Gradients of linear layers on a GPU: which pipeline, and over how many workgroups the depth of a product is spread.
 */
#ifndef TERN_BACKEND_GPU_GRADIENT_H
#define TERN_BACKEND_GPU_GRADIENT_H

#include "backend/gpu/gpu.h"

/* A product as the choice sees it: [rows][depth] times [depth][cols]. LINEAR_DX: rows are tokens, depth the rows of the
 * weight (of one slice); LINEAR_DW: rows are those of the weight, depth the tokens; LINEAR: rows are tokens, cols the
 * rows of the weight. */
typedef struct tern_gpu_product {
    uint32_t rows, cols, depth;
} tern_gpu_product;

/* The depth is cut into n_parts runs of part_depth, each of which a workgroup of its own sums up; where there is more
 * than one, linear_parts.wgsl adds their results. Depends on sizes alone, so that results do as well. */
typedef struct tern_gpu_tiling {
    tern_gpu_pipeline pipeline;
    uint32_t tile_rows, tile_cols;
    uint32_t n_parts, part_depth;
} tern_gpu_tiling;

tern_gpu_tiling tern_gpu_select_dx(const tern_gpu_caps *caps, tern_gpu_format format, const tern_gpu_product *product);
tern_gpu_tiling tern_gpu_select_dw(const tern_gpu_caps *caps, bool q8, const tern_gpu_product *product);
/* Cuts the depth of a product whose tiles are given; part_depth is a multiple of `step`. */
void tern_gpu__cut_depth(tern_gpu_tiling *tiling, const tern_gpu_caps *caps, const tern_gpu_product *product,
                         uint32_t step);

/* The dispatch of linear_parts.wgsl, to be bound: parts, residual, result. rows 0: as many as COUNTS says. */
typedef struct tern_gpu_sum {
    const tern_gpu_tiling *tiling;
    uint32_t rows, cols, most_rows;
    tern_gpu_range parts;
    tern_view residual; /* or value TERN_NO_VALUE */
    tern_gpu_range result;
    uint32_t result_first, result_stride, residual_first, epilogue;
} tern_gpu_sum;
tern_status tern_gpu__add_sum(tern_gpu_program *p, const tern_op *op, const tern_gpu_sum *sum, tern_error *err);

/* Rows of f32 that start at whole vectors, and where they lie. */
typedef struct tern_gpu_rows {
    tern_gpu_range range;
    uint32_t cols, first, stride; /* in vectors but for cols, which are whole vectors too */
    uint64_t scratch_bytes;       /* that they take in SCRATCH, from the offset given */
} tern_gpu_rows;
/* The op's input i as such rows; int8 rows, and rows that no vector begins with, are written to SCRATCH first, `offset`
 * bytes behind its start. `again`: the dispatches just before have done so. */
tern_status tern_gpu__float_rows(tern_gpu_program *p, const tern_op *op, uint32_t i, uint64_t offset, bool again,
                                 tern_gpu_rows *rows, tern_error *err);

#endif
