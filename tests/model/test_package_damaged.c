/* Packages that are damaged, or say of their model what is not so. */
#include "model/package_cases.h"

static void assert_refused(tern_status status, const char *words)
{
    tern_model *model = NULL;
    int64_t live = tern_alloc_live();
    tern_error why = {0};
    tern_status got = tern_model_open(&model, package_dir, NULL, &why);
    if (!strstr(why.message, words)) fail_msg("'%s' is not in '%s'", words, why.message);
    assert_int_equal(got, status);
    assert_null(model);
    assert_int_equal(tern_alloc_live(), live);
}

static void damaged_shards(void **state)
{
    (void)state;
    char path[4300];
    snprintf(path, sizeof path, "%s", package_in_dir("shard_003.bin"));
    tern_buf shard = package_read_all(path);
    shard.data[12345] ^= 1;
    test_write_file(path, shard.data, shard.size);
    assert_refused(TERN_MALFORMED, "shard_003.bin: SHA-256 sum");
    shard.data[12345] ^= 1;
    test_write_file(path, shard.data, shard.size - 1);
    assert_refused(TERN_MALFORMED, "shard_003.bin: 300006 bytes found, 300007 expected");
    assert_int_equal(unlink(path), 0);
    assert_refused(TERN_NOT_FOUND, "shard_003.bin");
    test_write_file(path, shard.data, shard.size);
    tern_buf_deinit(&shard);
}

/* A manifest with one text in it replaced, and what is then said. */
static const struct {
    const char *from, *to;
    tern_status status;
    const char *words;
} edits[] = {
    {"\"rms_norm_eps\": 9.99999975e-6,", "", TERN_MALFORMED, "inference.rms_norm_eps: missing, a number expected"},
    {"\"rms_norm_eps\": 9.99999975e-6", "\"rms_norm_eps\": null", TERN_MALFORMED,
     "inference.rms_norm_eps: null found, a number expected"},
    {"\"rms_norm_eps\": 9.99999975e-6", "\"rms_norm_eps\": 1e-6", TERN_MALFORMED,
     "inference.rms_norm_eps: 1e-06 found, 9.99999975e-06 expected"},
    {"\"sliding_window\": null,", "", TERN_MALFORMED,
     "inference.sliding_window: missing, a whole number or null expected"},
    {"\"sliding_window\": null", "\"sliding_window\": 512", TERN_MALFORMED,
     "inference.sliding_window: 512 found, null expected, as the model's file says"},
    {"\"experts\": null", "\"experts\": {}", TERN_UNSUPPORTED, "inference.experts: object found, null expected"},
    {"\"experts\": null", "\"experts\": null, \"soft_cap\": 30", TERN_UNSUPPORTED,
     "inference.soft_cap: found, a field that is known expected"},
    {"\"scaling\": null", "\"scaling\": {\"type\": \"linear\"}", TERN_MALFORMED,
     "inference.rope.scaling.factor: missing, a number expected"},
    {"\"scaling\": null", "\"scaling\": {\"type\": \"linear\", \"factor\": 4}", TERN_MALFORMED,
     "inference.rope.scaling: object found, null expected"},
    {"\"base\": 500000.0", "\"base\": 10000", TERN_MALFORMED, "inference.rope.base: 10000 found, 500000 expected"},
    {"\"activation\": \"relu2\"", "\"activation\": \"silu\"", TERN_MALFORMED,
     "inference.activation: \"silu\" found, \"relu2\" expected"},
    {"\"tied_embeddings\": true", "\"tied_embeddings\": false", TERN_MALFORMED,
     "inference.tied_embeddings: false found, true expected"},
    {"\"eos\": 2044", "\"eos\": null", TERN_MALFORMED, "inference.eos: null found, 2044 expected"},
    {"\"chat_template\": null", "\"chat_template\": 5", TERN_MALFORMED,
     "inference.chat_template: number found, a text or null expected"},
    {"\"top_k\": 40", "\"top_k\": 2.5", TERN_MALFORMED,
     "inference.sampling.top_k: number found, a whole number or null expected"},
    {"\"parameters\": 6828288", "\"parameters\": 1000", TERN_MALFORMED, "parameters: 1000 found, 6828288 expected"},
    {"\"encoding\": \"i2_s\"", "\"encoding\": \"tq2_0\"", TERN_MALFORMED,
     "encoding: \"tq2_0\" found, \"i2_s\" expected"},
    {"\"format\": \"tern-package\"", "\"format\": \"other\"", TERN_MALFORMED,
     "format: \"other\" found, \"tern-package\" expected"},
    {"\"version\": 1", "\"version\": 3", TERN_UNSUPPORTED, "version: 3 found, 1 or 2 expected"},
    {"\"version\": 1", "\"version\": 2", TERN_MALFORMED, "shardingStrategy: missing, a text expected"},
    {"\"shard_000.bin\"", "\"../shard_000.bin\"", TERN_MALFORMED, "shards[0].file"},
    {"\"shard_000.bin\"", "\"shard_001.bin\"", TERN_MALFORMED, "shard_001.bin: SHA-256 sum"},
    {"\"bytes\": 2736736", "\"bytes\": 2736737", TERN_MALFORMED, "bytes: 2736737 found, the 2736736 of all shards"},
    {"\"bytes\": 300007", "\"bytes\": 300008", TERN_MALFORMED,
     "shards[0].bytes: 300008 found, 300007 (shard_bytes) expected"},
    {"\"sha256\": \"", "\"sha256\": \"X", TERN_MALFORMED, "shards[0].sha256"},
    {"\"shards\": [", "\"other\": [", TERN_MALFORMED, "shards: missing, a list expected"},
    {"{", "", TERN_MALFORMED, "manifest"},
};

