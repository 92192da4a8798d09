/* Linear layers of ternary weights on a GPU, against the CPU backend: integers are exact, so floats differ by rounding
 * alone. */
#include <math.h>

#include "backend/gpu/pipelines.h"
#include "ops/operands.h"
#include "support/op_case.h"
#include "support/simulated.h"
#include "support/test.h"

typedef struct layer {
    const char *encoding;
    uint32_t cols, n_parts, rows[3];
    bool gated, residual, in_place, row_scales, f32, norm;
    tern_activation activation;
    uint32_t biases; /* a bit for each part that has one */
} layer;

typedef struct built {
    test_case c;
    tern_view norm_weight, quantized, x, out;
} built;

/* The device as it is, without subgroups and with the least of everything, and with bindings so small that weights come
 * in slices; the simulated GPU with subgroups of 32 and 64. */
enum { WHOLE, LEAST, SLICED, SIMULATED_32, SIMULATED_64, N_DEVICES };

static tern_backend *devices[N_DEVICES];

static tern_backend *simulated(uint32_t which)
{
    const uint32_t lanes = which == SIMULATED_32 ? 32 : 64;
    const tern_gpu_caps caps = {.subgroup_min = lanes,
                                .subgroup_max = lanes,
                                .workgroup_bytes = 49152,
                                .workgroup_invocations = 1024,
                                .max_groups = 65535,
                                .max_binding = 128 << 20,
                                .binding_alignment = 256};
    tern_error err = {0};
    if (!devices[which]) assert_ok(test_simulated_open(&devices[which], &caps, &err), err);
    return devices[which];
}

static tern_backend *device(uint32_t which)
{
    if (which >= SIMULATED_32) return simulated(which);
    tern_backend *whole = test_gpu_backend(); /* skips where there is none */
    if (which == WHOLE) return whole;
    if (devices[which]) return devices[which];
    tern_gpu_caps limits = {.subgroup_min = 4,
                            .subgroup_max = 128,
                            .workgroup_bytes = 16384,
                            .workgroup_invocations = 128,
                            .max_groups = 65535,
                            .max_binding = which == SLICED ? 64 << 10 : 128 << 20};
    if (which == LEAST) limits.subgroup_min = limits.subgroup_max = 0;
    return devices[which] = test_gpu_open(&limits);
}

static int close_devices(void **state)
{
    for (size_t i = 0; i < N_DEVICES; i++)
        if (devices[i]) devices[i]->close(devices[i]);
    return test_backends_close(state);
}

static void add_row_scales(test_case *c, tern_view view)
{
    tern_weight *w = test_case_weight_of(c, view);
    float *scales = malloc(w->rows * sizeof *scales);
    for (uint32_t i = 0; i < w->rows; i++) scales[i] = 0.25f + tern_rng_f32(c->rng);
    w->row_scales = scales;
}

