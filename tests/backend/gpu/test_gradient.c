/* Gradients of linear layers on a GPU, and the head's products over a chunk of rows, against sums in f64. */
#include "backend/gpu/gradient_cases.h"

static tern_backend *small_backend(void)
{
    test_gpu_backend(); /* skips where there is no device */
    if (gradient_small) return gradient_small;
    static const tern_gpu_caps limits = {.workgroup_bytes = 16384,
                                         .workgroup_invocations = 128,
                                         .max_groups = 65535,
                                         .max_binding = 65536,
                                         .binding_alignment = 256};
    return gradient_small = test_gpu_open(&limits);
}

static uint32_t some_cols(uint32_t format, uint32_t most)
{
    uint32_t block = gradient_formats[format].block;
    return block * test_between(&gradient_rng, 1, most / block);
}

static void every_format(void **state)
{
    (void)state;
    enum { N_TOKENS = 4 };
    static const uint32_t tokens[N_TOKENS] = {1, 7, 70, 150};
    test_seed(&gradient_rng);
    for (int kind = 0; kind < test_gpu_kinds(); kind++)
        for (uint32_t f = 0; f < N_FORMATS; f++)
            for (size_t i = 0; i < N_TOKENS; i++) {
                if (!test_takes(f * N_TOKENS + i + (size_t)kind, 11, N_TOKENS)) continue;
                const product d = {.encoding = gradient_formats[f].name,
                                   .rows = test_between(&gradient_rng, 1, 300),
                                   .cols = some_cols(f, 520),
                                   .n = tokens[i],
                                   .row_scales = f == 0 && i % 2};
                print_message("%s: %u x %u, %u tokens\n", d.encoding, d.rows, d.cols, d.n);
                gradient_run_dx(&d, test_gpu_backend_of((test_gpu_kind)kind));
            }
}

static const product views[] = {
    {.encoding = "i2_s", .rows = 65, .cols = 128, .n = 20, .gap = 3},
    {.encoding = "i2_s", .rows = 64, .cols = 128, .n = 20, .gap = 4, .residual = true},
    {.encoding = "f16", .rows = 64, .cols = 90, .n = 20, .gap = 4, .residual = true, .in_place = true},
    {.encoding = "f32", .rows = 700, .cols = 16, .n = 40, .residual = true},
    {.encoding = "f32", .rows = 700, .cols = 13, .n = 40, .gap = 1, .residual = true, .in_place = true},
    {.encoding = "bf16", .rows = 16, .cols = 333, .n = 40, .residual = true, .in_place = true},
    {.encoding = "f16", .rows = 1000, .cols = 130, .n = 33, .first_row = 64},
    {.encoding = "q6_k", .rows = 1000, .cols = 256, .n = 33, .first_row = 64, .residual = true, .in_place = true},
};

static void views_and_residuals(void **state)
{
    (void)state;
    test_seed(&gradient_rng);
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) gradient_run_dx(&views[i], test_gpu_backend());
}

/* Shapes that the tensor cores of CUDA share among blocks in several ways. */
static void large_products(void **state)
{
    (void)state;
    static const product inputs[] = {
        {.encoding = "i2_s", .rows = 7000, .cols = 256, .n = 70, .uneven = true},
        {.encoding = "i2_s", .rows = 2100, .cols = 640, .n = 200, .gap = 3, .residual = true},
        {.encoding = "i2_s", .rows = 150, .cols = 1280, .n = 2050, .row_scales = true},
        {.encoding = "f32", .rows = 1100, .cols = 330, .n = 140, .residual = true, .in_place = true},
        {.encoding = "i2_s", .rows = 1400, .cols = 384, .n = 130, .runs = true},
        {.encoding = "i2_s", .rows = 300, .cols = 256, .n = 20, .runs = true},
    };
    static const product of_weights[] = {{.rows = 300, .cols = 200, .n = 1100},
                                         {.rows = 200, .cols = 330, .n = 700, .uneven = true},
                                         {.rows = 200, .cols = 192, .n = 1000, .runs = true},
                                         {.rows = 20, .cols = 70, .n = 300, .runs = true}};
    if (strcmp(test_gpu_name(), "cuda") != 0) test_skip("the kernels are those of CUDA");
    test_seed(&gradient_rng);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) gradient_run_dx(&inputs[i], test_gpu_backend());
    for (int i = 0; i < 8; i++) {
        product d = of_weights[i / 2];
        d.encoding = i % 2 ? "q8" : "f32";
        gradient_run_dw(&d, test_gpu_backend());
    }
}