static void write_edited(const tern_buf *text, const char *from, const char *to)
{
    char *at = strstr(text->data, from);
    if (!at) fail_msg("'%s' is not in the manifest", from);
    tern_buf out = {0};
    assert_ok(tern_buf_add(&out, text->data, (size_t)(at - text->data), &package_err), package_err);
    assert_ok(tern_buf_addf(&out, &package_err, "%s%s", to, at + strlen(from)), package_err);
    test_write_file(package_in_dir("manifest.json"), out.data, out.size);
    tern_buf_deinit(&out);
}

static void other_manifests(void **state)
{
    (void)state;
    tern_buf text = package_read_all(package_in_dir("manifest.json"));
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        write_edited(&text, edits[i].from, edits[i].to);
        assert_refused(edits[i].status, edits[i].words);
    }
    static const char *const fine[][2] = {
        {"\"rms_norm_eps\": 9.99999975e-6", "\"rms_norm_eps\": 0.00001"}, /* the same float */
        {"\"top_k\": 40", "\"top_k\": null"},                             /* off */
        {"\"temperature\": 0.8", "\"temperature\": 1"},
        {"\"version\": 1", "\"license\": \"MIT\", \"version\": 1"},
    };
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        tern_model *model;
        write_edited(&text, fine[i][0], fine[i][1]);
        assert_ok(tern_model_open(&model, package_dir, NULL, &package_err), package_err);
        tern_model_close(model);
    }
    test_write_file(package_in_dir("manifest.json"), text.data, text.size);
    tern_buf_deinit(&text);
}

static bool stop(void *context, float done)
{
    (void)done;
    return --*(int *)context > 0;
}

static void cancelled(void **state)
{
    (void)state;
    tern_model *model;
    int left = 2;
    tern_model_options how = {.progress = stop, .progress_context = &left};
    assert_int_equal(tern_model_open(&model, package_dir, &how, &package_err), TERN_CANCELLED);
    char other[4300];
    snprintf(other, sizeof other, "%s-stopped", package_dir);
    left = 2;
    tern_package_options writing = {.shard_bytes = SHARD, .progress = stop, .progress_context = &left};
    assert_int_equal(tern_package_write(package_bundled, other, &writing, &package_err), TERN_CANCELLED);
    assert_false(tern_file_exists(other));
    assert_int_equal(tern_package_write("/nowhere.gguf", other, NULL, &package_err), TERN_NOT_FOUND);
    assert_int_equal(tern_package_write(package_bundled, other, &(tern_package_options){.shard_bytes = (64 << 20) + 1},
                                        &package_err),
                     TERN_INVALID_ARGUMENT);
    assert_int_equal(
        tern_package_write(package_bundled, other, &(tern_package_options){.shard_bytes = 1}, &package_err),
        TERN_LIMIT);
    assert_int_equal(tern_package_write(package_bundled, "/nowhere/at/all", NULL, &package_err), TERN_NOT_FOUND);
}

static void failed_allocations_are_clean(void **state)
{
    (void)state;
    int64_t live = tern_alloc_live();
    for (uint64_t n = 1; n < 2000; n = n * 5 / 4 + 1) {
        tern_model *model = NULL;
        tern_alloc_fail_after(n, false);
        tern_status status = tern_model_open(&model, package_dir, NULL, NULL);
        tern_alloc_fail_after(0, false);
        tern_model_close(model);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_int_equal(tern_alloc_live(), live);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(damaged_shards),
    cmocka_unit_test(other_manifests),
    cmocka_unit_test(cancelled),
    cmocka_unit_test(failed_allocations_are_clean),
};

TEST_GROUP(package_damaged, "", tests, .setup = package_setup, .teardown = package_teardown);
