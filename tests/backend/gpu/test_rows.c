/* The GPU's norms, quantiser, gates, sums and gather against the CPU, as the device is and as lesser ones. */
#include "support/test.h"

#include <math.h>

#include "support/op_case.h"

static tern_rng rng;

/* Around words, vectors and what the invocations of a workgroup keep (4096 and 8192 columns), then longer rows. */
static const uint32_t widths[] = {1,    2,    3,    4,    5,    31,   64,   127,  128,   129,  384,
                                  1000, 1026, 2560, 4096, 4100, 6912, 8192, 8195, 16384, 20000};

static const test_tolerance float_budget = {.of_value = 1e-5, .absolute = 1e-30};

/* Where a row lies between other columns, mostly. */
typedef struct place {
    uint32_t before, after;
} place;

static place any_place(void)
{
    const uint32_t how = test_between(&rng, 0, 2), unit = how == 1 ? 4 : 1;
    if (how == 0) return (place){0};
    return (place){.before = unit * test_between(&rng, 0, 9), .after = unit * test_between(&rng, 0, 9)};
}

static tern_view input(test_case *c, uint32_t cols, test_fill fill)
{
    const place at = any_place();
    tern_view whole = test_case_rows(c, "x", TERN_ROWS_TOKENS, at.before + cols + at.after, fill);
    return test_case_columns(whole, at.before, cols);
}

static tern_view output(test_case *c, tern_rows rows, uint32_t cols)
{
    const place at = any_place();
    tern_view whole = test_case_output(c, "y", rows, TERN_DTYPE_F32, at.before + cols + at.after);
    return test_case_columns(whole, at.before, cols);
}

/* Opens a case of 1 to 9 tokens, and runs it for some of them on every kind of device. */
static void open_case(test_case *c)
{
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = test_between(&rng, 1, 9)});
}

static void compare(test_case *c, test_tolerance tolerance)
{
    for (int kind = 0; kind < TEST_GPU_N_KINDS; kind++) {
        const uint32_t n = test_between(&rng, 1, c->graph.max_tokens);
        test_case_compare(c, test_gpu_backend_of((test_gpu_kind)kind), n, test_between(&rng, 1, n), tolerance);
    }
    test_case_close(c);
}

#define FOR_EACH_WIDTH(cols)                                                                                           \
    for (size_t at_ = 0; at_ < sizeof widths / sizeof *widths; at_++)                                                  \
        for (uint32_t cols = widths[at_], once_ = 1; once_; once_ = 0)

static void add(void **state)
{
    (void)state;
    test_gpu_backend(); /* or skipped, with nothing allocated */
    FOR_EACH_WIDTH(cols)
    {
        test_case c;
        open_case(&c);
        tern_view a = input(&c, cols, TEST_ORDINARY), b = input(&c, cols, TEST_ORDINARY),
                  y = output(&c, TERN_ROWS_TOKENS, cols);
        test_case_add(&c, (tern_op){.kind = TERN_OP_ADD, .n_in = 2, .in = {a, b}, .out = y});
        compare(&c, (test_tolerance){0});
    }
}

static void gates(void **state)
{
    (void)state;
    test_gpu_backend();
    FOR_EACH_WIDTH(cols)
    {
        test_case c;
        open_case(&c);
        tern_view gate = input(&c, cols, TEST_ORDINARY), up = input(&c, cols, TEST_ORDINARY);
        tern_view relu2 = output(&c, TERN_ROWS_TOKENS, cols), silu = output(&c, TERN_ROWS_TOKENS, cols),
                  gelu = output(&c, TERN_ROWS_TOKENS, cols), halves = output(&c, TERN_ROWS_TOKENS, cols),
                  sigmoid = output(&c, TERN_ROWS_TOKENS, cols), by_one = output(&c, TERN_ROWS_TOKENS, cols);
        tern_view both = input(&c, 2 * cols, TEST_ORDINARY); /* gate|up of one layer, which is bound once */
        float *g = test_case_floats(&c, gate);
        for (uint32_t i = 0; i < c.graph.values[gate.value].bytes / 4; i++) g[i] *= 20;
        g[0] = -0.0f;
        test_case_add(
            &c,
            (tern_op){.kind = TERN_OP_GATE, .n_in = 2, .in = {gate, up}, .out = relu2, .activation = TERN_ACT_RELU2});
        test_case_add(
            &c, (tern_op){.kind = TERN_OP_GATE, .n_in = 2, .in = {gate, up}, .out = silu, .activation = TERN_ACT_SILU});
        test_case_add(
            &c, (tern_op){.kind = TERN_OP_GATE, .n_in = 2, .in = {gate, up}, .out = gelu, .activation = TERN_ACT_GELU});
        test_case_add(
            &c, (tern_op){
                    .kind = TERN_OP_GATE, .n_in = 2, .in = {gate, up}, .out = sigmoid, .activation = TERN_ACT_SIGMOID});
        test_case_add(&c, (tern_op){.kind = TERN_OP_GATE,
                                    .n_in = 2,
                                    .in = {test_case_columns(gate, cols / 2, 1), up},
                                    .out = by_one,
                                    .activation = TERN_ACT_SIGMOID});
        test_case_add(&c, (tern_op){.kind = TERN_OP_GATE,
                                    .n_in = 2,
                                    .in = {test_case_columns(both, 0, cols), test_case_columns(both, cols, cols)},
                                    .out = halves,
                                    .activation = TERN_ACT_SILU});
        compare(&c, (test_tolerance){.of_value = 3e-5, .absolute = 1e-30}); /* e^-87 is as far off as 87 is */
    }
}