static void build(built *b, tern_rng *rng, const layer *l, uint32_t max_tokens)
{
    test_case_open(&b->c, rng, &(test_case_shape){.max_tokens = max_tokens});
    tern_op op = {.kind = TERN_OP_LINEAR,
                  .n_parts = l->n_parts,
                  .n_in = 1 + l->n_parts,
                  .gated = l->gated,
                  .activation = l->activation};
    uint32_t cols = 0;
    if (l->norm) {
        b->x = test_case_rows(&b->c, "x", TERN_ROWS_TOKENS, l->cols, TEST_ORDINARY);
        b->norm_weight = test_case_norm_weight(&b->c, l->cols);
        b->quantized = test_case_output(&b->c, "quantized", TERN_ROWS_TOKENS, TERN_DTYPE_Q8, l->cols);
        test_case_add(&b->c, (tern_op){.kind = TERN_OP_NORM_QUANT,
                                       .n_in = 2,
                                       .in = {b->x, b->norm_weight},
                                       .eps = 1e-5f,
                                       .out = b->quantized});
        op.in[TERN_LINEAR_X] = b->quantized;
    } else if (l->f32) {
        tern_view wide = test_case_rows(&b->c, "x", TERN_ROWS_TOKENS, l->cols + 7, TEST_ORDINARY);
        op.in[TERN_LINEAR_X] = test_case_columns(wide, 3, l->cols);
    } else {
        op.in[TERN_LINEAR_X] = test_case_q8(&b->c, "x", TERN_ROWS_TOKENS, l->cols);
    }
    for (uint32_t i = 0; i < l->n_parts; i++) {
        op.in[TERN_LINEAR_W + i] = test_case_weight(&b->c, l->encoding, l->rows[i], l->cols);
        if (l->row_scales) add_row_scales(&b->c, op.in[TERN_LINEAR_W + i]);
        if (!l->gated || i == 0) cols += l->rows[i];
        if (l->biases >> i & 1) op.bias[i] = test_case_norm_weight(&b->c, l->rows[i]);
    }
    if (l->residual)
        op.residual =
            test_case_columns(test_case_rows(&b->c, "residual", TERN_ROWS_TOKENS, cols + 5, TEST_ORDINARY), 2, cols);
    b->out = test_case_output(&b->c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
    if (l->in_place) op.residual = b->out = test_case_rows(&b->c, "sum", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
    op.out = b->out;
    test_case_add(&b->c, op);
}

static void close_built(built *b)
{
    for (uint32_t i = 0; i < TEST_CASE_MAX_VALUES; i++)
        if (b->c.weights[i]) free((void *)(uintptr_t)b->c.weights[i]->row_scales);
    test_case_close(&b->c);
}

/* Two roundings of the product with the scale, one of the sum; exp of the device. */
static test_tolerance tolerance_of(const layer *l)
{
    if (l->f32) return (test_tolerance){.absolute = 3e-8 * l->cols, .of_row = l->gated ? 1e-3 : 2e-6};
    /* e^g is off by as much of itself as g is off: by the rounding of numbers up to 88, and GELU's g is a cube's. */
    double steep = l->activation == TERN_ACT_RELU2 ? 2e-6 : 1e-4;
    if (l->gated) return (test_tolerance){.of_value = steep, .of_row = 1e-6};
    return (test_tolerance){.of_value = 2.5e-7, .of_row = l->residual || l->in_place || l->biases ? 2.5e-7 : 0};
}

static void check_layer(tern_rng *rng, const layer *l, uint32_t which, uint32_t max_tokens, uint32_t n_tokens)
{
    built b;
    print_message("%s, %u columns, %u parts of %u, %u, %u rows%s%s%s%s, %u of %u tokens, device %u\n", l->encoding,
                  l->cols, l->n_parts, l->rows[0], l->rows[1], l->rows[2], l->gated ? ", gated" : "",
                  l->residual ? ", residual" : "", l->row_scales ? ", row scales" : "", l->f32 ? ", f32" : "", n_tokens,
                  max_tokens, which);
    build(&b, rng, l, max_tokens);
    test_case_compare(&b.c, device(which), n_tokens, n_tokens, tolerance_of(l));
    close_built(&b);
}

static const layer layers[] = {
    {.encoding = "i2_s", .cols = 128, .n_parts = 1, .rows = {1}},
    {.encoding = "i2_s", .cols = 384, .n_parts = 1, .rows = {131}, .residual = true},
    {.encoding = "i2_s", .cols = 2560, .n_parts = 1, .rows = {70}, .residual = true},
    {.encoding = "i2_s", .cols = 6912, .n_parts = 1, .rows = {35}, .row_scales = true},
    {.encoding = "i2_s", .cols = 2560, .n_parts = 3, .rows = {100, 40, 40}},
    {.encoding = "i2_s", .cols = 2560, .n_parts = 2, .rows = {90, 90}, .gated = true, .activation = TERN_ACT_RELU2},
    {.encoding = "i2_s", .cols = 640, .n_parts = 3, .rows = {200, 65, 33}},
    {.encoding = "i2_s", .cols = 256, .n_parts = 3, .rows = {100, 50, 50}, .row_scales = true, .residual = true},
    {.encoding = "i2_s", .cols = 896, .n_parts = 2, .rows = {64, 129}},
    {.encoding = "i2_s", .cols = 1280, .n_parts = 2, .rows = {97, 97}, .gated = true, .activation = TERN_ACT_RELU2},
    {.encoding = "i2_s",
     .cols = 512,
     .n_parts = 2,
     .rows = {150, 150},
     .gated = true,
     .activation = TERN_ACT_SILU,
     .row_scales = true},
    {.encoding = "tq2_0", .cols = 768, .n_parts = 1, .rows = {90}},
    {.encoding = "tq1_0", .cols = 256, .n_parts = 2, .rows = {40, 40}, .gated = true, .activation = TERN_ACT_SILU},
    {.encoding = "i2_s", .cols = 384, .n_parts = 2, .rows = {50, 50}, .gated = true, .activation = TERN_ACT_GELU},
    {.encoding = "t160", .cols = 333, .n_parts = 1, .rows = {77}, .residual = true},
    {.encoding = "t160", .cols = 65, .n_parts = 3, .rows = {16, 8, 8}},
    {.encoding = "i2_s",
     .cols = 16384,
     .n_parts = 1,
     .rows = {20}}, /* wider than the workgroup memory of the kernel for few tokens */
};

static const layer biased[] = {
    {.encoding = "i2_s", .cols = 384, .n_parts = 1, .rows = {131}, .biases = 1},
    {.encoding = "t160", .cols = 333, .n_parts = 3, .rows = {40, 20, 20}, .biases = 7},
    {.encoding = "i2_s", .cols = 640, .n_parts = 3, .rows = {64, 33, 33}, .biases = 4, .row_scales = true},
    {.encoding = "tq2_0", .cols = 256, .n_parts = 1, .rows = {70}, .biases = 1, .residual = true},
    {.encoding = "i2_s", .cols = 256, .n_parts = 2, .rows = {70, 30}, .biases = 2, .in_place = true},
    {.encoding = "i2_s", .cols = 128, .n_parts = 2, .rows = {50, 30}, .biases = 3, .f32 = true, .residual = true},
};

/* Those that kernels for rows of exactly 2560 and 6912 columns take, in whole groups of rows. */
static const layer in_groups[] = {
    {.encoding = "i2_s", .cols = 2560, .n_parts = 1, .rows = {96}, .residual = true},
    {.encoding = "i2_s", .cols = 2560, .n_parts = 1, .rows = {32}, .in_place = true, .row_scales = true},
    {.encoding = "t160", .cols = 2500, .n_parts = 3, .rows = {64, 32, 32}},
    {.encoding = "i2_s", .cols = 2560, .n_parts = 3, .rows = {64, 64, 64}, .row_scales = true, .residual = true},
    {.encoding = "i2_s", .cols = 2560, .n_parts = 2, .rows = {64, 64}, .gated = true, .activation = TERN_ACT_RELU2},
    {.encoding = "t160", .cols = 2500, .n_parts = 2, .rows = {32, 32}, .gated = true, .activation = TERN_ACT_SILU},
    {.encoding = "i2_s", .cols = 6912, .n_parts = 1, .rows = {64}, .residual = true},
    {.encoding = "t160", .cols = 6852, .n_parts = 1, .rows = {32}, .row_scales = true},
};

static void like_the_cpu(void **state)
{
    (void)state;
    static const uint32_t tokens[][2] = {{1, 1}, {2, 2}, {8, 3}, {5, 5}, {33, 33}, {70, 65}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++)
            check_layer(&rng, &layers[i], WHOLE, tokens[k][0], tokens[k][1]);
}

static void on_the_least_device(void **state)
{
    (void)state;
    static const uint32_t tokens[][2] = {{1, 1}, {3, 3}, {40, 37}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++)
            check_layer(&rng, &layers[i], LEAST, tokens[k][0], tokens[k][1]);
}

static void in_slices(void **state)
{
    (void)state;
    static const layer sliced[] = {
        {.encoding = "i2_s", .cols = 1024, .n_parts = 1, .rows = {600}, .residual = true},
        {.encoding = "i2_s", .cols = 1024, .n_parts = 2, .rows = {301, 301}, .gated = true, .row_scales = true},
        {.encoding = "i2_s", .cols = 512, .n_parts = 3, .rows = {900, 30, 30}, .row_scales = true, .residual = true},
        {.encoding = "i2_s", .cols = 512, .n_parts = 2, .rows = {30, 900}, .f32 = true},
    };
    static const uint32_t tokens[][2] = {{1, 1}, {9, 4}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof sliced / sizeof *sliced; i++)
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++)
            check_layer(&rng, &sliced[i], SLICED, tokens[k][0], tokens[k][1]);
}

static void with_a_bias(void **state)
{
    (void)state;
    static const uint32_t tokens[][2] = {{1, 1}, {9, 5}, {40, 37}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof biased / sizeof *biased; i++)
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++) {
            check_layer(&rng, &biased[i], WHOLE, tokens[k][0], tokens[k][1]);
            check_layer(&rng, &biased[i], LEAST, tokens[k][0], tokens[k][1]);
        }
    static const layer sliced = {
        .encoding = "i2_s", .cols = 512, .n_parts = 3, .rows = {900, 30, 30}, .row_scales = true, .biases = 3};
    check_layer(&rng, &sliced, SLICED, 9, 4);
}

