/* The commands that measure: logits, perplexity, bench, compare. */
#include "apps/commands_cases.h"
#include "support/places.h"
#include "tern.h"

/* Ids of a golden input as "1,2,3". */
static char *ids_text(const int32_t *ids, uint32_t n)
{
    char *text = calloc(n + 1, 12), *at = text;
    for (uint32_t i = 0; i < n; i++) at += sprintf(at, "%s%d", i ? "," : "", ids[i]);
    return text;
}

static void check_logits(const char *model, const test_golden *golden, uint32_t input, bool hidden, double most)
{
    uint32_t n;
    char name[32];
    const int32_t *ids = test_golden_ids(golden, input, &n);
    char *text = ids_text(ids, n);
    snprintf(name, sizeof name, "%u.%s", input, hidden ? "hidden" : "logits");
    const tern_st_tensor *want = tern_safetensors_find(golden->file, name);
    test_output o =
        hidden ? TERN("logits", "-m", model, "--ids", text, "--hidden") : TERN("logits", "-m", model, "--ids", text);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.n_out, want->n_elements * 4);
    double error =
        test_rms_error((const float *)(void *)o.out, (const float *)(const void *)want->data, want->n_elements);
    if (!(error <= most)) fail_msg("%s of %s: off by %g", name, model, error);
    test_output_free(&o);
    free(text);
}

/* Folders without a tokenizer; the third input is longer than a piece of the output. In BitNet's longer inputs an
 * activation is rounded the other way, which infer.goldens follows. */
static void logits_are_the_golden_ones(void **state)
{
    (void)state;
    static const char *const models[] = {"bitnet", "llama"};
    for (size_t m = 0; m < 2; m++) {
        test_golden golden;
        const char *path = test_fixture(models[m]);
        char file[1200];
        snprintf(file, sizeof file, "%s/golden.safetensors", path);
        test_golden_open(&golden, file);
        for (uint32_t i = 0; i < golden.n_inputs; i++)
            check_logits(path, &golden, i, false, m == 0 && i > 0 ? 1e-2 : 2e-3);
        check_logits(path, &golden, 0, true, 2e-3);
        test_golden_close(&golden);
    }
}

/* A batch decides how many tokens are read at once, not what comes out. */
static void logits_in_small_batches(void **state)
{
    (void)state;
    const char *model = test_fixture("bitnet");
    for (int hidden = 0; hidden < 2; hidden++) {
        const char *what = hidden ? "--hidden" : NULL;
        test_output whole = TERN("logits", "-m", model, "--ids", "5,6,7", what);
        assert_int_equal(whole.code, 0);
        assert_true(whole.n_out > 0);
        static const char *const batches[] = {"1", "2", "200"};
        for (size_t i = 0; i < 3; i++) {
            test_output parts = TERN("logits", "-m", model, "--ids", "5,6,7", "-b", batches[i], what);
            if (parts.code != 0) fail_msg("-b %s: %s", batches[i], parts.err);
            assert_int_equal(parts.n_out, whole.n_out);
            assert_memory_equal(parts.out, whole.out, whole.n_out);
            test_output_free(&parts);
        }
        test_output_free(&whole);
    }
}

/* The golden counts the first 4096 tokens of the text: a file of those. */
static const char *scored_text(void)
{
    tern_error err = {0};
    tern_engine *engine;
    tern_tokens ids = {0};
    tern_buf text = {0}, cut = {0};
    const char *path = test_scratch("cli-heldout.txt");
    assert_ok(tern_engine_load(&engine, test_small_model(), NULL, &err), err);
    assert_ok(tern_file_read(&text, test_heldout_file(), 1 << 20, &err), err);
    assert_ok(tern_engine_tokenize(engine, text.data, text.size, 0, &ids, &err), err);
    assert_true(ids.n >= 4096);
    assert_ok(tern_engine_detokenize(engine, ids.ids, 4096, false, &cut, &err), err);
    test_write_file(path, cut.data, cut.size);
    tern_engine_close(engine);
    tern_tokens_deinit(&ids);
    tern_buf_deinit(&text);
    tern_buf_deinit(&cut);
    return path;
}

