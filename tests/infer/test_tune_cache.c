/* The file of measured choices: written, read, replaced, refused; random damage. */
#include "support/test.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "infer/tune/cache.h"
#include "quant/encoding.h"
#include "support/kernels.h"

static tern_rng rng;

static tern_kernel_choice choice_of(const char *encoding, uint32_t rows, uint32_t cols, uint32_t threads,
                                    const char *kernel)
{
    tern_kernel_choice c = {
        .encoding = tern_encoding_by_name(encoding), .rows = rows, .cols = cols, .n_threads = threads};
    snprintf(c.kernel, sizeof c.kernel, "%s", kernel);
    return c;
}

static tern_tune_cache sample(void)
{
    tern_tune_cache c;
    tern_error err = {0};
    tern_kernel_choice a = choice_of("i2_s", 2560, 6912, 2, "rsr:6"), b = choice_of("t160", 1, 1, 1024, "dot");
    a.task_rows = 1024;
    assert_ok(tern_tune_cache_init(&c, "A \"CPU\", \xc3\xbc", "0.1.0, gcc", &err), err);
    assert_ok(tern_tune_cache_add(&c, &a, &(tern_tune_cost){4423680, 254.125, 300.5}, &err), err);
    assert_ok(tern_tune_cache_add(&c, &b, &(tern_tune_cost){0, 0, 0.001}, &err), err);
    tern_kernel_choice gpu = choice_of("q4_k", 2560, 6912, 0, "q4_k_vec1_8x4_s8");
    gpu.tokens = 1;
    snprintf(gpu.device, sizeof gpu.device, "A \"GPU\", 1.2");
    assert_ok(tern_tune_cache_add(&c, &gpu, &(tern_tune_cost){4423680, 2.125, 3.5}, &err), err);
    const tern_tune_decoded one = {"m\"\xc3\xbc", 1, 12.5, 13.25, 3, 1}, two = {"m\"\xc3\xbc", 2, 12, 12, 0, 0};
    assert_ok(tern_tune_cache_add_decode(&c, &one, &err), err);
    assert_ok(tern_tune_cache_add_decode(&c, &two, &err), err);
    return c;
}

static void same(const tern_tune_cache *a, const tern_tune_cache *b)
{
    assert_string_equal(a->cpu, b->cpu);
    assert_string_equal(a->build, b->build);
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert_ptr_equal(a->choices[i].encoding, b->choices[i].encoding);
        assert_int_equal(a->choices[i].rows, b->choices[i].rows);
        assert_int_equal(a->choices[i].cols, b->choices[i].cols);
        assert_int_equal(a->choices[i].n_threads, b->choices[i].n_threads);
        assert_int_equal(a->choices[i].task_rows, b->choices[i].task_rows);
        assert_string_equal(a->choices[i].kernel, b->choices[i].kernel);
        assert_int_equal(a->choices[i].tokens, b->choices[i].tokens);
        assert_string_equal(a->choices[i].device, b->choices[i].device);
        assert_int_equal(a->costs[i].bytes, b->costs[i].bytes);
        assert_true(a->costs[i].microseconds == b->costs[i].microseconds);
        assert_true(a->costs[i].default_microseconds == b->costs[i].default_microseconds);
    }
    assert_int_equal(a->n_decodes, b->n_decodes);
    for (size_t i = 0; i < a->n_decodes; i++) {
        assert_string_equal(a->decodes[i].model, b->decodes[i].model);
        assert_int_equal(a->decodes[i].n_threads, b->decodes[i].n_threads);
        assert_true(a->decodes[i].standard == b->decodes[i].standard);
        assert_true(a->decodes[i].tuned == b->decodes[i].tuned);
        assert_int_equal(a->decodes[i].n_choices, b->decodes[i].n_choices);
        assert_int_equal(a->decodes[i].n_left_out, b->decodes[i].n_left_out);
    }
}

