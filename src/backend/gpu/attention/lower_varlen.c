/* Lowering attention over packed rows, and its backward: probabilities are computed again from the statistics. */
#include "backend/gpu/attention/attention_internal.h"

enum { SIZES = 3, MOST = 256, WANTED_GROUPS = 512 /* that keep a large GPU busy */ };

/* A kernel by the most that a head may have: 64, 128, 256; the one for large workgroups, the one for any device. */
typedef struct kernels {
    tern_gpu_pipeline large[SIZES], least[SIZES];
} kernels;

#define KERNELS(name)                                                                                                  \
    {                                                                                                                  \
        {TERN_GPU_##name##_64, TERN_GPU_##name##_128, TERN_GPU_##name##_256},                                          \
        {                                                                                                              \
            TERN_GPU_##name##_LEAST_64, TERN_GPU_##name##_LEAST_128, TERN_GPU_##name##_LEAST_256                       \
        }                                                                                                              \
    }

static const kernels forward = KERNELS(VARLEN_ATTENTION), dq = KERNELS(VARLEN_ATTENTION_DQ),
                     dkv = KERNELS(VARLEN_ATTENTION_DKV);

/* State that its dispatches share. */
typedef struct attention {
    tern_gpu_program *p;
    const tern_op *op;
    uint32_t quads, rows, splits;
    uint64_t statistics, dk, dv, bytes; /* in SCRATCH; dk, dv with splits; bytes of one of these two */
} attention;

static tern_gpu_pipeline choose(const kernels *k, const attention *a)
{
    int size = a->op->head_dim <= 64 ? 0 : a->op->head_dim <= 128 ? 1 : 2;
    tern_gpu_pipeline candidates[] = {k->large[size], k->least[size]};
    return tern_gpu_first_fit(candidates, 2, a->p->caps);
}

static uint32_t blocks(const attention *a, uint32_t rows_of_block)
{
    return tern_gpu__ceil_div(a->rows, rows_of_block);
}

static bool in_quads(const tern_gpu_program *p, tern_view view)
{
    return view.first_col % 4 == 0 && tern_gpu__stride(p, view) % 4 == 0;
}

/* All inputs but the sequence starts, the statistics and the gradient of sinks are rows of quads. */
static bool all_in_quads(const tern_gpu_program *p, const tern_op *op)
{
    for (uint32_t i = 0; i < op->n_in && i < TERN_VARLEN_ATTENTION_DSINKS; i++)
        if (i != TERN_VARLEN_ATTENTION_STARTS && i != TERN_VARLEN_ATTENTION_STATISTICS && !in_quads(p, op->in[i]))
            return false;
    return in_quads(p, op->out);
}

static tern_status check(const tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    if (op->head_dim % 4 || op->head_dim == 0 || op->head_dim > MOST)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "gpu: op %s: head dimension %u found, a multiple of 4, at most %d, expected; --backend cpu "
                         "runs it",
                         tern_op_name(op->kind), op->head_dim, MOST);
    if (all_in_quads(p, op)) return TERN_OK;
    return tern_gpu__unsupported(p->graph, op, "columns that are no multiples of four", err);
}

/* Where the rows of a view start, and how far they lie apart, in quads. */
static uint32_t first_of(tern_view view)
{
    return view.first_col / 4;
}

static uint32_t stride_of(const attention *a, tern_view view)
{
    return tern_gpu__stride(a->p, view) / 4;
}

static void bind_statistics(const attention *a, tern_gpu_dispatch *d, bool written)
{
    tern_gpu__bind_scratch(d, a->statistics, (uint64_t)a->rows * a->op->n_heads * 16, written);
}

/* The uniforms of the forward, dq and dk, dv; `out` is their result. */
static tern_gpu_varlen_attention_uniform uniform_of(const attention *a, tern_view out)
{
    const tern_op *op = a->op;
    const tern_view q = op->in[TERN_VARLEN_ATTENTION_Q], k = op->in[TERN_VARLEN_ATTENTION_K],
                    v = op->in[TERN_VARLEN_ATTENTION_V];
    const tern_gpu_scores scores = tern_gpu__scores(op, 1);
    return (tern_gpu_varlen_attention_uniform){.quads = a->quads,
                                               .n_heads = op->n_heads,
                                               .group = op->n_heads / op->n_kv_heads,
                                               .count_word = tern_gpu__count_word(a->p, op->rows),
                                               .starts_word = tern_gpu__param_word(a->p, TERN_PARAM_SEQ_STARTS),
                                               .q_first = first_of(q),
                                               .q_stride = stride_of(a, q),
                                               .k_first = first_of(k),
                                               .k_stride = stride_of(a, k),
                                               .v_first = first_of(v),
                                               .v_stride = stride_of(a, v),
                                               .out_first = first_of(out),
                                               .out_stride = stride_of(a, out),
                                               .scale = scores.scale,
                                               .softcap = scores.softcap,
                                               .softcap_rate = scores.softcap_rate,
                                               .window = scores.window,
                                               .sinks = scores.sinks};
}