/* What overflows in one is infinite in the other; relu2 of NaN is 0. */
static void gates_at_the_ends(void **state)
{
    (void)state;
    test_gpu_backend();
    static const float ends[] = {0, 1e20f, -1e20f, 3e38f, -3e38f, 90, -90, 200, -200, 88, -88};
    const uint32_t n = sizeof ends / sizeof *ends;
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){0});
    tern_view gate = test_case_rows(&c, "gate", TERN_ROWS_TOKENS, n + 1, TEST_ORDINARY);
    tern_view up = test_case_rows(&c, "up", TERN_ROWS_TOKENS, n + 1, TEST_ORDINARY);
    tern_view relu2 = output(&c, TERN_ROWS_TOKENS, n + 1), silu = output(&c, TERN_ROWS_TOKENS, n),
              gelu = output(&c, TERN_ROWS_TOKENS, n), sigmoid = output(&c, TERN_ROWS_TOKENS, n);
    memcpy(test_case_floats(&c, gate), ends, sizeof ends);
    test_case_floats(&c, gate)[n] = NAN;
    test_case_add(
        &c, (tern_op){.kind = TERN_OP_GATE, .n_in = 2, .in = {gate, up}, .out = relu2, .activation = TERN_ACT_RELU2});
    test_case_add(&c, (tern_op){.kind = TERN_OP_GATE,
                                .n_in = 2,
                                .in = {test_case_columns(gate, 0, n), test_case_columns(up, 0, n)},
                                .out = silu,
                                .activation = TERN_ACT_SILU});
    test_case_add(&c, (tern_op){.kind = TERN_OP_GATE,
                                .n_in = 2,
                                .in = {test_case_columns(gate, 0, n), test_case_columns(up, 0, n)},
                                .out = gelu,
                                .activation = TERN_ACT_GELU});
    test_case_add(&c, (tern_op){.kind = TERN_OP_GATE,
                                .n_in = 2,
                                .in = {test_case_columns(gate, 0, n), test_case_columns(up, 0, n)},
                                .out = sigmoid,
                                .activation = TERN_ACT_SIGMOID});
    compare(&c, (test_tolerance){.of_value = 3e-5, .absolute = 1e-34});
}

static void gather(void **state)
{
    (void)state;
    test_gpu_backend();
    FOR_EACH_WIDTH(cols)
    {
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 9, .max_outputs = 9});
        tern_view x = input(&c, cols, TEST_MIXED), y = output(&c, TERN_ROWS_OUTPUTS, cols);
        for (int i = 0; i < 9; i++) test_case_param(&c, TERN_PARAM_OUTPUTS)[i] = test_between(&rng, 0, 8);
        test_case_add(&c, (tern_op){.kind = TERN_OP_GATHER,
                                    .n_in = 2,
                                    .in = {x, test_case_param_view(&c, TERN_PARAM_OUTPUTS)},
                                    .out = y,
                                    .rows = TERN_ROWS_OUTPUTS});
        compare(&c, (test_tolerance){0});
    }
}

static void rms_norm(void **state)
{
    (void)state;
    test_gpu_backend();
    FOR_EACH_WIDTH(cols)
    {
        test_case c;
        open_case(&c);
        tern_view x = input(&c, cols, TEST_ORDINARY), norm_weight = test_case_norm_weight(&c, cols),
                  y = output(&c, TERN_ROWS_TOKENS, cols);
        test_case_add(&c,
                      (tern_op){.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {x, norm_weight}, .out = y, .eps = 1e-5f});
        compare(&c, float_budget);
    }
}

