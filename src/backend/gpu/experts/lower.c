/* Lowering the choice of experts and the sum of what they made. */
#include "backend/gpu/experts/experts_internal.h"

static_assert((int)TERN_MAX_EXPERTS == (int)TERN_GPU_ROUTE_CONST_MAX_EXPERTS, "room of route.wesl");
static_assert((int)TERN_MAX_ROUTES == (int)TERN_GPU_ROUTE_CONST_MAX_ROUTES, "room of route.wesl");

static tern_status check(const tern_gpu_program *p, const tern_op *op, uint32_t n_experts, tern_error *err)
{
    const uint32_t k = p->graph->n_routes;
    if (k >= 1 && k <= TERN_MAX_ROUTES && k <= n_experts && n_experts <= TERN_MAX_EXPERTS) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "gpu: op %s: %u of %u experts: 1 to %d of at most %d expected",
                     tern_op_name(op->kind), k, n_experts, TERN_MAX_ROUTES, TERN_MAX_EXPERTS);
}

tern_status tern_gpu__lower_route(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline pipelines[] = {[TERN_ROUTE_SOFTMAX_ALL_NORMED] = TERN_GPU_ROUTE_ALL_NORMED,
                                                  [TERN_ROUTE_SOFTMAX_ALL] = TERN_GPU_ROUTE_ALL,
                                                  [TERN_ROUTE_SOFTMAX_TOP] = TERN_GPU_ROUTE_TOP};
    const tern_view logits = op->in[TERN_ROUTE_LOGITS];
    TERN_TRY(check(p, op, logits.cols, err));
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipelines[op->route_rule], tern_gpu__max_rows(p, op->rows), 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_route_uniform u = {.count_word = tern_gpu__count_word(p, op->rows),
                                      .n_experts = logits.cols,
                                      .k = p->graph->n_routes,
                                      .logits_first = logits.first_col,
                                      .logits_stride = tern_gpu__stride(p, logits)};
    tern_gpu_route_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, logits, false);
    tern_gpu__bind_value(p, d, op->out.value, true);
    return TERN_OK;
}

tern_status tern_gpu__add_combine(tern_gpu_program *p, const tern_op *op, tern_gpu_range y, uint32_t y_first,
                                  uint32_t y_stride, uint32_t routes, tern_error *err)
{
    const tern_gpu_epilogue epilogue = tern_gpu__residual_epilogue(p, op);
    const bool residual = epilogue == TERN_GPU_ADD_RESIDUAL, weighted = routes != TERN_NO_VALUE;
    const tern_gpu_pipeline pipeline = weighted ? TERN_GPU_COMBINE : TERN_GPU_COMBINE_SUM;
    const uint32_t groups = tern_gpu__ceil_div(op->out.cols, tern_gpu_pipelines[pipeline].invocations);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, groups, tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_combine_uniform u = {.cols = op->out.cols,
                                        .count_word = tern_gpu__count_word(p, op->rows),
                                        .k = p->graph->n_routes,
                                        .y_first = y_first,
                                        .y_stride = y_stride,
                                        .residual_first = residual ? op->residual.first_col : 0,
                                        .residual_stride = residual ? tern_gpu__stride(p, op->residual) : 0,
                                        .result_first = op->out.first_col,
                                        .result_stride = tern_gpu__stride(p, op->out),
                                        .epilogue = epilogue};
    tern_gpu_combine_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind(d, y);
    if (weighted) tern_gpu__bind_value(p, d, routes, false);
    else tern_gpu__bind_nothing(d);
    if (residual) tern_gpu__bind_view(p, d, op->residual, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_combine(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view y = op->in[TERN_COMBINE_Y];
    const tern_gpu_range range = {.value = y.value, .bytes = tern_gpu__value(p, y)->bytes};
    TERN_TRY(check(p, op, TERN_MAX_EXPERTS, err));
    return tern_gpu__add_combine(p, op, range, y.first_col, tern_gpu__stride(p, y), op->in[TERN_COMBINE_ROUTES].value,
                                 err);
}
