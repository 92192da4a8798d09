/* Fusions around attention: rotation, norms of heads, the caches. */
#include "graph/fuse_internal.h"
#include "ops/op.h"

/* The next op after `at` that is still there. */
static tern_op *following(tern_graph *g, size_t *at)
{
    while (++*at < g->n_ops)
        if (g->ops[*at].kind != TERN_OP_COUNT) return &g->ops[*at];
    return NULL;
}

/* ROPE of q, ROPE of k, KV_WRITE of k and v that are neighbours in one row. */
tern_status tern_fuse__rope_kv(tern_fusing *f, size_t at)
{
    tern_graph *g = f->graph;
    tern_op *q = &g->ops[at], *k = q->kind == TERN_OP_ROPE ? following(g, &at) : NULL;
    tern_op *kv = k && k->kind == TERN_OP_ROPE ? following(g, &at) : NULL;
    if (!kv || kv->kind != TERN_OP_KV_WRITE) return TERN_OK;
    tern_view vq = q->in[TERN_ROPE_X], vk = k->in[TERN_ROPE_X], vv = kv->in[TERN_KV_WRITE_V];
    bool neighbours = kv->in[TERN_KV_WRITE_K].value == vk.value && vq.value == vk.value && vk.value == vv.value &&
                      vq.first_col == 0 && vk.first_col == vq.cols && vv.first_col == vq.cols + vk.cols;
    if (!neighbours) return TERN_OK;
    tern_op fused = *kv;
    fused.kind = TERN_OP_ROPE_KV;
    fused.rope_adjacent = q->rope_adjacent;
    fused.rope_dim = q->rope_dim;
    tern_view row = {.value = vq.value, .cols = vq.cols + vk.cols + vv.cols};
    fused.in[TERN_ROPE_KV_QKV] = row;
    fused.in[TERN_ROPE_KV_POSITIONS] = q->in[TERN_ROPE_POSITIONS];
    fused.in[TERN_ROPE_KV_TABLE] = q->in[TERN_ROPE_TABLE];
    fused.in[TERN_ROPE_KV_K_CACHE] = kv->in[TERN_KV_WRITE_K_CACHE];
    fused.in[TERN_ROPE_KV_V_CACHE] = kv->in[TERN_KV_WRITE_V_CACHE];
    fused.in[TERN_ROPE_KV_SEQUENCES] = kv->in[TERN_KV_WRITE_SEQUENCES];
    fused.in[TERN_ROPE_KV_PAGES] = kv->in[TERN_KV_WRITE_PAGES];
    fused.n_in = TERN_ROPE_KV_INPUTS;
    tern_fuse__drop(q);
    tern_fuse__drop(k);
    *kv = fused;
    return TERN_OK;
}

static bool same_columns(tern_view a, tern_view b)
{
    return a.value == b.value && a.first_col == b.first_col && a.cols == b.cols;
}

/* RMS_NORM in place of each head in these columns. */
static bool norms_heads(const tern_op *op, tern_view columns, uint32_t head_dim)
{
    return op->kind == TERN_OP_RMS_NORM && same_columns(op->in[TERN_NORM_X], columns) &&
           same_columns(op->out, columns) && op->residual.value == TERN_NO_VALUE &&
           op->in[TERN_NORM_WEIGHT].cols == head_dim;
}

/* Norms of the heads of q and of k, then ROPE_KV, where the device has such. */
tern_status tern_fuse__head_norms(tern_fusing *f, size_t at)
{
    tern_graph *g = f->graph;
    tern_op *q_norm = &g->ops[at], *k_norm = q_norm->kind == TERN_OP_RMS_NORM ? following(g, &at) : NULL;
    tern_op *rope = k_norm && k_norm->kind == TERN_OP_RMS_NORM ? following(g, &at) : NULL;
    if (!rope || rope->kind != TERN_OP_ROPE_KV) return TERN_OK;
    tern_view q = rope->in[TERN_ROPE_KV_QKV], k = q;
    q.cols = rope->n_heads * rope->head_dim;
    k.first_col += q.cols;
    k.cols = rope->n_kv_heads * rope->head_dim;
    if (!norms_heads(q_norm, q, rope->head_dim) || !norms_heads(k_norm, k, rope->head_dim) ||
        q_norm->eps != k_norm->eps)
        return TERN_OK;
    tern_op fused = *rope;
    fused.head_norms[0] = q_norm->in[TERN_NORM_WEIGHT];
    fused.head_norms[1] = k_norm->in[TERN_NORM_WEIGHT];
    fused.eps = q_norm->eps;
    if (!tern_fuse__becomes(f, rope, &fused)) return TERN_OK;
    tern_fuse__drop(q_norm);
    tern_fuse__drop(k_norm);
    return TERN_OK;
}

/* ROPE_KV, and the attention of its q as the only other reader of the row. */
tern_status tern_fuse__rope_attention(tern_fusing *f, size_t at)
{
    tern_graph *g = f->graph;
    tern_op *rope = &g->ops[at], *attention = rope->kind == TERN_OP_ROPE_KV ? following(g, &at) : NULL;
    if (!attention || attention->kind != TERN_OP_ATTENTION ||
        attention->in[TERN_ATTENTION_Q].value != rope->in[TERN_ROPE_KV_QKV].value ||
        f->uses[rope->in[TERN_ROPE_KV_QKV].value] != 2 || !tern_fuse__internal(f, rope->in[TERN_ROPE_KV_QKV].value))
        return TERN_OK;
    tern_op fused = *rope;
    fused.kind = TERN_OP_ROPE_ATTENTION;
    fused.out = attention->out;
    fused.scale = attention->scale;
    fused.softcap = attention->softcap;
    fused.window = attention->window;
    fused.sinks = attention->sinks;
    if (tern_fuse__becomes(f, rope, &fused)) tern_fuse__drop(attention);
    return TERN_OK;
}
