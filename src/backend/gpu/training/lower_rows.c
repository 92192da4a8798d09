/* Lowering the ops of a training step that go by rows: scale, dropout, the gates' gradients, losses. */
#include "backend/gpu/training/training_internal.h"

/* The uniform that SCALE and DROPOUT have in common. */
static tern_gpu_scale_uniform uniform_of(const tern_gpu_program *p, const tern_op *op, tern_view x, float factor)
{
    return (tern_gpu_scale_uniform){.cols = op->out.cols,
                                    .count_word = tern_gpu__group_count_word(p, op),
                                    .x_first = x.first_col,
                                    .x_stride = tern_gpu__stride(p, x),
                                    .out_first = op->out.first_col,
                                    .out_stride = tern_gpu__stride(p, op->out),
                                    .factor = factor,
                                    .token_rows = tern_gpu__token_rows(p, op->rows),
                                    .first_word = tern_gpu__group_first_word(p, op)};
}

/* 2 log2(e) / softcap */
static float softcap_rate(const tern_op *op)
{
    return 2.8853900818f / op->softcap;
}

static tern_status add_scale(tern_gpu_program *p, const tern_op *op, tern_view x, const tern_gpu_pipeline candidates[2],
                             const tern_gpu_scale_uniform *u, tern_error *err)
{
    tern_gpu_dispatch *d = tern_gpu__add_elementwise(p, op, candidates, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_scale_set(d, u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, x, false);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_scale(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[][2] = {{TERN_GPU_SCALE_256, TERN_GPU_SCALE_128},
                                                      {TERN_GPU_SOFTCAP_256, TERN_GPU_SOFTCAP_128}};
    const tern_view x = op->in[TERN_SCALE_X];
    tern_gpu_scale_uniform u = uniform_of(p, op, x, op->scale);
    if (op->softcap > 0) u.softcap = op->softcap, u.softcap_rate = softcap_rate(op);
    return add_scale(p, op, x, candidates[op->softcap > 0], &u, err);
}

tern_status tern_gpu__lower_softcap_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_SOFTCAP_BACKWARD_256, TERN_GPU_SOFTCAP_BACKWARD_128};
    const tern_view x = op->in[TERN_SOFTCAP_BACKWARD_X], dy = op->in[TERN_SOFTCAP_BACKWARD_DY];
    tern_gpu_dispatch *d = tern_gpu__add_elementwise(p, op, candidates, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_softcap_backward_uniform u = {.cols = op->out.cols,
                                                 .count_word = tern_gpu__count_word(p, op->rows),
                                                 .x_first = x.first_col,
                                                 .x_stride = tern_gpu__stride(p, x),
                                                 .dy_first = dy.first_col,
                                                 .dy_stride = tern_gpu__stride(p, dy),
                                                 .out_first = op->out.first_col,
                                                 .out_stride = tern_gpu__stride(p, op->out),
                                                 .factor = op->scale,
                                                 .softcap = op->softcap,
                                                 .softcap_rate = softcap_rate(op)};
    tern_gpu_softcap_backward_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, x, false);
    tern_gpu__bind_view(p, d, dy, false);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_dropout(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_DROPOUT_256, TERN_GPU_DROPOUT_128};
    const tern_view x = op->in[TERN_DROPOUT_X];
    tern_gpu_scale_uniform u = uniform_of(p, op, x, 1 / (1 - op->scale));
    u.least = (uint32_t)((double)op->scale * 0x1p32);
    u.seed_word = tern_gpu__param_word(p, TERN_PARAM_TRAINING) + offsetof(tern_train_params, dropout_seed) / 4;
    u.stream = tern_gpu__stream_seed(op);
    return add_scale(p, op, x, candidates, &u, err);
}

static void bind_gate_backward(const tern_gpu_program *p, const tern_op *op, tern_gpu_dispatch *d)
{
    tern_gpu__bind_params(p, d, false);
    for (uint32_t i = 0; i < TERN_GATE_BACKWARD_INPUTS; i++)
        tern_gpu__bind_view(p, d, op->in[i], i == TERN_GATE_BACKWARD_DUP);
    tern_gpu__bind_view(p, d, op->out, true);
}

