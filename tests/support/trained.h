/* A model whose weights are copies that learn, as a trainer has them. */
#ifndef TERN_TESTS_SUPPORT_TRAINED_H
#define TERN_TESTS_SUPPORT_TRAINED_H

#include "graph/training.h"
#include "model/model.h"

typedef struct test_trained {
    tern_model *model;
    const tern_config *config;
    tern_arena arena;
    tern_weight *copies;       /* [n_layers][TERN_ROLE_COUNT] */
    tern_graph_weight *places; /* the same, for tern_graph_options.weights */
} test_trained;

/* Opens the model at `path`. Every weight becomes a copy with `trained` set: ternary ones i2_s with a scale for each
 * row, the others F32; with `dense` all of them F32. */
void test_trained_open(test_trained *t, const char *path, bool dense);
void test_trained_close(test_trained *t);
/* The copy at a role; NULL where the model has none (a tied head). */
tern_weight *test_trained_weight(const test_trained *t, tern_role role, uint32_t layer);
/* Sets `trained` of a copy; the decay of a state is A_log while it learns (tern_role_to_trained). */
void test_trained_learn(test_trained *t, tern_role role, uint32_t layer, bool learns);
/* No copy learns. */
void test_trained_freeze(test_trained *t);
/* One more adapter beside a layer, trained, of random numbers. */
tern_graph_lora *test_trained_adapt(test_trained *t, tern_role role, uint32_t layer, uint32_t rank, float dropout);

#endif
