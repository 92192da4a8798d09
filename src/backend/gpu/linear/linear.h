/* Ternary linear layers on a GPU: which pipeline, and how its dispatches are filled. */
#ifndef TERN_BACKEND_GPU_LINEAR_H
#define TERN_BACKEND_GPU_LINEAR_H

#include "backend/gpu/gpu.h"

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
    uint32_t tokens;   /* the most */
} tern_gpu_ternary_shape;

enum {
    TERN_GPU_VEC_TOKENS = 8,   /* so many rows of x are taken one by one */
    TERN_GPU_CHUNK_COLS = 64,  /* 16 bytes of weights */
    TERN_GPU_COOP_COLS = 65535 /* more could leave the integers of f32 */
};

/* linear_ternary_vec.wgsl; TERN_GPU_PIPELINE_COUNT when the device has no room for a row of x. */
tern_gpu_pipeline tern_gpu_select_ternary_vec(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape);
/* Chunks of a row that the lanes of linear_ternary_vec.wgsl go through. */
uint32_t tern_gpu_ternary_padded_chunks(tern_gpu_pipeline pipeline, uint32_t cols);
/* linear_ternary_coop.wgsl or linear_ternary_mat.wgsl, whose uniforms and bindings are the same. */
tern_gpu_pipeline tern_gpu_select_ternary_mat(const tern_gpu_caps *caps, const tern_gpu_ternary_shape *shape);
/* Rows of weights that a workgroup of these takes (of each part, when gated); tokens that it takes. */
uint32_t tern_gpu_ternary_tile_rows(tern_gpu_pipeline pipeline, bool gated);
uint32_t tern_gpu_ternary_tile_tokens(tern_gpu_pipeline pipeline);

/* Parts [first, first + n) of a LINEAR, all of ternary weights; a gated one has both. Errors: UNSUPPORTED,
 * OUT_OF_MEMORY. */
tern_status tern_gpu__lower_linear_ternary(tern_gpu_program *p, const tern_op *op, uint32_t first, uint32_t n,
                                           tern_error *err);

/* What the choice of a dense pipeline depends on: rows of one dispatch, and the most tokens. */
typedef struct tern_gpu_dense_shape {
    tern_gpu_format format;
    uint32_t rows, cols, tokens;
} tern_gpu_dense_shape;

/* Of linear_float_vec or linear_quant_vec for few tokens, else of linear_dense_mat. */
tern_gpu_pipeline tern_gpu_select_dense(const tern_gpu_caps *caps, const tern_gpu_dense_shape *shape);

#endif
