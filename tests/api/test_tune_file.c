/* Kernels by what `tern tune` has measured, through the public API: the file is used, or an error says why not. */
#include "api/support.h"

#include <stdlib.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/counters.h"
#include "base/file.h"
#include "infer/engine/engine.h"
#include "infer/tune/file.h"
#include "quant/encoding.h"

/* A file for two threads, in which every layer of the bundled model has this kernel. */
static const char *make_file(const char *name, const char *kernel)
{
    static const uint32_t shapes[][2] = {{256, 256}, {128, 256}, {768, 256}, {256, 768}};
    const char *path = test_scratch(name);
    tern_tune_key key;
    tern_tune_cache c;
    tern_error err = {0};
    tern_tune_key_of(&key);
    assert_ok(tern_tune_cache_init(&c, key.cpu, key.build, &err), err);
    for (int i = 0; i < 4; i++) {
        tern_kernel_choice choice = {tern_encoding_by_name("i2_s"), shapes[i][0], shapes[i][1], 2, "", 0};
        snprintf(choice.kernel, sizeof choice.kernel, "%s", kernel);
        assert_ok(tern_tune_cache_add(&c, &choice, &(tern_tune_cost){0}, &err), err);
    }
    remove(path);
    assert_ok(tern_tune_file_add(&c, path, &err), err);
    tern_tune_cache_deinit(&c);
    return path;
}

static void replace(const char *path, const char *from, char to)
{
    tern_buf text = {0};
    tern_file_writer w;
    tern_error err = {0};
    assert_ok(tern_file_read(&text, path, 1 << 20, &err), err);
    char *at = strstr(text.data, from);
    assert_non_null(at);
    at[strlen(from)] = to;
    assert_ok(tern_file_writer_open(&w, path, &err), err);
    tern_file_writer_add(&w, text.data, text.size);
    assert_ok(tern_file_writer_commit(&w, &err), err);
    tern_buf_deinit(&text);
}

/* The greedy text, and the bytes of weights that it took. */
static uint64_t talk(const tern_engine_options *options, shown *s)
{
    tern_engine *engine = load(BUNDLED, options);
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64));
    tern_tokens tokens = tokens_of(engine, "Once upon a time", TERN_TOKENIZE_BOS);
    const tern_generate_params params = greedy(s, 24);
    tern_generate_result result = {.size = sizeof result};
    tern_error err = {0};
    assert_ok(tern_generate(session, tokens.ids, (uint32_t)tokens.n, &params, &result, &err), err);
    tern_backend_counters counters = {0};
    const tern_backend *backend = tern_engine_backend(engine);
    backend->counters(backend, &counters);
    tern_tokens_deinit(&tokens);
    tern_session_close(session);
    tern_engine_close(engine);
    return counters.weight_bytes;
}

static void the_file_is_used(void **state)
{
    (void)state;
    const char *path = make_file("tune-api.json", "rsr:4");
    shown want = {0}, tuned = {0}, other = {0};
    const uint64_t bytes = talk(&TERN_SIZED(tern_engine_options, .cpu.n_threads = 2), &want);
    assert_true(talk(&TERN_SIZED(tern_engine_options, .cpu.n_threads = 2, .tune_file = path), &tuned) > bytes);
    assert_string_equal(tuned.text, want.text);
    assert_true(talk(&TERN_SIZED(tern_engine_options, .cpu.n_threads = 1, .tune_file = path), &other) ==
                bytes); /* not for one */
    assert_string_equal(other.text, want.text);
}

