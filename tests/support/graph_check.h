/* What holds for every graph, looked for without the help of src/graph's own passes. */
#ifndef TERN_TESTS_SUPPORT_GRAPH_CHECK_H
#define TERN_TESTS_SUPPORT_GRAPH_CHECK_H

#include "graph/graph.h"
#include "ops/op_kind.h"

/* The ops that touch a value, first and last; false: none. */
bool test_life(const tern_graph *graph, uint32_t value, size_t *first, size_t *last);
/* Fails the test when two planned values share memory while both are alive, but for a sum that takes its addend's place
 * where `in_place`. */
void test_check_plan(const tern_graph *graph, bool in_place);
/* Fails the test when an op reads rows that no op before it has written. */
void test_check_order(const tern_graph *graph);
size_t test_count_ops(const tern_graph *graph, tern_op_kind kind);

#endif
