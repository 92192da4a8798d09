/* The memory planner: every activation gets a place in one block, reused as soon as its last reader has run. */
#include <stdlib.h>

#include "base/alloc.h"
#include "graph/graph.h"

enum { PLAN_ALIGNMENT = 256 /* what devices may want of a binding */ };

typedef struct life {
    uint32_t value;
    size_t first, last; /* the op that makes it, the last op that touches it */
} life;

typedef struct plan {
    tern_graph *graph;
    life *lives; /* in order of `first` */
    size_t n;
    bool in_place;
} plan;

static uint64_t padded(uint64_t bytes)
{
    return (bytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
}

static void find_lives(plan *p)
{
    const tern_graph *g = p->graph;
    for (size_t i = 0; i < g->n_ops; i++) {
        uint32_t out = g->ops[i].out.value;
        if (out == TERN_NO_VALUE || g->values[out].kind != TERN_VALUE_ACTIVATION || g->ops[i].kind == TERN_OP_ROPE) continue;
        life l = {.value = out, .first = i, .last = i};
        for (size_t k = i + 1; k < g->n_ops; k++)
            if (tern_graph__reads(&g->ops[k], out)) l.last = k;
        p->lives[p->n++] = l;
    }
}

/* A sum may overwrite the row it adds to: each element is read before it is written, and nobody reads it again. */
static bool takes_place_of(const plan *p, const life *l, const life *other)
{
    const tern_op *op = &p->graph->ops[l->first];
    uint32_t addend = op->kind == TERN_OP_ADD ? op->in[0].value : op->residual.value;
    return p->in_place && addend == other->value && other->last == l->first &&
           p->graph->values[l->value].bytes == p->graph->values[addend].bytes;
}

static bool collides(const plan *p, const life *l, const life *other, uint64_t offset)
{
    if (other->last < l->first || other->first > l->last) return false;
    const tern_value *a = &p->graph->values[l->value], *b = &p->graph->values[other->value];
    return offset < b->offset + padded(b->bytes) && b->offset < offset + padded(a->bytes);
}

/* The lowest offset where life i fits beside the ones placed before it. */
static uint64_t place(const plan *p, size_t i)
{
    const life *l = &p->lives[i];
    for (size_t k = 0; k < i; k++)
        if (takes_place_of(p, l, &p->lives[k])) return p->graph->values[p->lives[k].value].offset;
    uint64_t offset = 0;
    for (size_t k = 0; k < i; k++) {
        if (!collides(p, l, &p->lives[k], offset)) continue;
        const tern_value *b = &p->graph->values[p->lives[k].value];
        offset = b->offset + padded(b->bytes);
        k = (size_t)-1; /* look again from the start */
    }
    return offset;
}

tern_status tern_graph_plan(tern_graph *graph, uint32_t fusions, tern_error *err)
{
    plan p = {.graph = graph, .in_place = fusions & TERN_FUSION_IN_PLACE, .lives = tern_calloc(graph->n_ops, sizeof(life))};
    if (!p.lives) return tern_fail_alloc(err, graph->n_ops * sizeof(life));
    find_lives(&p);
    graph->activation_bytes = 0;
    for (size_t i = 0; i < p.n; i++) {
        tern_value *value = &graph->values[p.lives[i].value];
        value->offset = place(&p, i);
        uint64_t end = value->offset + padded(value->bytes);
        if (end > graph->activation_bytes) graph->activation_bytes = end;
    }
    tern_free(p.lives);
    return TERN_OK;
}
