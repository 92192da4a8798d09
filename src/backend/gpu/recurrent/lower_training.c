/* Lowering convolutions and the gated delta rule over packed rows, and their backward. */
#include "backend/gpu/recurrent/recurrent_internal.h"
#include "ops/ref/recurrent/recurrent.h"

_Static_assert((int)TERN_GPU_VARLEN_GATED_DELTA_CONST_CHUNK == (int)TERN_DELTA_CHUNK,
               "rows between two states that are kept");

enum { ROWS_AT_ONCE = 16, SIZES = 3 }; /* rows of the backward whose states are there at once; pipelines by keys */

/* A view, or none. */
static uint32_t first_of(tern_view view)
{
    return view.cols ? view.first_col : 0;
}

static uint32_t stride_of(const tern_gpu_program *p, tern_view view)
{
    return view.cols ? tern_gpu__stride(p, view) : 0;
}

static void bind(const tern_gpu_program *p, tern_gpu_dispatch *d, tern_view view, bool written)
{
    if (view.cols) tern_gpu__bind_view(p, d, view, written);
    else tern_gpu__bind_nothing(d);
}

/* The values that a step of a convolution names; those without columns are not bound. */
typedef struct conv_step {
    tern_gpu_pipeline pipeline;
    uint32_t groups;
    tern_view x, dy, out;
    bool weight, slopes, makes_slopes;
} conv_step;

