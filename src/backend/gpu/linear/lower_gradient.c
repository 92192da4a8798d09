/* Lowering the gradients of linear layers. */
#include "backend/gpu/linear/product.h"

static tern_status lower_dx(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu_layout_of(&layout, p->graph->values[op->in[1].value].weight, p->caps, err));
    if (layout.n_slices > 1 && layout.slice_rows % 4)
        return tern_gpu__unsupported(p->graph, op, "slices of rows that are no multiple of 4", err);
    tern_gpu_slice_product s = {.op = op,
                                .backward = true,
                                .weight = op->in[1].value,
                                .layout = &layout,
                                .epilogue = tern_gpu__residual_epilogue(p, op)};
    TERN_TRY(tern_gpu__float_rows(p, op, 0, 0, false, &s.x, err));
    for (uint32_t first = 0; first < layout.rows; first += layout.slice_rows) {
        uint32_t rows = layout.rows - first < layout.slice_rows ? layout.rows - first : layout.slice_rows;
        s.product = (tern_gpu_product){tern_gpu__max_rows(p, op->rows), layout.cols, rows};
        s.tiling = tern_gpu_select_dx(p->caps, layout.format, &s.product);
        TERN_TRY(tern_gpu__add_product(p, &s, err));
        s.slice++;
        s.x_skip += layout.slice_rows / 4;
        s.epilogue = TERN_GPU_ADD_HELD;
    }
    return TERN_OK;
}

/* LINEAR_DW, of which rows [first, first + product.rows) are to be dispatched. */
typedef struct job {
    tern_gpu_program *p;
    const tern_op *op;
    tern_gpu_rows dy, x; /* x unless q8 */
    bool q8;
    uint32_t first;
    tern_gpu_product product;
    tern_gpu_tiling tiling;
    tern_gpu_range factors, parts;
} job;

static void bind_x(const job *j, tern_gpu_dispatch *d)
{
    if (j->q8) tern_gpu__bind_nothing(d);
    else tern_gpu__bind(d, j->x.range);
    if (j->q8) tern_gpu__bind_value(j->p, d, j->op->in[1].value, false);
    else tern_gpu__bind_nothing(d);
}

static uint32_t scales_word(const job *j)
{
    uint32_t cols = j->p->graph->values[j->op->in[1].value].cols;
    return j->q8 ? (uint32_t)(tern_q8_scales_offset(cols, tern_gpu__max_rows(j->p, j->op->rows)) / 4) : 0;
}

