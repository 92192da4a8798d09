/* The gradients of one matrix, for linear layers and for each expert of those with a route. */
#ifndef TERN_BACKEND_CPU_TRAINING_GRADIENT_H
#define TERN_BACKEND_CPU_TRAINING_GRADIENT_H

#include "backend/cpu/ops.h"

/* dx[t] = residual[t] (or 0) + W^T dy[t] of n rows, W rows first_row .. first_row + n_rows - 1 of the weight. */
typedef struct tern_gradient__dx_args {
    const tern_buffer *weight;
    uint32_t first_row, n_rows;
    uint32_t n;
    bool bf16;                       /* both factors are rounded to it, dy after the scale of W's row */
    tern_cpu_rows dy, residual, out; /* residual: data may be NULL */
} tern_gradient__dx_args;

void tern_gradient__dx(tern_cpu_step *step, const tern_gradient__dx_args *dx);

/* int8 rows and their inverse scales; data NULL: none. */
typedef struct tern_gradient__q8 {
    const uint8_t *data;
    const float *scales;
    size_t stride;
} tern_gradient__q8;

/* dw += sum over n rows of dy[t] x[t]^T; x are f32 rows or, where there are some, int8 ones. */
typedef struct tern_gradient__dw_args {
    uint32_t n_rows, cols;
    uint32_t n;
    bool bf16; /* both factors are rounded to it, dy after the scale of x's row */
    tern_cpu_rows dy, x;
    tern_gradient__q8 q;
    float *dw; /* [n_rows][cols], contiguous */
} tern_gradient__dw_args;

void tern_gradient__dw(tern_cpu_step *step, const tern_gradient__dw_args *dw);
/* The input of a LINEAR_DW op. */
tern_gradient__q8 tern_gradient__q8_of(const tern_graph *graph, const tern_cpu_op *op);

/* The ops with a route. */
void tern_gradient__routed_dx(tern_cpu_step *step, const tern_cpu_op *op);
void tern_gradient__routed_dw(tern_cpu_step *step, const tern_cpu_op *op);

#endif
