/* Lowering linear layers of ternary weights. */
#include <string.h>

#include "backend/gpu/linear/linear.h"

/* What one dispatch multiplies with: rows of up to three parts that follow each other in the output, or both parts of a
 * gated op. */
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

static const tern_value *value_of(const job *j, tern_view view)
{
    return &j->p->graph->values[view.value];
}

static const tern_weight *weight_of(const job *j, uint32_t i)
{
    return value_of(j, j->op->in[1 + j->part[i]])->weight;
}

static bool has_residual(const tern_op *op)
{
    return op->residual.value != TERN_NO_VALUE;
}

/* Whether the sum takes its addend's place (TERN_FUSION_IN_PLACE), which must then not be bound twice. */
static bool in_place(const tern_gpu_program *p, const tern_op *op)
{
    if (!has_residual(op)) return false;
    const tern_value *out = &p->graph->values[op->out.value], *addend = &p->graph->values[op->residual.value];
    if (op->out.value == op->residual.value) return true;
    return out->kind == TERN_VALUE_ACTIVATION && addend->kind == TERN_VALUE_ACTIVATION && out->offset == addend->offset;
}

static uint32_t flags_of(const job *j)
{
    static const uint32_t activations[] = {[TERN_ACT_RELU2] = 0, [TERN_ACT_SILU] = SILU, [TERN_ACT_GELU] = GELU};
    uint32_t flags = j->op->gated ? activations[j->op->activation] : 0;
    if (!has_residual(j->op)) return flags;
    return flags | (in_place(j->p, j->op) ? IN_PLACE : RESIDUAL);
}

static uint32_t row_scales_word(const job *j, uint32_t i)
{
    return i < j->n ? (uint32_t)(j->layout[i].scales_offset / 4) : 0;
}

static uint32_t scale_bits(const job *j, uint32_t i)
{
    return i < j->n ? tern_gpu__float_bits(weight_of(j, i)->scale) : 0;
}

static tern_gpu_ternary_shape shape_of(const job *j)
{
    tern_gpu_ternary_shape shape = {.norm = j->op->norm_weight.value != TERN_NO_VALUE,
                                    .gated = j->op->gated,
                                    .activation = j->op->activation,
                                    .residual = has_residual(j->op),
                                    .in_place = in_place(j->p, j->op),
                                    .n_parts = j->n,
                                    .cols = j->op->in[0].cols,
                                    .tokens = tern_gpu__max_rows(j->p, j->op->rows)};
    for (uint32_t i = 0; i < j->n; i++) shape.row_bits |= j->rows[i];
    return shape;
}

static void set_uniform(tern_gpu_dispatch *d, const uint32_t *words, size_t bytes)
{
    memcpy(d->uniform, words, bytes);
}

/* Bindings that all kernels end with: n_bound weights, the residual, the result. Parts that are not there are the first
 * once more. */
