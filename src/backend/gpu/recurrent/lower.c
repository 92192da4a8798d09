/* Lowering the ops whose states go from token to token, and what splits a projection for them. */
#include "backend/gpu/recurrent/recurrent_internal.h"
#include "ops/ref/recurrent/recurrent.h"
#include "quant/weight.h"

enum { MOST_KEYS = 256, MOST_VALUES = 256 };

/* SPLIT, or with `back` its backward, which writes x from the other two. An invocation for each column of `out`. */
static tern_status split(tern_gpu_program *p, const tern_op *op, tern_view x, tern_view out, tern_view gate, bool back,
                         tern_error *err)
{
    static const tern_gpu_pipeline candidates[][2] = {{TERN_GPU_SPLIT_256, TERN_GPU_SPLIT_128},
                                                      {TERN_GPU_SPLIT_BACKWARD_256, TERN_GPU_SPLIT_BACKWARD_128}};
    const tern_gpu_pipeline pipeline = tern_gpu_first_fit(candidates[back], 2, p->caps);
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, pipeline, tern_gpu__ceil_div(out.cols, tern_gpu_pipelines[pipeline].invocations),
                      tern_gpu__max_rows(p, op->rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_split_uniform u = {.cols = out.cols,
                                      .head_dim = op->head_dim,
                                      .count_word = tern_gpu__count_word(p, op->rows),
                                      .x_first = x.first_col,
                                      .x_stride = tern_gpu__stride(p, x),
                                      .out_first = out.first_col,
                                      .out_stride = tern_gpu__stride(p, out),
                                      .gate_first = gate.first_col,
                                      .gate_stride = tern_gpu__stride(p, gate)};
    tern_gpu_split_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, x, back);
    tern_gpu__bind_view(p, d, out, !back);
    tern_gpu__bind_view(p, d, gate, !back);
    return TERN_OK;
}

tern_status tern_gpu__lower_split(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    return split(p, op, op->in[TERN_SPLIT_X], op->out, op->in[TERN_SPLIT_GATE], false, err);
}

tern_status tern_gpu__lower_split_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    return split(p, op, op->out, op->in[TERN_SPLIT_BACKWARD_DOUT], op->in[TERN_SPLIT_BACKWARD_DGATE], true, err);
}

/* A step has no more runs than sequences, and no more than rows: workgroups for the fewer of both. */
static uint32_t runs_of(const tern_gpu_program *p, const tern_op *op, bool *by_rows)
{
    const uint32_t rows = tern_gpu__max_rows(p, op->rows), sequences = p->graph->n_sequences;
    *by_rows = rows < sequences;
    return *by_rows ? rows : sequences;
}

/* All states of a layer are bound at once. */
static tern_status check_state(const tern_gpu_program *p, const tern_op *op, tern_view state, tern_error *err)
{
    const tern_value *v = tern_gpu__value(p, state);
    if (v->bytes <= p->caps->max_binding) return TERN_OK;
    return tern_fail(
        err, TERN_UNSUPPORTED,
        "gpu: op %s: %s has %llu bytes of states: one binding of at most %llu expected; fewer sequences at "
        "once, or --backend cpu",
        tern_op_name(op->kind), v->name, (unsigned long long)v->bytes, (unsigned long long)p->caps->max_binding);
}

tern_status tern_gpu__conv_taps(const tern_gpu_program *p, const tern_op *op, tern_gpu_layout *layout, tern_error *err)
{
    const tern_view weight = op->in[TERN_CONV_WEIGHT];
    TERN_TRY(tern_gpu_layout_of(layout, tern_gpu__value(p, weight)->weight, p->caps, err));
    if (weight.cols < 1 || weight.cols > TERN_CONV_MAX_TAPS)
        return tern_fail(err, TERN_UNSUPPORTED, "gpu: op %s of %u taps: 1 to %d expected", tern_op_name(op->kind),
                         weight.cols, TERN_CONV_MAX_TAPS);
    if (layout->format == TERN_GPU_F32 && layout->n_slices == 1) return TERN_OK;
    return tern_gpu__unsupported(p->graph, op, "a weight in f32 that one binding holds expected", err);
}

tern_status tern_gpu__lower_conv(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view x = op->in[TERN_CONV_X], weight = op->in[TERN_CONV_WEIGHT], state = op->in[TERN_CONV_STATE];
    tern_gpu_layout layout;
    bool by_rows;
    TERN_TRY(tern_gpu__conv_taps(p, op, &layout, err));
    TERN_TRY(check_state(p, op, state, err));
    const uint32_t runs = runs_of(p, op, &by_rows), width = tern_gpu_pipelines[TERN_GPU_CONV].invocations;
    tern_gpu_dispatch *d = tern_gpu__add(p, op, TERN_GPU_CONV, tern_gpu__ceil_div(op->out.cols, width), runs, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_conv_uniform u = {.cols = op->out.cols,
                                     .taps = weight.cols,
                                     .count_word = tern_gpu__count_word(p, op->rows),
                                     .positions_word = tern_gpu__word_of(p, op->in[TERN_CONV_POSITIONS]),
                                     .sequences_word = tern_gpu__word_of(p, op->in[TERN_CONV_SEQUENCES]),
                                     .states_word = tern_gpu__word_of(p, op->in[TERN_CONV_STATES]),
                                     .n_sequences = p->graph->n_sequences,
                                     .by_rows = by_rows,
                                     .x_first = x.first_col,
                                     .x_stride = tern_gpu__stride(p, x),
                                     .y_first = op->out.first_col,
                                     .y_stride = tern_gpu__stride(p, op->out),
                                     .weight_stride = layout.row_bytes / 4};
    tern_gpu_conv_set(d, &u);
    d->weight_bytes = layout.bytes;
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, x, false);
    tern_gpu__bind_slice(d, weight.value, &layout, 0);
    tern_gpu__bind_value(p, d, state.value, true);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}

