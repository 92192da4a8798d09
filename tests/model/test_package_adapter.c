/* Packages of adapters: the files as they were, what is opened from them, and what must be refused. */
#include <unistd.h>

#include "base/alloc.h"
#include "model/adapter_cases.h"
#include "model/package/package.h"
#include "support/places.h"
#include "tern.h"

static tern_error err;
static char dir[1024], gguf[1024];
static const char peft[] = "bitnet-train/lora";

static const char *in_dir(const char *name)
{
    static char paths[4][1200];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", dir, name);
    return path;
}

static void remove_package(void)
{
    static const char *const names[] = {"manifest.json", "adapter_config.json", "adapter_model.safetensors",
                                        "adapter.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_dir(names[i]));
    rmdir(dir);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s", test_scratch("adapter-package"));
    snprintf(gguf, sizeof gguf, "%s", test_scratch("packaged.gguf"));
    tern_model *model = open_model(test_fixture("bitnet-train"));
    tern_adapter *adapter = adapter_open_adapter(test_fixture(peft), model);
    assert_ok(tern_adapter_write_gguf(adapter, gguf, &err), err);
    tern_adapter_close(adapter);
    tern_model_close(model);
    return 0;
}

static tern_buf read_all(const char *path)
{
    tern_buf b = {0};
    assert_ok(tern_file_read(&b, path, SIZE_MAX / 2, &err), err);
    return b;
}

static void assert_same_file(const char *a, const char *b)
{
    tern_buf x = read_all(a), y = read_all(b);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    tern_buf_deinit(&x);
    tern_buf_deinit(&y);
}

static void write_package(const char *from)
{
    remove_package();
    assert_ok(tern_package_write_adapter(from, dir, NULL, &err), err);
    assert_true(tern_package_is(dir) && tern_package_is_adapter(dir));
}

/* The adapter of a package is that of its files, by the folder's name and by the manifest's. */
static void assert_opens(const char *from)
{
    tern_model *model = open_model(test_fixture("bitnet-train"));
    tern_adapter *files = adapter_open_adapter(from, model), *package = adapter_open_adapter(dir, model);
    adapter_assert_same(files, package);
    tern_adapter_close(package);
    package = adapter_open_adapter(in_dir("manifest.json"), NULL);
    assert_int_equal(tern_adapter_describe(package)->n_pairs, 14);
    tern_adapter_close(package);
    tern_adapter_close(files);
    tern_model_close(model);
}

static void files_as_they_were(void **state)
{
    (void)state;
    write_package(test_fixture(peft));
    assert_same_file(test_fixture("bitnet-train/lora/adapter_config.json"), in_dir("adapter_config.json"));
    assert_same_file(test_fixture("bitnet-train/lora/adapter_model.safetensors"), in_dir("adapter_model.safetensors"));
    assert_opens(test_fixture(peft));
    tern_buf first = read_all(in_dir("manifest.json"));
    write_package(test_fixture("bitnet-train/lora/adapter_config.json"));
    tern_buf second = read_all(in_dir("manifest.json"));
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    tern_buf_deinit(&first);
    tern_buf_deinit(&second);
    write_package(gguf);
    assert_same_file(gguf, in_dir("adapter.gguf"));
    assert_opens(gguf);
}

static void assert_refused(tern_status status, const char *words)
{
    tern_adapter *adapter = NULL;
    const int64_t live = tern_alloc_live();
    tern_error why = {0};
    const tern_status got = tern_adapter_open(&adapter, dir, NULL, &why);
    if (!strstr(why.message, words)) fail_msg("'%s' is not in '%s'", words, why.message);
    assert_int_equal(got, status);
    assert_null(adapter);
    assert_int_equal(tern_alloc_live(), live);
}

static void damaged_files(void **state)
{
    (void)state;
    write_package(test_fixture(peft));
    const char *path = in_dir("adapter_model.safetensors");
    tern_buf file = read_all(path);
    file.data[file.size - 1] ^= 1;
    test_write_file(path, file.data, file.size);
    assert_refused(TERN_MALFORMED, "adapter_model.safetensors: SHA-256 sum");
    test_write_file(path, file.data, file.size - 1);
    assert_refused(TERN_MALFORMED, "adapter_model.safetensors: 134863 bytes found, 134864 expected");
    unlink(path);
    assert_refused(TERN_NOT_FOUND, "adapter_model.safetensors");
    tern_buf_deinit(&file);
}

/* A manifest with one text in it replaced, and what is then said. */
static const struct {
    const char *from, *to;
    tern_status status;
    const char *words;
} edits[] = {
    {"\"rank\": 8", "\"rank\": 9", TERN_MALFORMED, "adapter.rank: 9 found, 8 expected"},
    {"\"rank\": 8,", "", TERN_MALFORMED, "adapter.rank: missing, a whole number expected"},
    {"\"alpha\": 16.0", "\"alpha\": null", TERN_MALFORMED, "adapter.alpha: null found, a number expected"},
    {"\"base\": null", "\"base\": \"other\"", TERN_MALFORMED, "adapter.base: \"other\" found, null expected"},
    {"\"format\": \"PEFT\"", "\"format\": \"GGUF\"", TERN_MALFORMED, "\"GGUF\" found, \"PEFT\" expected"},
    {"\"kind\": \"adapter\"", "\"kind\": \"voice\"", TERN_UNSUPPORTED, "kind: voice found, \"adapter\" or none"},
    {"\"kind\": \"adapter\"", "\"kind\": null", TERN_UNSUPPORTED, "kind: null found, \"adapter\" or none"},
    {"\"kind\": \"adapter\",", "", TERN_MALFORMED, "name: missing, a text expected"},
    {"\"version\": 1", "\"version\": 2", TERN_UNSUPPORTED, "version: 2 found, 1 expected of an adapter"},
    {"\"bytes\": 136126", "\"bytes\": 136127", TERN_MALFORMED, "bytes: 136127 found, the 136126 of all shards"},
    {"\"bytes\": 134864", "\"bytes\": 1073741825", TERN_MALFORMED, "1073741825 found, 1 to 1073741824 expected"},
    {"\"adapter_config.json\"", "\"adapter.gguf\"", TERN_MALFORMED, "shards: 2 found from adapter.gguf on"},
    {"\"adapter_config.json\"", "\"../adapter_config.json\"", TERN_MALFORMED, "shards[0].file"},
    {"\"shards\": [", "\"shards\": [], \"other\": [", TERN_MALFORMED, "shards: 0 found, 1 to 65536 expected"},
};

static void write_edited(const tern_buf *text, const char *from, const char *to)
{
    tern_buf out = {0};
    const char *at = strstr(text->data, from);
    if (!at) fail_msg("'%s' is not in the manifest", from);
    assert_ok(tern_buf_add(&out, text->data, (size_t)(at - (const char *)text->data), &err), err);
    assert_ok(tern_buf_addf(&out, &err, "%s%s", to, at + strlen(from)), err);
    test_write_file(in_dir("manifest.json"), out.data, out.size);
    tern_buf_deinit(&out);
}

static void edited_manifests(void **state)
{
    (void)state;
    write_package(test_fixture(peft));
    tern_buf text = read_all(in_dir("manifest.json"));
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        write_edited(&text, edits[i].from, edits[i].to);
        assert_refused(edits[i].status, edits[i].words);
    }
    tern_buf_deinit(&text);
}

