/* The backward of a layer with experts for cases made by hand (op_case.h). */
#ifndef TERN_TESTS_SUPPORT_EXPERTS_CASE_H
#define TERN_TESTS_SUPPORT_EXPERTS_CASE_H

#include "support/op_case.h"

typedef struct test_experts {
    const char *encoding; /* of the matrix */
    uint32_t n_experts;
    uint32_t rows, cols; /* of an expert's matrix */
} test_experts;

/* ROUTE on random logits, by the rule, and each op of the backward: of the sum and of the choice; of the matrix, whose
 * input is rows of tokens, f32 and int8, or routed rows; of its bias. The case has n_routes. */
void test_experts_backward_add(test_case *c, const test_experts *e, tern_route_rule rule);

#endif
