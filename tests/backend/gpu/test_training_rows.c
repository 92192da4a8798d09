/* The GPU's training ops that go by rows against the CPU's, as the device is and as lesser ones. */
#include "support/test.h"

#include <math.h>

#include "support/training_case.h"

static tern_rng rng;

static const uint32_t widths[] = {1, 3, 4, 31, 64, 130, 256, 1000, 1028, 2560, 6912};

static const test_tolerance near = {.of_value = 1e-5, .of_row = 1e-6, .absolute = 1e-30};

static void open_case(test_case *c, uint32_t max_tokens)
{
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = max_tokens, .training = true});
}

/* On every kind of device. */
static void compare(test_case *c, test_tolerance tolerance)
{
    for (int kind = 0; kind < test_gpu_kinds(); kind++) {
        const uint32_t n = c->graph.max_tokens;
        test_case_compare(c, test_gpu_backend_of((test_gpu_kind)kind), n, n, tolerance);
    }
    test_case_close(c);
}

static void check(test_training t, uint32_t max_tokens, test_tolerance tolerance)
{
    test_case c;
    open_case(&c, max_tokens);
    test_training_add(&c, &t);
    test_training_params(&c, t.cols, t.n_vocab ? t.n_vocab : 40);
    compare(&c, tolerance);
}

static void each_width(test_training t, test_tolerance tolerance)
{
    test_gpu_backend(); /* or skipped, with nothing allocated */
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        t.cols = widths[i];
        t.beside = i % 2;
        t.residual = t.kind == TERN_OP_RMS_NORM_BACKWARD && i % 3 == 0;
        check(t, test_between(&rng, 1, 9), tolerance);
    }
}

static void scale(void **state)
{
    (void)state;
    each_width((test_training){.kind = TERN_OP_SCALE, .fill = TEST_MIXED},
               (test_tolerance){.absolute = 2e-38}); /* subnormal numbers may count as 0 */
}

/* Small numbers are differences of large ones: the cap's error. */
static void softcap(void **state)
{
    (void)state;
    each_width((test_training){.kind = TERN_OP_SCALE, .softcap = 0.7f}, (test_tolerance){.absolute = 4e-7});
    each_width((test_training){.kind = TERN_OP_SCALE, .softcap = 30, .fill = TEST_MIXED},
               (test_tolerance){.absolute = 1.5e-5});
    each_width((test_training){.kind = TERN_OP_SOFTCAP_BACKWARD}, (test_tolerance){.of_value = 2e-6, .of_row = 2e-6});
}

static void dropout(void **state)
{
    (void)state;
    each_width((test_training){.kind = TERN_OP_DROPOUT}, (test_tolerance){.of_value = 2e-7});
}

static void fake_quantize(void **state)
{
    (void)state;
    each_width((test_training){.kind = TERN_OP_FAKE_QUANTIZE}, (test_tolerance){.of_value = 1e-6, .of_row = 2e-7});
}

static void rope_backward(void **state)
{
    (void)state;
    each_width((test_training){.kind = TERN_OP_ROPE_BACKWARD}, (test_tolerance){.of_row = 1e-6});
}

static void gates_backward(void **state)
{
    (void)state;
    for (int act = TERN_ACT_RELU2; act <= TERN_ACT_GELU; act++)
        each_width((test_training){.kind = TERN_OP_GATE_BACKWARD, .activation = (tern_activation)act},
                   (test_tolerance){.of_value = 2e-5, .of_row = 2e-6, .absolute = 1e-30});
}

/* What overflows in one does in the other; no NaN where there was none. */
static void gates_backward_at_the_ends(void **state)
{
    (void)state;
    static const float ends[] = {0, 1e15f, -1e15f, 1e18f, -1e18f, 90, -90, 200, -200, 88, -88, 19, -19, 21, -21};
    enum { N = sizeof ends / sizeof *ends };
    test_gpu_backend();
    for (int act = TERN_ACT_RELU2; act <= TERN_ACT_GELU; act++) {
        test_case c;
        open_case(&c, 1);
        tern_op op = test_training_add(
            &c, &(test_training){.kind = TERN_OP_GATE_BACKWARD, .cols = N, .activation = (tern_activation)act});
        memcpy(test_case_floats(&c, op.in[0]), ends, sizeof ends);
        compare(&c, (test_tolerance){.of_value = 5e-5, .absolute = 1e-30});
    }
}

static void rms_norm_backward(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        each_width((test_training){.kind = TERN_OP_RMS_NORM_BACKWARD, .no_dg = i == 1, .no_dx = i == 2}, near);
}

/* More rows than a part of the norm_weight's gradient has. */
static void rms_norm_backward_of_many(void **state)
{
    (void)state;
    test_gpu_backend();
    check((test_training){.kind = TERN_OP_RMS_NORM_BACKWARD, .cols = 70}, 64, near);
    check((test_training){.kind = TERN_OP_RMS_NORM_BACKWARD, .cols = 33, .residual = true}, 300, near);
}

/* A norm of each head: few columns and many, groups that parts of the weight's gradient cut through a row. */
static void rms_norm_backward_of_groups(void **state)
{
    (void)state;
    test_gpu_backend();
    static const uint32_t cols[] = {1, 7, 64, 128, 520};
    for (int i = 0; i < 15; i++) {
        const test_training t = {.kind = TERN_OP_RMS_NORM_BACKWARD,
                                 .cols = cols[i % 5],
                                 .n_groups = test_between(&rng, 2, 9),
                                 .beside = i % 2,
                                 .residual = i % 4 == 0,
                                 .no_dg = i / 5 == 1,
                                 .no_dx = i / 5 == 2};
        check(t, test_between(&rng, 1, 30), near);
    }
}

