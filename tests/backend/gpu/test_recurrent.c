/* The GPU's ops with states of sequences, and what splits a projection for them, against the CPU. */
#include "support/recurrent_case.h"
#include "support/test.h"

static tern_rng rng;

#define MANY   .n_runs = 6, .lengths = {64, 1, 5, 70, 2, 3}
#define DECODE .n_runs = 5, .lengths = {1, 1, 1, 1, 1}
#define LONG   .n_runs = 1, .lengths = {200}

static const test_recurrent_shape convolutions[] = {
    {MANY, .channels = 70, .taps = 4},
    {MANY, .channels = 130, .taps = 2},
    {MANY, .channels = 5, .taps = 8},
    {MANY, .channels = 64, .taps = 1},
    {LONG, .channels = 40, .taps = 4},
    {DECODE, .channels = 200, .taps = 4},
    {DECODE, .n_sequences = 9, .channels = 33, .taps = 3},
};

/* Keys that the kernel has room for and fewer; values of one workgroup and more, not all of them used. */
static const test_recurrent_shape deltas[] = {
    {MANY, .heads = 4, .key_heads = 2, .keys = 32, .values = 64},
    {MANY, .heads = 2, .key_heads = 1, .keys = 128, .values = 128, .tiled = true},
    {MANY, .heads = 6, .key_heads = 2, .keys = 64, .values = 8, .tiled = true},
    {MANY, .heads = 6, .key_heads = 3, .keys = 100, .values = 40, .joined = true},
    {LONG, .heads = 4, .key_heads = 2, .keys = 128, .values = 128, .joined = true},
    {LONG, .heads = 1, .key_heads = 1, .keys = 60, .values = 200},
    {DECODE, .heads = 2, .key_heads = 2, .keys = 256, .values = 256},
    {DECODE, .n_sequences = 9, .heads = 4, .key_heads = 2, .keys = 128, .values = 128, .joined = true},
};

static void compare(test_recurrent_case *r)
{
    for (int kind = 0; kind < test_gpu_kinds(); kind++)
        test_recurrent_compare(r, test_gpu_backend_of((test_gpu_kind)kind));
    test_case_close(&r->c);
}

static void conv(void **state)
{
    (void)state;
    test_gpu_backend(); /* or skipped, with nothing allocated */
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) {
        test_recurrent_case r;
        test_conv_case(&r, &rng, &convolutions[i]);
        compare(&r);
    }
}

static void gated_delta(void **state)
{
    (void)state;
    test_gpu_backend();
    for (size_t i = 0; i < sizeof deltas / sizeof *deltas; i++) {
        test_recurrent_case r;
        test_delta_case(&r, &rng, &deltas[i]);
        compare(&r);
    }
}

/* The last of three keys in a row is that of the first again, so that its value takes the place of the first one's;
 * decays of almost 0 and almost 1. */
static void shares_and_decays_at_the_ends(void **state)
{
    (void)state;
    test_gpu_backend();
    static const float ends[] = {-90, -20, -5, 0, 5, 20, 90};
    enum { HEADS = 7, ROWS = 3 };
    const test_recurrent_shape shape = {
        .n_runs = 1, .lengths = {ROWS}, .heads = HEADS, .key_heads = 1, .keys = 32, .values = 8};
    test_recurrent_case r;
    test_delta_case(&r, &rng, &shape);
    const uint32_t stride = r.c.graph.values[r.a.value].cols, x_stride = r.c.graph.values[r.x.value].cols;
    for (uint32_t t = 0; t < ROWS; t++)
        for (uint32_t h = 0; h < HEADS; h++) {
            test_case_floats(&r.c, r.a)[t * stride + r.a.first_col + h] = ends[h];
            test_case_floats(&r.c, r.b)[t * stride + r.b.first_col + h] = ends[HEADS - 1 - h];
        }
    float *keys = test_case_floats(&r.c, r.x) + r.x.first_col + shape.keys;
    memcpy(keys + (size_t)2 * x_stride, keys, shape.keys * sizeof *keys);
    compare(&r);
}

static void split(void **state)
{
    (void)state;
    test_gpu_backend();
    static const uint32_t heads[] = {1, 3, 16}, dims[] = {1, 5, 64, 256};
    for (uint32_t i = 0; i < 12; i++) {
        const uint32_t dim = dims[i % 4], cols = heads[i / 4] * dim;
        test_case c;
        test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 5});
        const tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, 3 + 2 * cols, TEST_ORDINARY);
        const tern_view out = test_case_output(&c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols),
                        gate = test_case_output(&c, "gate", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
        test_case_add(&c, (tern_op){.kind = TERN_OP_SPLIT,
                                    .n_in = TERN_SPLIT_INPUTS,
                                    .in = {test_case_columns(x, 3, 2 * cols), gate},
                                    .head_dim = dim,
                                    .out = out});
        for (int kind = 0; kind < test_gpu_kinds(); kind++)
            test_case_compare(&c, test_gpu_backend_of((test_gpu_kind)kind), 4, 1, (test_tolerance){0});
        test_case_close(&c);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(conv),
    cmocka_unit_test(gated_delta),
    cmocka_unit_test(shares_and_decays_at_the_ends),
    cmocka_unit_test(split),
};

TEST_GROUP(recurrent_gpu, "gpu web simulated", tests, .setup = seed, .teardown = test_backends_close);
