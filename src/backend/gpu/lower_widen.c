/* What products of floats share when they are lowered: rows that start at whole vectors, and the sum of parts. */
#include "backend/gpu/gradient.h"

enum { VECTOR = 4 /* floats */ };

/* int8 rows, and f32 rows that no vector begins with, are written to SCRATCH. */
static tern_status widen(tern_gpu_program *p, const tern_op *op, const tern_view *view, const tern_gpu_rows *rows,
                         tern_error *err)
{
    const tern_value *value = &p->graph->values[view->value];
    bool q8 = value->dtype == TERN_DTYPE_Q8;
    uint32_t max_rows = tern_gpu__max_rows(p, op->rows), vectors = rows->stride;
    tern_gpu_pipeline pipeline = q8 ? TERN_GPU_WIDEN_Q8 : TERN_GPU_WIDEN_F32;
    tern_gpu_dispatch *d = tern_gpu__add(
        p, op, pipeline, tern_gpu__ceil_div(vectors, tern_gpu_pipelines[pipeline].invocations), max_rows, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    uint32_t uniform[] = {view->cols,
                          vectors,
                          tern_gpu__count_word(p, op->rows),
                          q8 ? 0 : view->first_col,
                          q8 ? (uint32_t)(tern_q8_stride(view->cols) / 4) : value->cols,
                          (uint32_t)(tern_q8_scales_offset(view->cols, max_rows) / 4)};
    for (size_t i = 0; i < sizeof uniform / sizeof *uniform; i++) d->uniform[i] = uniform[i];
    tern_gpu__bind_params(p, d, false);
    if (q8) tern_gpu__bind_value(p, d, view->value, false);
    else tern_gpu__bind_view(p, d, *view, false);
    tern_gpu_range range = rows->range;
    range.written = true;
    tern_gpu__bind(d, range);
    return TERN_OK;
}

tern_status tern_gpu__float_rows(tern_gpu_program *p, const tern_op *op, uint32_t i, uint64_t offset, bool again,
                                 tern_gpu_rows *rows, tern_error *err)
{
    const tern_view *view = &op->in[i];
    const tern_value *value = &p->graph->values[view->value];
    *rows = (tern_gpu_rows){.cols = tern_gpu__ceil_div(view->cols, VECTOR) * VECTOR};
    if (value->dtype != TERN_DTYPE_Q8 && view->cols % VECTOR == 0 && view->first_col % VECTOR == 0 &&
        value->cols % VECTOR == 0) {
        uint64_t first = (uint64_t)view->first_row * value->cols * sizeof(float);
        rows->range = (tern_gpu_range){.value = view->value, .offset = first, .bytes = value->bytes - first};
        rows->first = view->first_col / VECTOR;
        rows->stride = value->cols / VECTOR;
        return TERN_OK;
    }
    uint64_t bytes = (uint64_t)tern_gpu__max_rows(p, op->rows) * rows->cols * sizeof(float);
    rows->scratch_bytes = (bytes + 255) / 256 * 256;
    rows->range = (tern_gpu_range){
        .value = TERN_GPU_SCRATCH, .offset = tern_gpu__scratch(p, offset + bytes) + offset, .bytes = bytes};
    rows->stride = rows->cols / VECTOR;
    return again ? TERN_OK : widen(p, op, view, rows, err);
}

tern_status tern_gpu__add_sum(tern_gpu_program *p, const tern_op *op, const tern_gpu_sum *sum, tern_error *err)
{
    tern_gpu_pipeline pipeline = TERN_GPU_LINEAR_PARTS;
    uint32_t groups = tern_gpu__ceil_div(sum->cols, tern_gpu_pipelines[pipeline].invocations);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, groups, sum->most_rows, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    bool residual = sum->residual.value != TERN_NO_VALUE;
    uint32_t uniform[] = {sum->rows,
                          sum->cols,
                          tern_gpu__count_word(p, op->rows),
                          sum->tiling->n_parts,
                          sum->most_rows * sum->cols,
                          sum->result_first,
                          sum->result_stride,
                          sum->residual_first,
                          residual ? p->graph->values[sum->residual.value].cols : 0,
                          sum->epilogue};
    for (size_t i = 0; i < sizeof uniform / sizeof *uniform; i++) d->uniform[i] = uniform[i];
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind(d, sum->parts);
    if (residual) tern_gpu__bind_view(p, d, sum->residual, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind(d, sum->result);
    return TERN_OK;
}