static tern_buf print(const tern_tune_cache *c)
{
    tern_buf out = {0};
    tern_error err = {0};
    assert_ok(tern_tune_cache_print(c, &out, &err), err);
    return out;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    tern_tune_cache c = sample(), back;
    tern_error err = {0};
    tern_buf text = print(&c);
    assert_ok(tern_tune_cache_parse(&back, text.data, text.size, &err), err);
    same(&c, &back);
    tern_buf again = print(&back);
    assert_int_equal(text.size, again.size);
    assert_memory_equal(text.data, again.data, text.size);
    tern_buf_deinit(&again);
    tern_buf_deinit(&text);
    tern_tune_cache_deinit(&back);
    tern_tune_cache_deinit(&c);
}

static void an_empty_one_too(void **state)
{
    (void)state;
    tern_tune_cache c, back;
    tern_error err = {0};
    assert_ok(tern_tune_cache_init(&c, "", "", &err), err);
    tern_buf text = print(&c);
    assert_ok(tern_tune_cache_parse(&back, text.data, text.size, &err), err);
    assert_int_equal(back.n, 0);
    tern_buf_deinit(&text);
    tern_tune_cache_deinit(&back);
    tern_tune_cache_deinit(&c);
}

static void a_second_measurement_replaces_the_first(void **state)
{
    (void)state;
    tern_tune_cache c = sample();
    tern_error err = {0};
    const tern_kernel_choice again = choice_of("i2_s", 2560, 6912, 2, "t160"),
                             other = choice_of("i2_s", 2560, 6912, 1, "t160");
    assert_ok(tern_tune_cache_add(&c, &again, &(tern_tune_cost){1, 2, 3}, &err), err);
    assert_int_equal(c.n, 3);
    assert_string_equal(c.choices[0].kernel, "t160");
    assert_int_equal(c.choices[0].task_rows, 0);
    assert_int_equal(c.costs[0].bytes, 1);
    assert_ok(tern_tune_cache_add(&c, &other, &(tern_tune_cost){1, 2, 3}, &err), err);
    assert_int_equal(c.n, 4);
    tern_tune_cache_deinit(&c);
}

static void of_many_models_the_oldest_goes(void **state)
{
    (void)state;
    tern_tune_cache c = sample();
    tern_error err = {0};
    tern_tune_decoded d = {.n_threads = 1};
    for (int i = 0; i < TERN_TUNE_MAX_DECODES; i++) {
        snprintf(d.model, sizeof d.model, "model %d", i);
        assert_ok(tern_tune_cache_add_decode(&c, &d, &err), err);
    }
    assert_int_equal(c.n_decodes, TERN_TUNE_MAX_DECODES);
    assert_string_equal(c.decodes[0].model, "model 0");
    assert_string_equal(c.decodes[TERN_TUNE_MAX_DECODES - 1].model, d.model);
    tern_tune_cache_deinit(&c);
}

static void merging_replaces_and_adds(void **state)
{
    (void)state;
    tern_tune_cache c = sample(), more = sample();
    tern_error err = {0};
    const tern_kernel_choice other = choice_of("i2_s", 128, 6912, 1, "t160");
    assert_ok(tern_tune_cache_add(&more, &other, &(tern_tune_cost){1, 2, 3}, &err), err);
    more.decodes[0].tuned = 99;
    assert_ok(tern_tune_cache_merge(&c, &more, &err), err);
    same(&c, &more);
    tern_tune_cache_deinit(&more);
    tern_tune_cache_deinit(&c);
}

static void another_cpu_or_build_is_refused(void **state)
{
    (void)state;
    tern_tune_cache c = sample();
    tern_error err = {0};
    assert_ok(tern_tune_cache_check(&c, c.cpu, c.build, &err), err);
    assert_int_equal(tern_tune_cache_check(&c, "another", c.build, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "this one is \"another\""));
    assert_int_equal(tern_tune_cache_check(&c, c.cpu, "0.2.0", &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "measured by the build \"0.1.0, gcc\", this one is \"0.2.0\""));
    tern_tune_cache_deinit(&c);
}

#define HEAD "{\"format\": \"tern-tune\", \"version\": 2, \"cpu\": \"c\", \"build\": \"b\", \"choices\": ["
#define ENTRY(encoding, rows, threads, kernel, split, us)                                                              \
    "{\"encoding\": " encoding ", \"rows\": " rows ", \"cols\": 128, \"threads\": " threads ", \"kernel\": " kernel    \
    ", \"task_rows\": " split ", \"bytes\": 1, \"microseconds\": " us ", \"default_microseconds\": 2}"