/* The sum takes its addend's place. */
static void in_place(void **state)
{
    (void)state;
    static const uint32_t tokens[][2] = {{1, 1}, {6, 5}, {40, 35}};
    tern_rng rng;
    test_seed(&rng);
    for (uint32_t f32 = 0; f32 < 2; f32++)
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++) {
            const layer l = {.encoding = "i2_s", .cols = 640, .n_parts = 1, .rows = {75}, .in_place = true, .f32 = f32};
            check_layer(&rng, &l, WHOLE, tokens[k][0], tokens[k][1]);
        }
}

static void on_f32_rows(void **state)
{
    (void)state;
    static const uint32_t tokens[][2] = {{1, 1}, {6, 5}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        layer l = layers[i];
        l.f32 = true;
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++)
            check_layer(&rng, &l, WHOLE, tokens[k][0], tokens[k][1]);
    }
}

/* On the CPU as two ops; then the second with the norm of the first. */
static void run_with_norm(built *b, uint32_t which, test_results *got, test_results *want)
{
    test_case_run(&b->c, test_backend("cpu"), 1, 1, 1, want);
    tern_op *ops = b->c.graph.ops;
    ops[0] = ops[1];
    ops[0].in[TERN_LINEAR_X] = b->x;
    ops[0].norm_weight = b->norm_weight;
    ops[0].eps = 1e-5f;
    b->c.graph.n_ops = 1;
    test_case_run(&b->c, device(which), 1, 1, 1, got);
}

