/* The choice of pipelines for linear layers and their gradients: pure functions of what a device can do, formats and
 * sizes. */
#ifndef TERN_BACKEND_GPU_LINEAR_SELECT_H
#define TERN_BACKEND_GPU_LINEAR_SELECT_H

#include "backend/gpu/layout.h"
#include "backend/gpu/pipelines.h"
#include "ops/activation.h"

/* A ternary linear op as the choice of its pipeline sees it. */
typedef struct tern_gpu_ternary_shape {
    bool norm; /* f32 rows and a norm_weight; else Q8 rows */
    bool gated;
    tern_activation activation; /* gated */
    bool residual;
    bool in_place;     /* the residual lies where the result goes */
    uint32_t n_parts;  /* of one dispatch */
    uint32_t cols;     /* of x */
    uint32_t row_bits; /* rows of every part, or'ed */
    uint32_t rows;     /* of all parts together, for choices */
    uint32_t tokens;   /* the most */
} tern_gpu_ternary_shape;

enum {
    TERN_GPU_VEC_TOKENS = 8, /* so many rows of x are taken one by one */
    TERN_GPU_CHUNK_COLS = 64 /* 16 bytes of weights */
};

/* linear_ternary_vec.wesl; TERN_GPU_PIPELINE_COUNT when the device has no room for a row of x. */
tern_gpu_pipeline tern_gpu_select_ternary_vec(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape);
/* Chunks of a row that the lanes of linear_ternary_vec.wesl go through. */
uint32_t tern_gpu_ternary_padded_chunks(tern_gpu_pipeline pipeline, uint32_t cols);
/* Rows that its workgroups take, of a part. */
uint32_t tern_gpu_ternary_group_rows(tern_gpu_pipeline pipeline);
/* linear_ternary_coop.wesl or linear_ternary_mat.wesl, whose bindings are the same. */
tern_gpu_pipeline tern_gpu_select_ternary_mat(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape);
/* Whether it is the former. */
bool tern_gpu_ternary_is_cooperative(tern_gpu_pipeline pipeline);
/* Rows of weights that a workgroup of these takes (of each part, when gated); tokens that it takes. */
uint32_t tern_gpu_ternary_tile_rows(tern_gpu_pipeline pipeline, bool gated);
uint32_t tern_gpu_ternary_tile_tokens(tern_gpu_pipeline pipeline);

/* The key of a dense pipeline's choice: rows of one dispatch, and the most tokens. */
typedef struct tern_gpu_dense_shape {
    tern_gpu_format format;
    uint32_t rows, cols, tokens;
} tern_gpu_dense_shape;

/* linear_float_vec or linear_quant_vec for few tokens, else linear_dense_mat. */
tern_gpu_pipeline tern_gpu_select_dense(const tern_gpu_caps *caps, const tern_gpu_dense_shape *shape);

/* linear_dense_join, for one token and the norm before: up to three weights of that shape's format, with `rows` in all,
 * or gate and up. TERN_GPU_PIPELINE_COUNT where the norm is better apart. */
tern_gpu_pipeline tern_gpu_select_dense_join(const tern_gpu_caps *caps, const tern_gpu_dense_shape *shape, bool gated);

/* A product as the choice sees it: [rows][depth] times [depth][cols]. LINEAR: rows are tokens, cols the rows of the
 * weight (of one slice); LINEAR_DX: rows are tokens, depth the rows of the weight; LINEAR_DW: rows are those of the
 * weight, depth the tokens. */
typedef struct tern_gpu_product {
    uint32_t rows, cols, depth;
} tern_gpu_product;

/* The depth is cut into n_parts runs of part_depth, each of which a workgroup of its own sums up; where there is more
 * than one, linear_parts.wesl adds their results. Depends on sizes alone, so that results do as well. */
typedef struct tern_gpu_tiling {
    tern_gpu_pipeline pipeline;
    uint32_t tile_rows, tile_cols;
    uint32_t n_parts, part_depth;
} tern_gpu_tiling;

/* LINEAR of more tokens than few. */
tern_gpu_tiling tern_gpu_select_linear(const tern_gpu_caps *caps, tern_gpu_format format,
                                       const tern_gpu_product *product);
tern_gpu_tiling tern_gpu_select_dx(const tern_gpu_caps *caps, tern_gpu_format format, const tern_gpu_product *product);
tern_gpu_tiling tern_gpu_select_dw(const tern_gpu_caps *caps, bool q8, const tern_gpu_product *product);
/* Whether its kernel works on cooperative matrices, and wants factors of its inputs. */
bool tern_gpu_tiling_is_cooperative(const tern_gpu_tiling *tiling);

#endif
