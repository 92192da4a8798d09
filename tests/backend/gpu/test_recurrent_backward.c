/* The GPU's training ops with a state, output gates and what splits a projection for them, and their backward, against
 * the CPU; a backend without them names the op. */
#include "support/recurrent_training_case.h"
#include "support/test.h"

static tern_rng rng;

static const test_tolerance near = {.of_row = 3e-4, .absolute = 1e-6};

static void compare(test_case *c, uint32_t n)
{
    for (int kind = 0; kind < test_gpu_kinds(); kind++)
        test_case_compare_if_supported(c, test_gpu_backend_of((test_gpu_kind)kind), n, near);
    test_case_close(c);
}

static void conv(void **state)
{
    (void)state;
    test_gpu_backend(); /* or skipped, with nothing allocated */
    static const uint32_t taps[] = {4, 1, 8, 3}, cols[] = {130, 64, 5, 70}, rows[] = {40, 7, 30, 65};
    for (int i = 0; i < 4; i++) {
        test_case c;
        test_documents_case(&c, &rng, rows[i], 20);
        test_conv_training_add(&c, cols[i], taps[i], i != 1);
        compare(&c, rows[i]);
    }
}

/* Fewer rows than a state is kept for, whole chunks and a part of one, documents within and over several; keys that a
 * kernel has room for and fewer; values of one workgroup, of more and of a part of one. */
static const test_delta_training shapes[] = {
    {20, .longest = 9, .heads = 2, .key_heads = 1, .keys = 12, .values = 8, .decay = true, .dt = true,
     .log_decay = true},
    {.rows = 150, .longest = 100, .heads = 4, .key_heads = 2, .keys = 32, .values = 40, .dt = true},
    {.rows = 128, .longest = 30, .heads = 6, .key_heads = 2, .keys = 100, .values = 16, .tiled = true},
    {.rows = 70, .longest = 70, .heads = 2, .key_heads = 2, .keys = 128, .values = 128, .tiled = true, .decay = true},
    {.rows = 200, .longest = 194, .heads = 2, .key_heads = 1, .keys = 128, .values = 128},
    {65, .longest = 80, .heads = 1, .key_heads = 1, .keys = 200, .values = 64, .decay = true, .log_decay = true},
};

static void gated_delta(void **state)
{
    (void)state;
    test_gpu_backend();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        test_case c;
        test_documents_case(&c, &rng, shapes[i].rows, shapes[i].longest);
        test_delta_training_add(&c, &shapes[i]);
        compare(&c, shapes[i].rows);
    }
}

static void split(void **state)
{
    (void)state;
    test_gpu_backend();
    static const uint32_t heads[] = {1, 3, 16}, dims[] = {5, 64, 256};
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t cols = heads[i] * dims[i];
        test_case c;
        test_documents_case(&c, &rng, 5, 9);
        test_case_add(&c,
                      (tern_op){.kind = TERN_OP_SPLIT_BACKWARD,
                                .n_in = TERN_SPLIT_BACKWARD_INPUTS,
                                .in = {test_training_input(&c, "dout", cols), test_training_input(&c, "dgate", cols)},
                                .head_dim = dims[i],
                                .out = test_training_output(&c, "dx", 2 * cols)});
        compare(&c, 5);
    }
}

/* A gate for each column, and one for all. */
static void output_gates(void **state)
{
    (void)state;
    test_gpu_backend();
    static const uint32_t cols[] = {1, 70, 300};
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t n = cols[i / 2], gates = i % 2 ? 1 : n;
        test_case c;
        test_documents_case(&c, &rng, 5, 9);
        test_case_add(&c, (tern_op){.kind = TERN_OP_GATE_BACKWARD,
                                    .n_in = TERN_GATE_BACKWARD_INPUTS,
                                    .in = {[TERN_GATE_BACKWARD_GATE] = test_training_input(&c, "gate", gates),
                                           [TERN_GATE_BACKWARD_UP] = test_training_input(&c, "up", n),
                                           [TERN_GATE_BACKWARD_DY] = test_training_input(&c, "dy", n),
                                           [TERN_GATE_BACKWARD_DUP] = test_training_output(&c, "dup", n)},
                                    .activation = TERN_ACT_SIGMOID,
                                    .out = test_training_output(&c, "dgate", gates)});
        compare(&c, 5);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(conv), cmocka_unit_test(gated_delta),
                                          cmocka_unit_test(split), cmocka_unit_test(output_gates)};

TEST_GROUP(recurrent_backward_gpu, "gpu web simulated", tests, .setup = seed, .teardown = test_backends_close);
