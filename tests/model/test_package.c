/* Packages: what is written is the same everywhere, what is read is the model, and what is damaged is said. */
#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sha256.h"
#include "format/gguf.h"
#include "format/json.h"
#include "model/package.h"
#include "tern/infer.h"

static tern_error err;
static const char bundled[] = TERN_SOURCE_DIR "/models/stories.gguf";
enum { SHARD = 300007 }; /* so that tensors and the header lie across shards */

static char dir[4200];

static const char *in_dir(const char *name)
{
    static char path[4300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void remove_package(void)
{
    char name[32];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "shard_%03d.bin", i);
        unlink(in_dir(name));
    }
    unlink(in_dir("manifest.json"));
    rmdir(dir);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s", test_scratch("package"));
    remove_package();
    tern_status status = tern_package_write(bundled, dir, &(tern_package_options){.shard_bytes = SHARD}, &err);
    if (status != TERN_OK) print_error("%s\n", err.message);
    return status != TERN_OK;
}

static int teardown(void **state)
{
    (void)state;
    remove_package();
    return 0;
}

static tern_buf read_all(const char *path)
{
    tern_buf b = {0};
    assert_ok(tern_file_read(&b, path, SIZE_MAX / 2, &err), err);
    return b;
}

/* The published sums of FIPS 180-2, and of nothing. */
static void sums(void **state)
{
    (void)state;
    char digits[TERN_SHA256_DIGITS + 1];
    assert_ok(tern_sha256("abc", 3, digits, &err), err);
    assert_string_equal(digits, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ok(tern_sha256("", 0, digits, &err), err);
    assert_string_equal(digits, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void shards_are_the_file(void **state)
{
    (void)state;
    tern_manifest m;
    tern_buf file = read_all(bundled);
    size_t at = 0;
    assert_ok(tern_manifest_read(&m, in_dir("manifest.json"), &err), err);
    assert_int_equal(m.bytes, file.size);
    assert_int_equal(m.n_shards, (file.size + SHARD - 1) / SHARD);
    assert_string_equal(m.name, "stories");
    for (size_t i = 0; i < m.n_shards; i++) {
        char digits[TERN_SHA256_DIGITS + 1];
        tern_buf shard = read_all(in_dir(m.shards[i].file));
        assert_int_equal(m.shards[i].offset, at);
        assert_int_equal(shard.size, m.shards[i].bytes);
        assert_memory_equal(shard.data, file.data + at, shard.size);
        assert_ok(tern_sha256(shard.data, shard.size, digits, &err), err);
        assert_string_equal(digits, m.shards[i].sha256);
        at += shard.size;
        tern_buf_deinit(&shard);
    }
    assert_int_equal(at, file.size);
    tern_manifest_deinit(&m);
    tern_buf_deinit(&file);
}

/* Every tensor is where the manifest says, across shards. */
static void tensors_are_where_it_says(void **state)
{
    (void)state;
    tern_manifest m;
    tern_file_map map = {0};
    tern_gguf *g;
    assert_ok(tern_manifest_read(&m, in_dir("manifest.json"), &err), err);
    assert_ok(tern_file_map_open(&map, bundled, &err), err);
    assert_ok(tern_gguf_parse(&g, map.data, map.size, &err), err);
    const json_t *tensors = json_object_get(m.root, "tensors");
    assert_int_equal(json_array_size(tensors), tern_gguf_n_tensors(g));
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *t = json_array_get(tensors, i);
        int64_t shard, offset, bytes;
        assert_true(tern_json_int(json_object_get(t, "shard"), &shard));
        assert_true(tern_json_int(json_object_get(t, "offset"), &offset));
        assert_true(tern_json_int(json_object_get(t, "bytes"), &bytes));
        const tern_gguf_tensor *want = tern_gguf_find_tensor(g, json_string_value(json_object_get(t, "name")));
        assert_non_null(want);
        assert_ptr_equal(map.data + m.shards[shard].offset + offset, want->data);
        assert_int_equal(bytes, want->bytes);
    }
    tern_gguf_close(g);
    tern_file_map_close(&map);
    tern_manifest_deinit(&m);
}

static void same_bytes_again(void **state)
{
    (void)state;
    char first[2000];
    tern_buf a = read_all(in_dir("manifest.json"));
    assert_true(snprintf(first, sizeof first, "%s", dir) < (int)sizeof first);
    snprintf(dir, sizeof dir, "%s-again", first);
    remove_package();
    assert_int_equal(mkdir(dir, 0777), 0); /* an empty folder is taken */
    assert_ok(tern_package_write(bundled, dir, &(tern_package_options){.shard_bytes = SHARD}, &err), err);
    tern_buf b = read_all(in_dir("manifest.json"));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    assert_int_equal(tern_package_write(bundled, dir, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "is there already"));
    remove_package();
    snprintf(dir, sizeof dir, "%s", first);
    tern_buf_deinit(&a);
    tern_buf_deinit(&b);
}

static void models_are_the_same(void **state)
{
    (void)state;
    tern_model *a, *b;
    const char *const paths[] = {dir, in_dir("manifest.json")};
    assert_ok(tern_model_open(&a, bundled, NULL, &err), err);
    for (int i = 0; i < 2; i++) {
        assert_ok(tern_model_open(&b, paths[i], NULL, &err), err);
        assert_memory_equal(tern_model_config(a), tern_model_config(b), sizeof(tern_config));
        assert_int_equal(tern_model_bytes(a), tern_model_bytes(b));
        for (uint32_t layer = 0; layer < tern_model_config(a)->n_layers; layer++)
            for (int role = 0; role < TERN_ROLE_COUNT; role++) {
                const tern_weight *x = tern_model_weight(a, (tern_role)role, layer),
                                  *y = tern_model_weight(b, (tern_role)role, layer);
                assert_ptr_equal(x->encoding, y->encoding);
                assert_int_equal(x->bytes, y->bytes);
                assert_float_equal(x->scale, y->scale, 0);
                if (x->encoding) assert_memory_equal(x->data, y->data, x->bytes);
            }
        tern_model_close(b);
    }
    tern_model_close(a);
}

static void sampling_is_the_default(void **state)
{
    (void)state;
    const tern_sampler_params d = TERN_SAMPLER_DEFAULTS;
    tern_manifest m;
    assert_ok(tern_manifest_read(&m, in_dir("manifest.json"), &err), err);
    const json_t *s = json_object_get(json_object_get(m.root, "inference"), "sampling");
    assert_float_equal(json_number_value(json_object_get(s, "temperature")), d.temperature, 1e-6);
    assert_float_equal(json_number_value(json_object_get(s, "top_k")), d.top_k, 0);
    assert_float_equal(json_number_value(json_object_get(s, "top_p")), d.top_p, 1e-6);
    assert_float_equal(json_number_value(json_object_get(s, "min_p")), d.min_p, 1e-6);
    tern_manifest_deinit(&m);
}

static void assert_refused(tern_status status, const char *words)
{
    tern_model *model = NULL;
    int64_t live = tern_alloc_live();
    tern_error why = {0};
    tern_status got = tern_model_open(&model, dir, NULL, &why);
    if (!strstr(why.message, words)) fail_msg("'%s' is not in '%s'", words, why.message);
    assert_int_equal(got, status);
    assert_null(model);
    assert_int_equal(tern_alloc_live(), live);
}

static void damaged_shards(void **state)
{
    (void)state;
    char path[4300];
    snprintf(path, sizeof path, "%s", in_dir("shard_003.bin"));
    tern_buf shard = read_all(path);
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
    {"\"sliding_window\": null,", "", TERN_MALFORMED, "inference.sliding_window: missing, null expected"},
    {"\"sliding_window\": null", "\"sliding_window\": 512", TERN_UNSUPPORTED,
     "inference.sliding_window: number found, null expected"},
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
    {"\"version\": 1", "\"version\": 2", TERN_UNSUPPORTED, "version: 2 found, 1 expected"},
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
    assert_ok(tern_buf_add(&out, text->data, (size_t)(at - text->data), &err), err);
    assert_ok(tern_buf_addf(&out, &err, "%s%s", to, at + strlen(from)), err);
    test_write_file(in_dir("manifest.json"), out.data, out.size);
    tern_buf_deinit(&out);
}

static void other_manifests(void **state)
{
    (void)state;
    tern_buf text = read_all(in_dir("manifest.json"));
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
        assert_ok(tern_model_open(&model, dir, NULL, &err), err);
        tern_model_close(model);
    }
    test_write_file(in_dir("manifest.json"), text.data, text.size);
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
    assert_int_equal(tern_model_open(&model, dir, &how, &err), TERN_CANCELLED);
    char other[4300];
    snprintf(other, sizeof other, "%s-stopped", dir);
    left = 2;
    tern_package_options writing = {.shard_bytes = SHARD, .progress = stop, .progress_context = &left};
    assert_int_equal(tern_package_write(bundled, other, &writing, &err), TERN_CANCELLED);
    assert_false(tern_file_exists(other));
    assert_int_equal(tern_package_write("/nowhere.gguf", other, NULL, &err), TERN_NOT_FOUND);
    assert_int_equal(tern_package_write(bundled, other, &(tern_package_options){.shard_bytes = (64 << 20) + 1}, &err),
                     TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_package_write(bundled, other, &(tern_package_options){.shard_bytes = 1}, &err), TERN_LIMIT);
    assert_int_equal(tern_package_write(bundled, "/nowhere/at/all", NULL, &err), TERN_NOT_FOUND);
}

static void failed_allocations_are_clean(void **state)
{
    (void)state;
    int64_t live = tern_alloc_live();
    for (uint64_t n = 1; n < 2000; n = n * 5 / 4 + 1) {
        tern_model *model = NULL;
        tern_alloc_fail_after(n, false);
        tern_status status = tern_model_open(&model, dir, NULL, NULL);
        tern_alloc_fail_after(0, false);
        tern_model_close(model);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_int_equal(tern_alloc_live(), live);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums),
    cmocka_unit_test(shards_are_the_file),
    cmocka_unit_test(tensors_are_where_it_says),
    cmocka_unit_test(same_bytes_again),
    cmocka_unit_test(models_are_the_same),
    cmocka_unit_test(sampling_is_the_default),
    cmocka_unit_test(damaged_shards),
    cmocka_unit_test(other_manifests),
    cmocka_unit_test(cancelled),
    cmocka_unit_test(failed_allocations_are_clean),
};

TEST_GROUP(package, "", tests, .setup = setup, .teardown = teardown);