static void bind_qkv(const attention *a, tern_gpu_dispatch *d)
{
    tern_gpu__bind_params(a->p, d, false);
    tern_gpu__bind_view(a->p, d, a->op->in[TERN_VARLEN_ATTENTION_Q], false);
    tern_gpu__bind_view(a->p, d, a->op->in[TERN_VARLEN_ATTENTION_K], false);
    tern_gpu__bind_view(a->p, d, a->op->in[TERN_VARLEN_ATTENTION_V], false);
}

static tern_status lower_forward(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    const tern_view statistics = op->in[TERN_VARLEN_ATTENTION_STATISTICS];
    tern_gpu_pipeline pipeline = choose(&forward, a);
    const uint32_t rows = tern_gpu_varlen_attention_overrides_of(pipeline)->rows;
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, pipeline, op->n_heads, blocks(a, rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_varlen_attention_uniform u = uniform_of(a, op->out);
    u.statistics_first = statistics.first_col;
    u.statistics_stride = tern_gpu__stride(a->p, statistics);
    tern_gpu_varlen_attention_set(d, &u);
    bind_qkv(a, d);
    tern_gpu__bind_view(a->p, d, statistics, true);
    tern_gpu__bind_view(a->p, d, op->out, true);
    tern_gpu__bind_sinks(a->p, d, op);
    return TERN_OK;
}

static tern_status lower_delta(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    const tern_view out = op->in[TERN_VARLEN_ATTENTION_OUT], dout = op->in[TERN_VARLEN_ATTENTION_DOUT],
                    statistics = op->in[TERN_VARLEN_ATTENTION_STATISTICS];
    uint32_t in_group = tern_gpu_pipelines[TERN_GPU_VARLEN_ATTENTION_DELTA].invocations / 8;
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, TERN_GPU_VARLEN_ATTENTION_DELTA, op->n_heads,
                                         tern_gpu__ceil_div(a->rows, in_group), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_varlen_attention_delta_uniform u = {.quads = a->quads,
                                                       .n_heads = op->n_heads,
                                                       .count_word = tern_gpu__count_word(a->p, op->rows),
                                                       .out_first = first_of(out),
                                                       .out_stride = stride_of(a, out),
                                                       .dout_first = first_of(dout),
                                                       .dout_stride = stride_of(a, dout),
                                                       .statistics_first = statistics.first_col,
                                                       .statistics_stride = tern_gpu__stride(a->p, statistics)};
    tern_gpu_varlen_attention_delta_set(d, &u);
    tern_gpu__bind_params(a->p, d, false);
    tern_gpu__bind_view(a->p, d, out, false);
    tern_gpu__bind_view(a->p, d, dout, false);
    tern_gpu__bind_view(a->p, d, statistics, false);
    bind_statistics(a, d, true);
    return TERN_OK;
}

/* The uniforms and inputs of dq and dk, dv: q, k, v, dout and the statistics. */
static tern_gpu_varlen_attention_uniform backward_uniform_of(const attention *a, tern_view out)
{
    const tern_view dout = a->op->in[TERN_VARLEN_ATTENTION_DOUT];
    tern_gpu_varlen_attention_uniform u = uniform_of(a, out);
    u.dout_first = first_of(dout);
    u.dout_stride = stride_of(a, dout);
    return u;
}

static void bind_backward(const attention *a, tern_gpu_dispatch *d)
{
    bind_qkv(a, d);
    tern_gpu__bind_view(a->p, d, a->op->in[TERN_VARLEN_ATTENTION_DOUT], false);
    bind_statistics(a, d, false);
}

static tern_status lower_dq(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    tern_gpu_pipeline pipeline = choose(&dq, a);
    const uint32_t rows = tern_gpu_varlen_attention_dq_overrides_of(pipeline)->rows;
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, pipeline, op->n_heads, blocks(a, rows), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_varlen_attention_uniform u = backward_uniform_of(a, op->out);
    tern_gpu_varlen_attention_dq_set(d, &u);
    bind_backward(a, d);
    tern_gpu__bind_view(a->p, d, op->out, true);
    return TERN_OK;
}

static tern_gpu_pipeline choose_dkv(const attention *a, uint32_t *n_blocks)
{
    tern_gpu_pipeline pipeline = choose(&dkv, a);
    *n_blocks = blocks(a, tern_gpu_varlen_attention_dkv_overrides_of(pipeline)->rows);
    return pipeline;
}

/* Into dk and dv, or, with splits, into SCRATCH. */
static tern_status lower_dkv(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    const tern_view dk = op->in[TERN_VARLEN_ATTENTION_DK], dv = op->in[TERN_VARLEN_ATTENTION_DV];
    const uint32_t groups = op->n_kv_heads * a->splits;
    const bool split = a->splits > 1;
    uint32_t n_blocks;
    tern_gpu_pipeline pipeline = choose_dkv(a, &n_blocks);
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, pipeline, groups, n_blocks, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_varlen_attention_uniform u = backward_uniform_of(a, dk);
    u.splits = a->splits;
    u.out_first = split ? 0 : first_of(dk);
    u.out_stride = split ? groups * a->quads : stride_of(a, dk);
    u.dv_first = split ? 0 : first_of(dv);
    u.dv_stride = split ? groups * a->quads : stride_of(a, dv);
    tern_gpu_varlen_attention_dkv_set(d, &u);
    bind_backward(a, d);
    if (split) tern_gpu__bind_scratch(d, a->dk, a->bytes, true);
    else tern_gpu__bind_view(a->p, d, dk, true);
    if (split) tern_gpu__bind_scratch(d, a->dv, a->bytes, true);
    else tern_gpu__bind_view(a->p, d, dv, true);
    return TERN_OK;
}

static tern_status lower_sum(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    const tern_view dk = op->in[TERN_VARLEN_ATTENTION_DK], dv = op->in[TERN_VARLEN_ATTENTION_DV];
    uint32_t width = tern_gpu_pipelines[TERN_GPU_SUM_HEADS].invocations;
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, TERN_GPU_SUM_HEADS,
                                         tern_gpu__ceil_div(op->n_kv_heads * a->quads, width), a->rows, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_sum_heads_uniform u = {.quads = a->quads,
                                          .n_kv_heads = op->n_kv_heads,
                                          .splits = a->splits,
                                          .count_word = tern_gpu__count_word(a->p, op->rows),
                                          .dk_first = first_of(dk),
                                          .dk_stride = stride_of(a, dk),
                                          .dv_first = first_of(dv),
                                          .dv_stride = stride_of(a, dv)};
    tern_gpu_sum_heads_set(d, &u);
    tern_gpu__bind_params(a->p, d, false);
    tern_gpu__bind_scratch(d, a->dk, a->bytes, false);
    tern_gpu__bind_scratch(d, a->dv, a->bytes, false);
    tern_gpu__bind_view(a->p, d, dk, true);
    tern_gpu__bind_view(a->p, d, dv, true);
    return TERN_OK;
}

static tern_status lower_dsinks(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, TERN_GPU_VARLEN_ATTENTION_DSINKS, op->n_heads, 1, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    const tern_gpu_varlen_attention_dsinks_uniform u = {.n_heads = op->n_heads,
                                                        .count_word = tern_gpu__count_word(a->p, op->rows)};
    tern_gpu_varlen_attention_dsinks_set(d, &u);
    tern_gpu__bind_params(a->p, d, false);
    bind_statistics(a, d, false);
    tern_gpu__bind_sinks(a->p, d, op);
    tern_gpu__bind_view(a->p, d, op->in[TERN_VARLEN_ATTENTION_DSINKS], true);
    return TERN_OK;
}

/* The heads of a KV head are split where there would be too few workgroups. */
static void split(attention *a)
{
    const tern_op *op = a->op;
    uint32_t n_blocks;
    choose_dkv(a, &n_blocks);
    const uint32_t group = op->n_heads / op->n_kv_heads;
    const uint64_t statistics = tern_gpu__aligned((uint64_t)a->rows * op->n_heads * 16);
    a->splits = group > 1 && op->n_kv_heads * n_blocks < WANTED_GROUPS ? group : 1;
    a->bytes = (uint64_t)a->rows * op->n_heads * op->head_dim * 4;
    a->statistics = tern_gpu__scratch(a->p, statistics + (a->splits > 1 ? 2 * tern_gpu__aligned(a->bytes) : 0));
    a->dk = a->statistics + statistics;
    a->dv = a->dk + tern_gpu__aligned(a->bytes);
}

static attention attention_of(tern_gpu_program *p, const tern_op *op)
{
    return (attention){.p = p, .op = op, .quads = op->head_dim / 4, .rows = tern_gpu__max_rows(p, op->rows)};
}

tern_status tern_gpu__lower_varlen_attention(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    TERN_TRY(check(p, op, err));
    const attention a = attention_of(p, op);
    return lower_forward(&a, err);
}

tern_status tern_gpu__lower_varlen_attention_backward(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    TERN_TRY(check(p, op, err));
    attention a = attention_of(p, op);
    split(&a);
    TERN_TRY(lower_delta(&a, err));
    if (op->n_in > TERN_VARLEN_ATTENTION_DSINKS) TERN_TRY(lower_dsinks(&a, err));
    TERN_TRY(lower_dq(&a, err));
    TERN_TRY(lower_dkv(&a, err));
    return a.splits > 1 ? lower_sum(&a, err) : TERN_OK;
}
