/* A graph with its memory on a backend, ready to run. */
#include "graph/bound.h"

#include "base/alloc.h"
#include "graph/graph.h"
#include "graph/trial/trial.h"
#include "ops/op.h"
#include "ranks/ranks.h"

static tern_status own(tern_bound_graph *g, const tern_value *v, tern_buffer **out, tern_error *err)
{
    tern_backend *b = g->backend;
    if (v->kind == TERN_VALUE_WEIGHT) TERN_TRY(b->weight_create(b, v->weight, out, err));
    else TERN_TRY(b->buffer_create(b, v->bytes, out, err));
    g->owned[g->n_owned++] = *out;
    return v->kind == TERN_VALUE_CONSTANT ? tern_graph_fill_constant(b, *out, v, err) : TERN_OK;
}

/* An earlier value of the same weight. */
static tern_binding bound_already(const tern_bound_graph *g, uint32_t value)
{
    const tern_value *values = g->graph->values;
    for (uint32_t i = 0; i < value && values[value].kind == TERN_VALUE_WEIGHT; i++)
        if (values[i].kind == TERN_VALUE_WEIGHT && values[i].weight == values[value].weight) return g->bindings[i];
    return (tern_binding){0};
}

static tern_status bind(tern_bound_graph *g, const tern_bound_options *o, uint32_t value, tern_error *err)
{
    const tern_value *v = &g->graph->values[value];
    tern_binding *at = &g->bindings[value];
    if (v->kind == TERN_VALUE_ACTIVATION) {
        *at = tern_activations_at(o->activations ? o->activations : &g->activations, v->offset);
        return TERN_OK;
    }
    if (o->find) TERN_TRY(o->find(o->context, g->graph, value, at, err));
    if (!at->buffer) *at = bound_already(g, value);
    return at->buffer ? TERN_OK : own(g, v, &at->buffer, err);
}

/* Each value that an op touches, and the parameters, which backends look at besides. */
static tern_status bind_all(tern_bound_graph *g, const tern_bound_options *o, tern_error *err)
{
    const tern_graph *graph = g->graph;
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].kind == TERN_VALUE_PARAM)
            g->bindings[i] = (tern_binding){.buffer = g->params, .offset = graph->values[i].offset};
    for (size_t k = 0; k < graph->n_ops; k++)
        for (uint32_t i = 0; i < tern_op_n_views(&graph->ops[k]); i++) {
            const uint32_t value = tern_op_view(&graph->ops[k], i).value;
            if (value != TERN_NO_VALUE && !g->bindings[value].buffer) TERN_TRY(bind(g, o, value, err));
        }
    return TERN_OK;
}

static tern_status allocate(tern_bound_graph *g, const tern_bound_options *o, tern_error *err)
{
    const tern_graph *graph = g->graph;
    tern_backend *b = g->backend;
    g->bindings = tern_calloc(graph->n_values, sizeof *g->bindings);
    g->owned = tern_calloc(graph->n_values, sizeof(tern_buffer *));
    g->staging = tern_calloc(1, tern_size_of(graph->param_bytes));
    if (!g->bindings || !g->owned || !g->staging)
        return tern_fail_alloc(err, graph->n_values * sizeof *g->bindings + graph->param_bytes);
    TERN_TRY(b->buffer_create(b, graph->param_bytes, &g->params, err));
    if (o->activations) return TERN_OK;
    return tern_activations_make(&g->activations, b, graph->activation_bytes, graph->activation_block, err);
}

tern_status tern_bound_open(tern_bound_graph *bound, tern_backend *backend, const tern_graph *graph,
                            const tern_bound_options *options, tern_error *err)
{
    const tern_bound_options own_all = {0};
    if (!options) options = &own_all;
    if (graph->n_groups && !backend->info.groups_rows)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: ops of groups of rows", backend->info.name);
    *bound = (tern_bound_graph){.backend = backend, .graph = graph};
    tern_status status = allocate(bound, options, err);
    if (status == TERN_OK) status = bind_all(bound, options, err);
    if (status != TERN_OK) tern_bound_close(bound);
    return status;
}

tern_status tern_bound__prepare_untried(tern_bound_graph *bound, tern_error *err)
{
    return bound->backend->prepare(bound->backend, bound->graph, bound->bindings, &bound->prepared, err);
}

tern_status tern_bound_prepare(tern_bound_graph *bound, tern_error *err)
{
    TERN_TRY(tern_bound__prepare_untried(bound, err));
    const tern_status status = tern_trial_graph(bound, err);
    if (status == TERN_OK) return TERN_OK;
    bound->backend->prepared_free(bound->backend, bound->prepared);
    bound->prepared = NULL;
    return status;
}

