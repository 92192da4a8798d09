/* Cutting a graph before the ops of each layer's cache, or of each group of its heads. */
#include "backend/spill/spill_internal.h"
#include "ops/op.h"

/* In the place of a cache the ops of a part have its pool. */
static tern_status use_pool(tern_spill *s, tern_prepared *p, const tern_op *op, tern_spill_cache **caches,
                            tern_error *err)
{
    uint32_t at[TERN_SPILL_HALVES];
    *caches = NULL;
    if (!tern_spill__halves_of(op, p->bindings, at)) return TERN_OK;
    tern_buffer *k = p->bindings[at[TERN_SPILL_K]].buffer, *v = p->bindings[at[TERN_SPILL_V]].buffer;
    TERN_TRY(tern_spill__make_pool(s, k, v, op->n_kv_heads, err));
    TERN_TRY(tern_spill__caches_of_halves(s, k, v, caches, err));
    for (int i = 0; i < TERN_SPILL_HALVES; i++) {
        const tern_spill_pool *pool = (*caches)->pool;
        p->at[at[i]] = (tern_binding){.buffer = pool->buffers[i]};
        p->values[at[i]].bytes = pool->frames.n * pool->unit_bytes[i];
        p->values[at[i]].cols = p->graph->values[at[i]].cols / pool->groups;
    }
    return TERN_OK;
}

static tern_spill_part *begin(tern_prepared *p)
{
    tern_spill_part *part = &p->parts[p->n_parts++];
    *part = (tern_spill_part){.base.graph = *p->graph, .table = TERN_NO_VALUE, .only_outputs = true};
    part->base.graph.ops = p->ops + p->n_ops;
    part->base.graph.values = p->values;
    part->base.graph.n_ops = 0;
    part->base.graph.logits = part->base.graph.tokens = part->base.graph.row_tokens = TERN_NO_VALUE;
    return part;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + TERN_PARAM_ALIGNMENT - 1) / TERN_PARAM_ALIGNMENT * TERN_PARAM_ALIGNMENT;
}

/* Behind all parameters so far. */
static void add_table(tern_prepared *p, tern_spill_part *part, uint32_t like)
{
    tern_value *v = &p->values[p->n_values];
    *v = p->values[like];
    v->offset = aligned(p->param_bytes);
    p->param_bytes = v->offset + v->bytes;
    part->table = like;
    part->frames = (uint32_t)p->n_values++;
}

/* Whichever of the two tables of pages its layer has, the op reads the part's. */
static void use_table(tern_prepared *p, tern_spill_part *part, tern_op *op)
{
    const uint32_t *params = p->graph->params;
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) {
        tern_view *view = tern_op_view_at(op, i);
        if (view->value == TERN_NO_VALUE) continue;
        if (view->value != params[TERN_PARAM_PAGES] && view->value != params[TERN_PARAM_RING_PAGES]) continue;
        if (part->table == TERN_NO_VALUE) add_table(p, part, view->value);
        view->value = part->frames;
    }
}

static void note_cache(tern_prepared *p, tern_spill_part *part, tern_spill_cache *cache, tern_op *op)
{
    part->cache = cache;
    use_table(p, part, op);
    part->writes = part->writes || op->kind != TERN_OP_ATTENTION;
    if (op->kind != TERN_OP_ATTENTION && op->kind != TERN_OP_ROPE_ATTENTION) return;
    part->window = op->window;
    part->attends = true;
}

/* Where the next op goes. */
typedef struct cutter {
    tern_prepared *p;
    tern_spill_part *part;
    tern_spill_cache *caches; /* of the op that is cut, or NULL */
} cutter;

static void add_op(void *context, const tern_op *op, uint32_t group)
{
    cutter *c = context;
    tern_prepared *p = c->p;
    tern_spill_cache *cache = c->caches && group != TERN_SPILL_NO_GROUP ? &c->caches[group] : NULL;
    if (!c->part || (cache && cache != c->part->cache)) c->part = begin(p);
    tern_op *copy = &p->ops[p->n_ops++];
    *copy = *op;
    if (cache) note_cache(p, c->part, cache, copy);
    c->part->base.graph.n_ops++;
    c->part->only_outputs = c->part->only_outputs && op->rows == TERN_ROWS_OUTPUTS;
    if (op->out.value == p->graph->logits) c->part->base.graph.logits = p->graph->logits;
}

tern_status tern_spill__cut(tern_spill *s, tern_prepared *p, tern_error *err)
{
    const tern_graph *g = p->graph;
    cutter c = {.p = p};
    for (size_t i = 0; i < g->n_ops; i++) {
        p->copies[i] = p->n_ops;
        TERN_TRY(use_pool(s, p, &g->ops[i], &c.caches, err));
        tern_spill__split_heads(&g->ops[i], c.caches ? c.caches->pool->groups : 1, add_op, &c);
    }
    p->copies[g->n_ops] = p->n_ops;
    return TERN_OK;
}
