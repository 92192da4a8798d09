/* The graph as a container: adding ops and values, and the questions that passes ask. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

tern_status tern_graph__add_value(tern_graph *graph, tern_value value, uint32_t *id, tern_error *err)
{
    void *items = graph->values;
    TERN_TRY(tern_grow(&items, &graph->cap_values, graph->n_values + 1, sizeof value, err));
    graph->values = items;
    *id = (uint32_t)graph->n_values;
    graph->values[graph->n_values++] = value;
    return TERN_OK;
}

tern_status tern_graph__add_op(tern_graph *graph, const tern_op *op, tern_error *err)
{
    void *items = graph->ops;
    TERN_TRY(tern_grow(&items, &graph->cap_ops, graph->n_ops + 1, sizeof *op, err));
    graph->ops = items;
    graph->ops[graph->n_ops++] = *op;
    return TERN_OK;
}

void tern_graph_deinit(tern_graph *graph)
{
    tern_free(graph->ops);
    tern_free(graph->values);
    tern_arena_deinit(&graph->arena);
    *graph = (tern_graph){0};
}

bool tern_graph__reads(const tern_op *op, uint32_t value)
{
    if (op->residual.value == value || op->gain.value == value) return true;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i].value == value) return true;
    return false;
}

void tern_graph__count_uses(const tern_graph *graph, uint32_t *counts)
{
    memset(counts, 0, graph->n_values * sizeof *counts);
    for (size_t i = 0; i < graph->n_ops; i++) {
        const tern_op *op = &graph->ops[i];
        for (uint32_t k = 0; k < op->n_in; k++) counts[op->in[k].value]++;
        if (op->residual.value != TERN_NO_VALUE) counts[op->residual.value]++;
        if (op->gain.value != TERN_NO_VALUE) counts[op->gain.value]++;
    }
}

tern_op *tern_graph__maker(const tern_graph *graph, uint32_t value)
{
    for (size_t i = 0; i < graph->n_ops; i++)
        if (graph->ops[i].out.value == value && graph->ops[i].kind != TERN_OP_ROPE) return &graph->ops[i];
    return NULL;
}

void tern_graph__compact(tern_graph *graph)
{
    size_t n = 0;
    for (size_t i = 0; i < graph->n_ops; i++)
        if (graph->ops[i].kind != TERN_OP_COUNT) graph->ops[n++] = graph->ops[i];
    graph->n_ops = n;
}

void tern_graph_keep_all(tern_graph *graph)
{
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].kind == TERN_VALUE_ACTIVATION && tern_graph__maker(graph, (uint32_t)i))
            graph->values[i].kind = TERN_VALUE_OUTPUT;
}

uint32_t tern_graph_hidden(const tern_graph *graph, uint32_t index)
{
    char name[32];
    snprintf(name, sizeof name, "hidden-%u", index);
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].kind == TERN_VALUE_OUTPUT && strcmp(graph->values[i].name, name) == 0) return (uint32_t)i;
    return TERN_NO_VALUE;
}