/* For a gate with one number for all columns. */
static tern_status lower_row_gate_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view gate = op->in[TERN_GATE_BACKWARD_GATE], up = op->in[TERN_GATE_BACKWARD_UP],
                    dy = op->in[TERN_GATE_BACKWARD_DY], dup = op->in[TERN_GATE_BACKWARD_DUP];
    if (op->activation != TERN_ACT_SIGMOID)
        return tern_gpu__unsupported(p->graph, op, "a gate of one column without a sigmoid", err);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, TERN_GPU_ROW_GATE_BACKWARD, tern_gpu__max_rows(p, op->rows), 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_row_gate_backward_uniform u = {.cols = up.cols,
                                                  .count_word = tern_gpu__count_word(p, op->rows),
                                                  .gate_first = gate.first_col,
                                                  .gate_stride = tern_gpu__stride(p, gate),
                                                  .up_first = up.first_col,
                                                  .up_stride = tern_gpu__stride(p, up),
                                                  .dy_first = dy.first_col,
                                                  .dy_stride = tern_gpu__stride(p, dy),
                                                  .dup_first = dup.first_col,
                                                  .dup_stride = tern_gpu__stride(p, dup),
                                                  .dgate_first = op->out.first_col,
                                                  .dgate_stride = tern_gpu__stride(p, op->out),
                                                  .token_rows = tern_gpu__token_rows(p, op->rows)};
    tern_gpu_row_gate_backward_set(d, &u);
    bind_gate_backward(p, op, d);
    return TERN_OK;
}

tern_status tern_gpu__lower_gate_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[][2] = {
        [TERN_ACT_RELU2] = {TERN_GPU_RELU2_BACKWARD_256, TERN_GPU_RELU2_BACKWARD_128},
        [TERN_ACT_SILU] = {TERN_GPU_SILU_BACKWARD_256, TERN_GPU_SILU_BACKWARD_128},
        [TERN_ACT_GELU] = {TERN_GPU_GELU_BACKWARD_256, TERN_GPU_GELU_BACKWARD_128},
        [TERN_ACT_SWIGLU_OAI] = {TERN_GPU_SWIGLU_OAI_BACKWARD_256, TERN_GPU_SWIGLU_OAI_BACKWARD_128},
        [TERN_ACT_SWIGLU_CLAMPED] = {TERN_GPU_SWIGLU_CLAMPED_BACKWARD_256, TERN_GPU_SWIGLU_CLAMPED_BACKWARD_128},
        [TERN_ACT_SIGMOID] = {TERN_GPU_SIGMOID_BACKWARD_256, TERN_GPU_SIGMOID_BACKWARD_128}};
    const tern_view gate = op->in[TERN_GATE_BACKWARD_GATE], up = op->in[TERN_GATE_BACKWARD_UP],
                    dy = op->in[TERN_GATE_BACKWARD_DY], dup = op->in[TERN_GATE_BACKWARD_DUP];
    if (gate.cols < up.cols) return lower_row_gate_backward(p, op, err);
    tern_gpu_dispatch *d = tern_gpu__add_elementwise(p, op, candidates[op->activation], err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_gate_backward_uniform u = {.cols = op->out.cols,
                                              .count_word = tern_gpu__count_word(p, op->rows),
                                              .gate_first = gate.first_col,
                                              .gate_stride = tern_gpu__stride(p, gate),
                                              .up_first = up.first_col,
                                              .up_stride = tern_gpu__stride(p, up),
                                              .dy_first = dy.first_col,
                                              .dy_stride = tern_gpu__stride(p, dy),
                                              .dup_first = dup.first_col,
                                              .dup_stride = tern_gpu__stride(p, dup),
                                              .dgate_first = op->out.first_col,
                                              .dgate_stride = tern_gpu__stride(p, op->out),
                                              .token_rows = tern_gpu__token_rows(p, op->rows),
                                              .limit = op->limit};
    tern_gpu_gate_backward_set(d, &u);
    bind_gate_backward(p, op, d);
    return TERN_OK;
}

tern_status tern_gpu__lower_cross_entropy(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_CROSS_ENTROPY_S32_1024, TERN_GPU_CROSS_ENTROPY_S4_256,
                                                   TERN_GPU_CROSS_ENTROPY_128};
    const tern_view logits = op->in[TERN_CROSS_ENTROPY_LOGITS];
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, tern_gpu_first_fit(candidates, 3, p->caps), tern_gpu__max_rows(p, op->rows), 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_cross_entropy_uniform u = {
        .cols = logits.cols,
        .count_word = tern_gpu__count_word(p, op->rows),
        .z_first = logits.first_col,
        .z_stride = tern_gpu__stride(p, logits),
        .losses_first = op->out.first_col,
        .losses_stride = tern_gpu__stride(p, op->out),
        .labels_word = tern_gpu__param_word(p, TERN_PARAM_LABELS) + op->in[TERN_CROSS_ENTROPY_LABELS].first_row,
        .weight_word = tern_gpu__param_word(p, TERN_PARAM_TRAINING) + offsetof(tern_train_params, loss_weight) / 4};
    tern_gpu_cross_entropy_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, logits, true);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}