static void perplexity_is_the_golden_one(void **state)
{
    (void)state;
    json_t *golden = commands_read_golden(test_model("tiny-stories-bitnet/golden_ppl.json"));
    json_t *o = test_tern_json(TERN_WORDS("perplexity", "-m", test_small_model(), scored_text(), "--window", "512",
                                          "--against", test_small_model(), "--json"));
    const double want = commands_number_at(golden, "ppl"), got = commands_number_at(o, "ppl");
    if (!(fabs(got - want) <= 0.005 * want)) fail_msg("perplexity %g, %g expected", got, want);
    assert_true(commands_number_at(o, "tokens_scored") == 4096 - 8);
    assert_true(commands_number_at(o, "windows") == 8);
    assert_true(fabs(commands_number_at(o, "kl")) < 1e-9);
    assert_true(commands_number_at(o, "same_top1") == 1);
    json_decref(golden);
    json_decref(o);
}

static void bench_reports_as_json(void **state)
{
    (void)state;
    json_t *o = test_tern_json(
        TERN_WORDS("bench", "-m", test_small_model(), "-p", "16", "-n", "4", "-r", "2", "-t", "1,2", "--json"));
    const json_t *results = json_object_get(o, "results");
    assert_int_equal(json_array_size(results), 2);
    assert_string_equal(json_string_value(json_object_get(o, "activations")), "int8");
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = json_array_get(results, i);
        const json_t *decode = json_object_get(row, "decode_tokens_per_second");
        assert_true(commands_number_at(row, "threads") == (double)(i + 1));
        assert_true(commands_number_at(row, "allocations_per_token") == 0);
        assert_true(commands_number_at(row, "weight_bytes_per_token") > 2.5e6);
        assert_true(commands_number_at(row, "read_bandwidth") > 0);
        assert_true(commands_number_at(row, "operations_share") > 0);
        assert_true(commands_number_at(decode, "min") <= commands_number_at(decode, "median"));
        assert_true(commands_number_at(decode, "median") <= commands_number_at(decode, "max"));
    }
    json_decref(o);
}

static void compare_finds_no_difference(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("compare", "-m", test_small_model(), "--reference", "cpu:scalar", "--json"));
    assert_true(json_is_true(json_object_get(o, "ok")) && json_is_true(json_object_get(o, "identical")));
    assert_true(json_is_null(json_object_get(o, "first_difference")));
    assert_true(json_array_size(json_object_get(o, "ops")) > 100);
    assert_string_equal(commands_text_at(o, "reference"), "cpu:scalar");
    json_decref(o);
    test_output text =
        TERN("compare", "-m", test_small_model(), "--ids", "1,2,3,4", "--no-fusion", "siblings", "--unfused");
    assert_int_equal(text.code, 0);
    assert_non_null(strstr(text.out, "all bits are the same"));
    test_output_free(&text);
}

/* The activations of dense layers stand beside the figures that they change; compare takes f32 by default. */
static void dense_activations_are_told(void **state)
{
    (void)state;
    static const char model[] = TERN_SOURCE_DIR "/tests/data/dense/stories-dense.gguf";
    static const char *const modes[] = {"auto", "int8", "f32", "f16"}, *const told[] = {"int8", "int8", "f32", "f16"};
    const char *text = test_scratch("story.txt");
    double nll[4];
    test_write_text(text,
                    "Once upon a time there was a kind girl named Mia. Mia went to the meadow with a bowl of soup.");
    for (int i = 0; i < 4; i++) {
        json_t *o = test_tern_json(TERN_WORDS("perplexity", "-m", model, text, "--window", "16", "--backend", "cpu",
                                              "--activations", modes[i], "--json"));
        assert_string_equal(commands_text_at(o, "activations"), told[i]);
        nll[i] = commands_number_at(o, "nll");
        json_decref(o);
    }
    assert_true(nll[0] == nll[1] && nll[0] != nll[2] && fabs(nll[0] - nll[2]) < 0.01);
    assert_true(nll[3] != nll[2] && fabs(nll[3] - nll[2]) < 0.001);
    for (int i = 0; i < 4; i++) {
        json_t *o = test_tern_json(TERN_WORDS("compare", "-m", model, "--backend", "cpu", "--reference", "cpu:scalar",
                                              "--activations", modes[i], "--json"));
        assert_true(json_is_true(json_object_get(o, "identical")));
        json_decref(o);
    }
}

