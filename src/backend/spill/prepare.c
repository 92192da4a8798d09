/* Cutting a graph before the ops of each layer's cache, and preparing the parts on the inner backend. */
#include <string.h>

#include "backend/spill/spill_internal.h"
#include "base/alloc.h"

static void free_part(tern_spill *s, tern_spill_part *part)
{
    if (part->prepared) s->inner->prepared_free(s->inner, part->prepared);
    tern_free(part->frame_table);
    tern_free(part->bindings);
}

static void free_all(tern_spill *s, tern_prepared *p)
{
    for (size_t i = 0; i < p->n_parts; i++) free_part(s, &p->parts[i]);
    for (size_t i = 0; i < p->n_orders; i++) tern_free(p->orders[i].layers);
    for (int i = 0; i < 2; i++) tern_free(p->needs[i].pages);
    tern_free(p->orders);
    tern_free(p->parts);
    if (p->params) s->inner->buffer_free(s->inner, p->params);
    tern_free(p->ops);
    tern_free(p->values);
    tern_free(p->at);
    tern_free(p->first);
    tern_free(p->last);
    tern_free(p);
}

void tern_spill__prepared_free(tern_backend *b, tern_prepared *p)
{
    tern_spill *s = tern_spill__of(b);
    if (!p) return;
    pthread_mutex_lock(&s->lock);
    free_all(s, p);
    pthread_mutex_unlock(&s->lock);
}

static tern_status allocate(tern_prepared *p, tern_error *err)
{
    const tern_graph *g = p->graph;
    p->parts = tern_calloc(g->n_ops + 1, sizeof *p->parts);
    p->orders = tern_calloc(g->n_ops + 1, sizeof *p->orders);
    p->ops = tern_calloc(g->n_ops + 1, sizeof *p->ops);
    p->values = tern_calloc(g->n_values + g->n_ops, sizeof *p->values); /* no more tables than ops */
    p->at = tern_calloc(g->n_values + g->n_ops, sizeof *p->at);
    p->first = tern_calloc(g->n_sequences + 1, sizeof *p->first);
    p->last = tern_calloc(g->n_sequences + 1, sizeof *p->last);
    if (!p->parts || !p->orders || !p->ops || !p->values || !p->at || !p->first || !p->last)
        return tern_fail_alloc(err, g->n_ops * sizeof *p->parts + g->n_values * sizeof *p->values);
    memcpy(p->ops, g->ops, g->n_ops * sizeof *p->ops);
    memcpy(p->values, g->values, g->n_values * sizeof *p->values);
    p->n_values = g->n_values;
    p->param_bytes = g->param_bytes;
    return TERN_OK;
}

/* What the host writes to the parameters is kept: steps say there which pages they read. */
static tern_status keep_copy(tern_spill *s, tern_buffer *buffer, tern_error *err)
{
    if (buffer->copy) return TERN_OK;
    buffer->copy = tern_calloc(1, tern_size_of(buffer->bytes));
    if (!buffer->copy) return tern_fail_alloc(err, buffer->bytes);
    return s->inner->buffer_read(s->inner, buffer->inner, 0, buffer->copy, buffer->bytes, err);
}

static tern_status bind_all(tern_spill *s, tern_prepared *p, tern_error *err)
{
    const tern_graph *g = p->graph;
    for (size_t i = 0; i < g->n_values; i++) {
        const tern_buffer *buffer = p->bindings[i].buffer;
        if (buffer) p->at[i] = (tern_binding){.buffer = buffer->inner, .offset = p->bindings[i].offset};
    }
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++) {
        const uint32_t value = g->params[i];
        if (value != TERN_NO_VALUE && p->bindings[value].buffer) TERN_TRY(keep_copy(s, p->bindings[value].buffer, err));
    }
    return TERN_OK;
}

/* In the place of a cache the ops of a part have its pool. */
static tern_status use_pool(tern_spill *s, tern_prepared *p, const tern_op *op, tern_spill_cache **cache,
                            tern_error *err)
{
    uint32_t at[TERN_SPILL_HALVES];
    *cache = NULL;
    if (!tern_spill__halves_of(op, p->bindings, at)) return TERN_OK;
    tern_buffer *k = p->bindings[at[TERN_SPILL_K]].buffer, *v = p->bindings[at[TERN_SPILL_V]].buffer;
    TERN_TRY(tern_spill__make_pool(s, k, v, err));
    TERN_TRY(tern_spill__cache_of_halves(s, k, v, cache, err));
    for (int i = 0; i < TERN_SPILL_HALVES; i++) {
        const tern_spill_pool *pool = (*cache)->pool;
        p->at[at[i]] = (tern_binding){.buffer = pool->buffers[i]};
        p->values[at[i]].bytes = pool->frames.n * pool->page_bytes[i];
    }
    return TERN_OK;
}

static tern_spill_part *begin(tern_prepared *p, size_t op)
{
    tern_spill_part *part = &p->parts[p->n_parts++];
    *part = (tern_spill_part){.graph = *p->graph, .table = TERN_NO_VALUE, .only_outputs = true};
    part->graph.ops = p->ops + op;
    part->graph.values = p->values;
    part->graph.n_ops = 0;
    part->graph.logits = part->graph.tokens = part->graph.row_tokens = TERN_NO_VALUE;
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
    if (op->kind != TERN_OP_ATTENTION && op->kind != TERN_OP_ROPE_ATTENTION) return;
    part->window = op->window;
    part->attends = true;
}

