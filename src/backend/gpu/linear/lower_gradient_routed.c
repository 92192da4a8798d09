/* Lowering the gradients of linear layers with experts: products of rows that a dispatch before has put together by
 * expert. */
#include "backend/gpu/experts/experts_internal.h"
#include "backend/gpu/linear/linear_internal.h"
#include "quant/encoding.h"
#include "quant/weight.h"

static const tern_gpu_pipeline dx_pipelines[TERN_GPU_FORMAT_COUNT] = {
    [TERN_GPU_TERNARY] = TERN_GPU_DX_GROUPED_TERNARY,
#define FORMAT(name, number, vec, unit, coop, join) [TERN_GPU_##name] = TERN_GPU_DX_GROUPED_##name,
#include "backend/gpu/formats.def"
#undef FORMAT
};

enum { EIGHT = 8, VECTOR = 4 }; /* lines and columns of an invocation */

/* LINEAR_DX under way. */
typedef struct dx_job {
    tern_gpu_program *p;
    const tern_op *op;
    tern_gpu_layout layout;
    tern_gpu_rows dy;
    tern_gpu_grouping grouping;
    tern_gpu_range result; /* of routed rows: the op's out, or in SCRATCH */
    tern_gpu_epilogue epilogue;
    uint32_t result_first, result_stride;
} dx_job;

static tern_status check_weight(const dx_job *j, tern_error *err)
{
    const uint32_t rows = j->op->in[TERN_LINEAR_DX_DY].cols;
    if (j->op->n_experts == 0 || j->p->graph->n_routes == 0 || j->op->n_experts > TERN_MAX_EXPERTS ||
        j->layout.rows != (uint64_t)j->op->n_experts * rows)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "gpu: op linear_dx with a route: %u rows found, %u for each of %u experts expected",
                         j->layout.rows, rows, j->op->n_experts);
    if (j->layout.n_slices > 1 && (j->layout.slice_rows % VECTOR || rows % VECTOR))
        return tern_gpu__unsupported(j->p->graph, j->op, "slices of experts' rows that are no multiple of 4", err);
    return TERN_OK;
}