#define TAIL "], \"decode\": []}"
#define DECODE(model, threads, rate, left)                                                                             \
    "{\"model\": " model ", \"threads\": " threads ", \"default_tokens_per_second\": 1, "                              \
    "\"tuned_tokens_per_second\": " rate ", \"choices\": 1, \"left_out\": " left "}"
#define WITH_DECODE HEAD GOOD "], \"decode\": ["
#define GOOD        ENTRY("\"i2_s\"", "64", "1", "\"rsr:6\"", "0", "1.5")

static void damage_has_a_message(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        tern_status status;
    } cases[] = {
        {"", "choices of kernels", TERN_MALFORMED},
        {"[]", "", TERN_MALFORMED},
        {"{}", "format", TERN_MALFORMED},
        {"{\"format\": \"other\"}", "\"other\" found, \"tern-tune\" expected", TERN_MALFORMED},
        {"{\"format\": \"tern-tune\", \"version\": 1}", "version: 1 found, 2 expected", TERN_UNSUPPORTED},
        {"{\"format\": \"tern-tune\", \"version\": 2, \"cpu\": 3}", "cpu", TERN_MALFORMED},
        {HEAD "]", "choices of kernels", TERN_MALFORMED},
        {HEAD "3]}", "choices[0]", TERN_MALFORMED},
        {HEAD GOOD ", " GOOD "]}", "choices[1]: i2_s, 64 x 128, 1 threads: a second choice found, one expected",
         TERN_MALFORMED},
        {HEAD ENTRY("\"i3_s\"", "64", "1", "\"dot\"", "0", "1") "]}", "encoding \"i3_s\"", TERN_MALFORMED},
        {HEAD ENTRY("\"q8_0\"", "64", "1", "\"dot\"", "0", "1") "]}", "a ternary one expected", TERN_MALFORMED},
        {HEAD ENTRY("\"i2_s\"", "0", "1", "\"dot\"", "0", "1") "]}", "0 x 128", TERN_MALFORMED},
        {HEAD ENTRY("\"i2_s\"", "-1", "1", "\"dot\"", "0", "1") "]}", "rows", TERN_MALFORMED},
        {HEAD ENTRY("\"i2_s\"", "64", "1025", "\"dot\"", "0", "1") "]}", "threads 1025", TERN_MALFORMED},
        {HEAD ENTRY("\"i2_s\"", "64", "1", "\"\"", "0", "1") "]}", "kernel \"\"", TERN_MALFORMED},
        {HEAD ENTRY("\"i2_s\"", "64", "1", "\"a b\"", "0", "1") "]}", "kernel \"a b\"", TERN_MALFORMED},
        {HEAD ENTRY("\"i2_s\"", "64", "1", "\"0123456789abcdef0123456789abcdef0123456789abcdef\"", "0", "1") "]}",
         "at most 47 bytes", TERN_MALFORMED},
        {HEAD ENTRY("\"i2_s\"", "64", "1", "\"d\\u0000t\"", "0", "1") "]}", "kernel", TERN_MALFORMED},
        {HEAD ENTRY("\"i2_s\"", "64", "1", "\"dot\"", "1025", "1") "]}", "task_rows 1025", TERN_MALFORMED},
        {HEAD ENTRY("\"i2_s\"", "64", "1", "\"dot\"", "0", "-1") "]}", "microseconds -1", TERN_MALFORMED},
        {HEAD ENTRY("\"i2_s\"", "64", "1", "\"dot\"", "0", "1e99") "]}", "microseconds 1e+99", TERN_MALFORMED},
        {HEAD GOOD "]}", "decode", TERN_MALFORMED},
        {WITH_DECODE "3]}", "decode[0]", TERN_MALFORMED},
        {WITH_DECODE DECODE("3", "1", "1", "0") "]}", "model", TERN_MALFORMED},
        {WITH_DECODE DECODE("\"m\\u0000\"", "1", "1", "0") "]}", "model", TERN_MALFORMED},
        {WITH_DECODE DECODE("\"m\"", "0", "1", "0") "]}", "threads 0", TERN_MALFORMED},
        {WITH_DECODE DECODE("\"m\"", "1", "-1", "0") "]}", "tuned -1", TERN_MALFORMED},
        {WITH_DECODE DECODE("\"m\"", "1", "1", "5000") "]}", "left_out 5000", TERN_MALFORMED},
        {WITH_DECODE DECODE("\"m\"", "1", "1", "0") ", " DECODE("\"m\"", "1", "2", "0") "]}",
         "decode[1]: m, 1 threads: a second entry found, one expected", TERN_MALFORMED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_tune_cache c;
        tern_error err = {0};
        const int64_t live = tern_alloc_live();
        assert_int_equal(tern_tune_cache_parse(&c, cases[i].text, strlen(cases[i].text), &err), cases[i].status);
        if (!strstr(err.message, cases[i].message))
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.message, cases[i].message);
        assert_int_equal(err.code, cases[i].status);
        assert_null(c.cpu);
        assert_int_equal(c.n, 0);
        assert_int_equal(tern_alloc_live(), live);
    }
    tern_tune_cache c;
    tern_error err = {0};
    assert_ok(tern_tune_cache_parse(&c, HEAD GOOD TAIL, strlen(HEAD GOOD TAIL), &err), err);
    tern_tune_cache_deinit(&c);
}

