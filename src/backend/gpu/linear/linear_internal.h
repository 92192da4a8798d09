/* Inside the lowering of linear layers and their gradients: what its files share. */
#ifndef TERN_BACKEND_GPU_LINEAR_LINEAR_INTERNAL_H
#define TERN_BACKEND_GPU_LINEAR_LINEAR_INTERNAL_H

#include "backend/gpu/choices.h"
#include "backend/gpu/gpu_internal.h"
#include "backend/gpu/linear/select.h"

/* Parts [first, first + n) of a LINEAR, all of ternary weights; a gated one has both. Errors: UNSUPPORTED,
 * OUT_OF_MEMORY. */
tern_status tern_gpu__lower_linear_ternary(tern_gpu_program *p, const tern_op *op, uint32_t first, uint32_t n,
                                           tern_error *err);

/* Part `part` of a LINEAR whose weights of that part are dense (every format but TERNARY); of a gated one, both parts
 * at part 0. */
tern_status tern_gpu__lower_linear_dense(tern_gpu_program *p, const tern_op *op, uint32_t part, tern_error *err);

/* A LINEAR with norm_f32: dense weights, one token. */
tern_status tern_gpu__lower_linear_join(tern_gpu_program *p, const tern_op *op, tern_error *err);

/* A LINEAR with a route. */
tern_status tern_gpu__lower_linear_routed(tern_gpu_program *p, const tern_op *op, tern_error *err);

/* A LINEAR_DX or LINEAR_DW with a route; `most`: rows of the gradient that a binding holds. */
tern_status tern_gpu__lower_linear_dx_routed(tern_gpu_program *p, const tern_op *op, tern_error *err);
tern_status tern_gpu__lower_linear_dw_routed(tern_gpu_program *p, const tern_op *op, uint32_t most, tern_error *err);

/* The weight that part `part` of a LINEAR multiplies with. */
const tern_weight *tern_gpu__weight_of_part(const tern_gpu_program *p, const tern_op *op, uint32_t part);

/* Rows of f32 that start at whole vectors, and where they lie. */
typedef struct tern_gpu_rows {
    tern_gpu_range range;
    uint32_t cols, first, stride; /* in vectors except for cols, which are whole vectors too */
    uint64_t scratch_bytes;       /* that they take in SCRATCH, from the offset given; whole 256 bytes */
} tern_gpu_rows;

/* The op's input i as such rows; int8 rows, and rows that no vector begins with, are written to SCRATCH first, `offset`
 * bytes behind its start. `again`: the dispatches just before have done so. */
tern_status tern_gpu__float_rows(tern_gpu_program *p, const tern_op *op, uint32_t i, uint64_t offset, bool again,
                                 tern_gpu_rows *rows, tern_error *err);
/* A place in SCRATCH, `offset` bytes behind its start, that a dispatch writes. */
tern_gpu_range tern_gpu__place(tern_gpu_program *p, uint64_t offset, uint64_t bytes);

/* The addend of a part's product: the op's residual, or the part's bias, which the kernels take for a residual whose
 * rows lie 0 floats apart. Where there are both, lower.c has written their sum to the result before. */
typedef struct tern_gpu_addend {
    tern_gpu_epilogue epilogue;
    tern_view view;         /* read with ADD_RESIDUAL */
    uint32_t first, stride; /* floats of it: where the first row of the part begins, and how far tokens lie apart */
} tern_gpu_addend;

tern_gpu_addend tern_gpu__addend_of(const tern_gpu_program *p, const tern_op *op, uint32_t part);
/* The op's residual alone. */
tern_gpu_addend tern_gpu__residual_of(const tern_gpu_program *p, const tern_op *op);

/* The column of out where a part begins. */
uint32_t tern_gpu__column_of_part(const tern_gpu_program *p, const tern_op *op, uint32_t part);

/* The dispatch of linear_parts.wesl. */
typedef struct tern_gpu_sum {
    uint32_t n_parts, rows, cols;
    bool counted; /* COUNTS says how many of the rows there are */
    tern_gpu_range parts, result;
    tern_gpu_addend addend;
    uint32_t result_first, result_stride, epilogue;
} tern_gpu_sum;
tern_status tern_gpu__add_sum(tern_gpu_program *p, const tern_op *op, const tern_gpu_sum *sum, tern_error *err);

/* The dispatches of one slice of the weight of a LINEAR or LINEAR_DX: factors, product, sum of the parts, as its tiling
 * asks for. Uniforms and bindings of linear_dense_mat, linear_dx and linear_float_coop are equal except for factors. */
typedef struct tern_gpu_slice_product {
    const tern_op *op;
    bool backward;
    uint32_t weight; /* value */
    const tern_gpu_layout *layout;
    uint32_t slice;
    tern_gpu_rows x;
    uint32_t x_skip; /* vectors: of LINEAR_DX, where the slice begins in dy */
    uint32_t col;    /* of out, besides where its view begins */
    tern_gpu_addend addend;
    uint32_t epilogue; /* of `addend`, or another of the kernels */
    tern_gpu_product product;
    tern_gpu_tiling tiling;
} tern_gpu_slice_product;
tern_status tern_gpu__add_product(tern_gpu_program *p, const tern_gpu_slice_product *s, tern_error *err);

#endif
