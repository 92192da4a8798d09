/* An op on the keys and values of a layer as ops on those of some of its heads: no head looks at another one, so that
 * they compute the same. Undoes a fusion. */
#include "backend/spill/spill_internal.h"
#include "ops/op.h"

typedef struct splitter {
    const tern_op *op;
    uint32_t groups;
    tern_spill_emit *emit;
    void *context;
} splitter;

static tern_view columns(tern_view row, uint32_t first, uint32_t n)
{
    row.first_col += first;
    row.cols = n;
    return row;
}

/* The columns of group i. */
static tern_view share(const splitter *s, tern_view view, uint32_t i)
{
    const uint32_t n = view.cols / s->groups;
    return columns(view, i * n, n);
}

static void emit_group(const splitter *s, const tern_op *op, uint32_t i)
{
    tern_op part = *op;
    part.n_heads /= s->groups;
    part.n_kv_heads /= s->groups;
    if (op->kind == TERN_OP_KV_WRITE) {
        part.in[TERN_KV_WRITE_K] = share(s, op->in[TERN_KV_WRITE_K], i);
        part.in[TERN_KV_WRITE_V] = share(s, op->in[TERN_KV_WRITE_V], i);
        part.in[TERN_KV_WRITE_K_CACHE].cols /= s->groups;
        part.in[TERN_KV_WRITE_V_CACHE].cols /= s->groups;
    } else {
        part.head_groups = s->groups;
        part.in[TERN_ATTENTION_Q] = share(s, op->in[TERN_ATTENTION_Q], i);
        part.in[TERN_ATTENTION_K_CACHE].cols /= s->groups;
        part.in[TERN_ATTENTION_V_CACHE].cols /= s->groups;
        part.out = share(s, op->out, i);
        if (op->sinks.cols) part.sinks = share(s, op->sinks, i);
    }
    s->emit(s->context, &part, i);
}

static void emit_groups(const splitter *s, const tern_op *op)
{
    for (uint32_t i = 0; i < s->groups; i++) emit_group(s, op, i);
}

static tern_op alike(const splitter *s, tern_op_kind kind, uint32_t n_in)
{
    const tern_op *op = s->op;
    return (tern_op){.kind = kind,
                     .rows = op->rows,
                     .group = op->group,
                     .layer = op->layer,
                     .n_in = n_in,
                     .out = {.value = TERN_NO_VALUE},
                     .head_dim = op->head_dim};
}

static void emit_norm(const splitter *s, tern_view x, tern_view weight)
{
    tern_op norm = alike(s, TERN_OP_RMS_NORM, TERN_NORM_INPUTS);
    if (weight.cols == 0) return;
    norm.in[TERN_NORM_X] = norm.out = x;
    norm.in[TERN_NORM_WEIGHT] = weight;
    norm.eps = s->op->eps;
    s->emit(s->context, &norm, TERN_SPILL_NO_GROUP);
}

static void emit_rope(const splitter *s, tern_view x)
{
    tern_op rope = alike(s, TERN_OP_ROPE, TERN_ROPE_INPUTS);
    rope.n_heads = x.cols / s->op->head_dim;
    rope.rope_adjacent = s->op->rope_adjacent;
    rope.rope_dim = s->op->rope_dim;
    rope.in[TERN_ROPE_X] = rope.out = x;
    rope.in[TERN_ROPE_POSITIONS] = s->op->in[TERN_ROPE_KV_POSITIONS];
    rope.in[TERN_ROPE_TABLE] = s->op->in[TERN_ROPE_KV_TABLE];
    s->emit(s->context, &rope, TERN_SPILL_NO_GROUP);
}

static tern_op write_of(const splitter *s, tern_view k, tern_view v)
{
    const tern_op *op = s->op;
    tern_op write = alike(s, TERN_OP_KV_WRITE, TERN_KV_WRITE_INPUTS);
    write.n_heads = op->n_heads;
    write.n_kv_heads = op->n_kv_heads;
    write.in[TERN_KV_WRITE_K] = k;
    write.in[TERN_KV_WRITE_V] = v;
    write.in[TERN_KV_WRITE_K_CACHE] = op->in[TERN_ROPE_KV_K_CACHE];
    write.in[TERN_KV_WRITE_V_CACHE] = op->in[TERN_ROPE_KV_V_CACHE];
    write.in[TERN_KV_WRITE_POSITIONS] = op->in[TERN_ROPE_KV_POSITIONS];
    write.in[TERN_KV_WRITE_SEQUENCES] = op->in[TERN_ROPE_KV_SEQUENCES];
    write.in[TERN_KV_WRITE_PAGES] = op->in[TERN_ROPE_KV_PAGES];
    return write;
}

static tern_op attention_of(const splitter *s, tern_view q)
{
    const tern_op *op = s->op;
    tern_op attention = alike(s, TERN_OP_ATTENTION, TERN_ATTENTION_INPUTS);
    attention.n_heads = op->n_heads;
    attention.n_kv_heads = op->n_kv_heads;
    attention.scale = op->scale;
    attention.softcap = op->softcap;
    attention.window = op->window;
    attention.sinks = op->sinks;
    attention.out = op->out;
    attention.in[TERN_ATTENTION_Q] = q;
    attention.in[TERN_ATTENTION_K_CACHE] = op->in[TERN_ROPE_KV_K_CACHE];
    attention.in[TERN_ATTENTION_V_CACHE] = op->in[TERN_ROPE_KV_V_CACHE];
    attention.in[TERN_ATTENTION_POSITIONS] = op->in[TERN_ROPE_KV_POSITIONS];
    attention.in[TERN_ATTENTION_SEQUENCES] = op->in[TERN_ROPE_KV_SEQUENCES];
    attention.in[TERN_ATTENTION_PAGES] = op->in[TERN_ROPE_KV_PAGES];
    return attention;
}

/* ROPE_KV and ROPE_ATTENTION. Nobody else reads the row of the latter, which is rotated in place here. */
static void emit_fused(const splitter *s)
{
    const tern_op *op = s->op;
    const tern_view row = op->in[TERN_ROPE_KV_QKV];
    const uint32_t q_cols = op->n_heads * op->head_dim, kv_cols = op->n_kv_heads * op->head_dim;
    const tern_view q = columns(row, 0, q_cols), k = columns(row, q_cols, kv_cols),
                    v = columns(row, q_cols + kv_cols, kv_cols);
    emit_norm(s, q, op->head_norms[0]);
    emit_norm(s, k, op->head_norms[1]);
    emit_rope(s, q);
    emit_rope(s, k);
    const tern_op write = write_of(s, k, v), attention = attention_of(s, q);
    for (uint32_t i = 0; i < s->groups; i++) {
        emit_group(s, &write, i);
        if (op->kind == TERN_OP_ROPE_ATTENTION) emit_group(s, &attention, i);
    }
}

void tern_spill__split_heads(const tern_op *op, uint32_t groups, tern_spill_emit *emit, void *context)
{
    const splitter s = {.op = op, .groups = groups, .emit = emit, .context = context};
    if (groups == 1) emit(context, op, 0);
    else if (op->kind == TERN_OP_KV_WRITE || op->kind == TERN_OP_ATTENTION) emit_groups(&s, op);
    else emit_fused(&s);
}
