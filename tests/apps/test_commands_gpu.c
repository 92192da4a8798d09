/* The command on a GPU: what it writes, what it counts, and what it refuses. */
#include <stdlib.h>

#include "support/command.h"
#include "support/converted.h"
#include "support/op_case.h"
#include "support/test.h"

#define BEGIN "-p", "Once upon a time"

static void the_text_of_the_cpu(void **state)
{
    (void)state;
    test_output cpu = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "-n", "6", "-q");
    assert_int_equal(cpu.code, 0);
    static const char *const flags[][2] = {{NULL},
                                           {"--gpu-steps", "1"},
                                           {"--gpu-layers", "3"},
                                           {"--gpu-layers", "all"},
                                           {"--no-fusion", "all"},
                                           {"--kernel", "ternary_vec_norm,ternary_vec_norm_gated_s4,bf16_vec1"},
                                           {"--no-fusion", "siblings,rope_attention"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const char *words[] = {"run", "-m",        test_small_model(), BEGIN,       "--greedy",  "-n", "6",
                               "-q",  "--backend", test_gpu_name(),    flags[i][0], flags[i][1], NULL};
        test_output gpu = test_tern(NULL, words);
        assert_string_equal(gpu.err, "");
        assert_int_equal(gpu.code, 0);
        assert_string_equal(gpu.out, cpu.out);
        test_output_free(&gpu);
    }
    test_output_free(&cpu);
}

static void the_host_chooses_and_says_so(void **state)
{
    (void)state;
    test_output o = TERN("run", "-m", test_small_model(), BEGIN, "--backend", test_gpu_name(), "--greedy", "-n", "2",
                         "--repetition-penalty", "1.1", "--gpu-steps", "4");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "note: --gpu-steps had no effect"));
    test_output_free(&o);
    o = TERN("run", "-m", test_small_model(), BEGIN, "--backend", test_gpu_name(), "--greedy", "-n", "2", "--gpu-steps",
             "4", "-v");
    assert_null(strstr(o.err, "note:"));
    assert_non_null(strstr(o.err, "that the device can read"));
    test_output_free(&o);
}

static double number_at(const json_t *o, const char *key)
{
    assert_true(json_is_number(json_object_get(o, key)));
    return json_number_value(json_object_get(o, key));
}

/* What issues and documents promise: dispatches a layer, submits, bytes, allocations. */
static void bench_counts(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("bench", "-m", test_small_model(), "--backend", test_gpu_name(), "-p", "4",
                                          "-n", "8", "-r", "1", "--gpu-steps", "1,4", "--json"));
    const json_t *rows = json_object_get(o, "results");
    assert_int_equal(json_array_size(rows), 2);
    assert_non_null(json_object_get(o, "device"));
    const json_t *machine = json_object_get(o, "machine");
    assert_true(json_string_length(json_object_get(machine, "driver")) > 0);
    assert_true(json_string_length(json_object_get(machine, "os")) > 5);
    assert_int_equal(json_string_length(json_object_get(machine, "date")), 20);
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = json_array_get(rows, i), *counters = json_object_get(row, "counters");
        const double steps = i ? 4 : 1;
        assert_true(number_at(row, "gpu_steps") == steps);
        assert_true(number_at(counters, "dispatches_per_layer") == 5);
        assert_true(number_at(counters, "submits_per_token") == 1 / steps);
        assert_true(number_at(counters, "downloaded_bytes_per_token") == 4 + 4 / steps);
        assert_true(number_at(counters, "device_allocations_per_token") == 0);
        assert_true(number_at(counters, "allocations_per_token") == 0);
        assert_true(number_at(counters, "buffers") > 20); /* most of them in memory that is held already */
        assert_true(number_at(counters, "reused_buffers") > 0.8 * number_at(counters, "buffers"));
        assert_true(number_at(counters, "barriers_per_layer") == 5);
        assert_true(number_at(counters, "barriers_per_token") <= number_at(counters, "dispatches_per_token") + 1);
        assert_true(number_at(row, "read_bandwidth") > 0);
    }
    json_decref(o);
}

