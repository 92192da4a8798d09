/* What the tests of ternary layers on GPUs share. */
#include "backend/gpu/linear_ternary_cases.h"

#include "backend/gpu/choices.h"
#include "quant/weight.h"

const layer linear_ternary_layers[LINEAR_TERNARY_LAYERS] = {
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

/* Those that kernels for rows of exactly 2560 and 6912 columns take, in whole groups of rows. */
const layer linear_ternary_in_groups[LINEAR_TERNARY_IN_GROUPS] = {
    {.encoding = "i2_s", .cols = 2560, .n_parts = 1, .rows = {96}, .residual = true},
    {.encoding = "i2_s", .cols = 2560, .n_parts = 1, .rows = {32}, .in_place = true, .row_scales = true},
    {.encoding = "t160", .cols = 2500, .n_parts = 3, .rows = {64, 32, 32}},
    {.encoding = "i2_s", .cols = 2560, .n_parts = 3, .rows = {64, 64, 64}, .row_scales = true, .residual = true},
    {.encoding = "i2_s", .cols = 2560, .n_parts = 2, .rows = {64, 64}, .gated = true, .activation = TERN_ACT_RELU2},
    {.encoding = "t160", .cols = 2500, .n_parts = 2, .rows = {32, 32}, .gated = true, .activation = TERN_ACT_SILU},
    {.encoding = "i2_s", .cols = 6912, .n_parts = 1, .rows = {64}, .residual = true},
    {.encoding = "t160", .cols = 6852, .n_parts = 1, .rows = {32}, .row_scales = true},
};

tern_backend *linear_ternary_devices[N_DEVICES];

tern_backend *linear_ternary_simulated(uint32_t which)
{
    static tern_gpu_choices large_tiles;
    const uint32_t lanes = which == SIMULATED_64 ? 64 : 32;
    const bool matrices = which >= SIMULATED_MATRICES;
    const tern_gpu_caps caps = {.subgroup_min = lanes,
                                .subgroup_max = lanes,
                                .workgroup_bytes = 49152,
                                .workgroup_invocations = 1024,
                                .max_groups = 65535,
                                .max_binding = 128 << 20,
                                .binding_alignment = 256,
                                .f16 = matrices,
                                .cooperative = matrices,
                                .int8_matrices = matrices,
                                .choices = which == SIMULATED_LARGE_TILES ? &large_tiles : NULL};
    tern_error err = {0};
    assert_ok(tern_gpu_choices_parse(
                  &large_tiles, "ternary_coop,ternary_coop_residual,ternary_coop_relu2,ternary_coop_silu", NULL, &err),
              err);
    if (!linear_ternary_devices[which])
        assert_ok(test_simulated_open(&linear_ternary_devices[which], &caps, &err), err);
    return linear_ternary_devices[which];
}

tern_backend *linear_ternary_device(uint32_t which)
{
    if (which >= SIMULATED_32) return linear_ternary_simulated(which);
    tern_backend *whole = test_gpu_backend(); /* skips where there is none */
    if (which == WHOLE) return whole;
    if (linear_ternary_devices[which]) return linear_ternary_devices[which];
    tern_gpu_caps limits = {.subgroup_min = 4,
                            .subgroup_max = 128,
                            .workgroup_bytes = 16384,
                            .workgroup_invocations = 128,
                            .max_groups = 65535,
                            .max_binding = which == SLICED ? 64 << 10 : 128 << 20};
    if (which == LEAST) limits.subgroup_min = limits.subgroup_max = 0;
    return linear_ternary_devices[which] = test_gpu_open(&limits);
}

int linear_ternary_close_devices(void **state)
{
    for (size_t i = 0; i < N_DEVICES; i++)
        if (linear_ternary_devices[i]) linear_ternary_devices[i]->close(linear_ternary_devices[i]);
    return test_backends_close(state);
}

void linear_ternary_add_row_scales(test_case *c, tern_view view)
{
    tern_weight *w = test_case_weight_of(c, view);
    float *scales = malloc(w->rows * sizeof *scales);
    for (uint32_t i = 0; i < w->rows; i++) scales[i] = 0.25f + tern_rng_f32(c->rng);
    w->row_scales = scales;
}

void linear_ternary_build(built *b, tern_rng *rng, const layer *l, uint32_t max_tokens)
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
        if (l->row_scales) linear_ternary_add_row_scales(&b->c, op.in[TERN_LINEAR_W + i]);
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

void linear_ternary_close_built(built *b)
{
    for (uint32_t i = 0; i < TEST_CASE_MAX_VALUES; i++)
        if (b->c.weights[i]) free((void *)(uintptr_t)b->c.weights[i]->row_scales);
    test_case_close(&b->c);
}

test_tolerance linear_ternary_tolerance_of(const layer *l)
{
    if (l->f32) return (test_tolerance){.absolute = 3e-8 * l->cols, .of_row = l->gated ? 1e-3 : 2e-6};
    /* e^g is off by as much of itself as g is off: by the rounding of numbers up to 88, and GELU's g is a cube's. */
    double steep = l->activation == TERN_ACT_RELU2 ? 2e-6 : 1e-4;
    if (l->gated) return (test_tolerance){.of_value = steep, .of_row = 1e-6};
    return (test_tolerance){.of_value = 2.5e-7, .of_row = l->residual || l->in_place || l->biases ? 2.5e-7 : 0};
}

void linear_ternary_check_layer(tern_rng *rng, const layer *l, uint32_t which, uint32_t max_tokens, uint32_t n_tokens)
{
    built b;
    print_message("%s, %u columns, %u parts of %u, %u, %u rows%s%s%s%s, %u of %u tokens, device %u\n", l->encoding,
                  l->cols, l->n_parts, l->rows[0], l->rows[1], l->rows[2], l->gated ? ", gated" : "",
                  l->residual ? ", residual" : "", l->row_scales ? ", row scales" : "", l->f32 ? ", f32" : "", n_tokens,
                  max_tokens, which);
    linear_ternary_build(&b, rng, l, max_tokens);
    test_case_compare(&b.c, linear_ternary_device(which), n_tokens, n_tokens, linear_ternary_tolerance_of(l));
    linear_ternary_close_built(&b);
}

void linear_ternary_run_with_norm(built *b, uint32_t which, test_results *got, test_results *want)
{
    test_case_run(&b->c, test_backend("cpu"), 1, 1, 1, want);
    tern_op *ops = b->c.graph.ops;
    ops[0] = ops[1];
    ops[0].in[TERN_LINEAR_X] = b->x;
    ops[0].norm_weight = b->norm_weight;
    ops[0].eps = 1e-5f;
    b->c.graph.n_ops = 1;
    test_case_run(&b->c, linear_ternary_device(which), 1, 1, 1, got);
}

bool linear_ternary_check_norm(tern_rng *rng, const layer *l, uint32_t which)
{
    built b;
    test_results want, got;
    linear_ternary_build(&b, rng, l, 1);
    linear_ternary_run_with_norm(&b, which, &got, &want);
    const char *what = test_case_difference_of_rows(&b.c, b.out.value, 1, &got, &want,
                                                    (test_tolerance){.absolute = 1e-4, .of_row = 4e-3});
    if (what) fail_msg("%s", what);
    bool same = !test_case_difference_of_rows(&b.c, b.out.value, 1, &got, &want,
                                              (test_tolerance){.of_value = 2e-6, .of_row = 2e-6});
    test_results_free(&want);
    test_results_free(&got);
    linear_ternary_close_built(&b);
    return same;
}

void linear_ternary_with_their_norm(const layer *list, size_t n_layers, const uint32_t which[], size_t n_devices,
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
            for (uint32_t k = 0; k < repeats; k++, n++) n_same += linear_ternary_check_norm(&rng, &l, which[d]);
        }
    print_message("%u of %u without a difference\n", n_same, n);
    assert_true(n_same * 4 > n * 3);
}
