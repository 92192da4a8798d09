/* From a graph to dispatches: each op by its row of ops.def. */
#include "backend/gpu/gpu_internal.h"
#include "base/alloc.h"
#include "quant/encoding.h"
#include "quant/weight.h"

static tern_gpu_lower_fn *const lowerings[TERN_OP_COUNT] = {
#define X(kind, name) [TERN_OP_##kind] = tern_gpu__lower_##name,
#include "backend/gpu/ops.def"
#undef X
};

/* The op's dispatches, from `first` on: all that their kernels read and write is bound, and can be. */
static tern_status check_bindings(const tern_gpu_program *p, const tern_op *op, size_t first, tern_error *err)
{
    for (size_t k = first; k < p->n; k++) {
        const tern_gpu_dispatch *d = &p->dispatches[k];
        const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[d->pipeline];
        if (d->n_bindings != info->n_bindings)
            return tern_fail(err, TERN_INTERNAL, "gpu: %s with %u bindings: %u expected", info->name, d->n_bindings,
                             info->n_bindings);
        for (uint32_t i = 0; i < d->n_bindings; i++) {
            const tern_gpu_range *range = &d->bindings[i];
            if (range->bytes <= p->caps->max_binding) continue;
            return tern_fail(err, TERN_UNSUPPORTED,
                             "gpu: op %s: %s takes %llu bytes in one binding: at most %llu expected; fewer tokens in a "
                             "step (--batch, --seq), or --backend cpu",
                             tern_op_name(op->kind),
                             range->value < p->graph->n_values ? p->graph->values[range->value].name : "its scratch",
                             (unsigned long long)range->bytes, (unsigned long long)p->caps->max_binding);
        }
    }
    return TERN_OK;
}

/* Kernels of other ops count rows as COUNTS does. */
static bool takes_routed_rows(tern_op_kind kind)
{
    switch (kind) {
    case TERN_OP_LINEAR:
    case TERN_OP_GATE:
    case TERN_OP_QUANTIZE:
    case TERN_OP_NORM_QUANT:
    case TERN_OP_HADAMARD:
    case TERN_OP_SCALE:
    case TERN_OP_ADD:
    case TERN_OP_DROPOUT:
    case TERN_OP_FAKE_QUANTIZE:
    case TERN_OP_LINEAR_DX:
    case TERN_OP_LINEAR_DW:
    case TERN_OP_BIAS_BACKWARD:
    case TERN_OP_GATE_BACKWARD:
    case TERN_OP_COMBINE_BACKWARD: return true;
    default: return false;
    }
}

/* Kernels of these ops read where their rows begin. */
static bool takes_group(const tern_graph *g, const tern_op *op)
{
    bool takes = (op->kind == TERN_OP_LINEAR && !op->gated && !op->norm_f32) || op->kind == TERN_OP_SCALE ||
                 op->kind == TERN_OP_ADD;
    for (uint32_t i = 0; i < op->n_parts && takes && !op->route.cols; i++)
        takes = op->bias[i].cols == 0 && !g->values[op->in[TERN_LINEAR_W + i].value].weight->encoding->ternary;
    return takes;
}

static tern_status lower_op(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const size_t first = p->n;
    tern_gpu_lower_fn *lower = lowerings[op->kind];
    if (!lower) return tern_gpu__unsupported(p->graph, op, "no kernel", err);
    if (op->rows == TERN_ROWS_ROUTED && !takes_routed_rows(op->kind))
        return tern_gpu__unsupported(p->graph, op, "rows of experts", err);
    if (op->group > p->graph->n_groups || (op->group && !takes_group(p->graph, op)))
        return tern_gpu__unsupported(p->graph, op, "of a group of rows", err);
    if (op->halves && op->kind != TERN_OP_LINEAR)
        return tern_gpu__unsupported(p->graph, op,
                                     "products of training in bf16, which CUDA and the CPU have: --precision f32 "
                                     "expected",
                                     err);
    const tern_status status = lower(p, op, err);
    if (status != TERN_OK) return p->out_of_memory ? TERN_OUT_OF_MEMORY : status;
    return check_bindings(p, op, first, err);
}

tern_status tern_gpu_lower(tern_gpu_program *program, const tern_graph *graph, const tern_gpu_caps *caps,
                           tern_error *err)
{
    *program = (tern_gpu_program){.graph = graph, .caps = caps};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < graph->n_ops && status == TERN_OK; i++) status = lower_op(program, &graph->ops[i], err);
    if (status != TERN_OK) tern_gpu_program_deinit(program);
    return status;
}

void tern_gpu_program_deinit(tern_gpu_program *program)
{
    tern_free(program->dispatches);
    *program = (tern_gpu_program){0};
}

tern_status tern_gpu_supports(const tern_graph *graph, const tern_op *op, const tern_gpu_caps *caps, tern_error *err)
{
    tern_gpu_program program = {.graph = graph, .caps = caps};
    tern_status status = lower_op(&program, op, err);
    tern_gpu_program_deinit(&program);
    return status;
}
