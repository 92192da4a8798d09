/* Lowering the embedding's gradient: one dispatch for each part of the table's that a binding holds. */
#include "backend/gpu/gpu_internal.h"

enum {
    SEGMENT = 32 * TERN_GPU_EMBED_BACKWARD_CONST_WORDS, /* tokens of a mask */
    ALIGNMENT = 256                                     /* bytes */
};

/* Rows of a part: so many that parts start where bindings may. */
static uint32_t part_rows(const tern_gpu_program *p, const tern_value *dw)
{
    uint64_t row_bytes = (uint64_t)dw->cols * 4, unit = ALIGNMENT / 4;
    while (unit > 1 && row_bytes * (unit / 2) % ALIGNMENT == 0) unit /= 2;
    uint64_t rows = p->caps->max_binding / row_bytes / unit * unit;
    return rows < dw->n_rows ? (uint32_t)rows : dw->n_rows;
}

static tern_status add_part(tern_gpu_program *p, const tern_op *op, uint32_t first, uint32_t rows, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_EMBED_BACKWARD_256, TERN_GPU_EMBED_BACKWARD_128};
    const tern_view dy = op->in[TERN_EMBED_BACKWARD_DY], to = op->in[TERN_EMBED_BACKWARD_DW];
    const tern_value *dw = tern_gpu__value(p, to);
    uint32_t max_rows = tern_gpu__max_rows(p, op->rows);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, tern_gpu_first_fit(candidates, 2, p->caps), max_rows, 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_embed_backward_uniform u = {.cols = dw->cols,
                                               .count_word = tern_gpu__count_word(p, op->rows),
                                               .ids_word = tern_gpu__param_word(p, TERN_PARAM_IDS),
                                               .first_id = first,
                                               .n_ids = rows,
                                               .dy_first = dy.first_col,
                                               .dy_stride = tern_gpu__stride(p, dy),
                                               .segments = tern_gpu__ceil_div(max_rows, SEGMENT)};
    tern_gpu_embed_backward_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, dy, false);
    tern_gpu__bind(d, (tern_gpu_range){.value = to.value,
                                       .offset = (uint64_t)first * dw->cols * 4,
                                       .bytes = (uint64_t)rows * dw->cols * 4,
                                       .written = true});
    return TERN_OK;
}

tern_status tern_gpu__lower_embed_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_value *dw = tern_gpu__value(p, op->in[TERN_EMBED_BACKWARD_DW]);
    uint32_t rows = part_rows(p, dw);
    if (rows == 0) return tern_gpu__unsupported(p->graph, op, "a row is longer than a binding", err);
    for (uint32_t first = 0; first < dw->n_rows; first += rows) {
        uint32_t n = dw->n_rows - first < rows ? dw->n_rows - first : rows;
        TERN_TRY(add_part(p, op, first, n, err));
    }
    return TERN_OK;
}
