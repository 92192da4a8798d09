/* Lowering linear layers of ternary weights. */
#include "backend/gpu/linear/linear_internal.h"
#include "quant/weight.h"

/* The weights of one dispatch: rows of up to three parts that follow each other in the output, or both parts of a gated
 * op. */
typedef struct job {
    tern_gpu_program *p;
    const tern_op *op;
    uint32_t n; /* parts */
    uint32_t part[TERN_LINEAR_MAX_PARTS];
    tern_gpu_layout layout[TERN_LINEAR_MAX_PARTS];
    uint32_t slice; /* of each of them */
    uint32_t rows[TERN_LINEAR_MAX_PARTS];
    uint32_t first_col; /* of the first row in the output */
} job;

enum { RESIDUAL = 1, SILU = 2, IN_PLACE = 4, GELU = 8 }; /* flags of the kernels */

static tern_view x_of(const job *j)
{
    return j->op->in[TERN_LINEAR_X];
}

static const tern_weight *weight_of(const job *j, uint32_t i)
{
    return tern_gpu__weight_of_part(j->p, j->op, j->part[i]);
}

/* Parts with a bias are dispatches of their own; others share the residual. */
static tern_gpu_addend addend_of(const job *j)
{
    tern_gpu_addend addend = tern_gpu__addend_of(j->p, j->op, j->part[0]);
    addend.first += j->slice * j->layout[0].slice_rows;
    return addend;
}

static bool has_norm(const tern_op *op)
{
    return op->norm_weight.value != TERN_NO_VALUE;
}

static uint32_t flags_of(const job *j)
{
    static const uint32_t activations[] = {[TERN_ACT_RELU2] = 0, [TERN_ACT_SILU] = SILU, [TERN_ACT_GELU] = GELU};
    uint32_t flags = j->op->gated ? activations[j->op->activation] : 0;
    switch (addend_of(j).epilogue) {
    case TERN_GPU_STORE: break;
    case TERN_GPU_ADD_RESIDUAL: return flags | RESIDUAL;
    case TERN_GPU_ADD_RESULT: return flags | IN_PLACE;
    }
    return flags;
}

static uint32_t row_scales_word(const job *j, uint32_t i)
{
    return i < j->n ? (uint32_t)(j->layout[i].scales_offset / 4) : 0;
}

static float scale_of(const job *j, uint32_t i)
{
    return i < j->n ? weight_of(j, i)->scale : 0;
}

static tern_gpu_ternary_shape shape_of(const job *j)
{
    tern_gpu_ternary_shape shape = {.norm = has_norm(j->op),
                                    .gated = j->op->gated,
                                    .activation = j->op->activation,
                                    .residual = addend_of(j).epilogue != TERN_GPU_STORE,
                                    .in_place = flags_of(j) & IN_PLACE,
                                    .n_parts = j->n,
                                    .cols = x_of(j).cols,
                                    .tokens = tern_gpu__kernel_rows(j->p, j->op->rows)};
    for (uint32_t i = 0; i < j->n; i++) {
        shape.row_bits |= j->rows[i];
        shape.rows += j->rows[i];
    }
    return shape;
}

/* Bindings that all kernels end with: n_bound weights, the residual, the result. Parts that are not there are the first
 * once more. */
