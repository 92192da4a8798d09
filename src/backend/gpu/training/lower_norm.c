/* Lowering the gradients of a norm, of its input by groups of columns, of its weight by columns, and of a bias by
 * columns: in parts that are added in order. */
#include "backend/gpu/experts/experts_internal.h"

enum { FEW_COLUMNS = 512 }; /* of a group, for which few invocations are enough */

/* Where in SCRATCH, in words. */
typedef struct regions {
    uint32_t r, parts, n_parts;
    uint64_t bytes;
} regions;

static uint32_t groups_of(const tern_op *op)
{
    return op->in[TERN_NORM_BACKWARD_X].cols / op->in[TERN_NORM_BACKWARD_WEIGHT].cols;
}

/* n_kept words, then parts of `rows_of_part` of `rows` rows of `cols` columns. */
static regions find_regions(tern_gpu_program *p, uint64_t n_kept, uint64_t rows, uint32_t rows_of_part, uint32_t cols)
{
    regions at = {.n_parts = (uint32_t)((rows + rows_of_part - 1) / rows_of_part)};
    const uint64_t bytes = (n_kept + (uint64_t)at.n_parts * cols) * 4, first = tern_gpu__scratch(p, bytes);
    at.r = (uint32_t)(first / 4);
    at.parts = at.r + (uint32_t)n_kept;
    at.bytes = first + bytes;
    return at;
}

static bool is_there(tern_view view)
{
    return view.value != TERN_NO_VALUE;
}

static uint32_t first_of(tern_view view)
{
    return is_there(view) ? view.first_col : 0;
}

static uint32_t stride_of(const tern_gpu_program *p, tern_view view)
{
    return is_there(view) ? tern_gpu__stride(p, view) : 0;
}

static void bind_wanted(const tern_gpu_program *p, tern_gpu_dispatch *d, tern_view view, bool written)
{
    if (is_there(view)) tern_gpu__bind_view(p, d, view, written);
    else tern_gpu__bind_nothing(d);
}

static tern_gpu_pipeline select_rows(const tern_gpu_caps *caps, uint32_t cols, uint32_t n_groups)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_RMS_NORM_BACKWARD_S4_256, TERN_GPU_RMS_NORM_BACKWARD_128};
    if (n_groups > 1 && cols <= FEW_COLUMNS) return TERN_GPU_RMS_NORM_BACKWARD_32;
    return tern_gpu_first_fit(candidates, 2, caps);
}

static tern_status add_rows(tern_gpu_program *p, const tern_op *op, const regions *at, tern_error *err)
{
    const tern_view x = op->in[TERN_NORM_BACKWARD_X], dy = op->in[TERN_NORM_BACKWARD_DY];
    const bool keep = op->n_in > TERN_NORM_BACKWARD_DWEIGHT;
    const uint32_t cols = op->in[TERN_NORM_BACKWARD_WEIGHT].cols, n_groups = groups_of(op);
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, select_rows(p->caps, cols, n_groups), tern_gpu__max_rows(p, op->rows), n_groups, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_rms_norm_backward_uniform u = {
        .cols = cols,
        .n_groups = n_groups,
        .count_word = tern_gpu__count_word(p, op->rows),
        .x_first = x.first_col,
        .x_stride = tern_gpu__stride(p, x),
        .dy_first = dy.first_col,
        .dy_stride = tern_gpu__stride(p, dy),
        .residual_first = first_of(op->residual),
        .residual_stride = stride_of(p, op->residual),
        .dx_first = first_of(op->out),
        .dx_stride = stride_of(p, op->out),
        .eps = op->eps,
        .flags = (is_there(op->out) ? TERN_GPU_RMS_NORM_BACKWARD_CONST_DX : 0u) |
                 (is_there(op->residual) ? TERN_GPU_RMS_NORM_BACKWARD_CONST_RESIDUAL : 0u) |
                 (keep ? TERN_GPU_RMS_NORM_BACKWARD_CONST_KEEP : 0u),
        .scratch_word = at->r};
    tern_gpu_rms_norm_backward_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, x, false);
    tern_gpu__bind_value(p, d, op->in[TERN_NORM_BACKWARD_WEIGHT].value, false);
    tern_gpu__bind_view(p, d, dy, false);
    bind_wanted(p, d, op->residual, false);
    bind_wanted(p, d, op->out, true);
    if (keep) tern_gpu__bind_scratch(d, 0, at->bytes, true);
    else tern_gpu__bind_nothing(d);
    return TERN_OK;
}

