/* Preparing the parts of a graph on the inner backend. */
#include <string.h>

#include "backend/paged/paged_internal.h"
#include "base/alloc.h"
#include "ops/op.h"

static void free_part(tern_paged *paged, tern_paged_part *part)
{
    if (part->base.prepared) paged->wrap.inner->prepared_free(paged->wrap.inner, part->base.prepared);
    tern_free(part->base.bindings);
}

void tern_paged__free_parts(tern_paged *paged, tern_prepared *p)
{
    for (size_t i = 0; i < p->n_parts; i++) free_part(paged, &p->parts[i]);
    for (size_t i = 0; i < p->n_kept; i++) paged->wrap.inner->buffer_free(paged->wrap.inner, p->kept[i]);
    if (p->slots) paged->wrap.inner->buffer_free(paged->wrap.inner, p->slots);
    p->slots = NULL;
    p->n_parts = p->n_kept = 0;
    tern_free(p->parts);
    tern_free(p->ops);
    tern_free(p->values);
    tern_free(p->at);
    tern_free(p->kept);
    tern_free(p->routes);
    tern_free(p->mapped);
    tern_free(p->done);
    p->parts = NULL;
    p->ops = NULL;
    p->values = NULL;
    p->at = NULL;
    p->kept = NULL;
    p->routes = p->mapped = NULL;
    p->done = NULL;
}

void tern_paged__prepared_free(tern_backend *b, tern_prepared *p)
{
    tern_paged *paged = tern_paged__of(b);
    if (!p) return;
    pthread_mutex_lock(&paged->lock);
    if (paged->step.p == p) tern_paged__give_up(paged);
    tern_paged__free_parts(paged, p);
    if (p->self) *p->self = p->next;
    if (p->next) p->next->self = p->self;
    pthread_mutex_unlock(&paged->lock);
    tern_free(p);
}

static tern_status allocate(tern_prepared *p, tern_error *err)
{
    const tern_graph *g = p->graph;
    const size_t n_routed = tern_graph_max_rows(g, TERN_ROWS_ROUTED) + (size_t)1;
    p->ops = tern_calloc(g->n_ops + 1, sizeof *p->ops);
    p->parts = tern_calloc(g->n_ops + 1, sizeof *p->parts);
    p->values = tern_calloc(g->n_values + 1, sizeof *p->values);
    p->at = tern_calloc(g->n_values + 1, sizeof *p->at);
    p->kept = tern_calloc(g->n_values + 1, sizeof(tern_buffer *));
    p->routes = tern_calloc(n_routed, 2 * sizeof *p->routes);
    p->mapped = tern_calloc(n_routed, 2 * sizeof *p->mapped);
    p->done = tern_calloc(n_routed, sizeof *p->done);
    if (!p->ops || !p->parts || !p->values || !p->at || !p->kept || !p->routes || !p->mapped || !p->done)
        return tern_fail_alloc(err, g->n_ops * (sizeof *p->ops + sizeof *p->parts) + n_routed * 17);
    memcpy(p->ops, g->ops, g->n_ops * sizeof *p->ops);
    memcpy(p->values, g->values, g->n_values * sizeof *p->values);
    return TERN_OK;
}

/* Experts are for the linear layers that know which. */
static tern_status check_op(const tern_paged *paged, const tern_prepared *p, const tern_op *op, tern_error *err)
{
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) {
        const uint32_t value = tern_op_view(op, i).value;
        if (value == TERN_NO_VALUE || !p->bindings[value].buffer) continue;
        if (p->bindings[value].buffer->layer == TERN_PAGED_NOWHERE) continue;
        if (tern_paged__layer_of(p, op) == p->bindings[value].buffer->layer) continue;
        return tern_fail(err, TERN_UNSUPPORTED, "%s: op %s with %s, of which not all experts are on the device",
                         paged->wrap.name, tern_op_name(op->kind), p->values[value].name);
    }
    return TERN_OK;
}