tern_status tern_gpu__delta_heads(const tern_op *op, uint32_t values, tern_error *err)
{
    if (op->head_dim <= MOST_KEYS && values % 4 == 0 && values <= MOST_VALUES && op->n_heads % op->n_kv_heads == 0)
        return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "gpu: op %s of %u heads of %u values, %u heads of %u keys: a multiple of 4 values, at most %d of "
                     "either, and a multiple of heads expected; --backend cpu runs it",
                     tern_op_name(op->kind), op->n_heads, values, op->n_kv_heads, op->head_dim, MOST_VALUES);
}

/* With room for the keys: by subgroups where there are any. */
static tern_gpu_pipeline delta_pipeline(const tern_gpu_program *p, uint32_t keys)
{
    static const tern_gpu_pipeline candidates[][2] = {{TERN_GPU_GATED_DELTA_32_S8, TERN_GPU_GATED_DELTA_32},
                                                      {TERN_GPU_GATED_DELTA_64_S8, TERN_GPU_GATED_DELTA_64},
                                                      {TERN_GPU_GATED_DELTA_128_S8, TERN_GPU_GATED_DELTA_128},
                                                      {TERN_GPU_GATED_DELTA_256_S8, TERN_GPU_GATED_DELTA_256}};
    size_t i = 0;
    while (tern_gpu_gated_delta_overrides_of(candidates[i][1])->keys < keys) i++;
    return tern_gpu_first_fit(candidates[i], 2, p->caps);
}

static tern_gpu_gated_delta_uniform delta_uniform(const tern_gpu_program *p, const tern_op *op)
{
    const tern_view qkv = op->in[TERN_GATED_DELTA_QKV], a = op->in[TERN_GATED_DELTA_A], b = op->in[TERN_GATED_DELTA_B];
    return (tern_gpu_gated_delta_uniform){.keys = op->head_dim,
                                          .quads = op->out.cols / op->n_heads / 4,
                                          .n_heads = op->n_heads,
                                          .n_key_heads = op->n_kv_heads,
                                          .tiled = op->tiled_heads,
                                          .count_word = tern_gpu__count_word(p, op->rows),
                                          .positions_word = tern_gpu__word_of(p, op->in[TERN_GATED_DELTA_POSITIONS]),
                                          .sequences_word = tern_gpu__word_of(p, op->in[TERN_GATED_DELTA_SEQUENCES]),
                                          .states_word = tern_gpu__word_of(p, op->in[TERN_GATED_DELTA_STATES]),
                                          .n_sequences = p->graph->n_sequences,
                                          .x_first = qkv.first_col,
                                          .x_stride = tern_gpu__stride(p, qkv),
                                          .a_first = a.first_col,
                                          .a_stride = tern_gpu__stride(p, a),
                                          .b_first = b.first_col,
                                          .b_stride = tern_gpu__stride(p, b),
                                          .joined = a.value == b.value && a.first_row == b.first_row,
                                          .out_first = op->out.first_col,
                                          .out_stride = tern_gpu__stride(p, op->out)};
}

tern_status tern_gpu__lower_gated_delta(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    const tern_view state = op->in[TERN_GATED_DELTA_STATE];
    bool by_rows;
    TERN_TRY(tern_gpu__delta_heads(op, op->out.cols / op->n_heads, err));
    TERN_TRY(check_state(p, op, state, err));
    tern_gpu_gated_delta_uniform u = delta_uniform(p, op);
    const uint32_t runs = runs_of(p, op, &by_rows);
    tern_gpu_dispatch *d =
        tern_gpu__add(p, op, delta_pipeline(p, op->head_dim),
                      tern_gpu__ceil_div(u.quads, TERN_GPU_GATED_DELTA_CONST_QUADS), op->n_heads, runs, err);
    if (!d) return TERN_UNSUPPORTED;
    u.by_rows = by_rows;
    tern_gpu_gated_delta_set(d, &u);
    tern_gpu__bind_params(p, d, false);
    tern_gpu__bind_view(p, d, op->in[TERN_GATED_DELTA_QKV], false);
    tern_gpu__bind_view(p, d, op->in[TERN_GATED_DELTA_A], false);
    if (u.joined) tern_gpu__bind_nothing(d);
    else tern_gpu__bind_view(p, d, op->in[TERN_GATED_DELTA_B], false);
    tern_gpu__bind_value(p, d, op->in[TERN_GATED_DELTA_DECAY].value, false);
    tern_gpu__bind_value(p, d, op->in[TERN_GATED_DELTA_DT].value, false);
    tern_gpu__bind_value(p, d, state.value, true);
    tern_gpu__bind_view(p, d, op->out, true);
    return TERN_OK;
}
