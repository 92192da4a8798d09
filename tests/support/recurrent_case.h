/* Cases of CONV and GATED_DELTA: several sequences in one step. Run i has lengths[i] rows, of sequence n_sequences - 1
 * - i. Every third run begins at position 0, where its state is NaN, which nobody may read; each goes on from row 2 i
 * of the states, and is kept after its last row in that row, or of every other run in row 2 i + 1; what the second of
 * three or more rows leaves is kept in row 2 n_runs + i. Other rows of states stay as they are. */
#ifndef TERN_TESTS_SUPPORT_RECURRENT_CASE_H
#define TERN_TESTS_SUPPORT_RECURRENT_CASE_H

#include "support/op_case.h"

enum { TEST_RECURRENT_MAX_RUNS = 8 };

typedef struct test_recurrent_shape {
    uint32_t n_runs, lengths[TEST_RECURRENT_MAX_RUNS];
    uint32_t n_sequences;                    /* 0: n_runs */
    uint32_t channels, taps;                 /* CONV */
    uint32_t heads, key_heads, keys, values; /* GATED_DELTA, */
    bool tiled, joined;                      /* heads; a and b are columns of one value */
} test_recurrent_shape;

typedef struct test_recurrent_case {
    test_case c;
    uint32_t n_rows; /* of the step; there is room for two more */
    tern_view x, a, b, state, out;
} test_recurrent_case;

void test_conv_case(test_recurrent_case *r, tern_rng *rng, const test_recurrent_shape *shape);
/* Keys of length 1, queries of length 1 / sqrt(keys), as models have them: states stay bounded. */
void test_delta_case(test_recurrent_case *r, tern_rng *rng, const test_recurrent_shape *shape);
/* On `backend` and on the CPU, within the op's tolerance. */
void test_recurrent_compare(test_recurrent_case *r, tern_backend *backend);

#endif