static tern_status bind_all(tern_paged *paged, tern_prepared *p, tern_error *err)
{
    tern_backend *b = paged->wrap.inner;
    const tern_graph *g = p->graph;
    for (size_t i = 0; i < g->n_ops; i++) TERN_TRY(check_op(paged, p, &g->ops[i], err));
    for (size_t i = 0; i < g->n_values; i++) {
        const tern_buffer *buffer = p->bindings[i].buffer;
        if (!buffer) continue;
        p->at[i] = (tern_binding){.buffer = buffer->inner, .offset = p->bindings[i].offset};
        if (buffer->layer == TERN_PAGED_NOWHERE) continue;
        p->at[i].buffer = paged->rooms.rooms[paged->rooms.places[buffer->layer].room].inner[buffer->index];
    }
    if (!g->n_routes) return TERN_OK;
    TERN_TRY(b->buffer_create(b, (uint64_t)tern_graph_max_rows(g, TERN_ROWS_ROUTED) * 8, &p->slots, err));
    p->at[g->n_values].buffer = p->slots;
    return TERN_OK;
}

/* Rows of experts that a part makes in one run must still be there after the next; in the memory of activations one may
 * lie over another that is no longer needed. Layers share this memory: theirs are made one after the other. *n: buffers
 * that the layer has so far. */
static tern_status keep_rows(tern_paged *paged, tern_prepared *p, const tern_paged_part *part, size_t *n,
                             tern_error *err)
{
    tern_backend *b = paged->wrap.inner;
    for (size_t i = 0; i < part->base.graph.n_ops; i++) {
        const uint32_t value = part->base.graph.ops[i].out.value;
        if (value == TERN_NO_VALUE || p->values[value].kind != TERN_VALUE_ACTIVATION) continue;
        if (*n == p->n_kept) {
            TERN_TRY(b->buffer_create(b, p->values[value].bytes, &p->kept[*n], err));
            p->n_kept++;
        }
        p->at[value] = (tern_binding){.buffer = p->kept[(*n)++]};
    }
    return TERN_OK;
}

static tern_status keep_all_rows(tern_paged *paged, tern_prepared *p, tern_error *err)
{
    uint32_t layer = TERN_PAGED_NOWHERE;
    size_t n = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        if (!p->parts[i].again) continue;
        if (p->parts[i].layer != layer) n = 0;
        layer = p->parts[i].layer;
        TERN_TRY(keep_rows(paged, p, &p->parts[i], &n, err));
    }
    return TERN_OK;
}

static tern_status prepare_part(tern_paged *paged, tern_prepared *p, tern_paged_part *part, tern_error *err)
{
    tern_backend *b = paged->wrap.inner;
    TERN_TRY(tern_wrap__bind_part(&part->base, p->at, err));
    return b->prepare(b, &part->base.graph, part->base.bindings, &part->base.prepared, err);
}

static tern_status make_parts(tern_paged *paged, tern_prepared *p, tern_error *err)
{
    TERN_TRY(allocate(p, err));
    TERN_TRY(bind_all(paged, p, err));
    tern_paged__cut(paged, p);
    TERN_TRY(keep_all_rows(paged, p, err));
    for (size_t i = 0; i < p->n_parts; i++) TERN_TRY(prepare_part(paged, p, &p->parts[i], err));
    return TERN_OK;
}

tern_status tern_paged__make_parts(tern_paged *paged, tern_prepared *p, tern_error *err)
{
    tern_paged__free_parts(paged, p);
    const tern_status status = make_parts(paged, p, err);
    if (status != TERN_OK) tern_paged__free_parts(paged, p);
    return status;
}

static void add_to_list(tern_paged *paged, tern_prepared *p)
{
    p->next = paged->prepared;
    p->self = &paged->prepared;
    if (p->next) p->next->self = &p->next;
    paged->prepared = p;
}

tern_status tern_paged__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                                tern_prepared **out, tern_error *err)
{
    tern_paged *paged = tern_paged__of(b);
    tern_prepared *p = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    *p = (tern_prepared){.graph = graph, .bindings = bindings};
    pthread_mutex_lock(&paged->lock);
    const tern_status status = tern_paged__make_parts(paged, p, err);
    if (status == TERN_OK) add_to_list(paged, p);
    pthread_mutex_unlock(&paged->lock);
    if (status == TERN_OK) *out = p;
    else tern_free(p);
    return status;
}
