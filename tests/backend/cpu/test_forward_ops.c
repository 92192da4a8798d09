/* What ops of inference can ask for beside their plain form, on the CPU: attention with a scale, a soft cap, a window
 * and sinks, norms of groups of columns, biases; against double precision, and to the bit where two forms are one. */
#include "support/test.h"

#include "quant/weight.h"

#include <math.h>

#include "base/half.h"
#include "graph/graph.h"
#include "ops/ref/ref.h"
#include "support/attention_case.h"

static tern_rng rng;

/* RMS_NORM of groups, in place or not, with a residual or not, as the definition of one row for each group. */
static void norms_are_of_each_group(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        const uint32_t group = test_between(&rng, 1, 140), n_groups = round % 3 ? test_between(&rng, 1, 6) : 1;
        const uint32_t before = test_between(&rng, 0, 5), cols = n_groups * group, n = test_between(&rng, 1, 7);
        const bool in_place = round % 2, residual = !in_place && test_between(&rng, 0, 1);
        test_case c;
        test_results got;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 7});
        tern_view whole = test_case_rows(&c, "x", TERN_ROWS_TOKENS, before + cols + 3, TEST_MIXED);
        tern_view x = test_case_columns(whole, before, cols), weight = test_case_norm_weight(&c, group);
        tern_view y = in_place ? x : test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
        tern_op op = {.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {x, weight}, .eps = 1e-5f, .out = y};
        if (residual) op.residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
        test_case_add(&c, op);
        test_case_run(&c, test_backend("cpu"), n, n, 1, &got);
        float want[6 * 140];
        for (uint32_t t = 0; t < n; t++) {
            const float *in = test_case_floats(&c, whole) + (size_t)t * (before + cols + 3) + before;
            const float *w = (const float *)(const void *)c.weights[weight.value]->data;
            for (uint32_t i = 0; i < cols; i += group) tern_ref_rms_norm(in + i, w, 1e-5f, group, want + i);
            for (uint32_t i = 0; residual && i < cols; i++)
                want[i] = test_case_floats(&c, op.residual)[(size_t)t * cols + i] + want[i];
            assert_true(test_same_bits(test_results_row(&c, &got, y, t), want, cols));
        }
        test_results_free(&got);
        test_case_close(&c);
    }
}

static tern_status refuse(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)b, (void)graph;
    return tern_fail(err, TERN_UNSUPPORTED, "op %s", tern_op_name(op->kind));
}

/* A sum goes into the norm before it where the device says that it can, and changes no bit. */
static void norms_take_sums_where_the_device_can(void **state)
{
    (void)state;
    enum { COLS = 90, TOKENS = 5 };
    tern_backend refusing = *test_backend("cpu");
    refusing.supports = refuse;
    tern_backend *const backends[] = {NULL, &refusing, test_backend("cpu")};
    test_results results[3];
    test_case cases[3];
    tern_view sums[3];
    const uint64_t seed = tern_rng_u64(&rng);
    for (int i = 0; i < 3; i++) {
        test_case *c = &cases[i];
        tern_error err = {0};
        tern_rng same = {seed};
        test_case_open(c, &same, &(test_case_shape){.max_tokens = TOKENS});
        tern_view x = test_case_rows(c, "x", TERN_ROWS_TOKENS, COLS, TEST_ORDINARY);
        tern_view weight = test_case_norm_weight(c, COLS / 3);
        tern_view twice = test_case_activation(c, "twice", TERN_ROWS_TOKENS, TERN_DTYPE_F32, COLS);
        tern_view normed = test_case_activation(c, "normed", TERN_ROWS_TOKENS, TERN_DTYPE_F32, COLS);
        sums[i] = test_case_output(c, "sum", TERN_ROWS_TOKENS, TERN_DTYPE_F32, COLS);
        test_case_add(c, (tern_op){.kind = TERN_OP_SCALE, .n_in = 1, .in = {x}, .scale = 2, .out = twice});
        test_case_add(
            c, (tern_op){.kind = TERN_OP_RMS_NORM, .n_in = 2, .in = {twice, weight}, .eps = 1e-5f, .out = normed});
        test_case_add(c, (tern_op){.kind = TERN_OP_ADD, .n_in = 2, .in = {twice, normed}, .out = sums[i]});
        assert_ok(tern_graph_fuse(&c->graph, backends[i], &err), err);
        assert_int_equal(c->graph.n_ops, i == 2 ? 2 : 3);
        test_case_run(c, test_backend("cpu"), TOKENS, TOKENS, 1, &results[i]);
        assert_true(test_same_bits(test_results_row(c, &results[i], sums[i], 0),
                                   test_results_row(&cases[0], &results[0], sums[0], 0), TOKENS * COLS));
    }
    for (int i = 0; i < 3; i++) {
        test_results_free(&results[i]);
        test_case_close(&cases[i]);
    }
}