static tern_status add_slice(const dx_job *j, uint32_t slice, tern_error *err)
{
    const tern_gpu_pipeline pipeline = dx_pipelines[j->layout.format];
    const uint32_t first = slice * j->layout.slice_rows, left = j->layout.rows - first;
    const tern_weight *w = tern_gpu__value(j->p, j->op->in[TERN_LINEAR_DX_W])->weight;
    const bool residual = slice == 0 && j->epilogue == TERN_GPU_ADD_RESIDUAL;
    const uint32_t tile = EIGHT * tern_gpu_linear_dx_overrides_of(pipeline)->col_threads;
    tern_gpu_dispatch *d =
        tern_gpu__add(j->p, j->op, pipeline, tern_gpu__ceil_div(j->layout.cols, tile), j->grouping.max_tiles, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_linear_dx_uniform u = {.rows = j->op->in[TERN_LINEAR_DX_DY].cols,
                                          .cols = j->layout.cols,
                                          .row_vectors = j->layout.row_bytes / 16,
                                          .dy_first = j->dy.first,
                                          .dy_stride = j->dy.stride,
                                          .result_first = j->result_first,
                                          .result_stride = j->result_stride,
                                          .residual_first = residual ? j->op->residual.first_col : 0,
                                          .residual_stride = residual ? tern_gpu__stride(j->p, j->op->residual) : 0,
                                          .epilogue = slice == 0 ? j->epilogue : TERN_GPU_ADD_RESULT,
                                          .row_scales = (uint32_t)(j->layout.scales_offset / 4),
                                          .scale = w->encoding->ternary && !w->row_scales ? w->scale : 1.0f,
                                          .rows_first = j->grouping.rows_first,
                                          .slice_first = first,
                                          .slice_rows = left < j->layout.slice_rows ? left : j->layout.slice_rows};
    tern_gpu_linear_dx_set(d, &u);
    tern_gpu__bind(d, j->grouping.range);
    tern_gpu__bind(d, j->dy.range);
    tern_gpu__bind_slice(d, j->op->in[TERN_LINEAR_DX_W].value, &j->layout, slice);
    if (residual) tern_gpu__bind_view(j->p, d, j->op->residual, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind(d, j->result);
    d->weight_bytes = (uint64_t)u.slice_rows * j->layout.row_bytes;
    return TERN_OK;
}

/* Where routed rows go: to rows of tokens, which are their sums, by way of SCRATCH. */
static void find_result(dx_job *j, uint64_t offset)
{
    const tern_gpu_program *p = j->p;
    const tern_op *op = j->op;
    if (op->rows == TERN_ROWS_ROUTED) {
        j->result =
            (tern_gpu_range){.value = op->out.value, .bytes = tern_gpu__value(p, op->out)->bytes, .written = true};
        j->epilogue = tern_gpu__residual_epilogue(p, op);
        j->result_first = op->out.first_col;
        j->result_stride = tern_gpu__stride(p, op->out);
        return;
    }
    const uint64_t rows = tern_gpu__max_rows(p, TERN_ROWS_ROUTED);
    j->result = tern_gpu__place(j->p, offset, rows * j->layout.cols * sizeof(float));
    j->result_stride = j->layout.cols;
}

tern_status tern_gpu__lower_linear_dx_routed(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    dx_job j = {.p = p, .op = op};
    TERN_TRY(tern_gpu_layout_of(&j.layout, tern_gpu__value(p, op->in[TERN_LINEAR_DX_W])->weight, p->caps, err));
    TERN_TRY(check_weight(&j, err));
    TERN_TRY(tern_gpu__float_rows(p, op, TERN_LINEAR_DX_DY, 0, false, &j.dy, err));
    const uint32_t tile = tern_gpu_linear_dx_overrides_of(dx_pipelines[j.layout.format])->lines;
    TERN_TRY(tern_gpu__group_rows(p, op, tile, false, j.dy.scratch_bytes, &j.grouping, err));
    find_result(&j, j.dy.scratch_bytes + tern_gpu__aligned(j.grouping.range.bytes));
    for (uint32_t slice = 0; slice < j.layout.n_slices; slice++) TERN_TRY(add_slice(&j, slice, err));
    if (op->rows == TERN_ROWS_ROUTED) return TERN_OK;
    j.result.written = false;
    return tern_gpu__add_combine(p, op, j.result, 0, j.result_stride, TERN_NO_VALUE, err);
}

/* LINEAR_DW under way. */
typedef struct dw_job {
    tern_gpu_program *p;
    const tern_op *op;
    tern_gpu_rows dy, x; /* x unless q8 */
    bool q8;
    tern_gpu_grouping grouping;
} dw_job;

static void bind_x(const dw_job *j, tern_gpu_dispatch *d)
{
    if (j->q8) tern_gpu__bind_nothing(d);
    else tern_gpu__bind(d, j->x.range);
    if (j->q8) tern_gpu__bind_value(j->p, d, j->op->in[TERN_LINEAR_DW_X].value, false);
    else tern_gpu__bind_nothing(d);
}

/* Rows [first, first + n) of the gradient. */
static tern_status add_rows(const dw_job *j, uint32_t first, uint32_t n, tern_error *err)
{
    const tern_gpu_pipeline pipeline = j->q8 ? TERN_GPU_DW_GROUPED_Q8 : TERN_GPU_DW_GROUPED_F32;
    const tern_gpu_linear_dw_overrides *kernel = tern_gpu_linear_dw_overrides_of(pipeline);
    const tern_view dw = j->op->in[TERN_LINEAR_DW_DW], x = j->op->in[TERN_LINEAR_DW_X];
    const tern_value *rows_of_x = tern_gpu__value(j->p, x);
    const uint32_t rows = j->op->in[TERN_LINEAR_DW_DY].cols, cols = tern_gpu__stride(j->p, dw);
    tern_gpu_dispatch *d =
        tern_gpu__add(j->p, j->op, pipeline, tern_gpu__ceil_div(cols, EIGHT * kernel->col_threads),
                      tern_gpu__ceil_div(rows, EIGHT * kernel->row_threads), j->grouping.max_tiles, err);
    if (!d) return TERN_UNSUPPORTED;
    const uint32_t n_x = tern_gpu__max_rows(j->p, rows_of_x->rows);
    const tern_gpu_linear_dw_uniform u = {
        .rows = rows,
        .cols = cols,
        .dy_first = j->dy.first,
        .dy_stride = j->dy.stride,
        .x_first = j->x.first,
        .x_stride = j->q8 ? (uint32_t)(tern_q8_stride(rows_of_x->cols) / 4) : j->x.stride,
        .scales_word = j->q8 ? (uint32_t)(tern_q8_scales_offset(rows_of_x->cols, n_x) / 4) : 0,
        .adds = 1,
        .rows_first = j->grouping.rows_first,
        .x_rows = rows_of_x->rows == TERN_ROWS_ROUTED ? 1 : j->p->graph->n_routes,
        .slice_first = first,
        .slice_rows = n};
    tern_gpu_linear_dw_set(d, &u);
    tern_gpu__bind(d, j->grouping.range);
    tern_gpu__bind(d, j->dy.range);
    bind_x(j, d);
    tern_gpu__bind(d, (tern_gpu_range){.value = dw.value,
                                       .offset = (uint64_t)first * cols * sizeof(float),
                                       .bytes = (uint64_t)n * cols * sizeof(float),
                                       .written = true});
    d->beside = first > 0;
    return TERN_OK;
}

tern_status tern_gpu__lower_linear_dw_routed(tern_gpu_program *p, const tern_op *op, uint32_t most, tern_error *err)
{
    dw_job j = {.p = p, .op = op};
    const tern_value *dw = tern_gpu__value(p, op->in[TERN_LINEAR_DW_DW]);
    if (op->n_experts == 0 || op->n_experts > TERN_MAX_EXPERTS || p->graph->n_routes == 0 ||
        dw->n_rows != (uint64_t)op->n_experts * op->in[TERN_LINEAR_DW_DY].cols)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "gpu: op linear_dw with a route: %u rows found, %u for each of %u experts expected",
                         dw->n_rows, op->in[TERN_LINEAR_DW_DY].cols, op->n_experts);
    j.q8 = tern_gpu__value(p, op->in[TERN_LINEAR_DW_X])->dtype == TERN_DTYPE_Q8;
    TERN_TRY(tern_gpu__float_rows(p, op, TERN_LINEAR_DW_DY, 0, false, &j.dy, err));
    if (!j.q8) TERN_TRY(tern_gpu__float_rows(p, op, TERN_LINEAR_DW_X, j.dy.scratch_bytes, false, &j.x, err));
    TERN_TRY(tern_gpu__group_all_rows(p, op, j.dy.scratch_bytes + j.x.scratch_bytes, &j.grouping, err));
    for (uint32_t first = 0; first < dw->n_rows; first += most) {
        const uint32_t left = dw->n_rows - first;
        TERN_TRY(add_rows(&j, first, left < most ? left : most, err));
    }
    return TERN_OK;
}