/* Whatever random damage leaves readable is a whole cache: it is written and read again to the same bytes. */
static void random_damage_is_refused_or_read_whole(void **state)
{
    (void)state;
    tern_tune_cache c = sample();
    tern_buf text = print(&c);
    uint32_t n_read = 0;
    for (int i = 0; i < 20000; i++) {
        tern_buf copy = {0};
        tern_error err = {0};
        tern_tune_cache out;
        assert_ok(tern_buf_add(&copy, text.data, text.size, &err), err);
        for (uint32_t k = test_between(&rng, 1, 3); k; k--)
            copy.data[test_between(&rng, 0, (uint32_t)copy.size - 1)] = (char)test_between(&rng, 32, 126);
        const size_t size = test_between(&rng, 0, 20) ? copy.size : test_between(&rng, 0, (uint32_t)copy.size);
        const tern_status status = tern_tune_cache_parse(&out, copy.data, size, &err);
        if (status == TERN_OK) {
            n_read++;
            tern_buf once = print(&out);
            tern_tune_cache back;
            assert_ok(tern_tune_cache_parse(&back, once.data, once.size, &err), err);
            tern_buf twice = print(&back);
            assert_int_equal(once.size, twice.size);
            assert_memory_equal(once.data, twice.data, once.size);
            tern_buf_deinit(&once);
            tern_buf_deinit(&twice);
            tern_tune_cache_deinit(&back);
        } else {
            assert_int_equal(err.code, status);
            assert_true(err.message[0]);
        }
        tern_tune_cache_deinit(&out);
        tern_buf_deinit(&copy);
    }
    assert_true(n_read > 100);
    tern_buf_deinit(&text);
    tern_tune_cache_deinit(&c);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    tern_tune_cache c = sample(), out;
    tern_buf text = print(&c);
    tern_status status = TERN_OUT_OF_MEMORY;
    const int64_t live = tern_alloc_live();
    for (uint64_t n = 1; status != TERN_OK; n++) {
        tern_error err = {0};
        tern_alloc_fail_after(n, true);
        status = tern_tune_cache_parse(&out, text.data, text.size, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        tern_tune_cache_deinit(&out);
        assert_int_equal(tern_alloc_live(), live);
    }
    tern_buf_deinit(&text);
    tern_tune_cache_deinit(&c);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_written_is_read),
    cmocka_unit_test(an_empty_one_too),
    cmocka_unit_test(a_second_measurement_replaces_the_first),
    cmocka_unit_test(of_many_models_the_oldest_goes),
    cmocka_unit_test(merging_replaces_and_adds),
    cmocka_unit_test(another_cpu_or_build_is_refused),
    cmocka_unit_test(damage_has_a_message),
    cmocka_unit_test(random_damage_is_refused_or_read_whole),
    cmocka_unit_test(every_allocation_may_fail),
};

TEST_GROUP(tune_cache, "", tests, .setup = seed);