/* What is measured is kept for this device, used, and gives the same text. */
static void tuned(void **state)
{
    (void)state;
    const char *folder = test_scratch("tuned-gpu");
    char before[4096] = "";
    if (getenv("XDG_CACHE_HOME")) snprintf(before, sizeof before, "%s", getenv("XDG_CACHE_HOME"));
    setenv("XDG_CACHE_HOME", folder, 1);
    json_t *o = test_tern_json(
        TERN_WORDS("tune", "-m", test_small_model(), "--backend", test_gpu_name(), "-b", "4", "--ms", "1", "--json"));
    const json_t *list = json_object_get(o, "choices"), *results = json_object_get(o, "results");
    size_t n_chosen = 0;
    for (size_t i = 0; i < json_array_size(results); i++)
        n_chosen += json_is_true(json_object_get(json_array_get(results, i), "chosen"));
    assert_true(n_chosen > 3 && json_array_size(results) > n_chosen);
    assert_int_equal(json_array_size(list), n_chosen); /* one for each product */
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        assert_true(number_at(c, "threads") == 0 && number_at(c, "tokens") >= 1);
        assert_true(json_string_length(json_object_get(c, "device")) > 0);
    }
    json_decref(o);
    test_output cpu = TERN("run", "-m", test_small_model(), BEGIN, "--greedy", "-n", "6", "-q");
    test_output gpu =
        TERN("run", "-m", test_small_model(), BEGIN, "--backend", test_gpu_name(), "--greedy", "-n", "6", "-q");
    assert_string_equal(gpu.err, "");
    assert_string_equal(gpu.out, cpu.out);
    test_output_free(&gpu);
    test_output_free(&cpu);
    if (*before) setenv("XDG_CACHE_HOME", before, 1);
    else unsetenv("XDG_CACHE_HOME");
}

static void profiled(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("bench", "-m", test_small_model(), "--backend", test_gpu_name(), "-p", "0",
                                          "-n", "2", "-r", "1", "--profile", "--json"));
    const json_t *row = json_array_get(json_object_get(o, "results"), 0);
    const json_t *decode = json_object_get(json_object_get(row, "profile"), "decode");
    double share = 0, count = 0;
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(decode, "dispatches"), i, r)
    {
        share += number_at(r, "share");
        count += number_at(r, "count_per_token");
    }
    assert_true(share > 0.999 && share < 1.001);
    assert_true(count == number_at(json_object_get(row, "counters"), "dispatches_per_token"));
    json_decref(o);
}

static void compared(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("compare", "-m", test_small_model(), "--backend", test_gpu_name(), "--ids",
                                          "1,31,608,1185,7", "--json"));
    assert_true(json_is_true(json_object_get(o, "ok")));
    assert_true(json_is_null(json_object_get(o, "first_difference")));
    assert_true(number_at(json_object_get(o, "cached_logits"), "cosine") > 0.999);
    json_decref(o);
}

static void listed(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("devices", "--json"));
    const json_t *vulkan = json_object_get(o, test_gpu_name());
    assert_null(json_object_get(vulkan, "problem"));
    assert_true(number_at(json_array_get(json_object_get(vulkan, "devices"), 0), "memory_bytes") > 0);
    json_decref(o);
}

static void refused(void **state)
{
    (void)state;
    const struct {
        const char *words[6], *message;
    } cases[] = {
        {{"run", "--backend", test_gpu_name(), "--device", "99"}, "no device 99"},
        {{"run", "--backend", test_gpu_name(), "--device", "no such thing"}, "no such thing"},
        {{"run", "--backend", test_gpu_name(), "--head", "exact"}, "head \"exact\" on vulkan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_output o = test_tern(NULL, cases[i].words);
        assert_int_equal(o.code, 1);
        if (!strstr(o.err, cases[i].message)) fail_msg("%s: \"%s\" expected", o.err, cases[i].message);
        test_output_free(&o);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_text_of_the_cpu),
    cmocka_unit_test(the_host_chooses_and_says_so),
    cmocka_unit_test(bench_counts),
    cmocka_unit_test(tuned),
    cmocka_unit_test(profiled),
    cmocka_unit_test(compared),
    cmocka_unit_test(listed),
    cmocka_unit_test(refused),
};

TEST_GROUP(commands_gpu, "devices long", tests, .teardown = test_backends_close);
