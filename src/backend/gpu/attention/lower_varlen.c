/* Lowering attention over packed rows, and its backward: probabilities are computed again from the statistics. */
#include <math.h>

#include "backend/gpu/uniform.h"

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

/* What its dispatches share. */
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

static uint32_t blocks(const attention *a, tern_gpu_pipeline pipeline)
{
    return tern_gpu__ceil_div(a->rows, tern_gpu_override(pipeline, "ROWS", 0));
}

static bool in_quads(const tern_gpu_program *p, tern_view view)
{
    return view.first_col % 4 == 0 && p->graph->values[view.value].cols % 4 == 0;
}

static tern_status check(const tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    bool quads = in_quads(p, op->out);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (i != 3 && i != 4) quads = quads && in_quads(p, op->in[i]);
    if (op->head_dim % 4 || op->head_dim == 0 || op->head_dim > MOST)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "gpu: op %s: head dimension %u found, a multiple of 4, at most %d, expected; --backend cpu "
                         "runs it",
                         tern_op_name(op->kind), op->head_dim, MOST);
    return quads ? TERN_OK : tern_gpu__unsupported(p->graph, op, "columns that are no multiples of four", err);
}

static void put_params(tern_gpu_words *u, const attention *a)
{
    tern_gpu__put(u, tern_gpu__count_word(a->p, a->op->rows));
    tern_gpu__put(u, tern_gpu__param_word(a->p, TERN_PARAM_SEQ_STARTS));
}

static void put_rows(tern_gpu_words *u, const attention *a, tern_view view)
{
    tern_gpu__put_view(u, a->p, view, 4);
}

static float score_scale(const tern_op *op)
{
    return 1 / sqrtf((float)op->head_dim);
}

static void bind_scratch(const attention *a, tern_gpu_dispatch *d, bool written)
{
    uint64_t bytes = (uint64_t)a->rows * a->op->n_heads * 16;
    tern_gpu__bind(
        d, (tern_gpu_range){.value = TERN_GPU_SCRATCH, .offset = a->statistics, .bytes = bytes, .written = written});
}

static tern_status lower_forward(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    tern_gpu_pipeline pipeline = choose(&forward, a);
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, pipeline, op->n_heads, blocks(a, pipeline), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = {.word = {a->quads, op->n_heads, op->n_heads / op->n_kv_heads}, .n = 3};
    put_params(&u, a);
    for (int i = 0; i < 3; i++) put_rows(&u, a, op->in[i]);
    put_rows(&u, a, op->out);
    tern_gpu__put_view(&u, a->p, op->in[4], 1);
    tern_gpu__put_float(&u, score_scale(op));
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(a->p, d, false);
    for (int i = 0; i < 3; i++) tern_gpu__bind_view(a->p, d, op->in[i], false);
    tern_gpu__bind_view(a->p, d, op->in[4], true);
    tern_gpu__bind_view(a->p, d, op->out, true);
    return TERN_OK;
}

static tern_status lower_delta(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    uint32_t in_group = tern_gpu_pipelines[TERN_GPU_VARLEN_ATTENTION_DELTA].invocations / 8;
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, TERN_GPU_VARLEN_ATTENTION_DELTA, op->n_heads,
                                         tern_gpu__ceil_div(a->rows, in_group), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = {.word = {a->quads, op->n_heads, tern_gpu__count_word(a->p, op->rows)}, .n = 3};
    put_rows(&u, a, op->in[5]);
    put_rows(&u, a, op->in[6]);
    tern_gpu__put_view(&u, a->p, op->in[4], 1);
    tern_gpu__put(&u, 0);
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(a->p, d, false);
    const tern_view read[] = {op->in[5], op->in[6], op->in[4]};
    for (int i = 0; i < 3; i++) tern_gpu__bind_view(a->p, d, read[i], false);
    bind_scratch(a, d, true);
    return TERN_OK;
}

/* What dq and dk, dv read: q, k, v, dout and the statistics. */
static void bind_inputs(const attention *a, tern_gpu_dispatch *d)
{
    tern_gpu__bind_params(a->p, d, false);
    for (int i = 0; i < 3; i++) tern_gpu__bind_view(a->p, d, a->op->in[i], false);
    tern_gpu__bind_view(a->p, d, a->op->in[6], false);
    bind_scratch(a, d, false);
}

