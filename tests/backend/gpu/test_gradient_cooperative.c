/* Gradients on cooperative matrices, which drivers in software have not: on the simulated GPU; and the head's products
 * over a chunk of rows. */
#include "backend/gpu/gradient_cases.h"

/* Drivers in software have no cooperative matrices, the simulated GPU has. */
static tern_backend *cooperative_backend(void)
{
    if (gradient_cooperative) return gradient_cooperative;
    const tern_gpu_caps caps = {.subgroup_min = 32,
                                .subgroup_max = 32,
                                .workgroup_bytes = 49152,
                                .workgroup_invocations = 1024,
                                .max_groups = 65535,
                                .max_binding = 128 << 20,
                                .binding_alignment = 256,
                                .f16 = true,
                                .cooperative = true,
                                .device_fences = true};
    tern_error err = {0};
    assert_ok(test_simulated_open(&gradient_cooperative, &caps, &err), err);
    return gradient_cooperative;
}

/* LINEAR over a chunk of f32 rows, as the head of a training graph has it. */
static void run_head(uint32_t format, uint32_t n, uint32_t rows, tern_backend *backend)
{
    test_case c;
    const uint32_t cols =
        gradient_formats[format].block == 1 ? 4 * test_between(&gradient_rng, 16, 100) - rows % 4 : 256;
    test_case_open(&c, &gradient_rng, &(test_case_shape){.max_tokens = 64 + n, .max_outputs = n});
    tern_op op = {.kind = TERN_OP_LINEAR, .rows = TERN_ROWS_OUTPUTS, .n_in = 2, .n_parts = 1};
    op.in[TERN_LINEAR_X] = test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
    op.in[TERN_LINEAR_X].first_row = 64;
    op.in[TERN_LINEAR_W] = test_case_weight(&c, gradient_formats[format].name, rows, cols);
    op.out = test_case_output(&c, "y", TERN_ROWS_OUTPUTS, TERN_DTYPE_F32, rows);
    test_case_add(&c, op);
    test_results results;
    test_case_run(&c, backend, 64 + n, n, 1, &results);
    float *x = gradient_floats_of(&c, op.in[TERN_LINEAR_X]),
          *w = gradient_decoded(test_case_weight_of(&c, op.in[TERN_LINEAR_W]));
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t r = 0; r < rows; r++) {
            const product f32 = {0};
            gradient_sum sum = {0};
            for (uint32_t i = 0; i < cols; i++) gradient_add(&sum, &f32, x[t * cols + i], w[(size_t)r * cols + i]);
            gradient_check("y", &f32, t, r, test_results_row(&c, &results, op.out, t)[r], &sum, cols);
        }
    free(x);
    free(w);
    test_results_free(&results);
    test_case_close(&c);
}

/* Of some formats: the simulated GPU below has all, and drivers in software take half a minute to compile each. */
static void head_of_a_chunk(void **state)
{
    (void)state;
    test_seed(&gradient_rng);
    for (uint32_t f = 2; f < N_FORMATS; f++) {
        if (!test_takes(f, 7, 1)) continue;
        for (uint32_t n = 3; n < 50; n += 40) run_head(f, n, test_between(&gradient_rng, 17, 400), test_gpu_backend());
        run_head(f, 30, test_between(&gradient_rng, 1, 16), test_gpu_backend());
    }
}

static uint64_t runs_of(const char *word)
{
    uint64_t n = 0;
    for (size_t i = 0; i < TERN_GPU_PIPELINE_COUNT; i++)
        if (strstr(tern_gpu_pipelines[i].name, word)) n += test_simulated_use[i].runs;
    return n;
}

static void cooperative_matrices(void **state)
{
    (void)state;
    test_on_simulated_gpu();
    test_seed(&gradient_rng);
    tern_backend *backend = cooperative_backend();
    uint32_t n_dx = 0, n_ternary = 0, n_heads = 0;
    for (uint32_t f = 0; f < N_FORMATS; f++) {
        if (!test_takes(f, 5, 2)) continue; /* the simulated GPU takes seconds for each */
        const product d = {.encoding = gradient_formats[f].name,
                           .rows = test_between(&gradient_rng, 66, 130),
                           .cols = gradient_formats[f].block == 1 ? test_between(&gradient_rng, 64, 200) : 256,
                           .n = 70,
                           .residual = f % 2,
                           .uneven = true,
                           .row_scales = f == 0};
        print_message("%s: %u x %u\n", d.encoding, d.rows, d.cols);
        gradient_run_dx(&d, backend);
        n_dx++;
        n_ternary += f < 2;
    }
    gradient_run_dx(&(product){.encoding = "i2_s", .rows = 130, .cols = 256, .n = 140, .gap = 3, .residual = true},
                    backend);
    gradient_run_dx(&(product){.encoding = "bf16", .rows = 77, .cols = 100, .n = 66, .first_row = 64}, backend);
    gradient_run_dx(&(product){.encoding = "f16", .rows = 64, .cols = 90, .n = 70, .residual = true, .in_place = true},
                    backend);
    for (int q8 = 0; q8 < 2; q8++)
        for (int gap = 0; gap < 5; gap += 2)
            gradient_run_dw(&(product){.encoding = q8 ? "q8" : "f32",
                                       .rows = 133,
                                       .cols = 140,
                                       .n = 70 + 40 * (uint32_t)gap,
                                       .gap = (uint32_t)gap,
                                       .uneven = gap == 0},
                            backend);
    gradient_run_dw(&(product){.encoding = "f32", .rows = 64, .cols = 64, .n = 64, .first_row = 64}, backend);
    for (uint32_t f = 2; f < N_FORMATS; f++) {
        if (!test_takes(f, 5, 1)) continue;
        run_head(f, 64 + f, 65 + 3 * f, backend);
        n_heads++;
    }
    assert_int_equal(runs_of("DX_TERNARY_COOP"), n_ternary + 1);
    assert_int_equal(runs_of("DW_Q8_COOP"), 3);
    assert_int_equal(runs_of("DW_F32_COOP"), 4);
    assert_int_equal(runs_of("_COOP"), (n_dx + 3) + 7 + n_heads); /* dx, dw, heads */
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(head_of_a_chunk),
    cmocka_unit_test(cooperative_matrices),
};

TEST_GROUP(gradient_cooperative, "gpu kernels slow web", tests, .teardown = gradient_close_all);
