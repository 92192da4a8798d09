/* Lowering the gradients of linear layers. */
#include "backend/gpu/gradient.h"

/* The epilogues of the kernels. */
enum epilogue { STORE, ADD_RESIDUAL, ADD_HELD };

/* Part of a product to be dispatched: what all slices share. */
typedef struct job {
    tern_gpu_program *p;
    const tern_op *op;
    tern_gpu_rows dy;
    tern_gpu_layout layout; /* of W */
    tern_gpu_rows x;        /* LINEAR_DW, unless int8 */
    bool q8;
} job;

static const tern_value *value_of(const job *j, tern_view view)
{
    return &j->p->graph->values[view.value];
}

static bool in_place(const job *j)
{
    const tern_value *out = value_of(j, j->op->out), *addend = value_of(j, j->op->residual);
    if (j->op->out.value == j->op->residual.value) return true;
    return out->kind == TERN_VALUE_ACTIVATION && addend->kind == TERN_VALUE_ACTIVATION && out->offset == addend->offset;
}

static enum epilogue epilogue_of(const job *j, uint32_t slice)
{
    if (slice > 0) return ADD_HELD;
    if (j->op->residual.value == TERN_NO_VALUE) return STORE;
    return in_place(j) ? ADD_HELD : ADD_RESIDUAL;
}

static tern_gpu_range range_of(const job *j, tern_view view)
{
    const tern_value *v = value_of(j, view);
    uint64_t offset = (uint64_t)view.first_row * v->cols * sizeof(float);
    return (tern_gpu_range){.value = view.value, .offset = offset, .bytes = v->bytes - offset, .written = true};
}

/* Where the parts of a product lie until they are added, behind the rows that were widened. */
static tern_gpu_range parts_of(const job *j, const tern_gpu_tiling *tiling, const tern_gpu_product *product)
{
    uint64_t bytes = (uint64_t)tiling->n_parts * product->rows * product->cols * sizeof(float),
             offset = j->dy.scratch_bytes + j->x.scratch_bytes;
    return (tern_gpu_range){.value = TERN_GPU_SCRATCH,
                            .offset = tern_gpu__scratch(j->p, offset + bytes) + offset,
                            .bytes = bytes,
                            .written = true};
}

static void set_uniform(tern_gpu_dispatch *d, const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++) d->uniform[i] = words[i];
}

