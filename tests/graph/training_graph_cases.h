/* Training graphs of small models, for tests. */
#ifndef TERN_TESTS_GRAPH_TRAINING_GRAPH_CASES_H
#define TERN_TESTS_GRAPH_TRAINING_GRAPH_CASES_H

#include "base/alloc.h"
#include "support/graph_check.h"
#include "support/test.h"
#include "support/trained.h"

enum { TOKENS = 128, LAYERS = 3 /* of both models */ };

tern_graph_options training_graph_options(const test_trained *t, uint32_t outputs);

void training_graph_build(tern_graph *g, const test_trained *t, uint32_t outputs, bool checkpoint);

void training_graph_adapt_all(test_trained *t, float dropout);

#endif
