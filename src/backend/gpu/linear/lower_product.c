/* Lowering products of floats: the rows they read, the product of one slice of a weight, the sum of its parts. */
#include "backend/gpu/linear/linear_internal.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { VECTOR = 4 /* floats */ };

tern_gpu_range tern_gpu__place(tern_gpu_program *p, uint64_t offset, uint64_t bytes)
{
    return (tern_gpu_range){.value = TERN_GPU_SCRATCH,
                            .offset = tern_gpu__scratch(p, offset + bytes) + offset,
                            .bytes = bytes,
                            .written = true};
}

/* The rows of an input: those of the op, except for tokens beside routed rows. */
static tern_rows rows_of(const tern_op *op, const tern_value *value)
{
    return op->route.cols ? value->rows : op->rows;
}

/* int8 rows, and f32 rows that no vector begins with, are written to SCRATCH. */
static tern_status widen(tern_gpu_program *p, const tern_op *op, const tern_view *view, const tern_gpu_rows *rows,
                         tern_error *err)
{
    const tern_value *value = tern_gpu__value(p, *view);
    bool q8 = value->dtype == TERN_DTYPE_Q8;
    uint32_t max_rows = tern_gpu__max_rows(p, rows_of(op, value)), vectors = rows->stride;
    tern_gpu_pipeline pipeline = q8 ? TERN_GPU_WIDEN_Q8 : TERN_GPU_WIDEN_F32;
    tern_gpu_dispatch *d = tern_gpu__add(
        p, op, pipeline, tern_gpu__ceil_div(vectors, tern_gpu_pipelines[pipeline].invocations), max_rows, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_widen_uniform u = {.cols = view->cols,
                                      .vectors = vectors,
                                      .count_word = tern_gpu__count_word(p, op->rows),
                                      .x_first = q8 ? 0 : view->first_col,
                                      .x_stride = q8 ? (uint32_t)(tern_q8_stride(view->cols) / 4) : value->cols,
                                      .scales_word = (uint32_t)(tern_q8_scales_offset(view->cols, max_rows) / 4),
                                      .token_rows = tern_gpu__token_rows(p, rows_of(op, value))};
    tern_gpu_widen_set(d, &u);
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
    const tern_value *value = tern_gpu__value(p, *view);
    *rows = (tern_gpu_rows){.cols = tern_gpu__ceil_div(view->cols, VECTOR) * VECTOR};
    if (value->dtype != TERN_DTYPE_Q8 && view->cols % VECTOR == 0 && view->first_col % VECTOR == 0 &&
        value->cols % VECTOR == 0) {
        uint64_t first = (uint64_t)view->first_row * value->cols * sizeof(float);
        rows->range = (tern_gpu_range){.value = view->value, .offset = first, .bytes = value->bytes - first};
        rows->first = view->first_col / VECTOR;
        rows->stride = value->cols / VECTOR;
        return TERN_OK;
    }
    uint64_t bytes = (uint64_t)tern_gpu__max_rows(p, rows_of(op, value)) * rows->cols * sizeof(float);
    rows->scratch_bytes = tern_gpu__aligned(bytes);
    rows->range = tern_gpu__place(p, offset, bytes);
    rows->range.written = false;
    rows->stride = rows->cols / VECTOR;
    return again ? TERN_OK : widen(p, op, view, rows, err);
}

tern_status tern_gpu__add_sum(tern_gpu_program *p, const tern_op *op, const tern_gpu_sum *sum, tern_error *err)
{
    tern_gpu_pipeline pipeline = TERN_GPU_LINEAR_PARTS;
    uint64_t invocations = tern_gpu_pipelines[pipeline].invocations,
             groups = ((uint64_t)sum->rows * sum->cols + invocations - 1) / invocations;
    const uint32_t row_groups = groups < p->caps->max_groups ? (uint32_t)groups : p->caps->max_groups;
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, pipeline, row_groups, (uint32_t)((groups + row_groups - 1) / row_groups), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const bool residual = sum->epilogue == TERN_GPU_ADD_RESIDUAL;
    const tern_gpu_linear_parts_uniform u = {.rows = sum->counted ? 0 : sum->rows,
                                             .cols = sum->cols,
                                             .count_word = tern_gpu__group_count_word(p, op),
                                             .n_parts = sum->n_parts,
                                             .part_stride = sum->rows * sum->cols,
                                             .result_first = sum->result_first,
                                             .result_stride = sum->result_stride,
                                             .residual_first = residual ? sum->addend.first : 0,
                                             .residual_stride = residual ? sum->addend.stride : 0,
                                             .epilogue = sum->epilogue,
                                             .row_groups = row_groups,
                                             .first_word = tern_gpu__group_first_word(p, op)};
    tern_gpu_linear_parts_set(d, &u);
    tern_gpu_range parts = sum->parts;
    parts.written = false;
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind(d, parts);
    if (residual) tern_gpu__bind_view(p, d, sum->addend.view, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind(d, sum->result);
    return TERN_OK;
}

/* Rows of x, times the scales of the weight's rows where there are any. */
static tern_status add_row_factors(tern_gpu_program *p, const tern_gpu_slice_product *s, tern_gpu_range factors,
                                   tern_error *err)
{
    tern_gpu_dispatch *d = tern_gpu__add(p, s->op, TERN_GPU_ROW_FACTORS, s->product.rows, 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_row_factors_uniform u = {.cols = s->product.depth,
                                            .x_first = s->x.first + s->x_skip,
                                            .x_stride = s->x.stride,
                                            .scales_word = s->backward ? (uint32_t)(s->layout->scales_offset / 4) : 0};
    tern_gpu_row_factors_set(d, &u);
    tern_gpu__bind(d, s->x.range);
    tern_gpu__bind_slice(d, s->weight, s->layout, s->slice);
    tern_gpu__bind(d, factors);
    return TERN_OK;
}

static tern_gpu_range range_of(const tern_gpu_program *p, tern_view view)
{
    const tern_value *v = tern_gpu__value(p, view);
    uint64_t offset = (uint64_t)view.first_row * v->cols * sizeof(float);
    return (tern_gpu_range){.value = view.value, .offset = offset, .bytes = v->bytes - offset, .written = true};
}

/* The uniforms of all kernels of a product; `sum` says where its result goes, or that of its parts. */
static tern_gpu_linear_float_coop_uniform tiles_of(const tern_gpu_program *p, const tern_gpu_slice_product *s,
                                                   const tern_gpu_sum *sum)
{
    const tern_op *op = s->op;
    const tern_weight *w = p->graph->values[s->weight].weight;
    const bool parts = s->tiling.n_parts > 1, residual = !parts && sum->epilogue == TERN_GPU_ADD_RESIDUAL;
    const uint32_t depth = s->product.depth, cols = s->product.cols;
    return (tern_gpu_linear_float_coop_uniform){.rows = s->backward ? depth : cols,
                                                .cols = s->backward ? cols : depth,
                                                .row_vectors = s->layout->row_bytes / 16,
                                                .count_word = tern_gpu__group_count_word(p, op),
                                                .max_tokens = s->product.rows,
                                                .x_first = s->x.first + s->x_skip,
                                                .x_stride = s->x.stride,
                                                .result_first = parts ? 0 : sum->result_first,
                                                .result_stride = parts ? cols : sum->result_stride,
                                                .residual_first = residual ? s->addend.first : 0,
                                                .residual_stride = residual ? s->addend.stride : 0,
                                                .epilogue = parts ? TERN_GPU_STORE : sum->epilogue,
                                                .depth_of_part = s->tiling.part_depth,
                                                .part_stride = parts ? s->product.rows * cols : 0,
                                                .row_scales = (uint32_t)(s->layout->scales_offset / 4),
                                                .scale = w->encoding->ternary && !w->row_scales ? w->scale : 1.0f,
                                                .first_word = tern_gpu__group_first_word(p, op)};
}

static void set_dense_mat(tern_gpu_dispatch *d, const tern_gpu_linear_float_coop_uniform *u)
{
    const tern_gpu_linear_dense_mat_uniform own = {.rows = u->rows,
                                                   .cols = u->cols,
                                                   .row_vectors = u->row_vectors,
                                                   .count_word = u->count_word,
                                                   .x_first = u->x_first,
                                                   .x_stride = u->x_stride,
                                                   .result_first = u->result_first,
                                                   .result_stride = u->result_stride,
                                                   .residual_first = u->residual_first,
                                                   .residual_stride = u->residual_stride,
                                                   .epilogue = u->epilogue,
                                                   .cols_of_part = u->depth_of_part,
                                                   .part_stride = u->part_stride,
                                                   .first_word = u->first_word};
    tern_gpu_linear_dense_mat_set(d, &own);
}

static void set_dx(tern_gpu_dispatch *d, const tern_gpu_linear_float_coop_uniform *u)
{
    const tern_gpu_linear_dx_uniform own = {.rows = u->rows,
                                            .cols = u->cols,
                                            .row_vectors = u->row_vectors,
                                            .count_word = u->count_word,
                                            .max_tokens = u->max_tokens,
                                            .dy_first = u->x_first,
                                            .dy_stride = u->x_stride,
                                            .result_first = u->result_first,
                                            .result_stride = u->result_stride,
                                            .residual_first = u->residual_first,
                                            .residual_stride = u->residual_stride,
                                            .epilogue = u->epilogue,
                                            .rows_of_part = u->depth_of_part,
                                            .part_stride = u->part_stride,
                                            .row_scales = u->row_scales,
                                            .scale = u->scale};
    tern_gpu_linear_dx_set(d, &own);
}

/* The dispatch that multiplies. */
static tern_status add_tiles(tern_gpu_program *p, const tern_gpu_slice_product *s, const tern_gpu_sum *sum,
                             const tern_gpu_range *factors, tern_error *err)
{
    const tern_gpu_tiling *tiling = &s->tiling;
    const uint32_t groups[2] = {tern_gpu__ceil_div(s->product.cols, tiling->tile_cols),
                                tern_gpu__ceil_div(s->product.rows, tiling->tile_rows)};
    tern_gpu_dispatch *d = tern_gpu__add(p, s->op, tiling->pipeline, groups[0], groups[1], tiling->n_parts, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_linear_float_coop_uniform u = tiles_of(p, s, sum);
    if (factors) tern_gpu_linear_float_coop_set(d, &u);
    else if (s->backward) set_dx(d, &u);
    else set_dense_mat(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind(d, s->x.range);
    if (factors) tern_gpu__bind(d, *factors);
    tern_gpu__bind_slice(d, s->weight, s->layout, s->slice);
    if (tiling->n_parts == 1 && sum->epilogue == TERN_GPU_ADD_RESIDUAL)
        tern_gpu__bind_view(p, d, s->addend.view, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind(d, tiling->n_parts > 1 ? sum->parts : sum->result);
    d->weight_bytes = (uint64_t)u.rows * s->layout->row_bytes;
    d->weight_rows = s->backward ? 0 : s->product.cols;
    d->weight_cols = s->backward ? 0 : s->product.depth;
    d->weight_tokens = s->backward ? 0 : tern_gpu_token_class(s->product.rows);
    return TERN_OK;
}

tern_status tern_gpu__add_product(tern_gpu_program *p, const tern_gpu_slice_product *s, tern_error *err)
{
    const tern_op *op = s->op;
    const tern_gpu_product *product = &s->product;
    const bool cooperative = tern_gpu_tiling_is_cooperative(&s->tiling);
    uint64_t offset = s->x.scratch_bytes;
    tern_gpu_range factors = {0};
    if (cooperative) {
        factors = tern_gpu__place(p, offset, product->rows * sizeof(float));
        offset += tern_gpu__aligned(factors.bytes);
        TERN_TRY(add_row_factors(p, s, factors, err));
        factors.written = false;
    }
    tern_gpu_sum sum = {.n_parts = s->tiling.n_parts,
                        .rows = product->rows,
                        .cols = product->cols,
                        .counted = true,
                        .result = range_of(p, op->out),
                        .addend = s->addend,
                        .result_first = op->out.first_col + s->col,
                        .result_stride = tern_gpu__stride(p, op->out),
                        .epilogue = s->epilogue};
    if (sum.n_parts > 1)
        sum.parts = tern_gpu__place(p, offset, (uint64_t)sum.n_parts * product->rows * product->cols * sizeof(float));
    TERN_TRY(add_tiles(p, s, &sum, cooperative ? &factors : NULL, err));
    return sum.n_parts > 1 ? tern_gpu__add_sum(p, op, &sum, err) : TERN_OK;
}
