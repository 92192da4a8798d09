/* Lowering the embedding's gradient: one dispatch for each part of the table's that a binding holds. */
#include "backend/gpu/uniform.h"

enum { SEGMENT = 8192, ALIGNMENT = 256 }; /* tokens of a mask in embed_backward.wgsl; bytes */

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
    const tern_value *dw = &p->graph->values[op->in[2].value];
    uint32_t max_rows = tern_gpu__max_rows(p, op->rows);
    tern_gpu_dispatch *d = tern_gpu__add(p, op, tern_gpu_first_fit(candidates, 2, p->caps), max_rows, 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = {
        .word = {dw->cols, tern_gpu__count_word(p, op->rows), tern_gpu__param_word(p, TERN_PARAM_IDS), first, rows},
        .n = 5};
    tern_gpu__put_view(&u, p, op->in[0], 1);
    tern_gpu__put(&u, tern_gpu__ceil_div(max_rows, SEGMENT));
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, op->in[0], false);
    tern_gpu__bind(d, (tern_gpu_range){.value = op->in[2].value,
                                       .offset = (uint64_t)first * dw->cols * 4,
                                       .bytes = (uint64_t)rows * dw->cols * 4,
                                       .written = true});
    return TERN_OK;
}

tern_status tern_gpu__lower_embed_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_value *dw = &p->graph->values[op->in[2].value];
    uint32_t rows = part_rows(p, dw);
    if (rows == 0) return tern_gpu__unsupported(p->graph, op, "a row is longer than a binding", err);
    for (uint32_t first = 0; first < dw->n_rows; first += rows) {
        uint32_t n = dw->n_rows - first < rows ? dw->n_rows - first : rows;
        TERN_TRY(add_part(p, op, first, n, err));
    }
    return TERN_OK;
}