static void bind_rest(const job *j, tern_gpu_dispatch *d, uint32_t n_bound)
{
    for (uint32_t i = 0; i < n_bound; i++) {
        uint32_t k = i < j->n ? i : 0;
        tern_gpu__bind_slice(d, j->op->in[1 + j->part[k]].value, &j->layout[k], j->slice);
    }
    if (flags_of(j) & RESIDUAL) tern_gpu__bind_view(j->p, d, j->op->residual, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_view(j->p, d, j->op->out, true);
    for (uint32_t i = 0; i < j->n; i++) d->weight_bytes += (uint64_t)j->rows[i] * j->layout[i].row_bytes;
}

/* Where rows of the result and of the residual start, and how far they lie apart. */
typedef struct places {
    uint32_t residual_first, residual_stride, out_first, out_stride;
} places;

static places places_of(const job *j)
{
    const tern_op *op = j->op;
    places at = {.out_first = op->out.first_col + j->first_col, .out_stride = value_of(j, op->out)->cols};
    if (!has_residual(op)) return at;
    at.residual_first = op->residual.first_col + j->first_col;
    at.residual_stride = value_of(j, op->residual)->cols;
    return at;
}

/* Q8 rows in units of `unit` bytes. */
typedef struct q8_places {
    uint32_t stride, scales_word, sums_word, max_rows;
} q8_places;

static q8_places q8_of(const job *j, uint32_t unit)
{
    const tern_value *x = value_of(j, j->op->in[0]);
    uint32_t n = tern_gpu__max_rows(j->p, x->rows);
    return (q8_places){.stride = (uint32_t)(tern_q8_stride(x->cols) / unit),
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

static tern_status lower_vec(const job *j, tern_gpu_pipeline pipeline, tern_error *err)
{
    const tern_op *op = j->op;
    bool norm = op->norm_weight.value != TERN_NO_VALUE;
    uint32_t first[TERN_LINEAR_MAX_PARTS + 1], lanes = tern_gpu_override(pipeline, "LANES", 8);
    uint32_t rows_of_group =
        tern_gpu_pipelines[pipeline].invocations / lanes * tern_gpu_override(pipeline, "BLOCKS", 1);
    uint32_t n_groups = count_groups(j, rows_of_group, first);
    tern_gpu_dispatch *d = tern_gpu__add(j->p, op, pipeline, n_groups, tern_gpu__max_rows(j->p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    q8_places q8 = norm ? (q8_places){0} : q8_of(j, 16);
    places at = places_of(j);
    const uint32_t uniform[] = {tern_gpu__count_word(j->p, op->rows),
                                op->in[0].cols,
                                j->layout[0].row_bytes / 16,
                                tern_gpu_ternary_padded_chunks(pipeline, op->in[0].cols),
                                flags_of(j),
                                tern_gpu__float_bits(op->eps),
                                norm ? op->in[0].first_col / 4 : 0,
                                norm ? value_of(j, op->in[0])->cols / 4 : q8.stride,
                                q8.scales_word,
                                q8.sums_word,
                                j->rows[0],
                                j->rows[1],
                                j->rows[2],
                                first[1],
                                first[2],
                                scale_bits(j, 0),
                                scale_bits(j, 1),
                                scale_bits(j, 2),
                                row_scales_word(j, 0),
                                row_scales_word(j, 1),
                                row_scales_word(j, 2),
                                at.residual_first,
                                at.residual_stride,
                                at.out_first,
                                at.out_stride};
    set_uniform(d, uniform, sizeof uniform);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind_value(j->p, d, op->in[0].value, false);
    if (norm) {
        tern_gpu_layout norm_weight;
        TERN_TRY(tern_gpu_layout_of(&norm_weight, value_of(j, op->norm_weight)->weight, j->p->caps, err));
        tern_gpu__bind_slice(d, op->norm_weight.value, &norm_weight, 0);
    } else {
        tern_gpu__bind_nothing(d);
    }
    bind_rest(j, d, TERN_LINEAR_MAX_PARTS);
    return TERN_OK;
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
    uint32_t unit = strcmp(tern_gpu_pipelines[pipeline].file, "linear_ternary_coop") == 0
                        ? 8
                        : 16; /* bytes that the kernel loads */
    q8_places q8 = q8_of(j, unit);
    places at = places_of(j);
    const uint32_t uniform[] = {tern_gpu__count_word(j->p, op->rows),
                                q8.max_rows,
                                j->layout[0].row_bytes / 32,
                                q8.stride,
                                q8.scales_word,
                                q8.sums_word,
                                j->layout[0].row_bytes / unit,
                                row_scales_word(j, 0),
                                j->rows[0],
                                j->rows[1],
                                j->rows[2],
                                first[1],
                                first[2],
                                scale_bits(j, 0),
                                scale_bits(j, 1),
                                scale_bits(j, 2),
                                at.out_first,
                                at.out_stride,
                                at.residual_first,
                                at.residual_stride,
                                flags_of(j)};
    set_uniform(d, uniform, sizeof uniform);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind_value(j->p, d, op->in[0].value, false);
    bind_rest(j, d, TERN_LINEAR_MAX_PARTS);
    return TERN_OK;
}

static tern_status lower_f32(const job *j, tern_error *err)
{
    const tern_op *op = j->op;
    tern_gpu_pipeline pipeline = op->gated ? TERN_GPU_TERNARY_F32_GATED : TERN_GPU_TERNARY_F32;
    uint32_t n_groups = tern_gpu__ceil_div(j->rows[0], tern_gpu_pipelines[pipeline].invocations /
                                                           tern_gpu_override(pipeline, "LANES", 8));
    tern_gpu_dispatch *d = tern_gpu__add(j->p, op, pipeline, n_groups, tern_gpu__max_rows(j->p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    places at = places_of(j);
    const uint32_t uniform[] = {tern_gpu__count_word(j->p, op->rows),
                                op->in[0].cols,
                                j->layout[0].row_bytes / 16,
                                flags_of(j),
                                j->rows[0],
                                op->in[0].first_col,
                                value_of(j, op->in[0])->cols,
                                row_scales_word(j, 0),
                                scale_bits(j, 0),
                                scale_bits(j, 1),
                                at.residual_first,
                                at.residual_stride,
                                at.out_first,
                                at.out_stride};
    set_uniform(d, uniform, sizeof uniform);
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind_value(j->p, d, op->in[0].value, false);
    bind_rest(j, d, 2);
    return TERN_OK;
}

static tern_status lower_job(const job *j, tern_error *err)
{
    const tern_op *op = j->op;
    const tern_value *x = value_of(j, op->in[0]);
    bool norm = op->norm_weight.value != TERN_NO_VALUE;
    if (!norm && x->dtype == TERN_DTYPE_F32) return lower_f32(j, err);
    if (norm && (op->in[0].first_col % 4 || op->in[0].cols % 4 || x->cols % 4))
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
    job j = {.p = p, .op = op, .n = n};
    const tern_value *x = &p->graph->values[op->in[0].value];
    for (uint32_t i = 0; i < first; i++) j.first_col += p->graph->values[op->in[1 + i].value].weight->rows;
    for (uint32_t i = 0; i < n; i++) {
        j.part[i] = first + i;
        TERN_TRY(tern_gpu_layout_of(&j.layout[i], weight_of(&j, i), p->caps, err));
        j.rows[i] = j.layout[i].rows;
    }
    if (op->gated) return lower_slices(&j, err);
    bool f32 = x->dtype == TERN_DTYPE_F32 && op->norm_weight.value == TERN_NO_VALUE;
    if (joined(j.layout, n) && (n == 1 || !f32)) return lower_job(&j, err);
    for (uint32_t i = 0; i < n; i++) {
        job one = {.p = p, .op = op, .n = 1, .part = {first + i}, .layout = {j.layout[i]}, .first_col = j.first_col};
        TERN_TRY(lower_slices(&one, err));
        j.first_col += j.layout[i].rows;
    }
    return TERN_OK;
}
