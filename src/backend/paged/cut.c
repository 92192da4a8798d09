/* Cutting a graph where the experts of a step become known, and slots in place of experts. */
#include "backend/paged/paged_internal.h"
#include "ops/op.h"

uint32_t tern_paged__layer_of(const tern_prepared *p, const tern_op *op)
{
    if (op->kind != TERN_OP_LINEAR || !op->route.cols) return TERN_PAGED_NOWHERE;
    return p->bindings[op->in[TERN_LINEAR_W].value].buffer->layer;
}

static const tern_paged_room *room_of(const tern_paged *paged, uint32_t layer)
{
    return &paged->rooms.rooms[paged->rooms.places[layer].room];
}

/* Whether a step may need more experts than there are slots; each of the other layers may have one pinned. */
static bool may_run_again(const tern_paged *paged, const tern_graph *g, uint32_t layer)
{
    const uint32_t n = tern_graph_max_rows(g, TERN_ROWS_ROUTED), all = paged->options.n_experts;
    const tern_paged_room *room = room_of(paged, layer);
    const uint32_t n_pinned = room->n_layers - 1 < room->slots.n_shared ? room->n_layers - 1 : room->slots.n_shared;
    return (n < all ? n : all) + n_pinned > room->slots.n_slots;
}

static bool adds_in_place(const tern_op *op)
{
    for (uint32_t k = 0; k + 1 < tern_op_n_views(op); k++)
        if (op->out.value != TERN_NO_VALUE && tern_op_view(op, k).value == op->out.value) return true;
    return false;
}

/* Behind the last op that needs the layer's experts, or at the first one that must run but once, as those of adapters
 * that some of the tokens have. */
static size_t end_of(const tern_prepared *p, uint32_t layer, size_t first)
{
    size_t end = first;
    for (size_t i = first; i < p->graph->n_ops && !adds_in_place(&p->graph->ops[i]); i++)
        if (tern_paged__layer_of(p, &p->graph->ops[i]) == layer) end = i + 1;
    return end;
}

static tern_paged_part *begin(tern_prepared *p, size_t op)
{
    tern_paged_part *part = &p->parts[p->n_parts++];
    *part = (tern_paged_part){
        .base.graph = *p->graph, .layer = TERN_PAGED_NOWHERE, .route = TERN_NO_VALUE, .only_outputs = true};
    part->base.graph.ops = &p->ops[op];
    part->base.graph.values = p->values;
    part->base.graph.n_values = p->graph->n_values + 1;
    part->base.graph.n_ops = 0;
    part->base.graph.logits = part->base.graph.tokens = TERN_NO_VALUE;
    return part;
}

static void use_slots(const tern_paged *paged, tern_prepared *p, tern_op *op, uint32_t layer)
{
    const tern_paged_room *room = room_of(paged, layer);
    op->n_experts = room->slots.n_slots;
    op->route.value = (uint32_t)p->graph->n_values;
    for (uint32_t i = 0; i < tern_op_n_views(op); i++) {
        const uint32_t value = tern_op_view(op, i).value;
        if (value == TERN_NO_VALUE || value >= p->graph->n_values || !p->bindings[value].buffer) continue;
        const tern_buffer *buffer = p->bindings[value].buffer;
        if (buffer->layer != layer) continue;
        p->values[value].weight = &room->weights[buffer->index];
        p->values[value].bytes = room->weights[buffer->index].bytes;
    }
}

void tern_paged__cut(const tern_paged *paged, tern_prepared *p)
{
    const tern_graph *g = p->graph;
    tern_paged_part *part = NULL;
    size_t end = SIZE_MAX; /* of what may run again */
    for (size_t i = 0; i < g->n_ops; i++) {
        const uint32_t layer = tern_paged__layer_of(p, &g->ops[i]);
        const bool new_layer = layer != TERN_PAGED_NOWHERE && (!part || part->layer != layer);
        if (!part || new_layer || i == end) part = begin(p, i);
        if (i == end) end = SIZE_MAX;
        if (new_layer) {
            part->layer = layer;
            part->route = g->ops[i].route.value;
            part->again = may_run_again(paged, g, layer);
            p->values[g->n_values] = g->values[part->route];
            if (part->again) end = end_of(p, layer, i);
        }
        part->base.graph.n_ops++;
        part->only_outputs = part->only_outputs && g->ops[i].rows == TERN_ROWS_OUTPUTS;
        if (g->ops[i].out.value == g->logits) part->base.graph.logits = g->logits;
        if (layer != TERN_PAGED_NOWHERE) use_slots(paged, p, &p->ops[i], layer);
    }
}
