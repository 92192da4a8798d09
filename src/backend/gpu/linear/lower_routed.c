/* Lowering linear layers with experts: each part, and each slice of its weight, is one dispatch over all routed rows,
 * or over tiles of rows that a dispatch before has put together by expert. A gated op is its gate, then what that
 * becomes times the other part. */
#include "backend/gpu/experts/experts_internal.h"
#include "backend/gpu/linear/linear_internal.h"
#include "quant/weight.h"

enum {
    VECTOR = 4,
    Q8_VECTOR = 16,
    MAX_COLS_Q8 = 131072, /* sums of int8 times codes stay exact in f32 */
    EIGHT = 8,            /* rows and routed rows of an invocation of linear_grouped.wesl */
    FEW_ROWS = 16,
    FEW_OF_EXPERT = 4,  /* routed rows for each expert, at the least, for which decoding it once is less work */
    MANY_OF_EXPERT = 48 /* tiles of 64 are full more often than not */
};

static const tern_gpu_pipeline pipelines[TERN_GPU_FORMAT_COUNT][2] = {
    [TERN_GPU_TERNARY] = {TERN_GPU_ROUTED_TERNARY_32_S32, TERN_GPU_ROUTED_TERNARY},
#define FORMAT(name, number, vec, unit, coop, join)                                                                    \
    [TERN_GPU_##name] = {TERN_GPU_ROUTED_##name##_32_S32, TERN_GPU_ROUTED_##name},
#include "backend/gpu/formats.def"
#undef FORMAT
};

static const tern_gpu_pipeline grouped[TERN_GPU_FORMAT_COUNT][2] = {
    [TERN_GPU_TERNARY] = {TERN_GPU_GROUPED_TERNARY_128X32, TERN_GPU_GROUPED_TERNARY_128X64},
#define FORMAT(name, number, vec, unit, coop, join)                                                                    \
    [TERN_GPU_##name] = {TERN_GPU_GROUPED_##name##_128X32, TERN_GPU_GROUPED_##name##_128X64},
#include "backend/gpu/formats.def"
#undef FORMAT
};

static bool is_q8(const tern_gpu_program *p, const tern_op *op)
{
    return tern_gpu__value(p, op->in[TERN_LINEAR_X])->dtype == TERN_DTYPE_Q8;
}

/* The rows of x: where they begin, how far they lie apart, how many routed rows share one. */
static tern_status set_x(const tern_gpu_program *p, const tern_op *op, tern_gpu_linear_routed_uniform *u,
                         tern_error *err)
{
    const tern_view x = op->in[TERN_LINEAR_X];
    const tern_value *value = tern_gpu__value(p, x);
    u->cols = x.cols;
    u->q8 = is_q8(p, op);
    u->x_rows = value->rows == TERN_ROWS_ROUTED ? 1 : p->graph->n_routes;
    if (u->q8) {
        const uint32_t n = tern_gpu__max_rows(p, value->rows);
        u->x_stride = (uint32_t)(tern_q8_stride(value->cols) / Q8_VECTOR);
        u->scales_word = (uint32_t)(tern_q8_scales_offset(value->cols, n) / 4);
        if (x.cols <= MAX_COLS_Q8) return TERN_OK;
        return tern_gpu__unsupported(p->graph, op, "experts on int8 rows of more than 131072 columns", err);
    }
    u->x_first = x.first_col / VECTOR;
    u->x_stride = value->cols / VECTOR;
    if (x.cols % VECTOR == 0 && x.first_col % VECTOR == 0 && value->cols % VECTOR == 0) return TERN_OK;
    return tern_gpu__unsupported(p->graph, op, "experts on rows that are no multiple of 4 wide", err);
}

static bool is_worth_grouping(const tern_gpu_program *p, const tern_op *op)
{
    const uint32_t n = tern_gpu__kernel_rows(p, op->rows);
    return op->n_experts <= TERN_GPU_GROUP_ROWS_CONST_MAX_EXPERTS && n > FEW_ROWS && n / op->n_experts >= FEW_OF_EXPERT;
}

/* The kernel of each format, by whether its tiles are large. */
static bool is_large(const tern_gpu_program *p, const tern_op *op)
{
    return tern_gpu__kernel_rows(p, op->rows) / op->n_experts >= MANY_OF_EXPERT;
}

static tern_status group_rows(tern_gpu_program *p, const tern_op *op, tern_gpu_grouping *g, tern_error *err)
{
    const tern_gpu_pipeline pipeline = grouped[TERN_GPU_F32][is_large(p, op)];
    const uint32_t tile = EIGHT * tern_gpu_linear_grouped_overrides_of(pipeline)->token_threads;
    return tern_gpu__group_rows(p, op, tile, false, 0, g, err);
}

/* The layouts of a part's weight and, where it has one, of its bias. */
typedef struct operands {
    tern_gpu_layout weight, bias;
    bool has_bias;
} operands;

static tern_status find_operands(const tern_gpu_program *p, const tern_op *op, uint32_t part, operands *o,
                                 tern_error *err)
{
    *o = (operands){.has_bias = op->bias[part].cols != 0};
    TERN_TRY(tern_gpu_layout_of(&o->weight, tern_gpu__weight_of_part(p, op, part), p->caps, err));
    if (!o->has_bias) return TERN_OK;
    TERN_TRY(tern_gpu_layout_of(&o->bias, tern_gpu__value(p, op->bias[part])->weight, p->caps, err));
    if (o->bias.n_slices == 1 && o->bias.format == TERN_GPU_F32) return TERN_OK;
    return tern_gpu__unsupported(p->graph, op, "biases of experts that are not f32 in one binding", err);
}

static tern_gpu_dispatch *add_dispatch(tern_gpu_program *p, const tern_op *op, tern_gpu_format format, uint32_t rows,
                                       tern_error *err)
{
    const tern_gpu_pipeline pipeline = tern_gpu_first_fit(pipelines[format], 2, p->caps);
    const tern_gpu_linear_routed_overrides *kernel = tern_gpu_linear_routed_overrides_of(pipeline);
    const uint32_t groups = tern_gpu__ceil_div(rows, kernel->workgroup / kernel->lanes),
                   z = tern_gpu__ceil_div(groups, p->caps->max_groups);
    return tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(groups, z), tern_gpu__max_rows(p, op->rows), z, err);
}

static void bind_x(const tern_gpu_program *p, tern_gpu_dispatch *d, const tern_op *op)
{
    if (is_q8(p, op)) tern_gpu__bind_value(p, d, op->in[TERN_LINEAR_X].value, false);
    else tern_gpu__bind_view(p, d, op->in[TERN_LINEAR_X], false);
}

static void bind_rest(const tern_gpu_program *p, tern_gpu_dispatch *d, const tern_op *op, uint32_t part,
                      const operands *o, uint32_t slice)
{
    tern_gpu__bind_slice(d, op->in[TERN_LINEAR_W + part].value, &o->weight, slice);
    if (o->has_bias) tern_gpu__bind_slice(d, op->bias[part].value, &o->bias, 0);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_view(p, d, op->out, true);
}

static tern_gpu_dispatch *add_row_by_row(tern_gpu_program *p, const tern_op *op, uint32_t part, const operands *o,
                                         uint32_t slice, const tern_gpu_linear_routed_uniform *u, tern_error *err)
{
    tern_gpu_dispatch *d = add_dispatch(p, op, o->weight.format, u->rows, err);
    if (!d) return NULL;
    tern_gpu_linear_routed_set(d, u);
    tern_gpu__bind_params(p, d, false);
    bind_x(p, d, op);
    tern_gpu__bind_value(p, d, op->route.value, false);
    bind_rest(p, d, op, part, o, slice);
    return d;
}

static tern_gpu_dispatch *add_grouped(tern_gpu_program *p, const tern_op *op, uint32_t part, const operands *o,
                                      uint32_t slice, const tern_gpu_linear_routed_uniform *u,
                                      const tern_gpu_grouping *g, tern_error *err)
{
    const tern_gpu_pipeline pipeline = grouped[o->weight.format][is_large(p, op)];
    const uint32_t tile_rows = EIGHT * tern_gpu_linear_grouped_overrides_of(pipeline)->row_threads;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(u->rows, tile_rows), g->max_tiles, 1, err);
    if (!d) return NULL;
    const tern_gpu_linear_grouped_uniform to = {.rows = u->rows,
                                                .cols = u->cols,
                                                .row_vectors = u->row_vectors,
                                                .rows_first = g->rows_first,
                                                .x_rows = u->x_rows,
                                                .x_first = u->x_first,
                                                .x_stride = u->x_stride,
                                                .q8 = u->q8,
                                                .scales_word = u->scales_word,
                                                .slice_first = u->slice_first,
                                                .slice_rows = u->slice_rows,
                                                .row_scales = u->row_scales,
                                                .scale = u->scale,
                                                .bias_stride = u->bias_stride,
                                                .result_first = u->result_first,
                                                .result_stride = u->result_stride,
                                                .gate = u->gate,
                                                .limit = u->limit};
    tern_gpu_linear_grouped_set(d, &to);
    bind_x(p, d, op);
    tern_gpu__bind(d, g->range);
    bind_rest(p, d, op, part, o, slice);
    return d;
}

