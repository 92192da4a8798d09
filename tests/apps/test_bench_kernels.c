/* `tern bench --kernels`: measured, shown and drawn. */
#include "apps/tune_cases.h"

#include "tern/bytes.h"

static void kernels_are_measured_and_drawn(void **state)
{
    (void)state;
    const char *svg = test_scratch("kernels.svg");
    test_output o = TERN("bench", "--kernels", "--shapes", "64x128,100x256", QUICK, "--plot", svg, "-f");
    if (o.code) fail_msg("%s", o.err);
    assert_non_null(strstr(o.out, "64 x 128"));
    assert_non_null(strstr(o.out, "dot i2_s"));
    assert_non_null(strstr(o.out, "dot t160"));
    assert_non_null(strstr(o.out, "2 threads"));
    test_output_free(&o);
    tern_buf text = {0};
    tern_error err = {0};
    assert_ok(tern_file_read(&text, svg, 1 << 20, &err), err);
    assert_non_null(strstr(text.data, ">roofline</text>"));
    assert_non_null(strstr(text.data, ">rsr</text>"));
    assert_non_null(strstr(text.data, ">64 x 128</text>"));
    assert_non_null(strstr(text.data, "weights cold, 1 thread<"));
    assert_non_null(strstr(text.data, "weights cold, 2 threads<"));
    assert_null(strstr(text.data, "nan"));
    assert_null(strstr(text.data, "inf"));
    tern_buf_deinit(&text);
    json_t *made = test_tern_json(TERN_WORDS("bench", "--kernels", "--shapes", "64x256", QUICK, "--json"));
    const json_t *results = json_object_get(made, "results");
    assert_int_equal(json_array_size(results), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *kernels = json_object_get(json_array_get(results, i), "kernels");
        assert_true(json_array_size(kernels) >= 5); /* four encodings, and more */
        for (size_t k = 0; k < json_array_size(kernels); k++)
            assert_true(json_number_value(json_object_get(json_array_get(kernels, k), "microseconds")) >= 0);
    }
    json_decref(made);
}

/* Where no encoding of files has the shape, the kernels are measured that can; the others are named. */
static void odd_shapes_are_measured(void **state)
{
    (void)state;
    test_output o = TERN("bench", "--kernels", "--shapes", "1x1,97x101", QUICK);
    if (o.code) fail_msg("%s", o.err);
    assert_non_null(strstr(o.out, "97 x 101"));
    assert_non_null(strstr(o.out, "rsr"));
    assert_non_null(strstr(o.out, "not measured: 97 x 101: i2_s: found"));
    test_output_free(&o);
    json_t *made = test_tern_json(TERN_WORDS("bench", "--kernels", "--shapes", "97x101", QUICK, "--json"));
    assert_true(json_array_size(json_object_get(made, "left_out")) >= 3);
    json_decref(made);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(kernels_are_measured_and_drawn, tune_set_up),
    cmocka_unit_test_setup(odd_shapes_are_measured, tune_set_up),
};

TEST_GROUP(bench_kernels, "slow", tests);