static tern_status add_parts(tern_gpu_program *p, const tern_op *op, const regions *at, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_RMS_NORM_WEIGHT_GRADIENT_256,
                                                   TERN_GPU_RMS_NORM_WEIGHT_GRADIENT_128};
    const tern_view x = op->in[TERN_NORM_BACKWARD_X], dy = op->in[TERN_NORM_BACKWARD_DY];
    const uint32_t cols = op->in[TERN_NORM_BACKWARD_WEIGHT].cols;
    tern_gpu_pipeline pipeline = tern_gpu_first_fit(candidates, 2, p->caps);
    const uint32_t columns = tern_gpu_rms_norm_weight_gradient_overrides_of(pipeline)->columns;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(cols, columns), at->n_parts, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_rms_norm_weight_gradient_uniform u = {.cols = cols,
                                                         .n_groups = groups_of(op),
                                                         .count_word = tern_gpu__count_word(p, op->rows),
                                                         .x_first = x.first_col,
                                                         .x_stride = tern_gpu__stride(p, x),
                                                         .dy_first = dy.first_col,
                                                         .dy_stride = tern_gpu__stride(p, dy),
                                                         .scratch_word = at->r,
                                                         .parts_word = at->parts};
    tern_gpu_rms_norm_weight_gradient_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, x, false);
    tern_gpu__bind_view(p, d, dy, false);
    tern_gpu__bind_scratch(d, 0, at->bytes, true);
    return TERN_OK;
}

/* The gradient += its parts. */
static tern_status add_sum(tern_gpu_program *p, const tern_op *op, const regions *at, tern_view gradient,
                           tern_error *err)
{
    const uint32_t cols = gradient.cols, width = tern_gpu_pipelines[TERN_GPU_ADD_PARTS].invocations;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, TERN_GPU_ADD_PARTS, tern_gpu__ceil_div(cols, width), 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_add_parts_uniform u = {.cols = cols, .parts = at->n_parts, .parts_word = at->parts};
    tern_gpu_add_parts_set(d, &u);
    tern_gpu__bind_scratch(d, 0, at->bytes, false);
    tern_gpu__bind_view(p, d, gradient, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_rms_norm_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->n_in <= TERN_NORM_BACKWARD_DWEIGHT) return add_rows(p, op, &(regions){0}, err);
    /* The rows of a part do not depend on the pipeline, so that results do not either. */
    const uint32_t rows_of_part =
        tern_gpu_rms_norm_weight_gradient_overrides_of(TERN_GPU_RMS_NORM_WEIGHT_GRADIENT_128)->rows;
    const uint64_t n = (uint64_t)tern_gpu__max_rows(p, op->rows) * groups_of(op);
    const regions at = find_regions(p, n, n, rows_of_part, op->in[TERN_NORM_BACKWARD_WEIGHT].cols);
    TERN_TRY(add_rows(p, op, &at, err));
    TERN_TRY(add_parts(p, op, &at, err));
    return add_sum(p, op, &at, op->in[TERN_NORM_BACKWARD_DWEIGHT], err);
}

/* With experts, the rows of each, put together, are added to its row of the gradient. */
static tern_status lower_expert_biases(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_BIAS_GRADIENT_GROUPED_256,
                                                   TERN_GPU_BIAS_GRADIENT_GROUPED_128};
    const tern_view dy = op->in[TERN_BIAS_BACKWARD_DY], to = op->in[TERN_BIAS_BACKWARD_DBIAS];
    const tern_gpu_pipeline pipeline = tern_gpu_first_fit(candidates, 2, p->caps);
    const uint32_t columns = tern_gpu_bias_gradient_overrides_of(pipeline)->columns;
    tern_gpu_grouping grouping;
    if (op->n_experts == 0 || op->n_experts > TERN_MAX_EXPERTS || tern_gpu__value(p, to)->n_rows != op->n_experts)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "gpu: op bias_backward with a route: %u rows found, 1 for each of %u experts expected",
                         tern_gpu__value(p, to)->n_rows, op->n_experts);
    TERN_TRY(tern_gpu__group_all_rows(p, op, 0, &grouping, err));
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(dy.cols, columns), grouping.max_tiles, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_bias_gradient_uniform u = {.cols = dy.cols,
                                              .dy_first = dy.first_col,
                                              .dy_stride = tern_gpu__stride(p, dy),
                                              .rows_first = grouping.rows_first};
    tern_gpu_bias_gradient_set(d, &u);
    tern_gpu__bind(d, grouping.range);
    tern_gpu__bind_view(p, d, dy, false);
    tern_gpu__bind_value(p, d, to.value, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_bias_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    static const tern_gpu_pipeline candidates[] = {TERN_GPU_BIAS_GRADIENT_256, TERN_GPU_BIAS_GRADIENT_128};
    const tern_view dy = op->in[TERN_BIAS_BACKWARD_DY];
    if (op->route.cols) return lower_expert_biases(p, op, err);
    const tern_gpu_pipeline pipeline = tern_gpu_first_fit(candidates, 2, p->caps);
    const tern_gpu_bias_gradient_overrides *kernel = tern_gpu_bias_gradient_overrides_of(pipeline);
    const regions at = find_regions(p, 0, tern_gpu__max_rows(p, op->rows), kernel->rows, dy.cols);
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(dy.cols, kernel->columns), at.n_parts, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_bias_gradient_uniform u = {.cols = dy.cols,
                                              .count_word = tern_gpu__count_word(p, op->rows),
                                              .dy_first = dy.first_col,
                                              .dy_stride = tern_gpu__stride(p, dy),
                                              .parts_word = at.parts};
    tern_gpu_bias_gradient_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, dy, false);
    tern_gpu__bind_scratch(d, 0, at.bytes, true);
    return add_sum(p, op, &at, op->in[TERN_BIAS_BACKWARD_DBIAS], err);
}