/* Bytes of the experts that a step uses at most. */
static uint64_t bytes_read(const tern_gpu_program *p, const tern_op *op, const operands *o)
{
    const uint32_t n = tern_gpu__max_rows(p, op->rows), used = n < op->n_experts ? n : op->n_experts;
    return (uint64_t)o->weight.rows / op->n_experts * used * o->weight.row_bytes;
}

static tern_status add_slice(tern_gpu_program *p, const tern_op *op, uint32_t part, const operands *o, uint32_t slice,
                             const tern_gpu_grouping *g, tern_error *err)
{
    const tern_weight *w = tern_gpu__weight_of_part(p, op, part);
    const uint32_t rows = w->rows / op->n_experts, first = slice * o->weight.slice_rows, left = w->rows - first,
                   column = op->gated ? 0 : tern_gpu__column_of_part(p, op, part) / op->n_experts;
    tern_gpu_linear_routed_uniform u = {.rows = rows,
                                        .row_vectors = o->weight.row_bytes / 16,
                                        .count_word = tern_gpu__group_count_word(p, op),
                                        .n_routes = p->graph->n_routes,
                                        .slice_first = first,
                                        .slice_rows = left < o->weight.slice_rows ? left : o->weight.slice_rows,
                                        .row_scales = (uint32_t)(o->weight.scales_offset / 4),
                                        .scale = w->scale,
                                        .bias_stride = o->has_bias ? o->bias.row_bytes / 4 : 0,
                                        .result_first = op->out.first_col + column,
                                        .result_stride = tern_gpu__stride(p, op->out),
                                        .gate = op->gated && part == 1 ? 1 + (uint32_t)op->activation : 0,
                                        .limit = op->limit,
                                        .first_word = tern_gpu__group_first_word(p, op)};
    TERN_TRY(set_x(p, op, &u, err));
    tern_gpu_dispatch *d =
        g->max_tiles ? add_grouped(p, op, part, o, slice, &u, g, err) : add_row_by_row(p, op, part, o, slice, &u, err);
    if (!d) return TERN_UNSUPPORTED;
    d->beside = slice > 0 || (part > 0 && !op->gated); /* other elements of the result */
    if (slice == 0) d->weight_bytes = bytes_read(p, op, o);
    return TERN_OK;
}

tern_status tern_gpu__lower_linear_routed(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->int8_blocks)
        return tern_gpu__unsupported(p->graph, op, "experts on int8 activations by block, which the CPU has", err);
    tern_gpu_grouping g = {0};
    if (is_worth_grouping(p, op)) TERN_TRY(group_rows(p, op, &g, err));
    for (uint32_t part = 0; part < op->n_parts; part++) {
        operands o;
        TERN_TRY(find_operands(p, op, part, &o, err));
        for (uint32_t slice = 0; slice < o.weight.n_slices; slice++)
            TERN_TRY(add_slice(p, op, part, &o, slice, &g, err));
    }
    return TERN_OK;
}
