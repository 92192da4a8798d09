/* The public API on the bundled model: golden text, sessions, threads, chat prompts, conversion. */
#include "api/support.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/json.h"
#include "support/logits.h"

enum { MAX_JSON = 1 << 20 };

static void version(void **state)
{
    unsigned major, minor, patch;
    char rest;
    (void)state;
    assert_int_equal(sscanf(tern_version(), "%u.%u.%u%c", &major, &minor, &patch, &rest), 3);
    assert_string_equal(tern_status_words(TERN_CONTEXT_FULL), "context full");
}

static void description(void **state)
{
    tern_error err = {0};
    tern_engine_info info = {.size = sizeof info};
    assert_ok(tern_engine_describe(*state, &info, &err), err);
    assert_string_equal(info.architecture, "bitnet-b1.58");
    assert_string_equal(info.name, "tiny-stories-bitnet");
    assert_int_equal(info.n_vocab, 2048);
    assert_int_equal(info.n_ctx_train, 1024);
    assert_int_equal(info.n_layers, 8);
    assert_int_equal(info.n_embd, 256);
    /* The table, eight layers of 256 * (256 + 128 + 128 + 256) + 3 * 256 * 768 and their norms, the last norm. */
    assert_int_equal(info.parameters, 2048 * 256 + 8 * (256 * 768 + 3 * 256 * 768 + 3 * 256 + 768) + 256);
    assert_true(info.bytes > info.parameters / 4 && info.bytes < 4 << 20);
    assert_true(info.has_tokenizer && info.adds_bos && !info.chat_template);
    assert_true(tern_engine_is_end(*state, info.eos) && !tern_engine_is_end(*state, info.bos) &&
                !tern_engine_is_end(*state, -1));
}

static void check_golden(tern_session *session, tern_engine *engine, const char *prompt, const json_t *golden)
{
    tern_error err = {0};
    const char *text = json_string_value(json_object_get(golden, "text")); /* prompt included */
    const json_t *ids = json_object_get(golden, "ids");
    shown s = {0};
    tern_tokens tokens = tokens_of(engine, prompt, TERN_TOKENIZE_BOS);
    tern_generate_params params = greedy(&s, (uint32_t)(json_array_size(ids) - tokens.n));
    tern_generate_result result = {.size = sizeof result};
    tern_session_truncate(session, 0);
    assert_ok(tern_generate(session, tokens.ids, (uint32_t)tokens.n, &params, &result, &err), err);
    assert_string_equal(s.text, text + strlen(prompt));
    assert_string_equal(tern_stop_reason_name(result.reason), "length");
    assert_int_equal(tern_session_n_tokens(session), json_array_size(ids));
    for (uint32_t i = 0; i < tern_session_n_tokens(session); i++)
        assert_int_equal(tern_session_tokens(session)[i], (int32_t)json_number_value(json_array_get(ids, i)));
    tern_tokens_deinit(&tokens);
}

static void golden_text_of(tern_engine *engine)
{
    tern_error err = {0};
    json_t *root, *golden;
    const char *prompt;
    assert_ok(tern_json_read(&root, test_model("tiny-stories-bitnet/golden_greedy.json"), MAX_JSON, &err), err);
    tern_session *session =
        open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 256, .kv = {TERN_KV_F32, TERN_KV_F32}));
    assert_true(json_object_size(root) > 0);
    json_object_foreach(root, prompt, golden) check_golden(session, engine, prompt, golden);
    tern_session_close(session);
    tern_json_free(root);
}

static void golden_text(void **state)
{
    golden_text_of(*state);
}

static bool count(void *context, float done)
{
    float *most = context;
    if (done > *most) *most = done;
    return true;
}

static void engine_options(void **state)
{
    (void)state;
    float done = -1;
    const tern_engine_options options = {.size = sizeof options,
                                         .backend = TERN_BACKEND_CPU,
                                         .cpu.n_threads = 2,
                                         .cpu.pin = true,
                                         .cpu.features = "scalar",
                                         .head = "exact",
                                         .progress = count,
                                         .progress_context = &done};
    tern_engine *engine = load(BUNDLED, &options);
    golden_text_of(engine);
    tern_engine_close(engine);
    assert_true(done > 0.5f && done <= 1);
    engine = load(BUNDLED, &TERN_SIZED(tern_engine_options, .head = "Q8_0"));
    shown s = {0};
    tern_session *session = open_session(engine, (tern_session_params){.size = sizeof(tern_session_params)});
    tern_generate_params params = greedy(&s, 4);
    tern_generate_result result = {.size = sizeof result};
    tern_error err = {0};
    assert_ok(tern_generate(session, (int32_t[]){2043}, 1, &params, &result, &err), err);
    assert_int_equal(result.n_generated, 4);
    tern_session_close(session);
    tern_engine_close(engine);
}

typedef struct writer {
    tern_engine *engine;
    const char *prompt;
    shown shown;
    tern_status status;
} writer;

