/* Lowering the ops on rows: norms, quantiser, gate, sum, gather. */
#include "backend/gpu/gpu.h"

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static tern_status lower_add(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_ADD_256, TERN_GPU_ADD_128};
    tern_gpu_pipeline pipeline = tern_gpu_first_fit(candidates, 2, p->caps);
    const tern_value *values = p->graph->values;
    uint32_t cols = op->out.cols, rows = tern_gpu__max_rows(p, op->rows);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, ceil_div(cols, tern_gpu_pipelines[pipeline].invocations), rows, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    uint32_t uniform[] = {cols, tern_gpu__count_word(p, op->rows), op->in[0].first_col, values[op->in[0].value].cols,
                          op->in[1].first_col, values[op->in[1].value].cols, op->out.first_col, values[op->out.value].cols};
    for (size_t i = 0; i < sizeof uniform / sizeof *uniform; i++) d->uniform[i] = uniform[i];
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_value(p, d, op->in[0].value, false);
    tern_gpu__bind_value(p, d, op->in[1].value, false);
    tern_gpu__bind_value(p, d, op->out.value, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_rows(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->kind == TERN_OP_ADD) return lower_add(p, op, err);
    return tern_gpu__unsupported(p->graph, op, "no kernel", err);
}