/* Both factors in bf16: one product where there were two or three. */
static void bf16(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {1, 70, 150, 600};
    static const product inputs[] = {
        {.encoding = "i2_s", .rows = 7000, .cols = 256, .n = 70, .uneven = true},
        {.encoding = "i2_s", .rows = 2100, .cols = 640, .n = 200, .gap = 3, .residual = true},
        {.encoding = "i2_s", .rows = 150, .cols = 1280, .n = 2050, .row_scales = true},
        {.encoding = "i2_s", .rows = 66, .cols = 2816, .n = 1030},
        {.encoding = "i2_s", .rows = 320, .cols = 1024, .n = 1030},
        {.encoding = "f32", .rows = 1100, .cols = 330, .n = 140, .residual = true, .in_place = true},
        {.encoding = "f32", .rows = 128, .cols = 70, .n = 40, .gap = 1, .residual = true, .in_place = true},
        {.encoding = "f16", .rows = 1000, .cols = 130, .n = 33, .first_row = 64},
        {.encoding = "i2_s", .rows = 1400, .cols = 384, .n = 130, .runs = true},
    };
    static const product of_weights[] = {
        {.rows = 300, .cols = 200, .n = 1100},
        {.rows = 200, .cols = 330, .n = 700, .uneven = true},
        {.rows = 37, .cols = 130, .n = 5, .gap = 3},
        {.rows = 1030, .cols = 2816, .n = 66},
        {.rows = 200, .cols = 192, .n = 1000, .runs = true},
        {.rows = 1500, .cols = 1410, .n = 3},
    };
    if (strcmp(test_gpu_name(), "cuda") != 0) test_skip("the kernels are those of CUDA");
    test_seed(&gradient_rng);
    for (uint32_t f = 0; f < N_FORMATS; f++) {
        const product d = {.encoding = gradient_formats[f].name,
                           .rows = test_between(&gradient_rng, 65, 300),
                           .cols = some_cols(f, 520),
                           .n = tokens[f % 4],
                           .row_scales = f == 0,
                           .bf16 = true};
        gradient_run_dx(&d, test_gpu_backend());
    }
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        product d = inputs[i];
        d.bf16 = true;
        gradient_run_dx(&d, test_gpu_backend());
    }
    for (size_t i = 0; i < 2 * sizeof of_weights / sizeof *of_weights; i++) {
        product d = of_weights[i / 2];
        d.encoding = i % 2 ? "q8" : "f32";
        d.bf16 = true;
        gradient_run_dw(&d, test_gpu_backend());
    }
}

static void slices(void **state)
{
    (void)state;
    if (strcmp(test_gpu_name(), "cuda") == 0) test_skip("CUDA has no slices");
    test_seed(&gradient_rng);
    for (uint32_t f = 0; f < N_FORMATS; f++) {
        gradient_run_dx(
            &(product){.encoding = gradient_formats[f].name, .rows = 701, .cols = 512, .n = 9, .residual = f % 2},
            small_backend());
        gradient_run_dx(&(product){.encoding = gradient_formats[f].name,
                                   .rows = 130,
                                   .cols = 512,
                                   .n = 20,
                                   .residual = true,
                                   .in_place = true},
                        small_backend());
    }
    gradient_run_dw(&(product){.encoding = "f32", .rows = 300, .cols = 100, .n = 9}, small_backend());
    gradient_run_dw(&(product){.encoding = "q8", .rows = 300, .cols = 100, .n = 9}, small_backend());
}

static const product weights[] = {
    {.rows = 1, .cols = 1, .n = 1},
    {.rows = 37, .cols = 130, .n = 5},
    {.rows = 130, .cols = 129, .n = 64, .gap = 4},
    {.rows = 131, .cols = 70, .n = 65, .gap = 3},
    {.rows = 16, .cols = 300, .n = 300},
    {.rows = 300, .cols = 16, .n = 300},
    {.rows = 40, .cols = 50, .n = 700},
    {.rows = 1500, .cols = 1410, .n = 3},
};

static void weight_gradients(void **state)
{
    (void)state;
    test_seed(&gradient_rng);
    for (int kind = 0; kind < test_gpu_kinds(); kind++)
        for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
            for (int q8 = 0; q8 < 2; q8++) {
                product d = weights[i];
                d.encoding = q8 ? "q8" : "f32";
                gradient_run_dw(&d, test_gpu_backend_of((test_gpu_kind)kind));
            }
    gradient_run_dw(&(product){.encoding = "f32", .rows = 301, .cols = 60, .n = 33, .first_row = 64},
                    test_gpu_backend());
}

/* The same twice gives the same bits: nothing depends on which workgroup comes first. */
static void same_bits(void **state)
{
    (void)state;
    test_case c;
    test_seed(&gradient_rng);
    test_case_open(&c, &gradient_rng, &(test_case_shape){.max_tokens = 200});
    tern_view dy = test_case_rows(&c, "dy", TERN_ROWS_TOKENS, 40, TEST_ORDINARY),
              x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, 60, TEST_ORDINARY),
              dw = test_case_state(&c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 40, 60, TEST_ORDINARY);
    test_case_add(&c,
                  (tern_op){.kind = TERN_OP_LINEAR_DW, .n_in = 3, .in = {dy, x, dw}, .out = {.value = TERN_NO_VALUE}});
    test_results a, b;
    test_case_run(&c, test_gpu_backend(), 200, 200, 1, &a);
    test_case_run(&c, test_gpu_backend(), 200, 200, 1, &b);
    assert_memory_equal(a.bytes[dw.value], b.bytes[dw.value], 40 * 60 * sizeof(float));
    test_results_free(&a);
    test_results_free(&b);
    test_case_close(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_format), cmocka_unit_test(views_and_residuals), cmocka_unit_test(large_products),
    cmocka_unit_test(slices),       cmocka_unit_test(weight_gradients),    cmocka_unit_test(same_bits),
    cmocka_unit_test(bf16),
};

TEST_GROUP(gradient, "gpu kernels slow web", tests, .teardown = gradient_close_all);