static tern_status add_conv(tern_gpu_program *p, const tern_op *op, const conv_step *s, tern_error *err)
{
    const tern_view weight = op->in[TERN_VARLEN_CONV_WEIGHT];
    const uint32_t cols = op->out.cols, rows = tern_gpu__max_rows(p, op->rows);
    const uint64_t bytes = (uint64_t)rows * cols * 4, slopes = s->slopes ? tern_gpu__scratch(p, bytes) : 0;
    tern_gpu_layout layout;
    TERN_TRY(tern_gpu__conv_taps(p, op, &layout, err));
    tern_gpu_dispatch *d = tern_gpu__add(
        p, op, s->pipeline, tern_gpu__ceil_div(cols, tern_gpu_pipelines[s->pipeline].invocations), s->groups, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_varlen_conv_uniform u = {.cols = cols,
                                            .taps = weight.cols,
                                            .count_word = tern_gpu__count_word(p, op->rows),
                                            .starts_word = tern_gpu__word_of(p, op->in[TERN_VARLEN_CONV_STARTS]),
                                            .x_first = first_of(s->x),
                                            .x_stride = stride_of(p, s->x),
                                            .dy_first = first_of(s->dy),
                                            .dy_stride = stride_of(p, s->dy),
                                            .out_first = first_of(s->out),
                                            .out_stride = stride_of(p, s->out),
                                            .weight_stride = layout.row_bytes / 4};
    tern_gpu_varlen_conv_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    bind(p, d, s->x, false);
    if (s->weight) tern_gpu__bind_slice(d, weight.value, &layout, 0);
    else tern_gpu__bind_nothing(d);
    bind(p, d, s->dy, false);
    if (s->slopes) tern_gpu__bind_scratch(d, slopes, bytes, s->makes_slopes);
    else tern_gpu__bind_nothing(d);
    bind(p, d, s->out, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_varlen_conv(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const conv_step forward = {.pipeline = TERN_GPU_VARLEN_CONV,
                               .groups = tern_gpu__max_rows(p, op->rows),
                               .x = op->in[TERN_VARLEN_CONV_X],
                               .out = op->out,
                               .weight = true};
    return add_conv(p, op, &forward, err);
}

tern_status tern_gpu__lower_varlen_conv_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view x = op->in[TERN_VARLEN_CONV_X], dweight = op->in[TERN_VARLEN_CONV_DWEIGHT];
    const uint32_t rows = tern_gpu__max_rows(p, op->rows), taps = op->in[TERN_VARLEN_CONV_WEIGHT].cols;
    const conv_step slopes = {.pipeline = TERN_GPU_VARLEN_CONV_SLOPES,
                              .groups = rows,
                              .x = x,
                              .dy = op->in[TERN_VARLEN_CONV_DOUT],
                              .weight = true,
                              .slopes = true,
                              .makes_slopes = true},
                    inputs = {.pipeline = TERN_GPU_VARLEN_CONV_INPUTS,
                              .groups = rows,
                              .out = op->out,
                              .weight = true,
                              .slopes = true},
                    weights = {.pipeline = TERN_GPU_VARLEN_CONV_WEIGHTS,
                               .groups = taps,
                               .x = x,
                               .out = dweight,
                               .slopes = true};
    TERN_TRY(add_conv(p, op, &slopes, err));
    TERN_TRY(add_conv(p, op, &inputs, err));
    return op->n_in > TERN_VARLEN_CONV_DWEIGHT ? add_conv(p, op, &weights, err) : TERN_OK;
}

/* The gated delta rule of an op: its shape, and at which vectors from byte `scratch` of SCRATCH on its parts begin. */
typedef struct delta {
    tern_gpu_program *p;
    const tern_op *op;
    uint32_t rows, heads, keys, quads, groups, part_vectors;
    uint32_t rows_at, gradient_at, parts_at; /* the factors are first */
    uint64_t scratch, bytes;
} delta;

static tern_status find_delta(tern_gpu_program *p, const tern_op *op, bool backward, delta *d, tern_error *err)
{
    const uint32_t values = op->in[TERN_VARLEN_GATED_DELTA_V].cols / op->n_heads;
    TERN_TRY(tern_gpu__delta_heads(op, values, err));
    *d = (delta){.p = p,
                 .op = op,
                 .rows = tern_gpu__max_rows(p, op->rows),
                 .heads = op->n_heads,
                 .keys = op->head_dim,
                 .quads = values / 4,
                 .groups = tern_gpu__ceil_div(values / 4, TERN_GPU_VARLEN_GATED_DELTA_CONST_QUADS),
                 .part_vectors = 1 + 2 * tern_gpu__ceil_div(op->head_dim, 4)};
    const uint64_t factors = (uint64_t)d->rows * d->heads, state = (uint64_t)d->heads * d->keys * d->quads,
                   parts = (uint64_t)TERN_DELTA_CHUNK * d->heads * d->groups * d->part_vectors,
                   all = factors + (backward ? (ROWS_AT_ONCE + 1) * state + parts : 0);
    if (all > UINT32_MAX) return tern_gpu__unsupported(p->graph, op, "states of that many heads", err);
    d->rows_at = (uint32_t)factors;
    d->gradient_at = (uint32_t)(factors + ROWS_AT_ONCE * state);
    d->parts_at = (uint32_t)(factors + (ROWS_AT_ONCE + 1) * state);
    d->bytes = all * 16;
    d->scratch = tern_gpu__scratch(p, d->bytes);
    return TERN_OK;
}

static tern_status add_factors(const delta *m, tern_error *err)
{
    const tern_view a = m->op->in[TERN_VARLEN_GATED_DELTA_A], b = m->op->in[TERN_VARLEN_GATED_DELTA_B];
    const tern_gpu_pipeline pipeline = TERN_GPU_DELTA_FACTORS;
    tern_gpu_dispatch *d = tern_gpu__add(
        m->p, m->op, pipeline, tern_gpu__ceil_div(m->heads, tern_gpu_pipelines[pipeline].invocations), m->rows, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_delta_factors_uniform u = {.n_heads = m->heads,
                                              .count_word = tern_gpu__count_word(m->p, m->op->rows),
                                              .a_first = a.first_col,
                                              .a_stride = tern_gpu__stride(m->p, a),
                                              .b_first = b.first_col,
                                              .b_stride = tern_gpu__stride(m->p, b),
                                              .log_decay = m->op->log_decay};
    tern_gpu_delta_factors_set(d, &u);
    tern_gpu__bind_params(m->p, d, false);
    tern_gpu__bind_view(m->p, d, a, false);
    tern_gpu__bind_view(m->p, d, b, false);
    tern_gpu__bind_value(m->p, d, m->op->in[TERN_VARLEN_GATED_DELTA_DECAY].value, false);
    tern_gpu__bind_value(m->p, d, m->op->in[TERN_VARLEN_GATED_DELTA_DT].value, false);
    tern_gpu__bind_scratch(d, m->scratch, m->bytes, true);
    return TERN_OK;
}

/* The pipeline with room for the keys. */
static tern_gpu_pipeline delta_pipeline(const delta *m, bool backward)
{
    static const tern_gpu_pipeline pipelines[][SIZES] = {
        {TERN_GPU_VARLEN_GATED_DELTA_32, TERN_GPU_VARLEN_GATED_DELTA_128, TERN_GPU_VARLEN_GATED_DELTA_256},
        {TERN_GPU_VARLEN_GATED_DELTA_BACKWARD_32, TERN_GPU_VARLEN_GATED_DELTA_BACKWARD_128,
         TERN_GPU_VARLEN_GATED_DELTA_BACKWARD_256}};
    size_t i = 0;
    while (i + 1 < SIZES && tern_gpu_varlen_gated_delta_overrides_of(pipelines[backward][i])->keys < m->keys) i++;
    return pipelines[backward][i];
}

/* A walk of the backward over rows first to end - 1, of the chunk that begins with row `chunk`. */
typedef struct walk {
    uint32_t chunk, first, end;
} walk;

/* walk NULL: the forward. */
static tern_status add_walk(const delta *m, const walk *w, tern_error *err)
{
    const tern_gpu_program *p = m->p;
    const tern_op *op = m->op;
    const walk all = {.end = m->rows}, *rows = w ? w : &all;
    const tern_view q = op->in[TERN_VARLEN_GATED_DELTA_Q], k = op->in[TERN_VARLEN_GATED_DELTA_K],
                    v = op->in[TERN_VARLEN_GATED_DELTA_V], states = op->in[TERN_VARLEN_GATED_DELTA_STATES],
                    y = w ? op->in[TERN_VARLEN_GATED_DELTA_DOUT] : op->out,
                    dv = w ? op->in[TERN_VARLEN_GATED_DELTA_DV] : (tern_view){.value = TERN_NO_VALUE};
    tern_gpu_dispatch *d = tern_gpu__add(m->p, op, delta_pipeline(m, w != NULL), m->groups, m->heads, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_varlen_gated_delta_uniform u = {.keys = m->keys,
                                                   .quads = m->quads,
                                                   .n_heads = m->heads,
                                                   .n_key_heads = op->n_kv_heads,
                                                   .tiled = op->tiled_heads,
                                                   .count_word = tern_gpu__count_word(p, op->rows),
                                                   .starts_word =
                                                       tern_gpu__word_of(p, op->in[TERN_VARLEN_GATED_DELTA_STARTS]),
                                                   .chunk = rows->chunk,
                                                   .first = rows->first,
                                                   .end = rows->end,
                                                   .q_first = q.first_col,
                                                   .q_stride = tern_gpu__stride(p, q),
                                                   .k_first = k.first_col,
                                                   .k_stride = tern_gpu__stride(p, k),
                                                   .v_first = v.first_col,
                                                   .v_stride = tern_gpu__stride(p, v),
                                                   .y_first = y.first_col,
                                                   .y_stride = tern_gpu__stride(p, y),
                                                   .dv_first = first_of(dv),
                                                   .dv_stride = stride_of(p, dv),
                                                   .state_stride = TERN_DELTA_CHUNK / 4 * tern_gpu__stride(p, states),
                                                   .rows_at = m->rows_at,
                                                   .gradient_at = m->gradient_at,
                                                   .parts_at = m->parts_at};
    tern_gpu_varlen_gated_delta_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, q, false);
    tern_gpu__bind_view(p, d, k, false);
    tern_gpu__bind_view(p, d, v, false);
    tern_gpu__bind_value(p, d, states.value, !w);
    tern_gpu__bind_view(p, d, y, !w);
    tern_gpu__bind_scratch(d, m->scratch, m->bytes, w != NULL);
    bind(p, d, dv, true);
    return TERN_OK;
}

tern_status tern_gpu__lower_varlen_gated_delta(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    delta m;
    TERN_TRY(find_delta(p, op, false, &m, err));
    TERN_TRY(add_factors(&m, err));
    return add_walk(&m, NULL, err);
}

/* The gradients of q and k of rows first to end - 1. */
static tern_status add_gradients(const delta *m, uint32_t first, uint32_t end, tern_error *err)
{
    const tern_view dq = m->op->out, dk = m->op->in[TERN_VARLEN_GATED_DELTA_DK];
    const tern_gpu_pipeline pipeline = TERN_GPU_DELTA_GRADIENTS;
    tern_gpu_dispatch *d =
        tern_gpu__add(m->p, m->op, pipeline, tern_gpu__ceil_div(dq.cols, tern_gpu_pipelines[pipeline].invocations),
                      end - first, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_delta_gradients_uniform u = {.keys = m->keys,
                                                .n_heads = m->heads,
                                                .n_key_heads = m->op->n_kv_heads,
                                                .tiled = m->op->tiled_heads,
                                                .n_groups = m->groups,
                                                .count_word = tern_gpu__count_word(m->p, m->op->rows),
                                                .first = first,
                                                .parts_at = m->parts_at,
                                                .dq_first = dq.first_col,
                                                .dq_stride = tern_gpu__stride(m->p, dq),
                                                .dk_first = dk.first_col,
                                                .dk_stride = tern_gpu__stride(m->p, dk)};
    tern_gpu_delta_gradients_set(d, &u);
    tern_gpu__bind_params(m->p, d, false);
    tern_gpu__bind_scratch(d, m->scratch, m->bytes, false);
    tern_gpu__bind_view(m->p, d, dq, true);
    tern_gpu__bind_view(m->p, d, dk, true);
    return TERN_OK;
}

/* The gradient of a weight, or a view of no columns: it is frozen. */
static tern_view trained(const tern_op *op, uint32_t input)
{
    const bool is_there = input < op->n_in && op->in[input].value != TERN_NO_VALUE;
    return is_there ? op->in[input] : (tern_view){.value = TERN_NO_VALUE};
}

/* The gradients of a, b and their weights, of rows first to end - 1. */
static tern_status add_rates(const delta *m, uint32_t first, uint32_t end, tern_error *err)
{
    const tern_op *op = m->op;
    const tern_view a = op->in[TERN_VARLEN_GATED_DELTA_A], da = op->in[TERN_VARLEN_GATED_DELTA_DA],
                    db = op->in[TERN_VARLEN_GATED_DELTA_DB], ddecay = trained(op, TERN_VARLEN_GATED_DELTA_DDECAY),
                    ddt = trained(op, TERN_VARLEN_GATED_DELTA_DDT);
    tern_gpu_dispatch *d = tern_gpu__add(m->p, op, TERN_GPU_DELTA_RATES, m->heads, 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_delta_rates_uniform u = {.n_heads = m->heads,
                                            .n_groups = m->groups,
                                            .part_vectors = m->part_vectors,
                                            .first = first,
                                            .n = end - first,
                                            .parts_at = m->parts_at,
                                            .a_first = a.first_col,
                                            .a_stride = tern_gpu__stride(m->p, a),
                                            .da_first = da.first_col,
                                            .da_stride = tern_gpu__stride(m->p, da),
                                            .db_first = db.first_col,
                                            .db_stride = tern_gpu__stride(m->p, db),
                                            .flags = (ddecay.cols ? TERN_GPU_DELTA_RATES_CONST_DDECAY : 0u) |
                                                     (ddt.cols ? TERN_GPU_DELTA_RATES_CONST_DDT : 0u) |
                                                     (op->log_decay ? TERN_GPU_DELTA_RATES_CONST_LOG_DECAY : 0u)};
    tern_gpu_delta_rates_set(d, &u);
    tern_gpu__bind_view(m->p, d, a, false);
    tern_gpu__bind_value(m->p, d, op->in[TERN_VARLEN_GATED_DELTA_DECAY].value, false);
    tern_gpu__bind_value(m->p, d, op->in[TERN_VARLEN_GATED_DELTA_DT].value, false);
    tern_gpu__bind_scratch(d, m->scratch, m->bytes, false);
    tern_gpu__bind_view(m->p, d, da, true);
    tern_gpu__bind_view(m->p, d, db, true);
    bind(m->p, d, ddecay, true);
    bind(m->p, d, ddt, true);
    return TERN_OK;
}

/* Rows first to end - 1, from the last to the first, in runs of ROWS_AT_ONCE. */
static tern_status add_chunk(const delta *m, uint32_t first, uint32_t end, tern_error *err)
{
    walk w = {.chunk = first, .end = end};
    for (; w.end > first; w.end = w.first) {
        w.first = first + (w.end - 1 - first) / ROWS_AT_ONCE * ROWS_AT_ONCE;
        TERN_TRY(add_walk(m, &w, err));
    }
    TERN_TRY(add_gradients(m, first, end, err));
    return add_rates(m, first, end, err);
}

tern_status tern_gpu__lower_varlen_gated_delta_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    delta m;
    TERN_TRY(find_delta(p, op, true, &m, err));
    TERN_TRY(add_factors(&m, err));
    for (uint32_t end = m.rows; end > 0;) {
        const uint32_t first = (end - 1) / TERN_DELTA_CHUNK * TERN_DELTA_CHUNK;
        TERN_TRY(add_chunk(&m, first, end, err));
        end = first;
    }
    return TERN_OK;
}