/* Where a model is expected, by every way that opens one. */
static void no_model(void **state)
{
    (void)state;
    static const char words[] = "the package of an adapter (LoRA) found, that of a model expected";
    tern_model *model;
    tern_engine *engine;
    tern_tokenizer *tokenizer;
    write_package(gguf);
    assert_int_equal(tern_model_open(&model, dir, NULL, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, words));
    assert_int_equal(tern_tokenizer_load(&tokenizer, dir, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, words));
    static const char *const experts[] = {NULL, "2"};
    for (size_t i = 0; i < 2; i++) {
        err = (tern_error){0};
        assert_int_equal(
            tern_engine_load(&engine, dir, &TERN_SIZED(tern_engine_options, .memory.experts = experts[i]), &err),
            TERN_UNSUPPORTED);
        assert_non_null(strstr(err.message, words));
    }
}

static void no_adapter(void **state)
{
    (void)state;
    const char *stories = TERN_SOURCE_DIR "/models/stories.gguf", *of_model = test_scratch("model-package");
    tern_adapter *adapter;
    assert_ok(tern_package_write(stories, of_model, &(tern_package_options){.overwrite = true}, &err), err);
    assert_false(tern_package_is_adapter(of_model));
    assert_int_equal(tern_adapter_open(&adapter, of_model, NULL, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "the package of a model found, that of an adapter (LoRA) expected"));
}

static void assert_not_written(const char *from, tern_status status, const char *words)
{
    tern_error why = {0};
    assert_int_equal(tern_package_write_adapter(from, dir, NULL, &why), status);
    if (!strstr(why.message, words)) fail_msg("'%s' is not in '%s'", words, why.message);
}

static void not_written(void **state)
{
    (void)state;
    remove_package();
    assert_not_written(TERN_SOURCE_DIR "/models/stories.gguf", TERN_UNSUPPORTED, "no LoRA adapter");
    assert_not_written(test_fixture("bitnet-train"), TERN_NOT_FOUND, "adapter_config.json");
    assert_false(tern_file_exists(in_dir("manifest.json")));
    write_package(gguf);
    assert_not_written(test_fixture(peft), TERN_INVALID_ARGUMENT, "adapter-package");
    assert_same_file(gguf, in_dir("adapter.gguf"));
    const tern_package_options over = {.overwrite = true};
    assert_int_equal(tern_package_write_adapter(in_dir("manifest.json"), test_scratch("again"), NULL, &err),
                     TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "a package found, an adapter's own files expected"));
    assert_ok(tern_package_write_adapter(test_fixture(peft), dir, &over, &err), err);
    assert_false(tern_file_exists(in_dir("adapter.gguf")));
    test_write_text(in_dir("notes.txt"), "x");
    assert_int_equal(tern_package_write_adapter(gguf, dir, &over, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "holds notes.txt, which is not part of a package"));
    unlink(in_dir("notes.txt"));
}

static int teardown(void **state)
{
    (void)state;
    remove_package();
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(files_as_they_were), cmocka_unit_test(damaged_files), cmocka_unit_test(edited_manifests),
    cmocka_unit_test(no_model),           cmocka_unit_test(no_adapter),    cmocka_unit_test(not_written),
};

TEST_GROUP(package_adapter, "", tests, .setup = setup, .teardown = teardown);
