/* Lowering the embedding lookup: one dispatch for each slice of the table. */
#include "backend/gpu/gpu.h"

enum { COLUMNS = 8 }; /* of an invocation */

static const tern_gpu_pipeline pipelines[TERN_GPU_FORMAT_COUNT] = {
    [TERN_GPU_TERNARY] = TERN_GPU_EMBED_TERNARY, [TERN_GPU_F32] = TERN_GPU_EMBED_F32,
    [TERN_GPU_F16] = TERN_GPU_EMBED_F16,         [TERN_GPU_BF16] = TERN_GPU_EMBED_BF16,
    [TERN_GPU_Q8_0] = TERN_GPU_EMBED_Q8_0,       [TERN_GPU_Q6_K] = TERN_GPU_EMBED_Q6_K,
    [TERN_GPU_Q4_K] = TERN_GPU_EMBED_Q4_K,
};

static tern_status add_slice(tern_gpu_program *p, const tern_op *op, const tern_gpu_layout *layout, uint32_t slice,
                             tern_error *err)
{
    const tern_value *table = &p->graph->values[op->in[0].value], *out = &p->graph->values[op->out.value];
    tern_gpu_pipeline pipeline = pipelines[layout->format];
    uint32_t columns = tern_gpu_pipelines[pipeline].invocations * COLUMNS, max_rows = tern_gpu__max_rows(p, op->rows);
    uint32_t first = slice * layout->slice_rows, rows = layout->rows - first;
    if (rows > layout->slice_rows) rows = layout->slice_rows;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(layout->cols, columns), max_rows, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    uint32_t uniform[] = {first,
                          rows,
                          layout->cols,
                          layout->row_bytes / 16,
                          tern_gpu__count_word(p, op->rows),
                          tern_gpu__param_word(p, TERN_PARAM_IDS),
                          op->out.first_col,
                          out->cols,
                          (uint32_t)(layout->scales_offset / 4),
                          tern_gpu__float_bits(table->weight->scale)};
    for (size_t i = 0; i < sizeof uniform / sizeof *uniform; i++) d->uniform[i] = uniform[i];
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_slice(d, op->in[0].value, layout, slice);
    tern_gpu__bind_value(p, d, op->out.value, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_embed(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu_layout_of(&layout, p->graph->values[op->in[0].value].weight, p->caps, err));
    for (uint32_t slice = 0; slice < layout.n_slices; slice++) TERN_TRY(add_slice(p, op, &layout, slice, err));
    return TERN_OK;
}
