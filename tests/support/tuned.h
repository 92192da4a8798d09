/* The training graph of a whole model on one packed batch, run by hand. */
#ifndef TERN_TESTS_SUPPORT_TUNED_H
#define TERN_TESTS_SUPPORT_TUNED_H

#include "support/graph_run.h"
#include "support/trained.h"

enum { TEST_TUNED_TOKENS = 128, TEST_TUNED_MAX_TENSORS = 128 };

typedef struct test_how {
    bool dense;      /* no activation quantiser: with F32 weights the loss is smooth */
    uint32_t tokens; /* 0: TEST_TUNED_TOKENS */
    uint32_t chunk;  /* rows of logits at a time; 0: all */
    bool checkpoint, forward_only;
    bool fake; /* FAKE_QUANTIZE, with this blend */
    float blend;
} test_how;

typedef struct test_tuned {
    const test_trained *t;
    tern_graph graph;
    test_graph_run run;
    uint32_t n_tokens, n_labels;
} test_tuned;

/* The batch: three documents of ids below 500, a part of the labels masked. */
void test_tuned_open(test_tuned *u, const test_trained *t, const test_how *how, tern_backend *backend);
void test_tuned_close(test_tuned *u);
/* Other ids, labels and starts. */
void test_tuned_fill(test_tuned *u, const int32_t *ids, const int32_t *labels, const uint32_t *starts);
/* The mean loss of one run, whose gradients come on top of those that are there. */
double test_tuned_step(test_tuned *u);
/* The mean of what the last run left. */
double test_tuned_loss(test_tuned *u);
/* The gradient of a weight; free it. */
float *test_tuned_gradient(test_tuned *u, const tern_weight *w);
/* All weights that learn; returns how many. */
size_t test_tuned_tensors(const test_trained *t, const tern_weight *out[TEST_TUNED_MAX_TENSORS]);
/* Adapters everywhere, two beside one of the layers. */
void test_tuned_adapt(test_trained *t, float dropout);
/* |a - b| / |b| */
double test_distance(const float *a, const float *b, size_t n);

#endif