/* The op's norm joins it. On the CPU it stays an op of its own. Where an int8 value lies between two, the device may
 * round the other way: then every result of the row is off by a little; mostly none is. Returns whether all were as on
 * the CPU. */
static bool check_norm(tern_rng *rng, const layer *l, uint32_t which)
{
    built b;
    test_results want, got;
    build(&b, rng, l, 1);
    run_with_norm(&b, which, &got, &want);
    const char *what = test_case_difference_of_rows(&b.c, b.out.value, 1, &got, &want,
                                                    (test_tolerance){.absolute = 1e-4, .of_row = 4e-3});
    if (what) fail_msg("%s", what);
    bool same = !test_case_difference_of_rows(&b.c, b.out.value, 1, &got, &want,
                                              (test_tolerance){.of_value = 2e-6, .of_row = 2e-6});
    test_results_free(&want);
    test_results_free(&got);
    close_built(&b);
    return same;
}

static void with_their_norm(const layer *list, size_t n_layers, const uint32_t which[], size_t n_devices,
                            uint32_t repeats)
{
    tern_rng rng;
    test_seed(&rng);
    uint32_t n = 0, n_same = 0;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t i = 0; i < n_layers; i++) {
            layer l = list[i];
            l.norm = true;
            if (l.rows[0] == 1) l.rows[0] = 32; /* a sum alone may be small by chance */
            if (l.cols % 4 || (l.cols > 14848 && which[d] == LEAST)) continue;
            print_message("%s, %u columns, %u parts, device %u\n", l.encoding, l.cols, l.n_parts, which[d]);
            for (uint32_t k = 0; k < repeats; k++, n++) n_same += check_norm(&rng, &l, which[d]);
        }
    print_message("%u of %u without a difference\n", n_same, n);
    assert_true(n_same * 4 > n * 3);
}

