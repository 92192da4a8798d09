/* Graphs run by hand. */
#include "support/graph_run.h"

#include <math.h>

#include "support/test.h"

static tern_buffer *create(test_graph_run *r, uint64_t bytes)
{
    tern_error err = {0};
    tern_buffer *buffer;
    assert_ok(r->backend->buffer_create(r->backend, bytes ? bytes : 256, &buffer, &err), err);
    return r->owned[r->n_owned++] = buffer;
}

static tern_buffer *weight(test_graph_run *r, const tern_weight *w)
{
    tern_error err = {0};
    for (size_t i = 0; i < r->graph->n_values; i++)
        if (r->graph->values[i].weight == w && r->graph->values[i].kind == TERN_VALUE_WEIGHT && r->bindings[i].buffer)
            return r->bindings[i].buffer;
    tern_buffer *buffer;
    assert_ok(r->backend->weight_create(r->backend, w, &buffer, &err), err);
    return r->owned[r->n_owned++] = buffer;
}

/* cos and sin of every position, as tern_runner fills it. */
static void fill_rope_table(test_graph_run *r, const tern_value *v, tern_buffer *buffer)
{
    tern_error err = {0};
    float *table = malloc(v->bytes);
    for (uint32_t p = 0; p < r->graph->max_pages * TERN_PAGE_SIZE; p++)
        for (uint32_t i = 0; i < v->cols / 2; i++) {
            float angle = (float)p * v->frequencies[i];
            table[p * v->cols + 2 * i] = (float)cos((double)angle);
            table[p * v->cols + 2 * i + 1] = (float)sin((double)angle);
        }
    assert_ok(r->backend->buffer_write(r->backend, buffer, 0, table, v->bytes, &err), err);
    free(table);
}

static void bind(test_graph_run *r, uint32_t i, tern_buffer *activations)
{
    const tern_value *v = &r->graph->values[i];
    tern_binding *b = &r->bindings[i];
    switch (v->kind) {
    case TERN_VALUE_WEIGHT: b->buffer = weight(r, v->weight); break;
    case TERN_VALUE_ACTIVATION: *b = (tern_binding){activations, v->offset}; break;
    case TERN_VALUE_PARAM: *b = (tern_binding){r->param_buffer, v->offset}; break;
    case TERN_VALUE_CACHE:
    case TERN_VALUE_STATE:
    case TERN_VALUE_CONSTANT:
    case TERN_VALUE_OUTPUT: b->buffer = create(r, v->bytes); break;
    }
    if (v->kind == TERN_VALUE_CONSTANT) fill_rope_table(r, v, b->buffer);
}

static void fill_params(test_graph_run *r)
{
    const tern_graph *g = r->graph;
    uint32_t *counts = test_graph_param(r, TERN_PARAM_COUNTS);
    counts[0] = g->max_tokens;
    counts[1] = g->max_outputs;
    static const tern_param counting[] = {TERN_PARAM_POSITIONS, TERN_PARAM_OUTPUTS, TERN_PARAM_PAGES};
    for (size_t p = 0; p < sizeof counting / sizeof *counting; p++) {
        uint32_t value = g->params[counting[p]];
        for (uint32_t i = 0; value != TERN_NO_VALUE && i < g->values[value].bytes / 4; i++)
            ((uint32_t *)test_graph_param(r, counting[p]))[i] = i;
    }
    tern_train_params *training = test_graph_param(r, TERN_PARAM_TRAINING);
    if (training) *training = (tern_train_params){.loss_weight = 1 / (float)g->max_tokens, .blend = 1, .clip = 1};
}

void test_graph_open(test_graph_run *r, tern_backend *backend, const tern_graph *graph)
{
    tern_error err = {0};
    *r = (test_graph_run){.backend = backend, .graph = graph};
    r->bindings = calloc(graph->n_values, sizeof *r->bindings);
    r->owned = calloc(graph->n_values + 2, sizeof *r->owned);
    r->params = calloc(1, graph->param_bytes);
    r->param_buffer = create(r, graph->param_bytes);
    tern_buffer *activations = create(r, graph->activation_bytes);
    for (uint32_t i = 0; i < graph->n_values; i++) bind(r, i, activations);
    fill_params(r);
    assert_ok(backend->prepare(backend, graph, r->bindings, &r->prepared, &err), err);
}

void test_graph_close(test_graph_run *r)
{
    r->backend->prepared_free(r->backend, r->prepared);
    for (size_t i = 0; i < r->n_owned; i++) r->backend->buffer_free(r->backend, r->owned[i]);
    free(r->owned);
    free(r->bindings);
    free(r->params);
    *r = (test_graph_run){0};
}

void *test_graph_param(const test_graph_run *r, tern_param which)
{
    uint32_t value = r->graph->params[which];
    return value == TERN_NO_VALUE ? NULL : r->params + r->graph->values[value].offset;
}

void test_graph_step(test_graph_run *r)
{
    tern_error err = {0};
    tern_backend *b = r->backend;
    assert_ok(b->buffer_write(b, r->param_buffer, 0, r->params, r->graph->param_bytes, &err), err);
    assert_ok(b->run(b, r->prepared, 1, &err), err);
    assert_ok(b->wait(b, &err), err);
}

/* Ops first .. end - 1 alone. */
static void run_part(test_graph_run *r, size_t first, size_t end)
{
    tern_error err = {0};
    tern_graph part = *r->graph;
    tern_prepared *prepared;
    part.ops += first;
    part.n_ops = end - first;
    assert_ok(r->backend->prepare(r->backend, &part, r->bindings, &prepared, &err), err);
    assert_ok(r->backend->run(r->backend, prepared, 1, &err), err);
    assert_ok(r->backend->wait(r->backend, &err), err);
    r->backend->prepared_free(r->backend, prepared);
}

void test_graph_step_by(test_graph_run *r, tern_op_kind kind, test_graph_look look, void *context)
{
    tern_error err = {0};
    size_t first = 0, n = r->graph->n_ops;
    uint32_t index = 0;
    assert_ok(r->backend->buffer_write(r->backend, r->param_buffer, 0, r->params, r->graph->param_bytes, &err), err);
    for (size_t i = 0; i < n; i++) {
        bool stop = r->graph->ops[i].kind == kind;
        if (!stop && i + 1 < n) continue;
        run_part(r, first, i + 1);
        first = i + 1;
        if (stop) look(r, &r->graph->ops[i], index++, context);
    }
}

void test_graph_read(const test_graph_run *r, uint32_t value, void *out)
{
    tern_error err = {0};
    const tern_binding *at = &r->bindings[value];
    assert_ok(r->backend->buffer_read(r->backend, at->buffer, at->offset, out, r->graph->values[value].bytes, &err),
              err);
}

void test_graph_write(const test_graph_run *r, uint32_t value, const void *bytes)
{
    tern_error err = {0};
    const tern_binding *at = &r->bindings[value];
    assert_ok(r->backend->buffer_write(r->backend, at->buffer, at->offset, bytes, r->graph->values[value].bytes, &err),
              err);
}

void test_graph_clear(const test_graph_run *r, uint32_t value)
{
    void *zeros = calloc(1, r->graph->values[value].bytes);
    test_graph_write(r, value, zeros);
    free(zeros);
}

uint32_t test_graph_state(const tern_graph *graph, const tern_weight *w, tern_state state)
{
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].kind == TERN_VALUE_STATE && graph->values[i].weight == w &&
            graph->values[i].state == state)
            return i;
    return TERN_NO_VALUE;
}
