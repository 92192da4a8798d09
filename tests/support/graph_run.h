/* Any graph on any backend: memory for all its values, and runs of it. */
#ifndef TERN_TESTS_SUPPORT_GRAPH_RUN_H
#define TERN_TESTS_SUPPORT_GRAPH_RUN_H

#include "graph/bound.h"
#include "graph/training.h"
#include "ops/op.h"

typedef struct test_graph_run {
    const tern_graph *graph;
    tern_bound_graph bound;
} test_graph_run;

/* The graph is planned. Caches and states start at zero. COUNTS are the largest step; positions 0, 1, ...; outputs 0,
 * 1,
 * ...; pages 0, 1, ...; starts and labels 0; of TRAINING loss_weight is 1 / max_tokens. */
void test_graph_open(test_graph_run *r, tern_backend *backend, const tern_graph *graph);
void test_graph_close(test_graph_run *r);
/* u32 words; floats and structs are read through it as well. */
void *test_graph_param(const test_graph_run *r, tern_param which);
void test_graph_step(test_graph_run *r);
/* The same, with a stop after every op of a kind: `look` is told which of them it was, from 0 on. */
typedef void (*test_graph_look)(test_graph_run *r, const tern_op *op, uint32_t index, void *context);
void test_graph_step_by(test_graph_run *r, tern_op_kind kind, test_graph_look look, void *context);
/* The whole value into `out`. */
void test_graph_read(test_graph_run *r, uint32_t value, void *out);
void test_graph_write(const test_graph_run *r, uint32_t value, const void *bytes);
void test_graph_clear(const test_graph_run *r, uint32_t value);
/* The state of a weight; TERN_NO_VALUE: there is none. */
uint32_t test_graph_state(const tern_graph *graph, const tern_weight *weight, tern_state state);

#endif