/* Of the columns of dy, from `skip` vectors on and times the scales of x, or of x itself. */
static tern_status add_factors(const job *j, const tern_gpu_rows *rows, bool scaled, uint32_t skip, uint32_t cols,
                               uint32_t first, tern_error *err)
{
    tern_gpu_dispatch *d = tern_gpu__add(j->p, j->op, TERN_GPU_COLUMN_FACTORS, tern_gpu__ceil_div(cols, 16), 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const uint32_t uniform[] = {
        cols, tern_gpu__count_word(j->p, j->op->rows), rows->first + skip, rows->stride, scaled ? scales_word(j) : 0,
        first};
    tern_gpu__set_uniform(d, uniform, sizeof uniform / sizeof *uniform);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind(d, rows->range);
    if (scaled) tern_gpu__bind_value(j->p, d, j->op->in[1].value, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind(d, j->factors);
    return TERN_OK;
}

static tern_status add_tiles(const job *j, tern_gpu_range result, tern_error *err)
{
    const bool parts = j->tiling.n_parts > 1;
    const tern_gpu_product *product = &j->product;
    const uint32_t groups[2] = {tern_gpu__ceil_div(product->cols, j->tiling.tile_cols),
                                tern_gpu__ceil_div(product->rows, j->tiling.tile_rows)};
    tern_gpu_dispatch *d = tern_gpu__add(j->p, j->op, j->tiling.pipeline, groups[0], groups[1], j->tiling.n_parts, err);
    if (!d) return TERN_UNSUPPORTED;
    const uint32_t q_stride = (uint32_t)(tern_q8_stride(j->p->graph->values[j->op->in[1].value].cols) / 4);
    const uint32_t uniform[] = {product->rows,
                                product->cols,
                                tern_gpu__count_word(j->p, j->op->rows),
                                j->dy.first + j->first / 4,
                                j->dy.stride,
                                j->x.first,
                                j->q8 ? q_stride : j->x.stride,
                                scales_word(j),
                                j->tiling.part_depth,
                                parts ? product->rows * product->cols : 0,
                                !parts,
                                product->rows};
    tern_gpu__set_uniform(d, uniform, sizeof uniform / sizeof *uniform);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind(d, j->dy.range);
    bind_x(j, d);
    if (tern_gpu_tiling_is_cooperative(&j->tiling)) {
        tern_gpu_range factors = j->factors;
        factors.written = false;
        tern_gpu__bind(d, factors);
    }
    tern_gpu__bind(d, parts ? j->parts : result);
    return TERN_OK;
}

static tern_status add_dw(job *j, tern_error *err)
{
    const tern_gpu_product *product = &j->product;
    const uint64_t row_bytes = product->cols * sizeof(float);
    const tern_gpu_range result = {.value = j->op->in[2].value,
                                   .offset = j->first * row_bytes,
                                   .bytes = product->rows * row_bytes,
                                   .written = true};
    uint64_t offset = j->dy.scratch_bytes + j->x.scratch_bytes;
    if (tern_gpu_tiling_is_cooperative(&j->tiling)) {
        j->factors = tern_gpu__place(j->p, offset, ((uint64_t)product->rows + product->cols) * sizeof(float));
        offset += (j->factors.bytes + 255) / 256 * 256;
        TERN_TRY(add_factors(j, &j->dy, j->q8, j->first / 4, product->rows, 0, err));
        if (!j->q8) TERN_TRY(add_factors(j, &j->x, false, 0, product->cols, product->rows, err));
    }
    if (j->tiling.n_parts == 1) return add_tiles(j, result, err);
    j->parts = tern_gpu__place(j->p, offset, j->tiling.n_parts * result.bytes);
    TERN_TRY(add_tiles(j, result, err));
    const tern_gpu_sum sum = {.n_parts = j->tiling.n_parts,
                              .rows = product->rows,
                              .cols = product->cols,
                              .parts = j->parts,
                              .result = result,
                              .result_stride = product->cols,
                              .epilogue = TERN_GPU_ADD_HELD};
    return tern_gpu__add_sum(j->p, j->op, &sum, err);
}

static tern_status lower_dw(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    job j = {.p = p, .op = op, .q8 = p->graph->values[op->in[1].value].dtype == TERN_DTYPE_Q8};
    const tern_value *dw = &p->graph->values[op->in[2].value];
    uint64_t most = p->caps->max_binding / (dw->cols * sizeof(float)) / TERN_ROW_ALIGNMENT * TERN_ROW_ALIGNMENT;
    if (most == 0) return tern_gpu__unsupported(p->graph, op, "64 rows of the gradient fill more than a binding", err);
    TERN_TRY(tern_gpu__float_rows(p, op, 0, 0, false, &j.dy, err));
    if (!j.q8) TERN_TRY(tern_gpu__float_rows(p, op, 1, j.dy.scratch_bytes, false, &j.x, err));
    for (; j.first < dw->n_rows; j.first += j.product.rows) {
        uint32_t left = dw->n_rows - j.first;
        j.product = (tern_gpu_product){left < most ? left : (uint32_t)most, dw->cols, tern_gpu__max_rows(p, op->rows)};
        j.tiling = tern_gpu_select_dw(p->caps, j.q8, &j.product);
        TERN_TRY(add_dw(&j, err));
    }
    return TERN_OK;
}

tern_status tern_gpu__lower_gradient(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    return op->kind == TERN_OP_LINEAR_DX ? lower_dx(p, op, err) : lower_dw(p, op, err);
}
