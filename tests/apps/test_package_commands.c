/* `tern package`, and packages as models of the other commands. */
#include <unistd.h>

#include "support/command.h"
#include "support/converted.h"
#include "support/test.h"
#include "tern.h"

static char dir[1024];

static void remove_package(void)
{
    char path[1200];
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "%s/shard_%03d.bin", dir, i);
        unlink(path); /* some tests take one away */
    }
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    unlink(path);
    rmdir(dir);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s", test_scratch("cli-package"));
    remove_package();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    remove_package();
    return 0;
}

static double number_at(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

/* A folder's model, converted on the way, in shards of a MiB. */
static void made(void **state)
{
    (void)state;
    json_t *o = test_tern_json(TERN_WORDS("package", test_small_model(), "-o", dir, "--type", "tq2_0", "--head", "q8_0",
                                          "--shard-size", "1", "--json"));
    char path[1200];
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    assert_string_equal(json_string_value(json_object_get(o, "manifest")), path);
    const double bytes = number_at(o, "bytes"), shards = number_at(o, "shards");
    assert_true(bytes > 1e6 && (shards - 1) * 1048576 < bytes && bytes <= shards * 1048576);
    json_decref(o);
    o = test_tern_json(TERN_WORDS("inspect", dir, "--json"));
    const json_t *quantization = json_object_get(json_object_get(o, "manifest"), "quantization");
    assert_string_equal(json_string_value(json_object_get(quantization, "layers")), "tq2_0");
    assert_string_equal(json_string_value(json_object_get(quantization, "embedding")), "q8_0");
    assert_true(json_is_integer(json_object_get(json_object_get(o, "manifest"), "parameters")));
    json_decref(o);
    test_output printed = TERN("inspect", path);
    assert_int_equal(printed.code, 0);
    assert_non_null(strstr(printed.out, "shards, sums right"));
    assert_non_null(strstr(printed.out, "relu2"));
    test_output_free(&printed);
}

static void run_as_models(void **state)
{
    (void)state;
    char gguf[1024];
    snprintf(gguf, sizeof gguf, "%s", test_scratch("cli-package.gguf"));
    test_output converted = TERN("convert", test_small_model(), "-o", gguf, "--type", "tq2_0", "--head", "q8_0", "-f");
    assert_int_equal(converted.code, 0);
    test_output_free(&converted);
    static const char *const commands[][6] = {{"run", "-p", "Once upon", "--greedy", "-q"},
                                              {"tokenize", "One day, a fox", "--ids"},
                                              {"logits", "--ids", "5,42,79"}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *words[12] = {0};
        size_t n = 0;
        while (commands[i][n]) words[n] = commands[i][n], n++;
        words[n] = "-m";
        words[n + 1] = gguf;
        if (i == 0) words[n + 2] = "-n", words[n + 3] = "16";
        test_output a = test_tern(NULL, words);
        words[n + 1] = dir;
        test_output b = test_tern(NULL, words);
        if (a.code || b.code) fail_msg("%s%s", a.err, b.err);
        assert_true(a.n_out > 0);
        assert_int_equal(a.n_out, b.n_out);
        assert_memory_equal(a.out, b.out, a.n_out);
        test_output_free(&a);
        test_output_free(&b);
    }
    unlink(gguf);
}

/* Experts are matrices of layers too: what a mixture is called is not its attention's encoding. */
static void a_mixture_is_named_by_its_experts(void **state)
{
    (void)state;
    char gguf[1024], folder[1024];
    snprintf(gguf, sizeof gguf, "%s", test_scratch("cli-mixture.gguf"));
    snprintf(folder, sizeof folder, "%s", test_scratch("cli-mixture"));
    test_output made = TERN("synth", "--preset", "gpt-oss-tiny", "-o", gguf, "--overwrite");
    assert_int_equal(made.code, 0);
    test_output_free(&made);
    made = TERN("package", gguf, "-o", folder, "--overwrite");
    assert_int_equal(made.code, 0);
    test_output_free(&made);
    json_t *o = test_tern_json(TERN_WORDS("inspect", folder, "--json"));
    const json_t *quantization = json_object_get(json_object_get(o, "manifest"), "quantization");
    assert_string_equal(json_string_value(json_object_get(quantization, "layers")), "mixed");
    json_decref(o);
    tern_engine *engine;
    tern_engine_info info = {.size = sizeof info};
    tern_error err = {0};
    assert_ok(tern_engine_load(&engine, gguf, NULL, &err), err);
    assert_ok(tern_engine_describe(engine, &info, &err), err);
    assert_string_equal(info.encoding, "mxfp4");
    tern_engine_close(engine);
    unlink(gguf);
}

static bool no_controls(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < 0x20 && *text != '\n') || *text == 0x7f) return false;
    return true;
}

