/* Launches of rope, caches and attention. */
#include "backend/cuda/cuda_internal.h"
#include "ops/graph.h"
#include "ops/op.h"

enum { MOST_DIM = 512, TILED_DIM = 256 };
enum { FEW_ROWS = 128, BRIEF_ROWS = 8, MOST_SPLITS = 32, SPLIT_POSITIONS = 64, ENOUGH_BLOCKS = 320 };

static cudaError_t run_rope(const void *params, cudaStream_t stream)
{
    return tern_cuda_run_rope((const tern_cuda_rope *)params, stream);
}

static cudaError_t run_attention(const void *params, cudaStream_t stream)
{
    return tern_cuda_run_attention((const tern_cuda_attention *)params, stream);
}

static tern_cuda_place place(const tern_prepared *p, tern_view pages)
{
    return (tern_cuda_place){.positions = tern_cuda__param(p, TERN_PARAM_POSITIONS),
                             .sequences = tern_cuda__param(p, TERN_PARAM_SEQUENCES),
                             .pages = (const uint32_t *)(const void *)tern_cuda__address(p, pages.value),
                             .max_pages = p->graph->max_pages};
}

static tern_cuda_cache cache(const tern_prepared *p, tern_view view)
{
    const tern_cache_type *type = tern_cache_type_of(p->graph->values[view.value].dtype);
    return (tern_cuda_cache){.data = tern_cuda__address(p, view.value),
                             .f32 = type->dtype == TERN_DTYPE_F32,
                             .bits = type->elements > 1 ? type->bytes * 8 / type->elements : 0};
}

static tern_cuda_rope rope_of(const tern_prepared *p, const tern_op *op)
{
    return (tern_cuda_rope){.count = tern_cuda__count(p, op->rows),
                            .n_heads = op->n_heads,
                            .n_kv_heads = op->n_kv_heads,
                            .head_dim = op->head_dim,
                            .rope_dim = op->rope_dim,
                            .adjacent = op->rope_adjacent,
                            .eps = op->eps};
}

static void set_table(const tern_prepared *p, tern_view table, tern_cuda_rope *out)
{
    out->turns = true;
    out->table = (const float *)(const void *)tern_cuda__address(p, table.value);
    out->table_stride = p->graph->values[table.value].cols;
}

void tern_cuda__lower_rope(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_cuda_rope r = rope_of(p, op);
    r.q = tern_cuda__rows(p, op->in[TERN_ROPE_X]);
    r.n_heads = op->in[TERN_ROPE_X].cols / op->head_dim;
    r.place.positions = tern_cuda__param(p, TERN_PARAM_POSITIONS);
    r.back = op->kind == TERN_OP_ROPE_BACKWARD;
    set_table(p, op->in[TERN_ROPE_TABLE], &r);
    out->run = run_rope;
    out->params.rope = r;
}

void tern_cuda__lower_kv_write(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    tern_cuda_rope r = rope_of(p, op);
    r.k = tern_cuda__rows(p, op->in[TERN_KV_WRITE_K]);
    r.v = tern_cuda__rows(p, op->in[TERN_KV_WRITE_V]);
    r.k_cache = cache(p, op->in[TERN_KV_WRITE_K_CACHE]);
    r.v_cache = cache(p, op->in[TERN_KV_WRITE_V_CACHE]);
    r.place = place(p, op->in[TERN_KV_WRITE_PAGES]);
    out->run = run_rope;
    out->params.rope = r;
}

static tern_cuda_rope rope_kv(const tern_prepared *p, const tern_op *op)
{
    tern_cuda_rope r = rope_of(p, op);
    const uint32_t q_cols = op->n_heads * op->head_dim, kv_cols = op->n_kv_heads * op->head_dim;
    tern_view q = op->in[TERN_ROPE_KV_QKV], k = q, v = q;
    q.cols = q_cols;
    k.first_col += q_cols, k.cols = kv_cols;
    v.first_col += q_cols + kv_cols, v.cols = kv_cols;
    r.q = tern_cuda__rows(p, q);
    r.k = tern_cuda__rows(p, k);
    r.v = tern_cuda__rows(p, v);
    r.q_norm = tern_cuda__floats(p, op->head_norms[0]);
    r.k_norm = tern_cuda__floats(p, op->head_norms[1]);
    r.k_cache = cache(p, op->in[TERN_ROPE_KV_K_CACHE]);
    r.v_cache = cache(p, op->in[TERN_ROPE_KV_V_CACHE]);
    r.place = place(p, op->in[TERN_ROPE_KV_PAGES]);
    set_table(p, op->in[TERN_ROPE_KV_TABLE], &r);
    return r;
}

void tern_cuda__lower_rope_kv(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->run = run_rope;
    out->params.rope = rope_kv(p, op);
}