/* What a norm is added to: rows of their own, or what lies where the sum goes. */
static void norms_with_a_residual(void **state)
{
    (void)state;
    test_gpu_backend();
    FOR_EACH_WIDTH(cols)
    {
        test_case c;
        open_case(&c);
        tern_view x = input(&c, cols, TEST_ORDINARY), norm_weight = test_case_norm_weight(&c, cols),
                  apart = input(&c, cols, TEST_ORDINARY), sum = input(&c, cols, TEST_ORDINARY),
                  y = output(&c, TERN_ROWS_TOKENS, cols);
        tern_op op = {.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {x, norm_weight}, .eps = 1e-5f};
        op.residual = apart, op.out = y;
        test_case_add(&c, op);
        op.residual = op.out = sum;
        test_case_add(&c, op);
        compare(&c, (test_tolerance){.of_value = 1e-5, .of_row = 1e-6});
    }
}

/* A norm of each group of columns, and norms in place, of groups and of whole rows. */
static void norms_of_groups(void **state)
{
    (void)state;
    test_gpu_backend();
    static const uint32_t sizes[] = {1, 5, 16, 32, 64, 80, 128, 130, 256, 511, 512, 513, 1000};
    for (int round = 0; round < 39; round++) {
        const uint32_t group = sizes[round % 13], n_groups = round % 3 ? test_between(&rng, 1, 20) : 1;
        const uint32_t cols = n_groups * group;
        test_case c;
        open_case(&c);
        tern_view x = input(&c, cols, TEST_ORDINARY), norm_weight = test_case_norm_weight(&c, group);
        tern_op op = {.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {x, norm_weight}, .eps = 1e-5f};
        op.out = round / 13 == 0 ? x : output(&c, TERN_ROWS_TOKENS, cols);
        if (round % 2) op.residual = op.out.value == x.value ? (tern_view){0} : input(&c, cols, TEST_ORDINARY);
        if (round / 13 == 2 && n_groups > 1) op.residual = op.out = input(&c, cols, TEST_ORDINARY);
        test_case_add(&c, op);
        compare(&c, (test_tolerance){.of_value = 1e-5, .of_row = 1e-6, .absolute = 1e-30});
    }
}

/* Zeros, and rows of NaN or with one. */
static void rms_norm_of_odd_rows(void **state)
{
    (void)state;
    test_gpu_backend();
    enum { COLS = 260 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 3});
    tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY),
              norm_weight = test_case_norm_weight(&c, COLS);
    tern_view y = output(&c, TERN_ROWS_TOKENS, COLS);
    memset(test_case_floats(&c, x), 0, COLS * sizeof(float));
    test_case_floats(&c, x)[COLS + 200] = NAN;
    test_case_add(&c, (tern_op){.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {x, norm_weight}, .out = y, .eps = 1e-6f});
    compare(&c, float_budget);
}

/* int8 to the bit: a quotient and a product, rounded correctly. */
static void quantize(void **state)
{
    (void)state;
    test_gpu_backend();
    static const test_fill fills[] = {TEST_ORDINARY, TEST_TINY, TEST_HUGE, TEST_MIXED, TEST_NONFINITE};
    FOR_EACH_WIDTH(cols)
    {
        test_case c;
        open_case(&c);
        tern_view x = input(&c, cols, fills[test_between(&rng, 0, 4)]);
        tern_view q = test_case_output(&c, "q", TERN_ROWS_TOKENS, TERN_DTYPE_Q8, cols);
        test_case_add(&c, (tern_op){.kind = TERN_OP_QUANTIZE, .n_in = 1, .in = {x}, .out = q});
        compare(&c, (test_tolerance){.of_value = 3e-7});
    }
}

/* NaN is 0, and an infinity the last level of its sign, in rows that are read four columns at a time and in others. */
static void quantize_what_is_not_finite(void **state)
{
    (void)state;
    test_gpu_backend();
    static const uint32_t columns[] = {384, 333};
    for (size_t w = 0; w < sizeof columns / sizeof *columns; w++) {
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 2});
        tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, columns[w], TEST_ORDINARY);
        tern_view q = test_case_output(&c, "q", TERN_ROWS_TOKENS, TERN_DTYPE_Q8, columns[w]);
        float *v = test_case_floats(&c, x);
        v[1] = -INFINITY, v[2] = INFINITY, v[3] = NAN, v[columns[w] + 7] = -INFINITY;
        test_case_add(&c, (tern_op){.kind = TERN_OP_QUANTIZE, .n_in = 1, .in = {x}, .out = q});
        compare(&c, (test_tolerance){.of_value = 3e-7});
    }
}

