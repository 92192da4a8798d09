/* Launches of the optimiser, and the scratch memory that ops of training need. */
#include <stddef.h>

#include "backend/cuda/cuda_internal.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "ops/ref/update.h"
#include "ops/update_shape.h"
#include "quant/weight.h"

static cudaError_t sum_squares(const void *params, cudaStream_t stream)
{
    return tern_cuda_run_sum_squares((const tern_cuda_updates *)params, stream);
}

static cudaError_t update(const void *params, cudaStream_t stream)
{
    return tern_cuda_run_update((const tern_cuda_updates *)params, stream);
}

static cudaError_t requantize(const void *params, cudaStream_t stream)
{
    return tern_cuda_run_requantize((const tern_cuda_updates *)params, stream);
}

static void *state_at(const tern_prepared *p, tern_view view)
{
    return tern_cuda__address(p, view.value);
}

tern_status tern_cuda__update_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    tern_update_shape shape;
    return tern_update_shape_of(&shape, graph, op, err);
}

_Static_assert(sizeof(tern_cuda_train_params) == sizeof(tern_train_params) &&
                   offsetof(tern_cuda_train_params, clip) == offsetof(tern_train_params, clip) &&
                   offsetof(tern_cuda_train_params, pace) == offsetof(tern_train_params, pace) &&
                   offsetof(tern_cuda_train_params, decay) == offsetof(tern_train_params, decay) &&
                   offsetof(tern_cuda_train_params, next_blend) == offsetof(tern_train_params, next_blend),
               "kernels read what the host writes");

static tern_cuda_stored stored(tern_dtype dtype)
{
    switch (dtype) {
    case TERN_DTYPE_BF16: return TERN_CUDA_BF16;
    case TERN_DTYPE_M8: return TERN_CUDA_M8;
    case TERN_DTYPE_V8: return TERN_CUDA_V8;
    default: return TERN_CUDA_F32;
    }
}

/* The shape was asked for by `supports`. */
static tern_cuda_update begin(const tern_prepared *p, const tern_op *op, tern_update_shape *shape)
{
    tern_error ignored = {0};
    if (tern_update_shape_of(shape, p->graph, op, &ignored) != TERN_OK) *shape = (tern_update_shape){0};
    return (tern_cuda_update){.n = shape->n,
                              .rows = shape->rows,
                              .cols = shape->cols,
                              .w_type = stored(shape->w),
                              .m_type = stored(shape->m),
                              .v_type = stored(shape->v),
                              .ternary = shape->ternary};
}

void tern_cuda__lower_sum_squares(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_update_shape shape;
    tern_cuda_update u = begin(p, op, &shape);
    u.g = state_at(p, op->in[TERN_SUM_SQUARES_GRADIENT]);
    u.result = tern_cuda__rows(p, op->out).data;
    u.clears = op->clears;
    out->params.update = u;
    out->run = sum_squares;
}

/* Behind the codes of a state in 8 bits. */
static float *scales_of(void *state, tern_dtype dtype, uint64_t n)
{
    const uint64_t codes = (n + TERN_STATE_BLOCK - 1) / TERN_STATE_BLOCK * TERN_STATE_BLOCK;
    if (dtype != TERN_DTYPE_M8 && dtype != TERN_DTYPE_V8) return NULL;
    return (float *)(void *)((uint8_t *)state + codes);
}

void tern_cuda__lower_update(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_update_shape shape;
    tern_cuda_update u = begin(p, op, &shape);
    u.w = state_at(p, op->in[TERN_UPDATE_WEIGHT]);
    u.g = state_at(p, op->in[TERN_UPDATE_GRADIENT]);
    if (shape.has_m) u.m = state_at(p, op->in[TERN_UPDATE_M]), u.m_scales = scales_of(u.m, shape.m, shape.n);
    if (shape.has_v) u.v = state_at(p, op->in[TERN_UPDATE_V]), u.v_scales = scales_of(u.v, shape.v, shape.n);
    u.adamw = op->optimizer == TERN_OPTIMIZER_ADAMW;
    u.decays = op->decays;
    u.stream = op->stream * 0x9e3779b9u;
    u.params = (const tern_cuda_train_params *)(const void *)tern_cuda__param(p, TERN_PARAM_TRAINING);
    out->params.update = u;
    out->run = update;
}

void tern_cuda__lower_requantize(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_update_shape shape;
    tern_cuda_update u = begin(p, op, &shape);
    const tern_buffer *weight = p->bindings[op->out.value].buffer;
    u.w = state_at(p, op->in[TERN_REQUANTIZE_MASTER]);
    u.params = (const tern_cuda_train_params *)(const void *)tern_cuda__param(p, TERN_PARAM_TRAINING);
    u.threshold = op->threshold;
    u.clamp = op->clamp;
    u.out = weight->data;
    u.row_bytes = weight->layout.row_bytes;
    if (shape.ternary) u.scales = (float *)(void *)(weight->data + weight->layout.scales_offset);
    out->params.update = u;
    out->run = requantize;
}

size_t tern_cuda__training_scratch(const tern_graph *graph, const tern_op *op)
{
    const uint32_t rows = tern_graph_max_rows(graph, op->rows);
    const bool backward =
        op->kind == TERN_OP_LINEAR_DX || op->kind == TERN_OP_LINEAR_DW || op->kind == TERN_OP_BIAS_BACKWARD;
    if (backward && op->route.cols) return tern_cuda__routed_scratch(graph, op);
    switch (op->kind) {
    case TERN_OP_RMS_NORM_BACKWARD:
        return op->n_in > TERN_NORM_BACKWARD_DWEIGHT ? tern_cuda_norm_bytes(rows, op->in[TERN_NORM_BACKWARD_X].cols,
                                                                            op->in[TERN_NORM_BACKWARD_WEIGHT].cols)
                                                     : 0;
    case TERN_OP_VARLEN_ATTENTION: return tern_cuda__varlen_scratch(rows, op);
    case TERN_OP_VARLEN_ATTENTION_BACKWARD:
        return tern_cuda__backward_scratch(rows, op) + tern_cuda__varlen_scratch(rows, op);
    case TERN_OP_LINEAR:
        return tern_cuda__is_head(graph, op) ? tern_cuda_head_bytes(rows, op->in[TERN_LINEAR_X].cols) : 0;
    case TERN_OP_LINEAR_DX: {
        const tern_weight *w = graph->values[op->in[TERN_LINEAR_DX_W].value].weight;
        return tern_cuda_dx_bytes(rows, w->rows, w->cols);
    }
    case TERN_OP_LINEAR_DW:
        return tern_cuda_dw_bytes(rows, op->in[TERN_LINEAR_DW_DY].cols, op->in[TERN_LINEAR_DW_X].cols);
    default: return 0;
    }
}