static void bind_rest(const job *j, tern_gpu_dispatch *d, uint32_t n_bound)
{
    for (uint32_t i = 0; i < n_bound; i++) {
        uint32_t k = i < j->n ? i : 0;
        tern_gpu__bind_slice(d, j->op->in[TERN_LINEAR_W + j->part[k]].value, &j->layout[k], j->slice);
    }
    if (flags_of(j) & RESIDUAL) tern_gpu__bind_view(j->p, d, addend_of(j).view, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_view(j->p, d, j->op->out, true);
    for (uint32_t i = 0; i < j->n; i++) {
        d->weight_bytes += (uint64_t)j->rows[i] * j->layout[i].row_bytes;
        d->weight_rows += j->rows[i];
    }
    d->weight_cols = x_of(j).cols;
    d->weight_tokens = tern_gpu_token_class(tern_gpu__kernel_rows(j->p, j->op->rows));
}

/* Where rows of the result and of the residual start, and how far they lie apart. */
typedef struct positions {
    uint32_t residual_first, residual_stride, out_first, out_stride;
} positions;

static positions positions_of(const job *j)
{
    const tern_view out = j->op->out;
    const tern_gpu_addend addend = addend_of(j);
    return (positions){.residual_first = addend.first,
                       .residual_stride = addend.stride,
                       .out_first = out.first_col + j->first_col,
                       .out_stride = tern_gpu__stride(j->p, out)};
}

/* Q8 rows in units of `unit` bytes. */
typedef struct q8_positions {
    uint32_t stride, scales_word, sums_word, max_rows;
} q8_positions;

static q8_positions q8_of(const job *j, uint32_t unit)
{
    const tern_value *x = tern_gpu__value(j->p, x_of(j));
    uint32_t n = tern_gpu__max_rows(j->p, x->rows);
    return (q8_positions){.stride = (uint32_t)(tern_q8_stride(x->cols) / unit),
                          .max_rows = n,
                          .scales_word = (uint32_t)(tern_q8_scales_offset(x->cols, n) / 4),
                          .sums_word = (uint32_t)(tern_q8_sums_offset(x->cols, n) / 4)};
}

/* Groups of rows: `first[i]` is the first one of part i; gated parts share them. */
static uint32_t count_groups(const job *j, uint32_t rows_of_group, uint32_t first[TERN_LINEAR_MAX_PARTS + 1])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= TERN_LINEAR_MAX_PARTS; i++) {
        first[i] = i == 0 ? 0 : n;
        if (i < j->n && (i == 0 || !j->op->gated)) n += tern_gpu__ceil_div(j->rows[i], rows_of_group);
    }
    return n;
}

static void set_vec(const job *j, tern_gpu_dispatch *d, const uint32_t first[TERN_LINEAR_MAX_PARTS + 1])
{
    const tern_op *op = j->op;
    const tern_view x = x_of(j);
    const bool norm = has_norm(op);
    const q8_positions q8 = norm ? (q8_positions){0} : q8_of(j, 16);
    const positions at = positions_of(j);
    const tern_gpu_linear_ternary_vec_uniform u = {.count_word = tern_gpu__count_word(j->p, op->rows),
                                                   .cols = x.cols,
                                                   .chunks = j->layout[0].row_bytes / 16,
                                                   .padded = tern_gpu_ternary_padded_chunks(d->pipeline, x.cols),
                                                   .flags = flags_of(j),
                                                   .eps = op->eps,
                                                   .x_first = norm ? x.first_col / 4 : 0,
                                                   .x_stride = norm ? tern_gpu__stride(j->p, x) / 4 : q8.stride,
                                                   .scales_word = q8.scales_word,
                                                   .sums_word = q8.sums_word,
                                                   .rows0 = j->rows[0],
                                                   .rows1 = j->rows[1],
                                                   .rows2 = j->rows[2],
                                                   .block1 = first[1],
                                                   .block2 = first[2],
                                                   .scale0 = scale_of(j, 0),
                                                   .scale1 = scale_of(j, 1),
                                                   .scale2 = scale_of(j, 2),
                                                   .row_scales0 = row_scales_word(j, 0),
                                                   .row_scales1 = row_scales_word(j, 1),
                                                   .row_scales2 = row_scales_word(j, 2),
                                                   .residual_first = at.residual_first,
                                                   .residual_stride = at.residual_stride,
                                                   .out_first = at.out_first,
                                                   .out_stride = at.out_stride};
    tern_gpu_linear_ternary_vec_set(d, &u);
}

