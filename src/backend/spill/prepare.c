/* Preparing a graph's parts on the inner backend. */
#include <string.h>

#include "backend/spill/spill_internal.h"
#include "base/alloc.h"
#include "ops/op.h"

static void free_part(tern_spill *s, tern_spill_part *part)
{
    if (part->base.prepared) s->wrap.inner->prepared_free(s->wrap.inner, part->base.prepared);
    tern_free(part->frame_table);
    tern_free(part->base.bindings);
}

static void free_all(tern_spill *s, tern_prepared *p)
{
    for (size_t i = 0; i < p->n_parts; i++) free_part(s, &p->parts[i]);
    for (size_t i = 0; i < p->n_orders; i++) tern_free(p->orders[i].layers);
    for (int i = 0; i < 2; i++) tern_free(p->needs[i].pages);
    tern_free(p->orders);
    tern_free(p->parts);
    if (p->params) s->wrap.inner->buffer_free(s->wrap.inner, p->params);
    tern_free(p->ops);
    tern_free(p->copies);
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

/* No more ops than these, were there a group for each head. */
static size_t most_ops(const tern_prepared *p)
{
    size_t n = p->graph->n_ops + 1;
    uint32_t values[TERN_SPILL_HALVES];
    for (size_t i = 0; i < p->graph->n_ops; i++)
        if (tern_spill__halves_of(&p->graph->ops[i], p->bindings, values))
            n += TERN_SPILL_MORE_OPS + 2 * p->graph->ops[i].n_kv_heads;
    return n;
}

static tern_status allocate(tern_prepared *p, tern_error *err)
{
    const tern_graph *g = p->graph;
    const size_t most = most_ops(p); /* of parts and their tables too */
    p->parts = tern_calloc(most, sizeof *p->parts);
    p->orders = tern_calloc(g->n_ops + 1, sizeof *p->orders);
    p->ops = tern_calloc(most, sizeof *p->ops);
    p->copies = tern_calloc(g->n_ops + 1, sizeof *p->copies);
    p->values = tern_calloc(g->n_values + most, sizeof *p->values);
    p->at = tern_calloc(g->n_values + most, sizeof *p->at);
    p->first = tern_calloc(g->n_sequences + 1, sizeof *p->first);
    p->last = tern_calloc(g->n_sequences + 1, sizeof *p->last);
    if (!p->parts || !p->orders || !p->ops || !p->copies || !p->values || !p->at || !p->first || !p->last)
        return tern_fail_alloc(err, most * (sizeof *p->parts + sizeof *p->ops) + g->n_values * sizeof *p->values);
    memcpy(p->values, g->values, g->n_values * sizeof *p->values);
    p->n_values = g->n_values;
    p->param_bytes = g->param_bytes;
    return TERN_OK;
}

/* Writes of the host to the parameters are kept: steps read there which pages they read. */
static tern_status keep_copy(tern_spill *s, tern_buffer *buffer, tern_error *err)
{
    if (buffer->copy) return TERN_OK;
    buffer->copy = tern_calloc(1, tern_size_of(buffer->bytes));
    if (!buffer->copy) return tern_fail_alloc(err, buffer->bytes);
    return s->wrap.inner->buffer_read(s->wrap.inner, buffer->inner, 0, buffer->copy, buffer->bytes, err);
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
    TERN_TRY(s->wrap.inner->buffer_create(s->wrap.inner, p->param_bytes, &p->params, err));
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
    part->base.graph.n_values = p->n_values;
    part->base.graph.param_bytes = p->param_bytes;
    TERN_TRY(tern_wrap__bind_part(&part->base, p->at, err));
    if (part->cache) TERN_TRY(make_table(p, part, err));
    const tern_status status =
        s->wrap.inner->prepare(s->wrap.inner, &part->base.graph, part->base.bindings, &part->base.prepared, err);
    if (status == TERN_OK || !part->cache || part->cache->pool->groups == 1) return status;
    return tern_error_prefix(
        err, "%s: a layer's keys and values, by groups of heads (more --kv-memory: as a whole): ", s->wrap.name);
}

static tern_status prepare(tern_spill *s, tern_prepared *p, tern_error *err)
{
    TERN_TRY(allocate(p, err));
    TERN_TRY(bind_all(s, p, err));
    TERN_TRY(tern_spill__cut(s, p, err));
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