static tern_status lower_dq(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    tern_gpu_pipeline pipeline = choose(&dq, a);
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, pipeline, op->n_heads, blocks(a, pipeline), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = {.word = {a->quads, op->n_heads, op->n_heads / op->n_kv_heads}, .n = 3};
    put_params(&u, a);
    for (int i = 0; i < 3; i++) put_rows(&u, a, op->in[i]);
    put_rows(&u, a, op->in[6]);
    put_rows(&u, a, op->out);
    tern_gpu__put(&u, 0);
    tern_gpu__put_float(&u, score_scale(op));
    tern_gpu__set_uniform(d, &u);
    bind_inputs(a, d);
    tern_gpu__bind_view(a->p, d, op->out, true);
    return TERN_OK;
}

static void bind_part(const attention *a, tern_gpu_dispatch *d, uint64_t offset, bool written)
{
    tern_gpu__bind(
        d, (tern_gpu_range){.value = TERN_GPU_SCRATCH, .offset = offset, .bytes = a->bytes, .written = written});
}

static tern_status lower_dkv(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    uint32_t groups = op->n_kv_heads * a->splits;
    tern_gpu_pipeline pipeline = choose(&dkv, a);
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, pipeline, groups, blocks(a, pipeline), 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = {.word = {a->quads, op->n_heads, a->splits, op->n_heads / groups}, .n = 4};
    put_params(&u, a);
    for (int i = 0; i < 3; i++) put_rows(&u, a, op->in[i]);
    put_rows(&u, a, op->in[6]);
    for (int i = 7; i < 9; i++) {
        if (a->splits == 1) {
            put_rows(&u, a, op->in[i]);
        } else {
            tern_gpu__put(&u, 0);
            tern_gpu__put(&u, groups * a->quads);
        }
    }
    tern_gpu__put(&u, 0);
    tern_gpu__put_float(&u, score_scale(op));
    tern_gpu__set_uniform(d, &u);
    bind_inputs(a, d);
    for (int i = 7; i < 9; i++) {
        if (a->splits == 1) tern_gpu__bind_view(a->p, d, op->in[i], true);
        else bind_part(a, d, i == 7 ? a->dk : a->dv, true);
    }
    return TERN_OK;
}

static tern_status lower_sum(const attention *a, tern_error *err)
{
    const tern_op *op = a->op;
    uint32_t width = tern_gpu_pipelines[TERN_GPU_SUM_HEADS].invocations;
    tern_gpu_dispatch *d = tern_gpu__add(a->p, op, TERN_GPU_SUM_HEADS,
                                         tern_gpu__ceil_div(op->n_kv_heads * a->quads, width), a->rows, 1, err);
    if (!d) return TERN_UNSUPPORTED;
    tern_gpu_words u = {.word = {a->quads, op->n_kv_heads, a->splits, tern_gpu__count_word(a->p, op->rows)}, .n = 4};
    put_rows(&u, a, op->in[7]);
    put_rows(&u, a, op->in[8]);
    tern_gpu__set_uniform(d, &u);
    tern_gpu__bind_params(a->p, d, false);
    bind_part(a, d, a->dk, false);
    bind_part(a, d, a->dv, false);
    tern_gpu__bind_view(a->p, d, op->in[7], true);
    tern_gpu__bind_view(a->p, d, op->in[8], true);
    return TERN_OK;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* The heads of a KV head are split where there would be too few workgroups. */
static void split(attention *a)
{
    const tern_op *op = a->op;
    uint32_t group = op->n_heads / op->n_kv_heads, n = op->n_kv_heads * blocks(a, choose(&dkv, a));
    uint64_t statistics = aligned((uint64_t)a->rows * op->n_heads * 16);
    a->splits = group > 1 && n < WANTED_GROUPS ? group : 1;
    a->bytes = (uint64_t)a->rows * op->n_heads * op->head_dim * 4;
    a->statistics = tern_gpu__scratch(a->p, statistics + (a->splits > 1 ? 2 * aligned(a->bytes) : 0));
    a->dk = a->statistics + statistics;
    a->dv = a->dk + aligned(a->bytes);
}

tern_status tern_gpu__lower_varlen_attention(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    TERN_TRY(check(p, op, err));
    attention a = {.p = p, .op = op, .quads = op->head_dim / 4, .rows = tern_gpu__max_rows(p, op->rows)};
    if (op->kind == TERN_OP_VARLEN_ATTENTION) return lower_forward(&a, err);
    split(&a);
    TERN_TRY(lower_delta(&a, err));
    TERN_TRY(lower_dq(&a, err));
    TERN_TRY(lower_dkv(&a, err));
    return a.splits > 1 ? lower_sum(&a, err) : TERN_OK;
}
