/* Cases of VARLEN_CONV and VARLEN_GATED_DELTA, each with its backward behind it. */
#ifndef TERN_TESTS_SUPPORT_RECURRENT_TRAINING_CASE_H
#define TERN_TESTS_SUPPORT_RECURRENT_TRAINING_CASE_H

#include "support/op_case.h"

typedef struct test_delta_training {
    uint32_t rows, longest; /* of the case; of a document */
    uint32_t heads, key_heads, keys, values;
    bool tiled, decay, dt; /* heads; which weights are trained */
    bool log_decay;        /* the decay's weight is A_log */
} test_delta_training;

/* Opens a case of n rows in documents of 1, 2 and 3, then of up to `longest`. */
void test_documents_case(test_case *c, tern_rng *rng, uint32_t n, uint32_t longest);
/* Rows that an op reads, and those that it makes, behind other columns. */
tern_view test_training_input(test_case *c, const char *name, uint32_t cols);
tern_view test_training_output(test_case *c, const char *name, uint32_t cols);

void test_conv_training_add(test_case *c, uint32_t cols, uint32_t taps, bool trained);
void test_delta_training_add(test_case *c, const test_delta_training *s);

#endif
