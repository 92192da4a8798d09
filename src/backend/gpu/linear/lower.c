/* Lowering linear layers: ternary and dense weights go separate ways. */
#include "backend/gpu/linear/linear_internal.h"
#include "quant/encoding.h"
#include "quant/weight.h"

const tern_weight *tern_gpu__weight_of_part(const tern_gpu_program *p, const tern_op *op, uint32_t part)
{
    return tern_gpu__value(p, op->in[TERN_LINEAR_W + part])->weight;
}

uint32_t tern_gpu__column_of_part(const tern_gpu_program *p, const tern_op *op, uint32_t part)
{
    uint32_t col = 0;
    for (uint32_t i = 0; i < part && !op->gated; i++) col += tern_gpu__weight_of_part(p, op, i)->rows;
    return col;
}

static bool has_bias(const tern_op *op, uint32_t part)
{
    return op->bias[part].cols != 0;
}

tern_gpu_addend tern_gpu__residual_of(const tern_gpu_program *p, const tern_op *op)
{
    tern_gpu_addend addend = {.epilogue = tern_gpu__residual_epilogue(p, op)};
    if (addend.epilogue != TERN_GPU_ADD_RESIDUAL) return addend;
    addend.view = op->residual;
    addend.first = op->residual.first_col;
    addend.stride = tern_gpu__stride(p, op->residual);
    return addend;
}

tern_gpu_addend tern_gpu__addend_of(const tern_gpu_program *p, const tern_op *op, uint32_t part)
{
    tern_gpu_addend addend = tern_gpu__residual_of(p, op);
    addend.first += tern_gpu__column_of_part(p, op, part);
    if (!has_bias(op, part)) return addend;
    if (addend.epilogue != TERN_GPU_STORE) return (tern_gpu_addend){.epilogue = TERN_GPU_ADD_RESULT};
    return (tern_gpu_addend){
        .epilogue = TERN_GPU_ADD_RESIDUAL, .view = op->bias[part], .first = op->bias[part].first_col};
}

/* The sum of a part's bias and of the residual, to where the product is added to it. */
static tern_status add_bias(tern_gpu_program *p, const tern_op *op, uint32_t part, tern_error *err)
{
    static const tern_gpu_pipeline apart[] = {TERN_GPU_ADD_256, TERN_GPU_ADD_128},
                                   in_place[] = {TERN_GPU_ADD_IN_PLACE_256, TERN_GPU_ADD_IN_PLACE_128};
    const tern_gpu_addend residual = tern_gpu__residual_of(p, op);
    const bool there = residual.epilogue == TERN_GPU_ADD_RESULT;
    const tern_gpu_pipeline pipeline = tern_gpu_first_fit(there ? in_place : apart, 2, p->caps);
    const uint32_t cols = op->bias[part].cols, col = tern_gpu__column_of_part(p, op, part),
                   groups = tern_gpu__ceil_div(cols, tern_gpu_pipelines[pipeline].invocations);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, groups, tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_add_uniform u = {.cols = cols,
                                    .count_word = tern_gpu__count_word(p, op->rows),
                                    .token_rows = tern_gpu__token_rows(p, op->rows),
                                    .a_first = residual.first + col,
                                    .a_stride = residual.stride,
                                    .b_first = op->bias[part].first_col,
                                    .out_first = op->out.first_col + col,
                                    .out_stride = tern_gpu__stride(p, op->out)};
    tern_gpu_add_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    if (there) tern_gpu__bind_nothing(d);
    else tern_gpu__bind_view(p, d, residual.view, false);
    tern_gpu__bind_view(p, d, op->bias[part], false);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

static bool ternary(const tern_gpu_program *p, const tern_op *op, uint32_t part)
{
    return tern_gpu__weight_of_part(p, op, part)->encoding->ternary;
}

static tern_status lower_gated(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (has_bias(op, 0) || has_bias(op, 1)) return tern_gpu__unsupported(p->graph, op, "gated, with a bias", err);
    if (ternary(p, op, 0) != ternary(p, op, 1))
        return tern_gpu__unsupported(p->graph, op, "one of gate and up is ternary, the other is not", err);
    if (op->norm_f32) return tern_gpu__lower_linear_join(p, op, err);
    return ternary(p, op, 0) ? tern_gpu__lower_linear_ternary(p, op, 0, 2, err)
                             : tern_gpu__lower_linear_dense(p, op, 0, err);
}

/* Ternary parts behind `part`, it included, that may be one dispatch. */
static uint32_t count_joined(const tern_gpu_program *p, const tern_op *op, uint32_t part)
{
    uint32_t n = 1;
    while (!has_bias(op, part) && part + n < op->n_parts && ternary(p, op, part + n) && !has_bias(op, part + n)) n++;
    return n;
}

tern_status tern_gpu__lower_linear(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->route.cols) return tern_gpu__lower_linear_routed(p, op, err);
    if (op->rows == TERN_ROWS_ROUTED) return tern_gpu__unsupported(p->graph, op, "rows of experts, with no route", err);
    if (op->gated && op->activation > TERN_ACT_GELU)
        return tern_gpu__unsupported(p->graph, op, "this activation in a product", err);
    if (op->int8_blocks)
        return tern_gpu__unsupported(p->graph, op,
                                     "int8 activations by block, which the CPU has: "
                                     "--activations f32 or auto expected",
                                     err);
    if (op->halves)
        return tern_gpu__unsupported(p->graph, op,
                                     "activations in 16 bits, which CUDA and the CPU have: "
                                     "--activations f32 or auto expected",
                                     err);
    if (op->gated) return lower_gated(p, op, err);
    for (uint32_t part = 0; part < op->n_parts; part++)
        if (has_bias(op, part) && op->residual.value != TERN_NO_VALUE) TERN_TRY(add_bias(p, op, part, err));
    if (op->norm_f32) return tern_gpu__lower_linear_join(p, op, err);
    for (uint32_t part = 0, n; part < op->n_parts; part += n) {
        const bool joins = ternary(p, op, part);
        n = joins ? count_joined(p, op, part) : 1;
        TERN_TRY(joins ? tern_gpu__lower_linear_ternary(p, op, part, n, err)
                       : tern_gpu__lower_linear_dense(p, op, part, err));
    }
    return TERN_OK;
}