static tern_status cut(tern_spill *s, tern_prepared *p, tern_error *err)
{
    const tern_graph *g = p->graph;
    tern_spill_part *part = NULL;
    for (size_t i = 0; i < g->n_ops; i++) {
        tern_spill_cache *cache;
        TERN_TRY(use_pool(s, p, &g->ops[i], &cache, err));
        if (!part || (cache && cache != part->cache)) part = begin(p, i);
        if (cache) note_cache(p, part, cache, &p->ops[i]);
        part->graph.n_ops++;
        part->only_outputs = part->only_outputs && g->ops[i].rows == TERN_ROWS_OUTPUTS;
        if (g->ops[i].out.value == g->logits) part->graph.logits = g->logits;
    }
    return TERN_OK;
}

static tern_status find_order(tern_prepared *p, tern_spill_pool *pool, tern_spill_order **out, tern_error *err)
{
    size_t i = 0;
    while (i < p->n_orders && p->orders[i].pool != pool) i++;
    *out = &p->orders[i];
    if (i < p->n_orders) return TERN_OK;
    (*out)->pool = pool;
    (*out)->layers = tern_calloc(p->n_parts, sizeof(tern_spill_layer *));
    p->n_orders++;
    return (*out)->layers ? TERN_OK : tern_fail_alloc(err, p->n_parts * sizeof(tern_spill_layer *));
}

/* Which layers run when, and the most pages that one of them may need. */
static tern_status order_layers(tern_prepared *p, tern_error *err)
{
    uint32_t most = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        tern_spill_part *part = &p->parts[i];
        tern_spill_order *order;
        if (!part->cache) continue;
        TERN_TRY(find_order(p, part->cache->pool, &order, err));
        while (part->place < order->n && order->layers[part->place] != &part->cache->pages) part->place++;
        if (part->place == order->n) order->layers[order->n++] = &part->cache->pages;
        if (part->cache->pages.n_pages > most) most = part->cache->pages.n_pages;
    }
    for (int i = 0; i < 2; i++) {
        p->needs[i].pages = tern_calloc(most, sizeof *p->needs[i].pages);
        if (!p->needs[i].pages) return tern_fail_alloc(err, most * sizeof *p->needs[i].pages);
    }
    return TERN_OK;
}

/* Where all parts have the parameters: in one buffer, as some devices want it. */
static tern_status make_params(tern_spill *s, tern_prepared *p, tern_error *err)
{
    TERN_TRY(s->inner->buffer_create(s->inner, p->param_bytes, &p->params, err));
    for (size_t i = 0; i < p->n_values; i++)
        if (p->values[i].kind == TERN_VALUE_PARAM)
            p->at[i] = (tern_binding){.buffer = p->params, .offset = p->values[i].offset};
    return TERN_OK;
}

/* Its table is the buffer's zeros so far. */
static tern_status make_table(const tern_prepared *p, tern_spill_part *part, tern_error *err)
{
    const uint64_t bytes = p->values[part->frames].bytes;
    part->frame_table = tern_calloc(1, tern_size_of(bytes));
    return part->frame_table ? TERN_OK : tern_fail_alloc(err, bytes);
}

static tern_status prepare_part(tern_spill *s, const tern_prepared *p, tern_spill_part *part, tern_error *err)
{
    const size_t n_values = part->graph.n_values = p->n_values;
    part->graph.param_bytes = p->param_bytes;
    part->bindings = tern_calloc(n_values, sizeof *part->bindings);
    if (!part->bindings) return tern_fail_alloc(err, n_values * sizeof *part->bindings);
    for (size_t i = 0; i < n_values; i++)
        if (p->values[i].kind == TERN_VALUE_PARAM) part->bindings[i] = p->at[i];
    for (size_t i = 0; i < part->graph.n_ops; i++)
        for (uint32_t k = 0; k < tern_op_n_views(&part->graph.ops[i]); k++) {
            const uint32_t value = tern_op_view(&part->graph.ops[i], k).value;
            if (value != TERN_NO_VALUE) part->bindings[value] = p->at[value];
        }
    if (part->cache) TERN_TRY(make_table(p, part, err));
    return s->inner->prepare(s->inner, &part->graph, part->bindings, &part->prepared, err);
}

static tern_status prepare(tern_spill *s, tern_prepared *p, tern_error *err)
{
    TERN_TRY(allocate(p, err));
    TERN_TRY(bind_all(s, p, err));
    TERN_TRY(cut(s, p, err));
    TERN_TRY(order_layers(p, err));
    TERN_TRY(make_params(s, p, err));
    for (size_t i = 0; i < p->n_parts; i++) TERN_TRY(prepare_part(s, p, &p->parts[i], err));
    return TERN_OK;
}

tern_status tern_spill__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                                tern_prepared **out, tern_error *err)
{
    tern_spill *s = tern_spill__of(b);
    tern_prepared *p = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    *p = (tern_prepared){.graph = graph, .bindings = bindings};
    pthread_mutex_lock(&s->lock);
    const tern_status status = prepare(s, p, err);
    if (status == TERN_OK) *out = p;
    else free_all(s, p);
    pthread_mutex_unlock(&s->lock);
    return status;
}