static tern_status lower_vec(const job *j, tern_gpu_pipeline pipeline, tern_error *err)
{
    const tern_op *op = j->op;
    uint32_t first[TERN_LINEAR_MAX_PARTS + 1];
    uint32_t n_groups = count_groups(j, tern_gpu_ternary_group_rows(pipeline), first);
    tern_gpu_dispatch *d = tern_gpu__add(j->p, op, pipeline, n_groups, tern_gpu__max_rows(j->p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    set_vec(j, d, first);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind_value(j->p, d, x_of(j).value, false);
    if (has_norm(op)) {
        tern_gpu_layout norm_weight;
        TERN_TRY(tern_gpu_layout_of(&norm_weight, tern_gpu__value(j->p, op->norm_weight)->weight, j->p->caps, err));
        tern_gpu__bind_slice(d, op->norm_weight.value, &norm_weight, 0);
    } else {
        tern_gpu__bind_nothing(d);
    }
    bind_rest(j, d, TERN_LINEAR_MAX_PARTS);
    return TERN_OK;
}

/* linear_ternary_mat and linear_ternary_coop are told the same. */
static void set_mat(const job *j, tern_gpu_dispatch *d, const uint32_t first[TERN_LINEAR_MAX_PARTS + 1])
{
    const uint32_t unit = 16; /* bytes that they load */
    const q8_positions q8 = q8_of(j, unit);
    const positions at = positions_of(j);
    const tern_gpu_linear_ternary_mat_uniform u = {.count_word = tern_gpu__count_word(j->p, j->op->rows),
                                                   .max_rows = q8.max_rows,
                                                   .n_groups = j->layout[0].row_bytes / 32,
                                                   .x_stride = q8.stride,
                                                   .scales_word = q8.scales_word,
                                                   .sums_word = q8.sums_word,
                                                   .w_stride = j->layout[0].row_bytes / unit,
                                                   .row_scales = row_scales_word(j, 0),
                                                   .rows0 = j->rows[0],
                                                   .rows1 = j->rows[1],
                                                   .rows2 = j->rows[2],
                                                   .tiles0 = first[1],
                                                   .tiles1 = first[2],
                                                   .scale0 = scale_of(j, 0),
                                                   .scale1 = scale_of(j, 1),
                                                   .scale2 = scale_of(j, 2),
                                                   .out_first = at.out_first,
                                                   .out_stride = at.out_stride,
                                                   .residual_first = at.residual_first,
                                                   .residual_stride = at.residual_stride,
                                                   .flags = flags_of(j)};
    tern_gpu_linear_ternary_mat_set(d, &u);
}

static tern_status lower_mat(const job *j, tern_gpu_pipeline pipeline, tern_error *err)
{
    const tern_op *op = j->op;
    uint32_t first[TERN_LINEAR_MAX_PARTS + 1];
    uint32_t n_tiles = count_groups(j, tern_gpu_ternary_tile_rows(pipeline, op->gated), first);
    uint32_t n_tokens = tern_gpu__max_rows(j->p, op->rows);
    tern_gpu_dispatch *d = tern_gpu__add(j->p, op, pipeline, n_tiles,
                                         tern_gpu__ceil_div(n_tokens, tern_gpu_ternary_tile_tokens(pipeline)), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    set_mat(j, d, first);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind_value(j->p, d, x_of(j).value, false);
    bind_rest(j, d, TERN_LINEAR_MAX_PARTS);
    return TERN_OK;
}

static tern_status lower_f32(const job *j, tern_error *err)
{
    const tern_op *op = j->op;
    const tern_view x = x_of(j);
    tern_gpu_pipeline pipeline = op->gated ? TERN_GPU_TERNARY_F32_GATED : TERN_GPU_TERNARY_F32;
    const tern_gpu_linear_ternary_f32_overrides *kernel = tern_gpu_linear_ternary_f32_overrides_of(pipeline);
    uint32_t n_groups = tern_gpu__ceil_div(j->rows[0], kernel->workgroup / kernel->lanes);
    tern_gpu_dispatch *d = tern_gpu__add(j->p, op, pipeline, n_groups, tern_gpu__max_rows(j->p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const positions at = positions_of(j);
    const tern_gpu_linear_ternary_f32_uniform u = {.count_word = tern_gpu__count_word(j->p, op->rows),
                                                   .cols = x.cols,
                                                   .chunks = j->layout[0].row_bytes / 16,
                                                   .flags = flags_of(j),
                                                   .rows = j->rows[0],
                                                   .x_first = x.first_col,
                                                   .x_stride = tern_gpu__stride(j->p, x),
                                                   .row_scales = row_scales_word(j, 0),
                                                   .scale0 = scale_of(j, 0),
                                                   .scale1 = scale_of(j, 1),
                                                   .residual_first = at.residual_first,
                                                   .residual_stride = at.residual_stride,
                                                   .out_first = at.out_first,
                                                   .out_stride = at.out_stride};
    tern_gpu_linear_ternary_f32_set(d, &u);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind_value(j->p, d, x.value, false);
    bind_rest(j, d, 2);
    return TERN_OK;
}

static tern_status lower_job(const job *j, tern_error *err)
{
    const tern_op *op = j->op;
    const tern_view x = x_of(j);
    const bool norm = has_norm(op);
    if (!norm && tern_gpu__value(j->p, x)->dtype == TERN_DTYPE_F32) return lower_f32(j, err);
    if (norm && (x.first_col % 4 || x.cols % 4 || tern_gpu__stride(j->p, x) % 4))
        return tern_gpu__unsupported(j->p->graph, op, "a norm of rows that are no multiple of 4 wide", err);
    tern_gpu_ternary_shape shape = shape_of(j);
    if (norm || shape.tokens <= TERN_GPU_VEC_TOKENS) {
        tern_gpu_pipeline vec = tern_gpu_select_ternary_vec(j->p->caps, &shape);
        if (vec != TERN_GPU_PIPELINE_COUNT) return lower_vec(j, vec, err);
        if (norm)
            return tern_gpu__unsupported(j->p->graph, op, "the row to be normed is wider than workgroup memory", err);
    }
    return lower_mat(j, tern_gpu_select_ternary_mat(j->p->caps, &shape), err);
}

/* Slices of a weight one after the other, each dispatch at its place in the output. */
static tern_status lower_slices(job *j, tern_error *err)
{
    const tern_gpu_layout *layout = &j->layout[0];
    uint32_t first_col = j->first_col;
    for (j->slice = 0; j->slice < layout->n_slices; j->slice++) {
        uint32_t first = j->slice * layout->slice_rows, rows = layout->rows - first;
        if (rows > layout->slice_rows) rows = layout->slice_rows;
        for (uint32_t i = 0; i < j->n; i++) j->rows[i] = rows;
        j->first_col = first_col + first;
        TERN_TRY(lower_job(j, err));
    }
    return TERN_OK;
}

/* Whether parts [first, first + n) can be one dispatch: no slices, and row scales, if any, at the same place. */
static bool joined(const tern_gpu_layout layouts[], uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (layouts[i].n_slices > 1 || layouts[i].scales_offset != layouts[0].scales_offset) return false;
    return true;
}

tern_status tern_gpu__lower_linear_ternary(tern_gpu_program *p, const tern_op *op, uint32_t first, uint32_t n,
                                           tern_error *err)
{
    job j = {.p = p, .op = op, .n = n, .first_col = tern_gpu__column_of_part(p, op, first)};
    for (uint32_t i = 0; i < n; i++) {
        j.part[i] = first + i;
        TERN_TRY(tern_gpu_layout_of(&j.layout[i], weight_of(&j, i), p->caps, err));
        j.rows[i] = j.layout[i].rows;
    }
    if (op->gated) return lower_slices(&j, err);
    const bool f32 = tern_gpu__value(p, x_of(&j))->dtype == TERN_DTYPE_F32 && !has_norm(op);
    if (joined(j.layout, n) && (n == 1 || !f32)) return lower_job(&j, err);
    for (uint32_t i = 0; i < n; i++) {
        job one = {.p = p, .op = op, .n = 1, .part = {first + i}, .layout = {j.layout[i]}, .first_col = j.first_col};
        TERN_TRY(lower_slices(&one, err));
        j.first_col += j.layout[i].rows;
    }
    return TERN_OK;
}