/* One slice of W: rows [first, first + product.depth). */
static tern_status add_dx(const job *j, uint32_t slice, const tern_gpu_product *product, tern_error *err)
{
    const tern_op *op = j->op;
    const tern_weight *w = value_of(j, op->in[1])->weight;
    const tern_gpu_tiling tiling = tern_gpu_select_dx(j->p->caps, j->layout.format, product);
    tern_gpu_dispatch *d = tern_gpu__add(j->p, op, tiling.pipeline, tern_gpu__ceil_div(product->cols, tiling.tile_cols),
                                         tern_gpu__ceil_div(product->rows, tiling.tile_rows), tiling.n_parts, err);
    if (!d) return TERN_UNSUPPORTED;
    const bool parts = tiling.n_parts > 1;
    const enum epilogue epilogue = epilogue_of(j, slice);
    tern_gpu_range range = parts ? parts_of(j, &tiling, product) : range_of(j, op->out);
    const uint32_t uniform[] = {product->depth,
                                product->cols,
                                j->layout.row_bytes / 16,
                                tern_gpu__count_word(j->p, op->rows),
                                product->rows,
                                j->dy.first + slice * j->layout.slice_rows / 4,
                                j->dy.stride,
                                parts ? 0 : op->out.first_col,
                                parts ? product->cols : value_of(j, op->out)->cols,
                                op->residual.first_col,
                                epilogue == ADD_RESIDUAL ? value_of(j, op->residual)->cols : 0,
                                parts ? STORE : epilogue,
                                tiling.part_depth,
                                parts ? product->rows * product->cols : 0,
                                (uint32_t)(j->layout.scales_offset / 4),
                                tern_gpu__float_bits(w->row_scales ? 1.0f : w->scale)};
    set_uniform(d, uniform, sizeof uniform / sizeof *uniform);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind(d, j->dy.range);
    tern_gpu__bind_slice(d, op->in[1].value, &j->layout, slice);
    if (!parts && epilogue == ADD_RESIDUAL) tern_gpu__bind_view(j->p, d, op->residual, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind(d, range);
    d->weight_bytes = (uint64_t)product->depth * j->layout.row_bytes;
    if (!parts) return TERN_OK;
    range.written = false;
    const tern_gpu_sum sum = {.tiling = &tiling,
                              .cols = product->cols,
                              .most_rows = product->rows,
                              .parts = range,
                              .residual = epilogue == ADD_RESIDUAL ? op->residual : (tern_view){TERN_NO_VALUE, 0, 0, 0},
                              .result = range_of(j, op->out),
                              .result_first = op->out.first_col,
                              .result_stride = value_of(j, op->out)->cols,
                              .residual_first = op->residual.first_col,
                              .epilogue = epilogue};
    return tern_gpu__add_sum(j->p, op, &sum, err);
}

static tern_status lower_dx(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    job j = {.p = p, .op = op};
    TERN_TRY(tern_gpu_layout_of(&j.layout, value_of(&j, op->in[1])->weight, p->caps, err));
    if (j.layout.n_slices > 1 && j.layout.slice_rows % 4)
        return tern_gpu__unsupported(p->graph, op, "slices of rows that are no multiple of 4", err);
    TERN_TRY(tern_gpu__float_rows(p, op, 0, 0, false, &j.dy, err));
    for (uint32_t slice = 0; slice < j.layout.n_slices; slice++) {
        uint32_t first = slice * j.layout.slice_rows, rows = j.layout.rows - first;
        if (rows > j.layout.slice_rows) rows = j.layout.slice_rows;
        const tern_gpu_product product = {tern_gpu__max_rows(p, op->rows), j.layout.cols, rows};
        TERN_TRY(add_dx(&j, slice, &product, err));
    }
    return TERN_OK;
}

/* Rows [first, first + product.rows) of dW. */
static tern_status add_dw(const job *j, uint32_t first, const tern_gpu_product *product, tern_error *err)
{
    const tern_op *op = j->op;
    const tern_value *x = value_of(j, op->in[1]);
    const uint32_t max_rows = tern_gpu__max_rows(j->p, op->rows);
    const tern_gpu_tiling tiling = tern_gpu_select_dw(j->p->caps, j->q8, product);
    tern_gpu_dispatch *d = tern_gpu__add(j->p, op, tiling.pipeline, tern_gpu__ceil_div(product->cols, tiling.tile_cols),
                                         tern_gpu__ceil_div(product->rows, tiling.tile_rows), tiling.n_parts, err);
    if (!d) return TERN_UNSUPPORTED;
    const bool parts = tiling.n_parts > 1;
    const tern_gpu_range result = {.value = op->in[2].value,
                                   .offset = (uint64_t)first * product->cols * sizeof(float),
                                   .bytes = (uint64_t)product->rows * product->cols * sizeof(float),
                                   .written = true};
    tern_gpu_range range = parts ? parts_of(j, &tiling, product) : result;
    const uint32_t uniform[] = {product->rows,
                                product->cols,
                                tern_gpu__count_word(j->p, op->rows),
                                j->dy.first + first / 4,
                                j->dy.stride,
                                j->x.first,
                                j->q8 ? (uint32_t)(tern_q8_stride(x->cols) / 4) : j->x.stride,
                                j->q8 ? (uint32_t)(tern_q8_scales_offset(x->cols, max_rows) / 4) : 0,
                                tiling.part_depth,
                                parts ? product->rows * product->cols : 0,
                                !parts};
    set_uniform(d, uniform, sizeof uniform / sizeof *uniform);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind(d, j->dy.range);
    if (j->q8) tern_gpu__bind_nothing(d);
    else tern_gpu__bind(d, j->x.range);
    if (j->q8) tern_gpu__bind_value(j->p, d, op->in[1].value, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind(d, range);
    if (!parts) return TERN_OK;
    range.written = false;
    const tern_gpu_sum sum = {.tiling = &tiling,
                              .rows = product->rows,
                              .cols = product->cols,
                              .most_rows = product->rows,
                              .parts = range,
                              .residual = {.value = TERN_NO_VALUE},
                              .result = result,
                              .result_stride = product->cols,
                              .epilogue = ADD_HELD};
    return tern_gpu__add_sum(j->p, op, &sum, err);
}

static tern_status lower_dw(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    job j = {.p = p, .op = op, .q8 = p->graph->values[op->in[1].value].dtype == TERN_DTYPE_Q8};
    const tern_value *dw = value_of(&j, op->in[2]);
    uint64_t most = p->caps->max_binding / (dw->cols * sizeof(float)) / TERN_ROW_ALIGNMENT * TERN_ROW_ALIGNMENT;
    if (most == 0) return tern_gpu__unsupported(p->graph, op, "64 rows of the gradient fill more than a binding", err);
    TERN_TRY(tern_gpu__float_rows(p, op, 0, 0, false, &j.dy, err));
    if (!j.q8) TERN_TRY(tern_gpu__float_rows(p, op, 1, j.dy.scratch_bytes, false, &j.x, err));
    for (uint32_t first = 0, rows; first < dw->n_rows; first += rows) {
        rows = dw->n_rows - first < most ? dw->n_rows - first : (uint32_t)most;
        const tern_gpu_product product = {rows, dw->cols, tern_gpu__max_rows(p, op->rows)};
        TERN_TRY(add_dw(&j, first, &product, err));
    }
    return TERN_OK;
}

tern_status tern_gpu__lower_gradient(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    return op->kind == TERN_OP_LINEAR_DX ? lower_dx(p, op, err) : lower_dw(p, op, err);
}