typedef struct biased {
    const char *encoding;
    uint32_t n_parts, cols;
    bool q8, gated, residual;
} biased;

/* With a bias of zeros the bits of none; with one its sum, and under a gate what GATE makes of both. */
static void check_bias(const biased *b)
{
    enum { ROWS = 70, TOKENS = 13 };
    test_case c;
    test_results got;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS});
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 1 + b->n_parts, .n_parts = b->n_parts};
    op.in[0] = b->q8 ? test_case_q8(&c, "x", TERN_ROWS_TOKENS, b->cols)
                     : test_case_rows(&c, "x", TERN_ROWS_TOKENS, b->cols, TEST_ORDINARY);
    for (uint32_t p = 0; p < b->n_parts; p++) op.in[1 + p] = test_case_weight(&c, b->encoding, ROWS, b->cols);
    const uint32_t cols = b->gated ? ROWS : ROWS * b->n_parts;
    if (b->residual) op.residual = test_case_rows(&c, "residual", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
    tern_op plain = op, zero = op, full = op, apart = op;
    tern_view biases[3] = {{0}};
    apart.residual = (tern_view){0};
    for (uint32_t p = 0; p < b->n_parts; p++) {
        zero.bias[p] = test_case_norm_weight(&c, ROWS);
        memset((void *)(uintptr_t)c.weights[zero.bias[p].value]->data, 0, ROWS * sizeof(float));
        if (p != 1) full.bias[p] = biases[p] = test_case_norm_weight(&c, ROWS); /* the second part has none */
    }
    plain.gated = zero.gated = full.gated = b->gated;
    plain.out = test_case_output(&c, "plain", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
    zero.out = test_case_output(&c, "zero", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
    full.out = test_case_output(&c, "full", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
    apart.out = test_case_output(&c, "apart", TERN_ROWS_TOKENS, TERN_DTYPE_F32, ROWS * b->n_parts);
    test_case_add(&c, plain);
    test_case_add(&c, zero);
    test_case_add(&c, full);
    test_case_add(&c, apart);
    test_case_run(&c, test_backend("cpu"), TOKENS, TOKENS, 1, &got);
    for (uint32_t t = 0; t < TOKENS; t++) {
        float want[3 * ROWS];
        memcpy(want, test_results_row(&c, &got, apart.out, t), ROWS * b->n_parts * sizeof *want);
        for (uint32_t i = 0; i < ROWS * b->n_parts; i++)
            if (biases[i / ROWS].cols)
                want[i] += ((const float *)(const void *)c.weights[biases[i / ROWS].value]->data)[i % ROWS];
        if (b->gated) tern_ref_relu2(want, want + ROWS, ROWS, want);
        for (uint32_t i = 0; b->residual && i < cols; i++)
            want[i] = test_case_floats(&c, op.residual)[(size_t)t * cols + i] + want[i];
        assert_true(test_same_bits(test_results_row(&c, &got, full.out, t), want, cols));
        const float *zeros = test_results_row(&c, &got, zero.out, t), *none = test_results_row(&c, &got, plain.out, t);
        for (uint32_t i = 0; i < cols; i++) assert_true(zeros[i] == none[i]);
    }
    test_results_free(&got);
    test_case_close(&c);
}

static void biases_are_added(void **state)
{
    (void)state;
    static const biased cases[] = {
        {.encoding = "i2_s", .n_parts = 1, .cols = 256, .q8 = true},
        {.encoding = "t160", .n_parts = 3, .cols = 200, .q8 = true, .residual = true},
        {.encoding = "tq2_0", .n_parts = 2, .cols = 512, .q8 = true, .gated = true},
        {.encoding = "i2_s", .n_parts = 2, .cols = 128},
        {.encoding = "f16", .n_parts = 1, .cols = 100, .residual = true},
        {.encoding = "q8_0", .n_parts = 3, .cols = 64},
        {.encoding = "bf16", .n_parts = 2, .cols = 96, .q8 = true, .gated = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_bias(&cases[i]);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(norms_are_of_each_group),
    cmocka_unit_test(biases_are_added),
    cmocka_unit_test(norms_take_sums_where_the_device_can),
};

TEST_GROUP(forward_ops, "web", tests, .setup = seed, .teardown = test_backends_close);
