/* Lowering the backward of the choice of experts and of the sum of what they made. */
#include "backend/gpu/experts/experts_internal.h"

static bool is_there(tern_view view)
{
    return view.value != TERN_NO_VALUE;
}

tern_status tern_gpu__lower_combine_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view none = {.value = TERN_NO_VALUE}, y = op->in[TERN_COMBINE_BACKWARD_Y],
                    dout = op->in[TERN_COMBINE_BACKWARD_DOUT];
    const bool weighs = op->n_in > TERN_COMBINE_BACKWARD_DWEIGHTS;
    const tern_view dweights = weighs ? op->in[TERN_COMBINE_BACKWARD_DWEIGHTS] : none;
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, TERN_GPU_COMBINE_BACKWARD, tern_gpu__max_rows(p, TERN_ROWS_ROUTED), 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_combine_backward_uniform u = {.cols = y.cols,
                                                 .count_word = tern_gpu__count_word(p, op->rows),
                                                 .k = p->graph->n_routes,
                                                 .y_first = y.first_col,
                                                 .y_stride = tern_gpu__stride(p, y),
                                                 .dout_first = dout.first_col,
                                                 .dout_stride = tern_gpu__stride(p, dout),
                                                 .dweights_first = weighs ? dweights.first_col : 0,
                                                 .dweights_stride = weighs ? tern_gpu__stride(p, dweights) : 0,
                                                 .dx_first = is_there(op->out) ? op->out.first_col : 0,
                                                 .dx_stride = is_there(op->out) ? tern_gpu__stride(p, op->out) : 0,
                                                 .flags =
                                                     (is_there(op->out) ? TERN_GPU_COMBINE_BACKWARD_CONST_DX : 0u) |
                                                     (weighs ? TERN_GPU_COMBINE_BACKWARD_CONST_DWEIGHTS : 0u)};
    tern_gpu_combine_backward_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, y, false);
    tern_gpu__bind_value(p, d, op->in[TERN_COMBINE_BACKWARD_ROUTES].value, false);
    tern_gpu__bind_view(p, d, dout, false);
    if (weighs) tern_gpu__bind_view(p, d, dweights, true);
    else tern_gpu__bind_nothing(d);
    if (is_there(op->out)) tern_gpu__bind_view(p, d, op->out, true);
    else tern_gpu__bind_nothing(d);
    return TERN_OK;
}

tern_status tern_gpu__lower_route_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view logits = op->in[TERN_ROUTE_BACKWARD_LOGITS], dweights = op->in[TERN_ROUTE_BACKWARD_DWEIGHTS];
    const tern_gpu_epilogue epilogue = tern_gpu__residual_epilogue(p, op);
    const bool residual = epilogue == TERN_GPU_ADD_RESIDUAL;
    const uint32_t groups = tern_gpu__ceil_div(logits.cols, tern_gpu_pipelines[TERN_GPU_ROUTE_BACKWARD].invocations);
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, TERN_GPU_ROUTE_BACKWARD, groups, tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_route_backward_uniform u = {.n_experts = logits.cols,
                                               .count_word = tern_gpu__count_word(p, op->rows),
                                               .k = p->graph->n_routes,
                                               .all = op->route_rule == TERN_ROUTE_SOFTMAX_ALL,
                                               .logits_first = logits.first_col,
                                               .logits_stride = tern_gpu__stride(p, logits),
                                               .d_first = dweights.first_col,
                                               .d_stride = tern_gpu__stride(p, dweights),
                                               .residual_first = residual ? op->residual.first_col : 0,
                                               .residual_stride = residual ? tern_gpu__stride(p, op->residual) : 0,
                                               .result_first = op->out.first_col,
                                               .result_stride = tern_gpu__stride(p, op->out),
                                               .epilogue = epilogue};
    tern_gpu_route_backward_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, logits, false);
    tern_gpu__bind_value(p, d, op->in[TERN_ROUTE_BACKWARD_ROUTES].value, false);
    tern_gpu__bind_view(p, d, dweights, false);
    if (residual) tern_gpu__bind_view(p, d, op->residual, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}
