/* The graph as a container: adding ops and values, and the questions that passes ask. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/model.h"
#include "ops/op.h"

void tern_graph_size_caches(tern_graph_options *options, const tern_config *config, uint32_t reach)
{
    const uint64_t n_pages = ((uint64_t)options->n_ctx + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE;
    const uint64_t window = tern_config_window(config);
    /* A step's tokens and what the first of them sees are window + reach - 1 positions, on whatever page they begin. */
    const uint64_t ring = (window + reach - 2 + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE + 1;
    options->n_pages = (uint32_t)n_pages;
    options->n_ring_pages = window && reach && ring < n_pages ? (uint32_t)ring : 0;
    if (config->recurrence.n_heads && !options->n_states) options->n_states = TERN_GRAPH_STATES;
}

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
    tern_op *added = &graph->ops[graph->n_ops++];
    *added = *op;
    for (uint32_t i = 0; i < tern_op_n_views(added); i++)
        if (tern_op_is_optional(added, i)) *tern_op_view_at(added, i) = tern_op_view(added, i);
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
    for (uint32_t i = 0; i + 1 < tern_op_n_views(op); i++)
        if (tern_op_view(op, i).value == value) return true;
    return false;
}

void tern_graph__count_uses(const tern_graph *graph, uint32_t *counts)
{
    memset(counts, 0, graph->n_values * sizeof *counts);
    for (size_t k = 0; k < graph->n_ops; k++) {
        const tern_op *op = &graph->ops[k];
        for (uint32_t i = 0; i + 1 < tern_op_n_views(op); i++)
            if (tern_op_view(op, i).value != TERN_NO_VALUE) counts[tern_op_view(op, i).value]++;
    }
}

tern_op *tern_graph__maker(const tern_graph *graph, uint32_t value)
{
    for (size_t k = 0; k < graph->n_ops; k++) {
        const tern_op *op = &graph->ops[k];
        for (uint32_t i = 0; i < tern_op_n_views(op); i++)
            if (tern_op_view(op, i).value == value && tern_op_writes_view(op, i)) return &graph->ops[k];
    }
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