/* Names that set a terminal's title, and tensors without names: shown as far as they can be, with what is wrong. */
static void a_strangers_names(void **state)
{
    (void)state;
    char path[1200];
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    json_t *sound = json_load_file(path, 0, NULL), *other = json_deep_copy(sound);
    assert_non_null(sound);
    json_object_set_new(other, "name", json_string("\x1b]0;title\x07"));
    json_object_set_new(other, "architecture",
                        json_string("\xc2\x9b"
                                    "2J"));
    json_t *tensors = json_object_get(other, "tensors");
    json_object_del(json_array_get(tensors, 0), "name");
    json_object_set_new(json_array_get(tensors, 0), "encoding", json_integer(7));
    json_object_set_new(json_array_get(tensors, 1), "encoding", json_string("\x1b[2J"));
    json_array_set_new(tensors, 2, json_null());
    assert_int_equal(json_dump_file(other, path, 0), 0);
    test_output o = TERN("inspect", dir);
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "problem"));
    assert_non_null(strstr(o.out, "\\x1b]0;title\\x07"));
    assert_true(no_controls(o.out) && no_controls(o.err));
    test_output_free(&o);
    o = TERN("inspect", dir, "--json");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "\\u001B]0;title\\u0007"));
    assert_non_null(strstr(o.out, "\\u009B2J"));
    assert_true(no_controls(o.out));
    test_output_free(&o);
    assert_int_equal(json_dump_file(sound, path, 0), 0);
    json_decref(other);
    json_decref(sound);
}

static void assert_fails(int code, const char *words, test_output o)
{
    if (!strstr(o.err, words)) fail_msg("'%s' is not in '%s'", words, o.err);
    assert_int_equal(o.code, code);
    test_output_free(&o);
}

static void refused(void **state)
{
    (void)state;
    char shard[1200];
    assert_fails(2, "no output: give the folder to make with -o", TERN("package", "a.gguf"));
    assert_fails(2, "--shard-size 65: a whole number from 1 to 64 expected",
                 TERN("package", "a.gguf", "-o", "x", "--shard-size", "65"));
    assert_fails(2, "exists and is not empty: --overwrite", TERN("package", test_small_model(), "-o", dir));
    assert_fails(1, "/nowhere.gguf", TERN("package", "/nowhere.gguf", "-o", "/nowhere"));
    snprintf(shard, sizeof shard, "%s/shard_001.bin", dir);
    FILE *f = fopen(shard, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 1000, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, 1000, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 4, f), byte ^ 4);
    assert_int_equal(fclose(f), 0);
    assert_fails(1, "shard_001.bin: SHA-256 sum", TERN("run", "-m", dir, "-p", "x"));
    assert_fails(1, "shard_001.bin: SHA-256 sum", TERN("inspect", dir));
    unlink(shard);
    assert_fails(1, "shard_001.bin", TERN("run", "-m", dir, "-p", "x"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(made),
    cmocka_unit_test(run_as_models),
    cmocka_unit_test(a_mixture_is_named_by_its_experts),
    cmocka_unit_test(a_strangers_names),
    cmocka_unit_test(refused),
};

TEST_GROUP(package_commands, "", tests, .setup = setup, .teardown = teardown);