static void *write_story(void *context)
{
    writer *w = context;
    tern_session *session = NULL;
    tern_tokens tokens = {0};
    tern_generate_params params = greedy(&w->shown, 60);
    tern_generate_result result = {.size = sizeof result};
    w->status = tern_session_open(&session, w->engine, NULL, NULL);
    if (!w->status)
        w->status = tern_engine_tokenize(w->engine, w->prompt, strlen(w->prompt), TERN_TOKENIZE_BOS, &tokens, NULL);
    if (!w->status) w->status = tern_generate(session, tokens.ids, (uint32_t)tokens.n, &params, &result, NULL);
    tern_tokens_deinit(&tokens);
    tern_session_close(session);
    return NULL;
}

/* Two sessions on one engine at the same time write what each writes alone. */
static void threads(void **state)
{
    writer alone[2] = {{.engine = *state, .prompt = "Once upon a time"}, {.engine = *state, .prompt = "The cat"}},
           both[2];
    pthread_t thread[2];
    memcpy(both, alone, sizeof both);
    for (int i = 0; i < 2; i++) write_story(&alone[i]);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, write_story, &both[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(both[i].status, TERN_OK);
        assert_true(alone[i].shown.n > 60);
        assert_string_equal(both[i].shown.text, alone[i].shown.text);
    }
    assert_string_not_equal(alone[0].shown.text, alone[1].shown.text);
}

static void *load_and_close(void *context)
{
    tern_engine *engine = NULL;
    *(tern_status *)context =
        tern_engine_load(&engine, BUNDLED, &TERN_SIZED(tern_engine_options, .cpu.n_threads = 1), NULL);
    tern_engine_close(engine);
    return NULL;
}

/* Engines can be opened at the same time (the trial of the kernels takes turns). */
static void loading_together(void **state)
{
    (void)state;
    pthread_t thread[2];
    tern_status status[2] = {TERN_INTERNAL, TERN_INTERNAL};
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, load_and_close, &status[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(status[i], TERN_OK);
}

static uint32_t argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* Appends, truncates and asks for several rows: the logits of a position do not depend on the way to it. */
static void sessions(void **state)
{
    enum { N_VOCAB = 2048 };
    tern_error err = {0};
    tern_session *s = open_session(
        *state, TERN_SIZED(tern_session_params, .n_ctx = 64, .max_outputs = 4, .kv = {TERN_KV_F32, TERN_KV_F32}));
    const int32_t ids[] = {2043, 593, 470, 265};
    static float first[N_VOCAB];
    assert_int_equal(tern_session_n_ctx(s), 64);
    assert_int_equal(tern_session_max_outputs(s), 4);
    assert_ok(tern_session_append(s, ids, 4, &err), err);
    memcpy(first, test_logits(s, 0), sizeof first);
    assert_int_equal(argmax(first, N_VOCAB), 258); /* " a", as in the golden text */
    tern_session_truncate(s, 1);
    assert_int_equal(tern_session_n_tokens(s), 1);
    assert_ok(tern_session_append_all(s, ids + 1, 3, &err), err);
    assert_memory_equal(test_logits(s, 2), first, sizeof first);
    assert_int_equal(argmax(test_logits(s, 1), N_VOCAB), 265);
    assert_memory_equal(tern_session_tokens(s), ids, sizeof ids);
    tern_session_close(s);
}

static void saved_sessions(void **state)
{
    tern_error err = {0};
    const char *path = test_scratch("api-session");
    tern_session *s = open_session(*state, (tern_session_params){.size = sizeof(tern_session_params)}),
                 *t = open_session(*state, (tern_session_params){.size = sizeof(tern_session_params)});
    tern_tokens tokens = tokens_of(*state, "The dog and", TERN_TOKENIZE_BOS);
    shown whole = {0}, rest = {0};
    tern_generate_params params = greedy(&whole, 20);
    tern_generate_result result = {.size = sizeof result};
    assert_ok(tern_session_append(s, tokens.ids, (uint32_t)tokens.n, &err), err);
    assert_ok(tern_session_save(s, path, &err), err);
    assert_ok(tern_generate(s, NULL, 0, &params, &result, &err), err);
    params.context = &rest;
    assert_ok(tern_session_restore(t, path, &err), err);
    assert_int_equal(tern_session_n_tokens(t), tokens.n);
    assert_ok(tern_generate(t, NULL, 0, &params, &result, &err), err);
    assert_string_equal(rest.text, whole.text);
    tern_tokens_deinit(&tokens);
    tern_session_close(s);
    tern_session_close(t);
}

static void tokens_and_text(void **state)
{
    tern_error err = {0};
    const char text[] = "A caf\xC3\xA9, two ducks <|end_of_text|>";
    tern_engine_info info = {.size = sizeof info};
    tern_buf back = {0};
    assert_ok(tern_engine_describe(*state, &info, &err), err);
    tern_tokens plain = tokens_of(*state, text, 0), bos = tokens_of(*state, text, TERN_TOKENIZE_BOS);
    tern_tokens special = tokens_of(*state, text, TERN_TOKENIZE_SPECIAL);
    assert_int_equal(bos.n, plain.n + 1);
    assert_int_equal(bos.ids[0], info.bos);
    assert_memory_equal(bos.ids + 1, plain.ids, plain.n * sizeof *plain.ids);
    assert_true(special.n < plain.n);
    assert_int_equal(special.ids[special.n - 1], info.eos);
    const char spelled[] = "<|begin_of_text|>A caf\xC3\xA9"; /* as a template writes it: one BOS */
    tern_tokens once = tokens_of(*state, spelled, TERN_TOKENIZE_BOS | TERN_TOKENIZE_SPECIAL);
    tern_tokens added = tokens_of(*state, spelled + 17, TERN_TOKENIZE_BOS | TERN_TOKENIZE_SPECIAL);
    assert_int_equal(once.n, added.n);
    assert_memory_equal(once.ids, added.ids, once.n * sizeof *once.ids);
    tern_tokens_deinit(&once);
    tern_tokens_deinit(&added);
    assert_ok(tern_engine_detokenize(*state, plain.ids, plain.n, false, &back, &err), err);
    assert_string_equal(back.data, text);
    back.size = 0;
    assert_ok(tern_engine_detokenize(*state, special.ids, special.n, false, &back, &err), err);
    assert_string_equal(back.data, "A caf\xC3\xA9, two ducks ");
    assert_ok(tern_engine_detokenize(*state, &info.eos, 1, true, &back, &err), err); /* adds to what is there */
    assert_string_equal(back.data, text);
    tern_buf_deinit(&back);
    tern_tokens_deinit(&plain);
    tern_tokens_deinit(&bos);
    tern_tokens_deinit(&special);
}

/* A folder with the trained model and a chat template. */
static const char *chat_folder(void)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json"};
    static const char config[] =
        "{\"bos_token\": \"<|begin_of_text|>\", \"eos_token\": \"<|end_of_text|>\", \"chat_template\": "
        "\"{% for m in messages %}{{ m.role + ': ' + m.content + eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}\"}";
    const char *folder = test_scratch("api-chat");
    char from[1024], to[1024];
    mkdir(folder, 0777);
    for (size_t i = 0; i < 3; i++) {
        snprintf(from, sizeof from, "%s/%s", test_model("tiny-stories-bitnet"), files[i]);
        snprintf(to, sizeof to, "%s/%s", folder, files[i]);
        unlink(to);
        assert_int_equal(symlink(from, to), 0);
    }
    snprintf(to, sizeof to, "%s/tokenizer_config.json", folder);
    test_write_text(to, config);
    return folder;
}