static void with_its_norm(void **state)
{
    (void)state;
    with_their_norm(layers, sizeof layers / sizeof *layers, (const uint32_t[]){WHOLE, LEAST}, 2, 3);
    with_their_norm(in_groups, sizeof in_groups / sizeof *in_groups, (const uint32_t[]){WHOLE}, 1, 2);
}

/* The norm of a row with a NaN or an infinity, or whose squares are too large for f32, has no int8 but 0. */
static void with_the_norm_of_odd_rows(void **state)
{
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -2e19f};
    tern_rng rng;
    test_seed(&rng);
    for (uint32_t which = 0; which < N_DEVICES; which++)
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
            const layer l = {
                .encoding = "i2_s", .cols = 640, .n_parts = 1, .rows = {75}, .residual = true, .norm = true};
            built b;
            test_results want, got;
            build(&b, &rng, &l, 1);
            test_case_floats(&b.c, b.x)[test_between(&rng, 0, l.cols - 1)] = odd[i];
            run_with_norm(&b, which, &got, &want);
            const char *what = test_case_difference_of_rows(&b.c, b.out.value, 1, &got, &want, (test_tolerance){0});
            if (what) fail_msg("device %u, a row with %g: %s", which, (double)odd[i], what);
            test_results_free(&want);
            test_results_free(&got);
            close_built(&b);
        }
}

static void on_wide_subgroups(void **state)
{
    (void)state;
    test_on_simulated_gpu();
    tern_rng rng;
    test_seed(&rng);
    with_their_norm(layers, sizeof layers / sizeof *layers, (const uint32_t[]){SIMULATED_32, SIMULATED_64}, 2, 1);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (uint32_t which = SIMULATED_32; which <= SIMULATED_64; which++)
            if (layers[i].cols <= 6912) check_layer(&rng, &layers[i], which, 2, 1 + which % 2);
}

static void in_whole_groups(void **state)
{
    (void)state;
    test_on_simulated_gpu();
    static const tern_gpu_pipeline pipelines[] = {
        TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_FIXED_S32, TERN_GPU_TERNARY_VEC_NORM_8X5_FIXED_S32,
        TERN_GPU_TERNARY_VEC_NORM_GATED_8X5_FIXED_S32, TERN_GPU_TERNARY_VEC_NORM_16X7_ONE_FIXED_S32};
    with_their_norm(in_groups, sizeof in_groups / sizeof *in_groups, (const uint32_t[]){SIMULATED_32, SIMULATED_64}, 2,
                    1);
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++)
        if (test_simulated_use[pipelines[i]].runs < 4)
            fail_msg("%s: %llu runs, 4 expected", tern_gpu_pipelines[pipelines[i]].name,
                     (unsigned long long)test_simulated_use[pipelines[i]].runs);
}

static void what_it_refuses(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    layer l = {.encoding = "t160", .cols = 333, .n_parts = 1, .rows = {16}, .norm = true};
    built b;
    tern_error err = {0};
    build(&b, &rng, &l, 1);
    tern_op op = b.c.graph.ops[1];
    op.in[TERN_LINEAR_X] = b.x;
    op.norm_weight = b.norm_weight;
    tern_backend *gpu = device(WHOLE);
    assert_int_equal(gpu->supports(gpu, &b.c.graph, &op, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "multiple of 4"));
    close_built(&b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(like_the_cpu),      cmocka_unit_test(on_the_least_device),
    cmocka_unit_test(in_slices),         cmocka_unit_test(with_a_bias),
    cmocka_unit_test(in_place),          cmocka_unit_test(on_f32_rows),
    cmocka_unit_test(with_its_norm),     cmocka_unit_test(with_the_norm_of_odd_rows),
    cmocka_unit_test(on_wide_subgroups), cmocka_unit_test(in_whole_groups),
    cmocka_unit_test(what_it_refuses),
};

TEST_GROUP(linear_ternary, "gpu web", tests, .teardown = close_devices);