void tern_cuda__rope_attention(const tern_prepared *p, const tern_op *op, tern_cuda_rope *rope,
                               tern_cuda_attention *attention)
{
    *rope = rope_kv(p, op);
    *attention = (tern_cuda_attention){.count = rope->count,
                                       .q = rope->q,
                                       .out = tern_cuda__rows(p, op->out),
                                       .k_cache = rope->k_cache,
                                       .v_cache = rope->v_cache,
                                       .place = rope->place,
                                       .n_heads = op->n_heads,
                                       .n_kv_heads = op->n_kv_heads,
                                       .head_dim = op->head_dim,
                                       .window = op->window,
                                       .scale = tern_op_score_scale(op),
                                       .softcap = op->softcap,
                                       .sinks = tern_cuda__floats(p, op->sinks)};
}

static tern_status check_caches(const tern_graph *graph, const tern_op *op, tern_view k, tern_view v, tern_error *err)
{
    const tern_cache_type *keys = tern_cache_type_of(graph->values[k.value].dtype),
                          *values = tern_cache_type_of(graph->values[v.value].dtype);
    if ((keys->elements > 1) != (values->elements > 1))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "cuda: %s: keys in %s and values in %s: both with blocks, or none, expected",
                         tern_op_name(op->kind), keys->name, values->name);
    if (keys->elements > 1 && op->head_dim % TERN_CUDA_BLOCK_HEADS)
        return tern_fail(err, TERN_UNSUPPORTED, "cuda: %s: keys in %s: heads of %u: a multiple of %d expected",
                         tern_op_name(op->kind), keys->name, op->head_dim, TERN_CUDA_BLOCK_HEADS);
    return TERN_OK;
}

tern_status tern_cuda__rope_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    if (op->kind == TERN_OP_KV_WRITE)
        return check_caches(graph, op, op->in[TERN_KV_WRITE_K_CACHE], op->in[TERN_KV_WRITE_V_CACHE], err);
    return check_caches(graph, op, op->in[TERN_ROPE_KV_K_CACHE], op->in[TERN_ROPE_KV_V_CACHE], err);
}

tern_status tern_cuda__attention_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    TERN_TRY(check_caches(graph, op, op->in[TERN_ATTENTION_K_CACHE], op->in[TERN_ATTENTION_V_CACHE], err));
    if (op->head_dim <= MOST_DIM && op->n_heads % op->n_kv_heads == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "cuda: attention: heads of %u: at most %d expected", op->head_dim,
                     MOST_DIM);
}

/* How rows are shared between the kernels. Few of them, and long heads, are all cut by positions, into as many splits
 * as keep the processors busy; of many those of sequences that decode, whose rows would fill a tile of queries badly.
 */
static void set_splits(const tern_graph *graph, const tern_op *op, tern_cuda_attention *a)
{
    const uint32_t rows = tern_graph_max_rows(graph, op->rows), positions = graph->max_pages * TERN_PAGE_SIZE;
    const uint32_t groups = op->head_groups ? op->head_groups : 1,
                   units = tern_graph_usual_rows(graph, op->rows) * op->n_kv_heads * groups,
                   wanted = (ENOUGH_BLOCKS + units - 1) / units;
    const uint32_t most = (positions + SPLIT_POSITIONS - 1) / SPLIT_POSITIONS;
    const bool all = rows <= FEW_ROWS || op->head_dim > TILED_DIM;
    a->brief = all ? 0 : BRIEF_ROWS;
    a->splits = rows > FEW_ROWS ? 1 : wanted < most ? wanted : most;
    if (a->splits > MOST_SPLITS) a->splits = MOST_SPLITS;
    if (!all && graph->n_sequences == 1) a->splits = 0;
}

size_t tern_cuda__attention_partials(const tern_graph *graph, const tern_op *op)
{
    tern_cuda_attention a;
    if (op->kind != TERN_OP_ATTENTION) return 0;
    set_splits(graph, op, &a);
    if (a.splits < 2) return 0;
    return (size_t)tern_graph_max_rows(graph, op->rows) * op->n_heads * a.splits * (op->head_dim + 2);
}

void tern_cuda__lower_attention(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out)
{
    out->run = run_attention;
    out->params.attention = (tern_cuda_attention){.count = tern_cuda__count(p, op->rows),
                                                  .q = tern_cuda__rows(p, op->in[TERN_ATTENTION_Q]),
                                                  .out = tern_cuda__rows(p, op->out),
                                                  .k_cache = cache(p, op->in[TERN_ATTENTION_K_CACHE]),
                                                  .v_cache = cache(p, op->in[TERN_ATTENTION_V_CACHE]),
                                                  .place = place(p, op->in[TERN_ATTENTION_PAGES]),
                                                  .n_heads = op->n_heads,
                                                  .n_kv_heads = op->n_kv_heads,
                                                  .head_dim = op->head_dim,
                                                  .window = op->window,
                                                  .scale = tern_op_score_scale(op),
                                                  .softcap = op->softcap,
                                                  .sinks = tern_cuda__floats(p, op->sinks),
                                                  .partials = p->scratch};
    set_splits(p->graph, op, &out->params.attention);
}