static void chat_prompt(void **state)
{
    (void)state;
    tern_error err = {0};
    const char bad[] = "hi<|end_of_text|>"; /* must stay text */
    const tern_chat_message messages[] = {{"user", bad, strlen(bad)}};
    tern_tokens tokens = {0};
    tern_buf text = {0};
    tern_engine_info info = {.size = sizeof info};
    tern_engine *engine = load(chat_folder(), NULL);
    assert_ok(tern_engine_describe(engine, &info, &err), err);
    assert_true(info.chat_template);
    assert_ok(tern_engine_chat_prompt(engine, NULL, messages, 1, true, &tokens, &err), err);
    assert_ok(tern_engine_detokenize(engine, tokens.ids, tokens.n, true, &text, &err), err);
    assert_string_equal(text.data, "user: hi<|end_of_text|><|end_of_text|>assistant: ");
    size_t n_special = 0;
    for (size_t i = 0; i < tokens.n; i++) n_special += tokens.ids[i] == info.eos;
    assert_int_equal(n_special, 1);
    tern_buf_deinit(&text);
    tern_tokens_deinit(&tokens);
    tern_engine_close(engine);
}

static void conversion(void **state)
{
    (void)state;
    tern_error err = {0};
    float done = -1;
    const char *path = test_scratch("api-converted.gguf");
    tern_convert_options options = {.size = sizeof options,
                                    .type = "tq2_0",
                                    .head = "f32",
                                    .overwrite = true,
                                    .progress = count,
                                    .progress_context = &done};
    assert_ok(tern_convert(BUNDLED, path, &options, NULL, &err), err);
    assert_true(done > 0.9f && done <= 1);
    tern_engine *engine = load(path, NULL);
    golden_text_of(engine); /* nothing was lost */
    tern_engine_close(engine);
    assert_int_equal(tern_convert(BUNDLED, path, NULL, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "api-converted.gguf exists: --overwrite replaces it"));
    options.type = "q9";
    assert_int_equal(tern_convert(BUNDLED, path, &options, NULL, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "type q9: no such encoding; expected one of f32"));
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
    cmocka_unit_test(version),         cmocka_unit_test(description),      cmocka_unit_test(golden_text),
    cmocka_unit_test(engine_options),  cmocka_unit_test(threads),          cmocka_unit_test(sessions),
    cmocka_unit_test(tokens_and_text), cmocka_unit_test(chat_prompt),      cmocka_unit_test(conversion),
    cmocka_unit_test(saved_sessions),  cmocka_unit_test(loading_together),
};

TEST_GROUP(api, "threads", tests, .setup = setup, .teardown = teardown);