static void bench_shows_where_time_goes(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("bench", "-m", test_small_model(), "-p", "8", "-n", "4", "-r", "1", "-t", "1",
                                          "--profile", "--json"));
    const json_t *profile = json_object_get(json_array_get(json_object_get(o, "results"), 0), "profile");
    double shares = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(json_object_get(profile, "decode"), "dispatches"), i, row) shares +=
        json_real_value(json_object_get(row, "share"));
    assert_true(shares > 0.999 && shares < 1.001);
    json_decref(o);
}

/* run and bench say what was moved; inspect where it lies. */
static void spilling_is_told(void **state)
{
    (void)state;
    const char *folder = test_scratch(".");
    json_t *texts[2], *statistics, *kv;
    for (int i = 0; i < 2; i++) { /* 256 KB of each of 8 layers */
        texts[i] = test_tern_json(TERN_WORDS("run", "-m", test_small_model(), "-p", "Once upon a time", "-n", "200",
                                             "-c", "256", "--greedy", "--kv", "f32", "--kv-memory", i ? "400K" : "all",
                                             "--kv-disk", folder, "--json"));
        statistics = json_object_get(texts[i], "statistics");
        kv = json_object_get(statistics, "kv");
        assert_int_equal(json_is_object(kv), i);
    }
    assert_true(commands_number_at(kv, "misses") > 0 && commands_number_at(kv, "copied_bytes") > 0);
    assert_true(json_equal(json_object_get(texts[0], "text"), json_object_get(texts[1], "text")));
    for (int i = 0; i < 2; i++) json_decref(texts[i]);
    json_t *o =
        test_tern_json(TERN_WORDS("bench", "-m", test_small_model(), "-p", "0", "-n", "4", "-d", "200", "-r", "1", "-t",
                                  "1", "--kv", "f32", "--kv-memory", "400K", "--kv-disk", folder, "--json"));
    assert_string_equal(json_string_value(json_object_get(o, "kv_disk")), folder);
    assert_true(commands_number_at(o, "kv_memory") == 400 << 10);
    kv = json_object_get(json_array_get(json_object_get(o, "results"), 0), "kv");
    assert_true(commands_number_at(kv, "misses_per_token") > 0 && commands_number_at(kv, "hits_per_token") > 0);
    json_decref(o);
    test_output printed =
        TERN("inspect", test_small_model(), "--memory", "-c", "256", "--kv-memory", "400K", "--kv-disk", folder);
    assert_int_equal(printed.code, 0);
    assert_non_null(strstr(printed.out, "disk     keys and values, all of them"));
    test_output_free(&printed);
    printed = TERN("run", "-m", test_small_model(), "-p", "a", "--kv-memory", "400K");
    assert_int_equal(printed.code, 2);
    assert_non_null(strstr(printed.err, "a folder for what has no room there"));
    test_output_free(&printed);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(logits_are_the_golden_ones),   cmocka_unit_test(logits_in_small_batches),
    cmocka_unit_test(perplexity_is_the_golden_one), cmocka_unit_test(bench_reports_as_json),
    cmocka_unit_test(compare_finds_no_difference),  cmocka_unit_test(dense_activations_are_told),
    cmocka_unit_test(bench_shows_where_time_goes),  cmocka_unit_test(spilling_is_told),
};

TEST_GROUP(measuring_commands, "gpu", tests);
