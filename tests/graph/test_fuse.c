/* Fusions that depend on the device: what it cannot run stays apart, and no bit changes. */
#include "support/test.h"

#include "graph/graph.h"
#include "support/op_case.h"

static tern_rng rng;

static tern_status refuse(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)b, (void)graph;
    return tern_fail(err, TERN_UNSUPPORTED, "op %s", tern_op_name(op->kind));
}

enum { ROWS = 40, COLS = 96, TOKENS = 5 };

/* gate and up of one linear layer, the second with a bias, and what GATE makes of both. */
static tern_view build(test_case *c, uint64_t seed)
{
    tern_rng same = {seed};
    test_case_open(c, &same, &(test_case_shape){.max_tokens = TOKENS});
    tern_view both = test_case_activation(c, "both", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 2 * ROWS);
    tern_op linear = {.kind = TERN_OP_LINEAR, .n_in = 3, .n_parts = 2, .out = both};
    linear.in[TERN_LINEAR_X] = test_case_rows(c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY);
    for (uint32_t i = 0; i < 2; i++) linear.in[TERN_LINEAR_W + i] = test_case_weight(c, "f16", ROWS, COLS);
    linear.bias[1] = test_case_norm_weight(c, ROWS);
    tern_op gate = {.kind = TERN_OP_GATE, .n_in = 2, .activation = TERN_ACT_SILU};
    gate.in[TERN_GATE_GATE] = test_case_columns(both, 0, ROWS);
    gate.in[TERN_GATE_UP] = test_case_columns(both, ROWS, ROWS);
    gate.out = test_case_output(c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, ROWS);
    test_case_add(c, linear);
    test_case_add(c, gate);
    return gate.out;
}

static void biases_go_under_gates_where_the_device_can(void **state)
{
    (void)state;
    tern_backend refusing = *test_backend("cpu");
    refusing.supports = refuse;
    tern_backend *const backends[] = {NULL, &refusing, test_backend("cpu")};
    const uint64_t seed = tern_rng_u64(&rng);
    test_results results[3];
    test_case cases[3];
    for (int i = 0; i < 3; i++) {
        tern_error err = {0};
        const tern_view y = build(&cases[i], seed);
        assert_ok(tern_graph_fuse(&cases[i].graph, backends[i], &err), err);
        assert_int_equal(cases[i].graph.n_ops, i == 2 ? 1 : 2);
        test_case_run(&cases[i], test_backend("cpu"), TOKENS, TOKENS, 1, &results[i]);
        assert_true(test_same_bits(test_results_row(&cases[i], &results[i], y, 0),
                                   test_results_row(&cases[0], &results[0], y, 0), TOKENS * ROWS));
    }
    for (int i = 0; i < 3; i++) {
        test_results_free(&results[i]);
        test_case_close(&cases[i]);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(biases_go_under_gates_where_the_device_can)};

TEST_GROUP(fuse, "", tests, .setup = seed, .teardown = test_backends_close);
