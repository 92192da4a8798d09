/* The public API used wrongly: every mistake is a status with words; and memory that runs out is an error without a
 * leak. */
#include "api/support.h"

#include "base/alloc.h"
#include "support/micro_model.h"

static tern_error err;

/* The call fails with the status and the words. */
#define assert_fails(status, words, call)                                                                              \
    do {                                                                                                               \
        err = (tern_error){0};                                                                                         \
        assert_int_equal(call, status);                                                                                \
        assert_int_equal(err.code, status);                                                                            \
        if (!strstr(err.message, words)) fail_msg("\"%s\" has no \"%s\"", err.message, words);                         \
    } while (0)

static void assert_load_fails(tern_status code, const char *words, const char *path, tern_engine_options options)
{
    tern_engine *engine = (tern_engine *)&err;
    assert_fails(code, words, tern_engine_load(&engine, path, &options, &err));
    assert_null(engine);
    assert_int_equal(tern_engine_load(&engine, path, &options, NULL), code);
}

static bool never(void *context, float done)
{
    (void)context;
    (void)done;
    return false;
}

static void loading(void **state)
{
    (void)state;
    assert_fails(TERN_INVALID_ARGUMENT, "engine is NULL", tern_engine_load(NULL, BUNDLED, NULL, &err));
    assert_load_fails(TERN_INVALID_ARGUMENT, "path is NULL", NULL,
                      (tern_engine_options){.size = sizeof(tern_engine_options)});
    assert_load_fails(TERN_NOT_FOUND, "no-such-model.gguf", "no-such-model.gguf",
                      (tern_engine_options){.size = sizeof(tern_engine_options)});
    assert_load_fails(TERN_MALFORMED, "test_api_misuse.c", __FILE__,
                      (tern_engine_options){.size = sizeof(tern_engine_options)});
    assert_load_fails(TERN_INVALID_ARGUMENT, "head q9: no such encoding", BUNDLED,
                      TERN_SIZED(tern_engine_options, .head = "q9"));
    assert_load_fails(TERN_UNSUPPORTED, "head in i2_s", BUNDLED, TERN_SIZED(tern_engine_options, .head = "i2_s"));
    assert_load_fails(TERN_INVALID_ARGUMENT, "option activations is 4: 0 to 3 expected", BUNDLED,
                      TERN_SIZED(tern_engine_options, .activations = 4));
    assert_load_fails(TERN_INVALID_ARGUMENT, "option ffn is 3: 0 to 2 expected", BUNDLED,
                      TERN_SIZED(tern_engine_options, .cpu.ffn = 3));
    assert_load_fails(TERN_INVALID_ARGUMENT, "kernel lut multiplies int8 activations", BUNDLED,
                      TERN_SIZED(tern_engine_options, .activations = TERN_ACTIVATIONS_F32, .kernel = "lut"));
    assert_load_fails(TERN_INVALID_ARGUMENT, "option tune_file: it cannot be combined with activations \"f32\"",
                      BUNDLED,
                      TERN_SIZED(tern_engine_options, .activations = TERN_ACTIVATIONS_F32, .tune_file = "tune.json"));
    assert_load_fails(TERN_INVALID_ARGUMENT, "fusion \"gates\" is unknown: did you mean \"gate\"?", BUNDLED,
                      TERN_SIZED(tern_engine_options, .no_fusion = "norm_quant,gates"));
    assert_load_fails(TERN_INVALID_ARGUMENT, "option backend is 5: 0 to 4 expected", BUNDLED,
                      TERN_SIZED(tern_engine_options, .backend = 5));
    assert_load_fails(TERN_UNSUPPORTED, "backend \"webgpu\"", BUNDLED,
                      TERN_SIZED(tern_engine_options, .backend = TERN_BACKEND_WEBGPU));
    assert_load_fails(TERN_INVALID_ARGUMENT, "option device", BUNDLED,
                      TERN_SIZED(tern_engine_options, .gpu.device = "0"));
    assert_load_fails(TERN_INVALID_ARGUMENT, "option validation", BUNDLED,
                      TERN_SIZED(tern_engine_options, .gpu.validation = true));
    assert_load_fails(TERN_INVALID_ARGUMENT, "mmx", BUNDLED, TERN_SIZED(tern_engine_options, .cpu.features = "mmx"));
    assert_load_fails(TERN_INVALID_ARGUMENT, "5000", BUNDLED, TERN_SIZED(tern_engine_options, .cpu.n_threads = 5000));
    assert_load_fails(TERN_CANCELLED, "", BUNDLED, TERN_SIZED(tern_engine_options, .progress = never));
    assert_fails(TERN_INVALID_ARGUMENT, "in_path is NULL", tern_convert(NULL, "x", NULL, NULL, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "out_path is NULL", tern_convert(BUNDLED, NULL, NULL, NULL, &err));
    assert_fails(TERN_NOT_FOUND, "missing", tern_convert("missing", test_scratch("unused.gguf"), NULL, NULL, &err));
}

static void nothing(void **state)
{
    (void)state;
    tern_engine_close(NULL);
    tern_session_close(NULL);
    tern_tokens_deinit(NULL);
    tern_buf_deinit(NULL);
    assert_false(tern_engine_is_end(NULL, 0));
}

static void sessions(void **state)
{
    tern_session *s = (tern_session *)&err;
    float hidden[256], *logits = hidden;
    const int32_t ids[] = {1, 2, 2048}, many[9] = {0};
    assert_fails(TERN_INVALID_ARGUMENT, "session is NULL", tern_session_open(NULL, *state, NULL, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "engine is NULL", tern_session_open(&s, NULL, NULL, &err));
    assert_null(s);
    assert_fails(TERN_INVALID_ARGUMENT, "2000",
                 tern_session_open(&s, *state, &TERN_SIZED(tern_session_params, .n_ctx = 2000), &err));
    s = open_session(*state, TERN_SIZED(tern_session_params, .n_ctx = 8, .max_outputs = 2));
    assert_fails(TERN_INVALID_ARGUMENT, "session is NULL", tern_session_append(NULL, ids, 1, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "ids is NULL", tern_session_append(s, NULL, 1, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "token 2 is id 2048: 0 to 2047", tern_session_append(s, ids, 3, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "token 0 is id -1", tern_session_append(s, (int32_t[]){-1}, 1, &err));
    assert_fails(TERN_CONTEXT_FULL, "9 more, of 8", tern_session_append(s, many, 9, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "1 to 2 expected", tern_session_append_all(s, many, 3, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "session is NULL", tern_session_append_all(NULL, many, 1, &err));
    assert_int_equal(tern_session_n_tokens(s), 0);
    assert_fails(TERN_INVALID_ARGUMENT, "row 2 of the logits: 0 to 1 expected",
                 tern_session_logits(s, 2, &logits, &err));
    assert_null(logits);
    assert_fails(TERN_INVALID_ARGUMENT, "session is NULL", tern_session_logits(NULL, 0, &logits, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "logits is NULL", tern_session_logits(s, 0, NULL, &err));
    assert_fails(TERN_NOT_FOUND, "the session keeps none", tern_session_hidden(s, 0, 1, hidden, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "out is NULL", tern_session_hidden(s, 0, 1, NULL, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "session is NULL", tern_session_shift(NULL, 0, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "context shift", tern_session_shift(s, 0, &err));
    assert_fails(TERN_NOT_FOUND, "no-such-session", tern_session_restore(s, "no-such-session", &err));
    assert_fails(TERN_INVALID_ARGUMENT, "session is NULL", tern_session_save(NULL, "x", &err));
    assert_fails(TERN_INVALID_ARGUMENT, "path is NULL", tern_session_restore(s, NULL, &err));
    tern_session_close(s);
}

static void adapters(void **state)
{
    tern_lora *lora = (tern_lora *)&err;
    tern_lora_info info;
    const tern_lora_use none = {NULL, 1};
    assert_fails(TERN_INVALID_ARGUMENT, "lora is NULL", tern_lora_load(NULL, *state, "x", &err));
    assert_fails(TERN_INVALID_ARGUMENT, "engine is NULL", tern_lora_load(&lora, NULL, "x", &err));
    assert_null(lora);
    assert_fails(TERN_INVALID_ARGUMENT, "path is NULL", tern_lora_load(&lora, *state, NULL, &err));
    assert_fails(TERN_NOT_FOUND, "no-such-adapter", tern_lora_load(&lora, *state, "no-such-adapter", &err));
    assert_fails(TERN_MALFORMED, "test_api_misuse.c", tern_lora_load(&lora, *state, __FILE__, &err));
    assert_int_equal(tern_lora_load(&lora, *state, __FILE__, NULL), TERN_MALFORMED);
    const tern_lora_file files[] = {{"a/adapter_config.json", "{}", 2}, {"b", "GGUF", 4}, {NULL, "", 0}};
    assert_fails(TERN_INVALID_ARGUMENT, "lora is NULL", tern_lora_load_memory(NULL, *state, files, 1, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "engine is NULL", tern_lora_load_memory(&lora, NULL, files, 1, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "files is NULL", tern_lora_load_memory(&lora, *state, NULL, 1, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "0 files", tern_lora_load_memory(&lora, *state, files, 0, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "1 files", tern_lora_load_memory(&lora, *state, files, 1, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "2 files", tern_lora_load_memory(&lora, *state, files, 2, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "3 files", tern_lora_load_memory(&lora, *state, files, 3, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "name is NULL", tern_lora_load_memory(&lora, *state, files + 2, 1, &err));
    assert_fails(TERN_MALFORMED, "b: header", tern_lora_load_memory(&lora, *state, files + 1, 1, &err));
    assert_null(lora);
    assert_fails(TERN_INVALID_ARGUMENT, "lora is NULL", tern_lora_describe(NULL, &info, &err));
    tern_lora_close(NULL);
    tern_session *s = open_session(*state, TERN_SIZED(tern_session_params, .n_ctx = 8));
    assert_fails(TERN_INVALID_ARGUMENT, "session is NULL", tern_session_set_loras(NULL, NULL, 0, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "is NULL", tern_session_set_loras(s, NULL, 1, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "adapter 0: none found", tern_session_set_loras(s, &none, 1, &err));
    assert_ok(tern_session_set_loras(s, NULL, 0, &err), err);
    tern_session_close(s);
}

static void text(void **state)
{
    tern_tokens tokens = {0};
    tern_buf out = {0};
    tern_engine_info info = {.size = sizeof info};
    const tern_chat_message message = {"user", "hello", 5}, no_role = {NULL, "hello", 5},
                            no_content = {"user", NULL, 5};
    const int32_t ids[] = {5, -7};
    assert_fails(TERN_INVALID_ARGUMENT, "engine is NULL", tern_engine_describe(NULL, &info, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "info is NULL", tern_engine_describe(*state, NULL, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "engine is NULL", tern_engine_tokenize(NULL, "a", 1, 0, &tokens, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "text is NULL", tern_engine_tokenize(*state, NULL, 1, 0, &tokens, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "tokens is NULL", tern_engine_tokenize(*state, "a", 1, 0, NULL, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "how is 8", tern_engine_tokenize(*state, "a", 1, 8, &tokens, &err));
    assert_ok(tern_engine_tokenize(*state, NULL, 0, 0, &tokens, &err), err);
    assert_fails(TERN_INVALID_ARGUMENT, "token 1 is id -7: 0 to 2047",
                 tern_engine_detokenize(*state, ids, 2, false, &out, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "text is NULL", tern_engine_detokenize(*state, ids, 1, false, NULL, &err));
    assert_int_equal(out.size, 0);
    assert_fails(TERN_NOT_FOUND, "no chat template",
                 tern_engine_chat_prompt(*state, NULL, &message, 1, true, &tokens, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "message 0 has no role",
                 tern_engine_chat_prompt(*state, NULL, &no_role, 1, true, &tokens, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "message 0 has no content",
                 tern_engine_chat_prompt(*state, NULL, &no_content, 1, true, &tokens, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "messages is NULL",
                 tern_engine_chat_prompt(*state, NULL, NULL, 1, true, &tokens, &err));
    assert_int_equal(tokens.n, 0);
    tern_tokens_deinit(&tokens);
    tern_buf_deinit(&out);
}

static void generating(void **state)
{
    tern_session *s = open_session(*state, TERN_SIZED(tern_session_params, .n_ctx = 8));
    tern_generate_params params = {.size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS};
    tern_generate_result result = {.size = sizeof result};
    const int32_t many[9] = {0}, bad = 5000;
    assert_fails(TERN_INVALID_ARGUMENT, "session is NULL", tern_generate(NULL, many, 1, &params, &result, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "params is NULL", tern_generate(s, many, 1, NULL, &result, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "result is NULL", tern_generate(s, many, 1, &params, NULL, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "ids is NULL", tern_generate(s, NULL, 1, &params, &result, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "at least 1 expected", tern_generate(s, NULL, 0, &params, &result, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "id 5000", tern_generate(s, &bad, 1, &params, &result, &err));
    assert_fails(TERN_CONTEXT_FULL, "context full", tern_generate(s, many, 9, &params, &result, &err));
    params.draft_tokens = 1;
    assert_fails(TERN_INVALID_ARGUMENT, "1 drafted tokens", tern_generate(s, many, 1, &params, &result, &err));
    params = TERN_SIZED(tern_generate_params, .sampler = TERN_SAMPLER_DEFAULTS);
    params.sampler.top_p = 2;
    assert_fails(TERN_INVALID_ARGUMENT, "top-p is 2: 0 to 1 expected",
                 tern_generate(s, many, 1, &params, &result, &err));
    tern_session_close(s);
}

static void generating_in_steps(void **state)
{
    tern_session *s = open_session(*state, TERN_SIZED(tern_session_params, .n_ctx = 8));
    tern_generate_params params = {.size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = 2};
    tern_generate_result result = {.size = sizeof result};
    tern_generation *g = NULL;
    const int32_t many[9] = {0};
    bool done = false;
    assert_fails(TERN_INVALID_ARGUMENT, "generation is NULL", tern_generation_open(NULL, s, many, 1, &params, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "session is NULL", tern_generation_open(&g, NULL, many, 1, &params, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "params is NULL", tern_generation_open(&g, s, many, 1, NULL, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "ids is NULL", tern_generation_open(&g, s, NULL, 1, &params, &err));
    assert_fails(TERN_CONTEXT_FULL, "context full", tern_generation_open(&g, s, many, 9, &params, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "generation is NULL", tern_generation_step(NULL, &done, &err));
    assert_null(g);
    assert_ok(tern_generation_open(&g, s, many, 2, &params, &err), err);
    assert_fails(TERN_INVALID_ARGUMENT, "done is NULL", tern_generation_step(g, NULL, &err));
    while (!done) assert_ok(tern_generation_step(g, &done, &err), err);
    assert_fails(TERN_INVALID_ARGUMENT, "generation is NULL", tern_generation_describe(NULL, &result, &err));
    assert_fails(TERN_INVALID_ARGUMENT, "result is NULL", tern_generation_describe(g, NULL, &err));
    assert_ok(tern_generation_describe(g, &result, &err), err);
    assert_int_equal(result.n_generated, 2);
    tern_generation_close(g);
    assert_int_equal(tern_session_n_tokens(s), 4);
    tern_session_close(s);
}

static const char *micro_path(void)
{
    const char *path = test_scratch("api-micro.gguf");
    tern_buf bytes = micro_model(&(micro_change){0});
    test_write_file(path, bytes.data, bytes.size);
    tern_buf_deinit(&bytes);
    return path;
}

/* Fails each allocation of a loading once. */
static void loading_without_memory(void **state)
{
    (void)state;
    const char *path = micro_path();
    tern_engine *engine;
    const tern_engine_options options = {.size = sizeof options, .cpu.n_threads = 2, .head = "f16"};
    uint64_t before = tern_alloc_count();
    int64_t live = tern_alloc_live();
    assert_ok(tern_engine_load(&engine, path, &options, &err), err);
    tern_engine_close(engine);
    uint64_t n = tern_alloc_count() - before;
    assert_true(n > 20);
    for (uint64_t i = 1; i <= n; i++) {
        tern_alloc_fail_after(i, false);
        tern_status status = tern_engine_load(&engine, path, &options, &err);
        tern_alloc_fail_after(0, false);
        if (status == TERN_OK) tern_engine_close(engine);
        else if (status != TERN_OUT_OF_MEMORY)
            fail_msg("allocation %u of %u: %s", (unsigned)i, (unsigned)n, err.message);
        assert_int_equal(tern_alloc_live(), live);
    }
}

/* The same for a session and a generation on it. */
static tern_status write_three(tern_engine *engine)
{
    tern_session *s;
    const char *stops[] = {"never"};
    tern_generate_params params = {.size = sizeof params,
                                   .sampler = TERN_SAMPLER_DEFAULTS,
                                   .max_tokens = 3,
                                   .stops = stops,
                                   .n_stops = 1,
                                   .draft_tokens = 2};
    tern_generate_result result = {.size = sizeof result};
    params.sampler.presence_penalty = 0.5f;
    TERN_TRY(tern_session_open(&s, engine, &TERN_SIZED(tern_session_params, .n_ctx = 16, .max_outputs = 3), &err));
    tern_status status = tern_generate(s, (int32_t[]){1, 2, 1}, 3, &params, &result, &err);
    if (status == TERN_OK) assert_int_equal(result.n_generated, 3);
    tern_session_close(s);
    return status;
}

static void generating_without_memory(void **state)
{
    (void)state;
    tern_engine *engine = load(micro_path(), &TERN_SIZED(tern_engine_options, .cpu.n_threads = 1));
    uint64_t before = tern_alloc_count();
    assert_ok(write_three(engine), err);
    uint64_t n = tern_alloc_count() - before;
    int64_t live = tern_alloc_live();
    assert_true(n > 20);
    for (uint64_t i = 1; i <= n; i++) {
        tern_alloc_fail_after(i, false);
        tern_status status = write_three(engine);
        tern_alloc_fail_after(0, false);
        assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_int_equal(tern_alloc_live(), live);
    }
    assert_ok(write_three(engine), err);
    tern_engine_close(engine);
}

static int setup(void **state)
{
    *state = load(BUNDLED, NULL);
    return 0;
}

static int teardown(void **state)
{
    tern_engine_close(*state);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(loading),
    cmocka_unit_test(nothing),
    cmocka_unit_test(sessions),
    cmocka_unit_test(adapters),
    cmocka_unit_test(text),
    cmocka_unit_test(generating),
    cmocka_unit_test(generating_in_steps),
    cmocka_unit_test(loading_without_memory),
    cmocka_unit_test(generating_without_memory),
};

TEST_GROUP(api_misuse, "", tests, .setup = setup, .teardown = teardown);
