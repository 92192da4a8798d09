/* Lowering the embedding lookup: one dispatch for each slice of the table. */
#include "backend/gpu/gpu_internal.h"
#include "quant/weight.h"

enum { COLUMNS = 8 }; /* of an invocation */

static const tern_gpu_pipeline pipelines[TERN_GPU_FORMAT_COUNT] = {
    [TERN_GPU_TERNARY] = TERN_GPU_EMBED_TERNARY,
#define FORMAT(name, number, vec, unit, coop, join) [TERN_GPU_##name] = TERN_GPU_EMBED_##name,
#include "backend/gpu/formats.def"
#undef FORMAT
};

static tern_status add_slice(tern_gpu_program *p, const tern_op *op, const tern_gpu_layout *layout, uint32_t slice,
                             tern_error *err)
{
    const tern_view table = op->in[TERN_EMBED_TABLE];
    tern_gpu_pipeline pipeline = pipelines[layout->format];
    uint32_t columns = tern_gpu_pipelines[pipeline].invocations * COLUMNS, max_rows = tern_gpu__max_rows(p, op->rows);
    uint32_t first = slice * layout->slice_rows, rows = layout->rows - first;
    if (rows > layout->slice_rows) rows = layout->slice_rows;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(layout->cols, columns), max_rows, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_embed_uniform u = {.first_row = first,
                                      .rows = rows,
                                      .cols = layout->cols,
                                      .row_vectors = layout->row_bytes / 16,
                                      .count_word = tern_gpu__count_word(p, op->rows),
                                      .ids_word = tern_gpu__param_word(p, TERN_PARAM_IDS),
                                      .result_first = op->out.first_col,
                                      .result_stride = tern_gpu__stride(p, op->out),
                                      .scales_word = (uint32_t)(layout->scales_offset / 4),
                                      .scale = tern_gpu__value(p, table)->weight->scale};
    tern_gpu_embed_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_slice(d, table.value, layout, slice);
    tern_gpu__bind_value(p, d, op->out.value, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_embed(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu_layout_of(&layout, tern_gpu__value(p, op->in[TERN_EMBED_TABLE])->weight, p->caps, err));
    for (uint32_t slice = 0; slice < layout.n_slices; slice++) TERN_TRY(add_slice(p, op, &layout, slice, err));
    return TERN_OK;
}
