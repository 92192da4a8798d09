/* Lowering the ops of a training step that go by rows: scale, dropout, the gates' gradients, losses. */
#include "backend/gpu/uniform.h"

static tern_gpu_words begin(const tern_gpu_program *p, const tern_op *op, uint32_t cols)
{
    tern_gpu_words u = {0};
    tern_gpu__put(&u, cols);
    tern_gpu__put(&u, tern_gpu__count_word(p, op->rows));
    return u;
}

/* One invocation for each element of out; the first of two pipelines that fits. */
static tern_gpu_dispatch *add_elementwise(tern_gpu_program *p, const tern_op *op, const tern_gpu_pipeline candidates[2],
                                          const tern_gpu_words *u, tern_error *err)
{
    tern_gpu_pipeline pipeline = tern_gpu_first_fit(candidates, 2, p->caps);
    uint32_t width = tern_gpu_pipelines[pipeline].invocations, groups = tern_gpu__ceil_div(op->out.cols, width);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, groups, tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return NULL;
    tern_gpu__set_uniform(d, u);
    tern_gpu__bind_params(p, d, false);
    return d;
}

static tern_status lower_scale(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline scales[] = {TERN_GPU_SCALE_256, TERN_GPU_SCALE_128},
                                   dropouts[] = {TERN_GPU_DROPOUT_256, TERN_GPU_DROPOUT_128};
    bool drops = op->kind == TERN_OP_DROPOUT;
    tern_gpu_words u = begin(p, op, op->out.cols);
    tern_gpu__put_view(&u, p, op->in[0], 1);
    tern_gpu__put_view(&u, p, op->out, 1);
    tern_gpu__put_float(&u, drops ? 1 / (1 - op->scale) : op->scale);
    if (drops) {
        tern_gpu__put(&u, (uint32_t)((double)op->scale * 0x1p32));
        tern_gpu__put(&u, tern_gpu__param_word(p, TERN_PARAM_TRAINING) + offsetof(tern_train_params, seed) / 4);
        tern_gpu__put(&u, op->stream * 0x9e3779b9u);
    }
    tern_gpu_dispatch *d = add_elementwise(p, op, drops ? dropouts : scales, &u, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu__bind_view(p, d, op->in[0], false);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

static tern_status lower_gate(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[][2] = {
        [TERN_ACT_RELU2] = {TERN_GPU_RELU2_BACKWARD_256, TERN_GPU_RELU2_BACKWARD_128},
        [TERN_ACT_SILU] = {TERN_GPU_SILU_BACKWARD_256, TERN_GPU_SILU_BACKWARD_128},
        [TERN_ACT_GELU] = {TERN_GPU_GELU_BACKWARD_256, TERN_GPU_GELU_BACKWARD_128}};
    tern_gpu_words u = begin(p, op, op->out.cols);
    for (int i = 0; i < 4; i++) tern_gpu__put_view(&u, p, op->in[i], 1);
    tern_gpu__put_view(&u, p, op->out, 1);
    tern_gpu_dispatch *d = add_elementwise(p, op, candidates[op->activation], &u, err);
    if (!d) return TERN_UNSUPPORTED;
    for (uint32_t i = 0; i < 4; i++) tern_gpu__bind_view(p, d, op->in[i], i == 3);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

static tern_status lower_cross_entropy(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_CROSS_ENTROPY_S32_1024, TERN_GPU_CROSS_ENTROPY_S4_256,
                                                   TERN_GPU_CROSS_ENTROPY_128};
    tern_gpu_words u = begin(p, op, op->in[0].cols);
    tern_gpu__put_view(&u, p, op->in[0], 1);
    tern_gpu__put_view(&u, p, op->out, 1);
    tern_gpu__put(&u, tern_gpu__param_word(p, TERN_PARAM_LABELS) + op->in[1].first_row);
    tern_gpu__put(&u, tern_gpu__param_word(p, TERN_PARAM_TRAINING) + offsetof(tern_train_params, loss_weight) / 4);
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, tern_gpu_first_fit(candidates, 3, p->caps), tern_gpu__max_rows(p, op->rows), 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, op->in[0], true);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    switch (op->kind) {
    case TERN_OP_SCALE:
    case TERN_OP_DROPOUT: return lower_scale(p, op, err);
    case TERN_OP_GATE_BACKWARD: return lower_gate(p, op, err);
    case TERN_OP_CROSS_ENTROPY: return lower_cross_entropy(p, op, err);
    default: return tern_gpu__unsupported(p->graph, op, "no kernel", err);
    }
}
