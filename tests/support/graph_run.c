/* Graphs run by hand. */
#include "support/graph_run.h"

#include "support/test.h"

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
    *r = (test_graph_run){.graph = graph};
    assert_ok(tern_bound_open(&r->bound, backend, graph, NULL, &err), err);
    fill_params(r);
    assert_ok(tern_bound_prepare(&r->bound, &err), err);
}

void test_graph_close(test_graph_run *r)
{
    tern_bound_close(&r->bound);
    *r = (test_graph_run){0};
}

void *test_graph_param(const test_graph_run *r, tern_param which)
{
    return tern_bound_param(&r->bound, which);
}

void test_graph_step(test_graph_run *r)
{
    tern_error err = {0};
    tern_backend *b = r->bound.backend;
    assert_ok(tern_bound_start(&r->bound, 1, &err), err);
    assert_ok(b->wait(b, &err), err);
}

void test_graph_step_by(test_graph_run *r, tern_op_kind kind, test_graph_look look, void *context)
{
    tern_error err = {0};
    size_t first = 0, n = r->graph->n_ops;
    uint32_t index = 0;
    assert_ok(tern_bound_write_params(&r->bound, &err), err);
    for (size_t i = 0; i < n; i++) {
        bool stop = r->graph->ops[i].kind == kind;
        if (!stop && i + 1 < n) continue;
        assert_ok(tern_bound_run_ops(&r->bound, first, i + 1, &err), err);
        first = i + 1;
        if (stop) look(r, &r->graph->ops[i], index++, context);
    }
}

void test_graph_read(test_graph_run *r, uint32_t value, void *out)
{
    tern_error err = {0};
    assert_ok(tern_bound_read(&r->bound, value, out, r->graph->values[value].bytes, &err), err);
}

void test_graph_write(const test_graph_run *r, uint32_t value, const void *bytes)
{
    tern_error err = {0};
    assert_ok(tern_bound_write(&r->bound, value, bytes, r->graph->values[value].bytes, &err), err);
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
