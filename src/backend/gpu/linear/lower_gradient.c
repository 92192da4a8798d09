/* Lowering the gradients of linear layers. */
#include "backend/gpu/linear/linear_internal.h"

tern_status tern_gpu__lower_linear_dx(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view w = op->in[TERN_LINEAR_DX_W];
    tern_gpu_layout layout;
    if (op->route.cols) return tern_gpu__lower_linear_dx_routed(p, op, err);
    TERN_TRY(tern_gpu_layout_of(&layout, tern_gpu__value(p, w)->weight, p->caps, err));
    if (layout.n_slices > 1 && layout.slice_rows % 4)
        return tern_gpu__unsupported(p->graph, op, "slices of rows that are no multiple of 4", err);
    tern_gpu_slice_product s = {
        .op = op, .backward = true, .weight = w.value, .layout = &layout, .addend = tern_gpu__residual_of(p, op)};
    s.epilogue = s.addend.epilogue;
    TERN_TRY(tern_gpu__float_rows(p, op, TERN_LINEAR_DX_DY, 0, false, &s.x, err));
    for (uint32_t first = 0; first < layout.rows; first += layout.slice_rows) {
        uint32_t rows = layout.rows - first < layout.slice_rows ? layout.rows - first : layout.slice_rows;
        s.product = (tern_gpu_product){tern_gpu__max_rows(p, op->rows), layout.cols, rows};
        s.tiling = tern_gpu_select_dx(p->caps, layout.format, &s.product);
        TERN_TRY(tern_gpu__add_product(p, &s, err));
        s.slice++;
        s.x_skip += layout.slice_rows / 4;
        s.epilogue = TERN_GPU_ADD_RESULT;
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

static tern_view x_of(const job *j)
{
    return j->op->in[TERN_LINEAR_DW_X];
}

static void bind_x(const job *j, tern_gpu_dispatch *d)
{
    if (j->q8) tern_gpu__bind_nothing(d);
    else tern_gpu__bind(d, j->x.range);
    if (j->q8) tern_gpu__bind_value(j->p, d, x_of(j).value, false);
    else tern_gpu__bind_nothing(d);
}

static uint32_t scales_word(const job *j)
{
    const uint32_t cols = tern_gpu__stride(j->p, x_of(j)), rows = tern_gpu__max_rows(j->p, j->op->rows);
    return j->q8 ? (uint32_t)(tern_q8_scales_offset(cols, rows) / 4) : 0;
}

/* Columns of dy, from `skip` vectors on and times the scales of x, or of x itself. */
static tern_status add_factors(const job *j, const tern_gpu_rows *rows, bool scaled, uint32_t skip, uint32_t cols,
                               uint32_t first, tern_error *err)
{
    tern_gpu_dispatch *d = tern_gpu__add(j->p, j->op, TERN_GPU_COLUMN_FACTORS, tern_gpu__ceil_div(cols, 16), 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_column_factors_uniform u = {.cols = cols,
                                               .count_word = tern_gpu__count_word(j->p, j->op->rows),
                                               .x_first = rows->first + skip,
                                               .x_stride = rows->stride,
                                               .scales_word = scaled ? scales_word(j) : 0,
                                               .first = first};
    tern_gpu_column_factors_set(d, &u);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind(d, rows->range);
    if (scaled) tern_gpu__bind_value(j->p, d, x_of(j).value, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind(d, j->factors);
    return TERN_OK;
}

/* linear_dw and linear_dw_coop have the same uniforms, except for the factors. */
static void set_tiles(const job *j, tern_gpu_dispatch *d)
{
    const bool parts = j->tiling.n_parts > 1;
    const tern_gpu_product *product = &j->product;
    const uint32_t q_stride = (uint32_t)(tern_q8_stride(tern_gpu__stride(j->p, x_of(j))) / 4);
    const tern_gpu_linear_dw_uniform u = {.rows = product->rows,
                                          .cols = product->cols,
                                          .count_word = tern_gpu__count_word(j->p, j->op->rows),
                                          .dy_first = j->dy.first + j->first / 4,
                                          .dy_stride = j->dy.stride,
                                          .x_first = j->x.first,
                                          .x_stride = j->q8 ? q_stride : j->x.stride,
                                          .scales_word = scales_word(j),
                                          .tokens_of_part = j->tiling.part_depth,
                                          .part_stride = parts ? product->rows * product->cols : 0,
                                          .adds = !parts};
    if (!tern_gpu_tiling_is_cooperative(&j->tiling)) {
        tern_gpu_linear_dw_set(d, &u);
        return;
    }
    const tern_gpu_linear_dw_coop_uniform coop = {.rows = u.rows,
                                                  .cols = u.cols,
                                                  .count_word = u.count_word,
                                                  .dy_first = u.dy_first,
                                                  .dy_stride = u.dy_stride,
                                                  .x_first = u.x_first,
                                                  .x_stride = u.x_stride,
                                                  .scales_word = u.scales_word,
                                                  .tokens_of_part = u.tokens_of_part,
                                                  .part_stride = u.part_stride,
                                                  .adds = u.adds,
                                                  .x_factors = product->rows};
    tern_gpu_linear_dw_coop_set(d, &coop);
}

static tern_status add_tiles(const job *j, tern_gpu_range result, tern_error *err)
{
    const uint32_t groups[2] = {tern_gpu__ceil_div(j->product.cols, j->tiling.tile_cols),
                                tern_gpu__ceil_div(j->product.rows, j->tiling.tile_rows)};
    tern_gpu_dispatch *d = tern_gpu__add(j->p, j->op, j->tiling.pipeline, groups[0], groups[1], j->tiling.n_parts, err);
    if (!d) return TERN_UNSUPPORTED;
    set_tiles(j, d);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind(d, j->dy.range);
    bind_x(j, d);
    if (tern_gpu_tiling_is_cooperative(&j->tiling)) {
        tern_gpu_range factors = j->factors;
        factors.written = false;
        tern_gpu__bind(d, factors);
    }
    tern_gpu__bind(d, j->tiling.n_parts > 1 ? j->parts : result);
    return TERN_OK;
}

static tern_status add_dw(job *j, tern_error *err)
{
    const tern_gpu_product *product = &j->product;
    const uint64_t row_bytes = product->cols * sizeof(float);
    const tern_gpu_range result = {.value = j->op->in[TERN_LINEAR_DW_DW].value,
                                   .offset = j->first * row_bytes,
                                   .bytes = product->rows * row_bytes,
                                   .written = true};
    uint64_t offset = j->dy.scratch_bytes + j->x.scratch_bytes;
    if (tern_gpu_tiling_is_cooperative(&j->tiling)) {
        j->factors = tern_gpu__place(j->p, offset, ((uint64_t)product->rows + product->cols) * sizeof(float));
        offset += tern_gpu__aligned(j->factors.bytes);
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
                              .epilogue = TERN_GPU_ADD_RESULT};
    return tern_gpu__add_sum(j->p, j->op, &sum, err);
}

tern_status tern_gpu__lower_linear_dw(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    job j = {.p = p, .op = op};
    const tern_value *dw = tern_gpu__value(p, op->in[TERN_LINEAR_DW_DW]);
    uint64_t most = p->caps->max_binding / (dw->cols * sizeof(float)) / TERN_ROW_ALIGNMENT * TERN_ROW_ALIGNMENT;
    if (most == 0) return tern_gpu__unsupported(p->graph, op, "64 rows of the gradient fill more than a binding", err);
    if (op->route.cols)
        return tern_gpu__lower_linear_dw_routed(p, op, most < dw->n_rows ? (uint32_t)most : dw->n_rows, err);
    j.q8 = tern_gpu__value(p, x_of(&j))->dtype == TERN_DTYPE_Q8;
    TERN_TRY(tern_gpu__float_rows(p, op, TERN_LINEAR_DW_DY, 0, false, &j.dy, err));
    if (!j.q8) TERN_TRY(tern_gpu__float_rows(p, op, TERN_LINEAR_DW_X, j.dy.scratch_bytes, false, &j.x, err));
    for (; j.first < dw->n_rows; j.first += j.product.rows) {
        uint32_t left = dw->n_rows - j.first;
        j.product = (tern_gpu_product){left < most ? left : (uint32_t)most, dw->cols, tern_gpu__max_rows(p, op->rows)};
        j.tiling = tern_gpu_select_dw(p->caps, j.q8, &j.product);
        TERN_TRY(add_dw(&j, err));
    }
    return TERN_OK;
}
