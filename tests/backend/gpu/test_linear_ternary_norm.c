/* Ternary layers on a GPU on f32 rows, with the norm in the same dispatch, and what is refused. */
#include "backend/gpu/linear_ternary_cases.h"

static void on_f32_rows(void **state)
{
    (void)state;
    static const uint32_t tokens[][2] = {{1, 1}, {6, 5}};
    tern_rng rng;
    test_seed(&rng);
    for (size_t i = 0; i < LINEAR_TERNARY_LAYERS; i++) {
        layer l = linear_ternary_layers[i];
        l.f32 = true;
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++)
            linear_ternary_check_layer(&rng, &l, WHOLE, tokens[k][0], tokens[k][1]);
    }
}

static void with_its_norm(void **state)
{
    (void)state;
    linear_ternary_with_their_norm(linear_ternary_layers, LINEAR_TERNARY_LAYERS, (const uint32_t[]){WHOLE, LEAST}, 2,
                                   3);
    linear_ternary_with_their_norm(linear_ternary_in_groups, LINEAR_TERNARY_IN_GROUPS, (const uint32_t[]){WHOLE}, 1, 2);
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
            linear_ternary_build(&b, &rng, &l, 1);
            test_case_floats(&b.c, b.x)[test_between(&rng, 0, l.cols - 1)] = odd[i];
            linear_ternary_run_with_norm(&b, which, &got, &want);
            const char *what = test_case_difference_of_rows(&b.c, b.out.value, 1, &got, &want, (test_tolerance){0});
            if (what) fail_msg("device %u, a row with %g: %s", which, (double)odd[i], what);
            test_results_free(&want);
            test_results_free(&got);
            linear_ternary_close_built(&b);
        }
}

static void what_it_refuses(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    layer l = {.encoding = "t160", .cols = 333, .n_parts = 1, .rows = {16}, .norm = true};
    built b;
    tern_error err = {0};
    linear_ternary_build(&b, &rng, &l, 1);
    tern_op op = b.c.graph.ops[1];
    op.in[TERN_LINEAR_X] = b.x;
    op.norm_weight = b.norm_weight;
    tern_backend *gpu = linear_ternary_device(WHOLE);
    assert_int_equal(gpu->supports(gpu, &b.c.graph, &op, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "multiple of 4"));
    linear_ternary_close_built(&b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(on_f32_rows),
    cmocka_unit_test(with_its_norm),
    cmocka_unit_test(with_the_norm_of_odd_rows),
    cmocka_unit_test(what_it_refuses),
};

TEST_GROUP(linear_ternary_norm, "gpu web waits", tests, .teardown = linear_ternary_close_devices);