static void bias_backward(void **state)
{
    (void)state;
    each_width((test_training){.kind = TERN_OP_BIAS_BACKWARD}, near);
    check((test_training){.kind = TERN_OP_BIAS_BACKWARD, .cols = 70}, 64, near);
    check((test_training){.kind = TERN_OP_BIAS_BACKWARD, .cols = 33, .beside = true}, 300, near);
}

static void cross_entropy(void **state)
{
    (void)state;
    each_width((test_training){.kind = TERN_OP_CROSS_ENTROPY}, near);
    check((test_training){.kind = TERN_OP_CROSS_ENTROPY, .cols = 32001, .beside = true}, 5, near);
    if (!getenv("TERN_TEST_SIMULATE")) check((test_training){.kind = TERN_OP_CROSS_ENTROPY, .cols = 128256}, 3, near);
}

/* NaN and infinities spoil their row alone; logits far apart; labels that are masked or out of the vocabulary. */
static void cross_entropy_of_odd_rows(void **state)
{
    (void)state;
    enum { COLS = 301, ROWS = 9 };
    test_gpu_backend();
    test_case c;
    open_case(&c, ROWS);
    tern_op op = test_training_add(&c, &(test_training){.kind = TERN_OP_CROSS_ENTROPY, .cols = COLS});
    test_training_params(&c, COLS, 1);
    int32_t *labels = (int32_t *)(void *)test_case_param(&c, TERN_PARAM_LABELS);
    float *z = test_case_floats(&c, op.in[0]);
    for (int t = 0; t < ROWS; t++) labels[t] = t;
    z[0 * COLS + 7] = NAN;
    z[1 * COLS + 200] = INFINITY;
    z[2 * COLS + 300] = -INFINITY;
    z[3 * COLS + 3] = -INFINITY; /* the label's */
    z[4 * COLS + 100] = 3e38f;
    z[5 * COLS + 5] = 500;
    labels[6] = -1;
    z[6 * COLS + 6] = NAN;
    labels[7] = COLS;
    labels[8] = INT32_MIN;
    compare(&c, near);
}

/* The head works on some rows at a time: labels and losses from a row on. */
static void cross_entropy_in_chunks(void **state)
{
    (void)state;
    enum { CHUNK = 64, COLS = 90 };
    test_gpu_backend();
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 3 * CHUNK, .max_outputs = CHUNK, .training = true});
    tern_view losses = test_case_output(&c, "losses", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 1);
    for (uint32_t i = 0; i < 3; i++) {
        tern_op op = {.kind = TERN_OP_CROSS_ENTROPY,
                      .rows = TERN_ROWS_OUTPUTS,
                      .n_in = 3,
                      .in = {test_case_rows(&c, "logits", TERN_ROWS_OUTPUTS, COLS, TEST_ORDINARY),
                             test_case_param_view(&c, TERN_PARAM_LABELS),
                             test_case_param_view(&c, TERN_PARAM_TRAINING)},
                      .out = losses};
        op.in[1].first_row = op.out.first_row = i * CHUNK;
        test_case_add(&c, op);
    }
    test_training_params(&c, COLS, 1);
    for (int kind = 0; kind < test_gpu_kinds(); kind++)
        test_case_compare(&c, test_gpu_backend_of((test_gpu_kind)kind), 3 * CHUNK, CHUNK, near);
    test_case_close(&c);
}

/* To the bit: the same sums in the same order. */
static void embed_backward(void **state)
{
    (void)state;
    each_width((test_training){.kind = TERN_OP_EMBED_BACKWARD}, (test_tolerance){0});
    check((test_training){.kind = TERN_OP_EMBED_BACKWARD, .cols = 20, .n_vocab = 7}, 200, (test_tolerance){0});
    if (!test_quick() && !getenv("TERN_TEST_SIMULATE")) /* more tokens than a mask has */
        check((test_training){.kind = TERN_OP_EMBED_BACKWARD, .cols = 2, .n_vocab = 6000}, 9000, (test_tolerance){0});
}

/* A table of more than a binding of 128 MiB. */
static void embed_backward_in_parts(void **state)
{
    (void)state;
    if (getenv("TERN_TEST_SIMULATE")) test_skip("the device is simulated");
    if (test_quick()) test_skip("a quick run takes no table of 128 MiB");
    test_gpu_backend();
    check((test_training){.kind = TERN_OP_EMBED_BACKWARD, .cols = 2500, .n_vocab = 14000}, 40, (test_tolerance){0});
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(scale),
    cmocka_unit_test(softcap),
    cmocka_unit_test(dropout),
    cmocka_unit_test(fake_quantize),
    cmocka_unit_test(rope_backward),
    cmocka_unit_test(gates_backward),
    cmocka_unit_test(gates_backward_at_the_ends),
    cmocka_unit_test(rms_norm_backward),
    cmocka_unit_test(rms_norm_backward_of_many),
    cmocka_unit_test(rms_norm_backward_of_groups),
    cmocka_unit_test(bias_backward),
    cmocka_unit_test(cross_entropy),
    cmocka_unit_test(cross_entropy_of_odd_rows),
    cmocka_unit_test(cross_entropy_in_chunks),
    cmocka_unit_test(embed_backward),
    cmocka_unit_test(embed_backward_in_parts),
};

TEST_GROUP(training_rows, "gpu web", tests, .setup = seed, .teardown = test_backends_close);