static void a_file_that_does_not_hold_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *from, *message;
        char to;
        tern_status status;
    } cases[] = {{"\"cpu\": \"", "measured on the CPU", '9', TERN_UNSUPPORTED},
                 {"\"build\": \"", "measured by the build", '9', TERN_UNSUPPORTED},
                 {"\"version\": ", "version: 9 found", '9', TERN_UNSUPPORTED},
                 {"\"kernel\": \"", "choices[0]: kernel", 'x', TERN_MALFORMED},
                 {"\"choices\"", "tune-api-", ' ', TERN_MALFORMED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = make_file("tune-api-wrong.json", "dot");
        tern_engine *engine = NULL;
        tern_error err = {0};
        const tern_engine_options options = {.size = sizeof options, .tune_file = path};
        replace(path, cases[i].from, cases[i].to);
        assert_int_equal(tern_engine_load(&engine, BUNDLED, &options, &err), cases[i].status);
        assert_null(engine);
        if (!strstr(err.message, cases[i].message) || !strstr(err.message, "tune-api-wrong.json"))
            fail_msg("\"%s\" lacks \"%s\"", err.message, cases[i].message);
        assert_int_equal(tern_engine_load(&engine, BUNDLED, &options, NULL), cases[i].status);
    }
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    const char *path = make_file("tune-api-options.json", "dot");
    const struct {
        tern_engine_options options;
        tern_status status;
        const char *message;
    } cases[] = {
        {TERN_SIZED(tern_engine_options, .tune_file = "no-such-file.json"), TERN_NOT_FOUND, "no-such-file.json"},
        {TERN_SIZED(tern_engine_options, .tune_file = path, .kernel = "dot"), TERN_INVALID_ARGUMENT,
         "cannot be combined with kernel"},
        {TERN_SIZED(tern_engine_options, .tune_file = path, .cpu.features = "scalar"), TERN_INVALID_ARGUMENT,
         "cannot be combined with cpu.features"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_engine *engine = NULL;
        tern_error err = {0};
        assert_int_equal(tern_engine_load(&engine, BUNDLED, &cases[i].options, &err), cases[i].status);
        assert_null(engine);
        if (!strstr(err.message, cases[i].message)) fail_msg("\"%s\" lacks \"%s\"", err.message, cases[i].message);
    }
}

static void the_usual_place(void **state)
{
    (void)state;
    char path[64];
    tern_error err = {0};
    setenv("XDG_CACHE_HOME", "/some/cache", 1);
    setenv("HOME", "/home/x", 1);
    assert_ok(tern_tune_path(path, sizeof path, &err), err);
    assert_string_equal(path, "/some/cache/tern/tune.json");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_ok(tern_tune_path(path, sizeof path, &err), err);
    assert_string_equal(path, "/home/x/.cache/tern/tune.json");
    assert_ok(tern_tune_path(path, sizeof "/home/x/.cache/tern/tune.json", &err), err);
    assert_int_equal(tern_tune_path(path, sizeof "/home/x/.cache/tern/tune.json" - 1, &err), TERN_LIMIT);
    assert_int_equal(tern_tune_path(NULL, 9, &err), TERN_INVALID_ARGUMENT);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(tern_tune_path(path, sizeof path, &err), TERN_NOT_FOUND);
}

/* What another program has kept meanwhile stays; a file that does not hold here goes. */
static void files_are_merged(void **state)
{
    (void)state;
    const char *path = make_file("tune-api-merge.json", "dot");
    const tern_kernel_choice more = {tern_encoding_by_name("t160"), 64, 64, 1, "dot", 0};
    tern_tune_key key;
    tern_tune_cache c, all;
    tern_error err = {0};
    tern_tune_key_of(&key);
    assert_ok(tern_tune_cache_init(&c, key.cpu, key.build, &err), err);
    assert_ok(tern_tune_cache_add(&c, &more, &(tern_tune_cost){0}, &err), err);
    assert_ok(tern_tune_file_add(&c, path, &err), err);
    assert_ok(tern_tune_file_read(&all, path, &err), err);
    assert_int_equal(all.n, 5);
    tern_tune_cache_deinit(&all);
    replace(path, "\"build\": \"", '9');
    assert_int_equal(tern_tune_file_read(&all, path, &err), TERN_UNSUPPORTED);
    assert_ok(tern_tune_file_read_any(&all, path, &err), err);
    assert_int_equal(tern_tune_file_check(&all, &err), TERN_UNSUPPORTED);
    tern_tune_cache_deinit(&all);
    assert_ok(tern_tune_file_add(&c, path, &err), err);
    assert_ok(tern_tune_file_read(&all, path, &err), err);
    assert_int_equal(all.n, 1);
    tern_tune_cache_deinit(&all);
    tern_tune_cache_deinit(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_file_is_used),          cmocka_unit_test(a_file_that_does_not_hold_is_an_error),
    cmocka_unit_test(wrong_options_are_refused), cmocka_unit_test(files_are_merged),
    cmocka_unit_test(the_usual_place),
};

TEST_GROUP(tune_file, "gpu swiftshader", tests);