/* Values on the halves between two integers when 127 is the largest: half to even. */
static void quantize_halves(void **state)
{
    (void)state;
    test_gpu_backend();
    enum { COLS = 512 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 2});
    tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY);
    tern_view q = test_case_output(&c, "q", TERN_ROWS_TOKENS, TERN_DTYPE_Q8, COLS);
    float *v = test_case_floats(&c, x);
    for (int i = 0; i < COLS; i++) v[i] = v[COLS + i] = (float)(i - 255) / 2;
    v[COLS - 1] = -127, v[2 * COLS - 1] = 127;
    for (int i = 0; i < COLS; i++)
        if (fabsf(v[i]) > 127) v[i] = 0;
    for (int i = COLS; i < 2 * COLS; i++)
        if (fabsf(v[i]) > 127) v[i] = 126.5f;
    test_case_add(&c, (tern_op){.kind = TERN_OP_QUANTIZE, .n_in = 1, .in = {x}, .out = q});
    compare(&c, (test_tolerance){.of_value = 1e-7});
}

/* The norm's floats are within a budget, so that an int8 can be one off, but seldom. */
static void norm_quant(void **state)
{
    (void)state;
    test_gpu_backend();
    uint32_t n_values = 0, n_off = 0;
    FOR_EACH_WIDTH(cols) for (int kind = 0; kind < TEST_GPU_N_KINDS; kind++)
    {
        test_case c;
        test_results got, want;
        open_case(&c);
        tern_view x = input(&c, cols, TEST_ORDINARY), norm_weight = test_case_norm_weight(&c, cols);
        tern_view q = test_case_output(&c, "q", TERN_ROWS_TOKENS, TERN_DTYPE_Q8, cols);
        const uint32_t n = test_between(&rng, 1, c.graph.max_tokens), counts[2] = {n, n};
        test_case_add(&c,
                      (tern_op){.kind = TERN_OP_NORM_QUANT, .n_in = 2, .in = {x, norm_weight}, .out = q, .eps = 1e-5f});
        test_case_run(&c, test_backend("cpu"), n, n, 1, &want);
        test_case_run(&c, test_gpu_backend_of((test_gpu_kind)kind), n, n, 1, &got);
        const char *what =
            test_case_difference(&c, counts, &got, &want, (test_tolerance){.of_value = 1e-5, .of_int8 = 1});
        if (what) fail_msg("%s", what);
        for (size_t i = 0; i < n * tern_q8_stride(cols); i++) n_off += got.bytes[q.value][i] != want.bytes[q.value][i];
        n_values += n * cols;
        test_results_free(&got);
        test_results_free(&want);
        test_case_close(&c);
    }
    if (n_off > n_values / 2000) fail_msg("%u of %u int8 are one off", n_off, n_values);
}

/* NaN and infinities: the norm of such a row has no finite value, and all its int8 are 0. */
static void norm_quant_of_odd_rows(void **state)
{
    (void)state;
    test_gpu_backend();
    static const uint32_t cols[] = {7, 256};
    for (int i = 0; i < 2; i++) {
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 3});
        tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols[i], TEST_ORDINARY),
                  norm_weight = test_case_norm_weight(&c, cols[i]);
        tern_view q = test_case_output(&c, "q", TERN_ROWS_TOKENS, TERN_DTYPE_Q8, cols[i]);
        test_case_floats(&c, x)[3] = NAN;
        test_case_floats(&c, x)[cols[i] + 5] = INFINITY;
        for (uint32_t k = 0; k < cols[i]; k++) test_case_floats(&c, x)[2 * cols[i] + k] = 0;
        test_case_add(&c,
                      (tern_op){.kind = TERN_OP_NORM_QUANT, .n_in = 2, .in = {x, norm_weight}, .out = q, .eps = 1e-5f});
        compare(&c, (test_tolerance){.of_value = 1e-6});
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(add),
                                          cmocka_unit_test(gates),
                                          cmocka_unit_test(gates_at_the_ends),
                                          cmocka_unit_test(gather),
                                          cmocka_unit_test(rms_norm),
                                          cmocka_unit_test(rms_norm_of_odd_rows),
                                          cmocka_unit_test(norms_with_a_residual),
                                          cmocka_unit_test(norms_of_groups),
                                          cmocka_unit_test(quantize),
                                          cmocka_unit_test(quantize_what_is_not_finite),
                                          cmocka_unit_test(quantize_halves),
                                          cmocka_unit_test(norm_quant),
                                          cmocka_unit_test(norm_quant_of_odd_rows)};

TEST_GROUP(rows, "gpu web simulated", tests, .setup = seed, .teardown = test_backends_close);
