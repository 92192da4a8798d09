/* Linear layers of ternary weights on a GPU, against the CPU backend: integers are exact, so floats differ by rounding
 * alone. */
#include "backend/gpu/linear_ternary_cases.h"

static const layer biased[] = {
    {.encoding = "i2_s", .cols = 384, .n_parts = 1, .rows = {131}, .biases = 1},
    {.encoding = "t160", .cols = 333, .n_parts = 3, .rows = {40, 20, 20}, .biases = 7},
    {.encoding = "i2_s", .cols = 640, .n_parts = 3, .rows = {64, 33, 33}, .biases = 4, .row_scales = true},
    {.encoding = "tq2_0", .cols = 256, .n_parts = 1, .rows = {70}, .biases = 1, .residual = true},
    {.encoding = "i2_s", .cols = 256, .n_parts = 2, .rows = {70, 30}, .biases = 2, .in_place = true},
    {.encoding = "i2_s", .cols = 128, .n_parts = 2, .rows = {50, 30}, .biases = 3, .f32 = true, .residual = true},
};

static void like_the_cpu(void **state)
{
    (void)state;
    static const uint32_t tokens[][2] = {{1, 1}, {2, 2}, {8, 3}, {5, 5}, {33, 33}, {70, 65}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < LINEAR_TERNARY_LAYERS; i++)
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++)
            linear_ternary_check_layer(&rng, &linear_ternary_layers[i], WHOLE, tokens[k][0], tokens[k][1]);
}

static void on_the_least_device(void **state)
{
    (void)state;
    static const uint32_t tokens[][2] = {{1, 1}, {3, 3}, {40, 37}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < LINEAR_TERNARY_LAYERS; i++)
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++)
            linear_ternary_check_layer(&rng, &linear_ternary_layers[i], LEAST, tokens[k][0], tokens[k][1]);
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
            linear_ternary_check_layer(&rng, &sliced[i], SLICED, tokens[k][0], tokens[k][1]);
}

static void with_a_bias(void **state)
{
    (void)state;
    static const uint32_t tokens[][2] = {{1, 1}, {9, 5}, {40, 37}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof biased / sizeof *biased; i++)
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++) {
            linear_ternary_check_layer(&rng, &biased[i], WHOLE, tokens[k][0], tokens[k][1]);
            linear_ternary_check_layer(&rng, &biased[i], LEAST, tokens[k][0], tokens[k][1]);
        }
    static const layer sliced = {
        .encoding = "i2_s", .cols = 512, .n_parts = 3, .rows = {900, 30, 30}, .row_scales = true, .biases = 3};
    linear_ternary_check_layer(&rng, &sliced, SLICED, 9, 4);
}

static void on_wide_subgroups(void **state)
{
    (void)state;
    test_on_simulated_gpu();
    tern_rng rng;
    test_seed(&rng);
    linear_ternary_with_their_norm(linear_ternary_layers, LINEAR_TERNARY_LAYERS,
                                   (const uint32_t[]){SIMULATED_32, SIMULATED_64}, 2, 1);
    for (size_t i = 0; i < LINEAR_TERNARY_LAYERS; i++)
        for (uint32_t which = SIMULATED_32; which <= SIMULATED_64; which++)
            if (linear_ternary_layers[i].cols <= 6912)
                linear_ternary_check_layer(&rng, &linear_ternary_layers[i], which, 2, 1 + which % 2);
}

static void in_whole_groups(void **state)
{
    (void)state;
    test_on_simulated_gpu();
    static const tern_gpu_pipeline pipelines[] = {
        TERN_GPU_TERNARY_VEC_NORM_8X5_ONE_FIXED_S32, TERN_GPU_TERNARY_VEC_NORM_8X5_FIXED_S32,
        TERN_GPU_TERNARY_VEC_NORM_GATED_8X5_FIXED_S32, TERN_GPU_TERNARY_VEC_NORM_16X7_ONE_FIXED_S32};
    linear_ternary_with_their_norm(linear_ternary_in_groups, LINEAR_TERNARY_IN_GROUPS,
                                   (const uint32_t[]){SIMULATED_32, SIMULATED_64}, 2, 1);
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++)
        if (test_simulated_use[pipelines[i]].runs < 4)
            fail_msg("%s: %llu runs, 4 expected", tern_gpu_pipelines[pipelines[i]].name,
                     (unsigned long long)test_simulated_use[pipelines[i]].runs);
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
            linear_ternary_check_layer(&rng, &l, WHOLE, tokens[k][0], tokens[k][1]);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(like_the_cpu),    cmocka_unit_test(on_the_least_device),
    cmocka_unit_test(in_slices),       cmocka_unit_test(with_a_bias),
    cmocka_unit_test(in_place),        cmocka_unit_test(on_wide_subgroups),
    cmocka_unit_test(in_whole_groups),
};

TEST_GROUP(linear_ternary, "gpu web", tests, .teardown = linear_ternary_close_devices);