void tern_bound_close(tern_bound_graph *bound)
{
    tern_backend *b = bound->backend;
    if (!b) return;
    tern_bound_forget(bound);
    b->prepared_free(b, bound->prepared);
    tern_bound__free_parts(bound);
    for (size_t i = 0; i < bound->n_owned; i++) b->buffer_free(b, bound->owned[i]);
    b->buffer_free(b, bound->params);
    tern_activations_free(&bound->activations, b);
    tern_free(bound->owned);
    tern_free(bound->bindings);
    tern_free(bound->staging);
    *bound = (tern_bound_graph){0};
}

void *tern_bound_param(const tern_bound_graph *bound, tern_param which)
{
    const uint32_t value = bound->graph->params[which];
    return value == TERN_NO_VALUE ? NULL : bound->staging + bound->graph->values[value].offset;
}

tern_status tern_bound_write_params(const tern_bound_graph *bound, tern_error *err)
{
    tern_backend *b = bound->backend;
    return b->buffer_write(b, bound->params, 0, bound->staging, bound->graph->param_bytes, err);
}

/* Sends the other ranks what they need to run the same step. */
static tern_status tell(const tern_bound_graph *bound, uint32_t n_steps, tern_error *err)
{
    tern_ranks *ranks = bound->ranks;
    if (!ranks || ranks->rank != 0) return TERN_OK;
    const tern_bound_message message = {.kind = TERN_MESSAGE_START, .number = bound->number, .n = n_steps};
    return ranks->tell(ranks, &message, sizeof message, bound->staging, tern_size_of(bound->graph->param_bytes), err);
}

tern_status tern_bound_start(const tern_bound_graph *bound, uint32_t n_steps, tern_error *err)
{
    TERN_TRY(tell(bound, n_steps, err));
    TERN_TRY(tern_bound_write_params(bound, err));
    return bound->backend->run(bound->backend, bound->prepared, n_steps, err);
}

tern_status tern_bound_run_ops(const tern_bound_graph *bound, size_t first, size_t end, tern_error *err)
{
    tern_backend *b = bound->backend;
    tern_graph part = *bound->graph;
    tern_prepared *prepared = NULL;
    if (first == end) return TERN_OK;
    part.ops += first;
    part.n_ops = end - first;
    TERN_TRY(b->prepare(b, &part, bound->bindings, &prepared, err));
    tern_status status = b->run(b, prepared, 1, err);
    if (status == TERN_OK) status = b->wait(b, err);
    b->prepared_free(b, prepared);
    return status;
}

static bool is_elsewhere(const tern_bound_graph *bound, uint32_t value)
{
    return bound->graph->n_stages > 1 && bound->graph->values[value].stage != bound->graph->stage;
}

tern_status tern_bound_start_read(const tern_bound_graph *bound, uint32_t value, uint64_t bytes, tern_error *err)
{
    const tern_bound_message message = {.kind = TERN_MESSAGE_READ_VALUE, .number = bound->number, .n = value};
    if (!is_elsewhere(bound, value)) return TERN_OK;
    return bound->ranks->tell(bound->ranks, &message, sizeof message, &bytes, sizeof bytes, err);
}

tern_status tern_bound_finish_read(tern_bound_graph *bound, uint32_t value, void *out, uint64_t bytes, tern_error *err)
{
    const tern_graph *g = bound->graph;
    if (is_elsewhere(bound, value))
        return bound->ranks->receive(bound->ranks, g->values[value].stage * (bound->ranks->n / g->n_stages), out,
                                     tern_size_of(bytes), err);
    tern_backend *b = bound->backend;
    const tern_binding *at = &bound->bindings[value];
    const tern_status status = b->buffer_read(b, at->buffer, at->offset, out, bytes, err);
    bound->pending = status == TERN_PENDING;
    return status;
}

tern_status tern_bound_read(tern_bound_graph *bound, uint32_t value, void *out, uint64_t bytes, tern_error *err)
{
    TERN_TRY(tern_bound_start_read(bound, value, bytes, err));
    return tern_bound_finish_read(bound, value, out, bytes, err);
}

tern_status tern_bound_wait(tern_bound_graph *bound, tern_error *err)
{
    const tern_status status = bound->backend->wait(bound->backend, err);
    bound->pending = status == TERN_PENDING;
    return status;
}

tern_status tern_bound_write(const tern_bound_graph *bound, uint32_t value, const void *data, uint64_t bytes,
                             tern_error *err)
{
    tern_backend *b = bound->backend;
    const tern_binding *at = &bound->bindings[value];
    return b->buffer_write(b, at->buffer, at->offset, data, bytes, err);
}

void tern_bound_forget(tern_bound_graph *bound)
{
    if (bound->pending) bound->backend->read_cancel(bound->backend);
    bound->pending = false;
}
