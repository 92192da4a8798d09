/* The public API beside loading and generating: what runs a model and what it has done, tokenizers without weights,
 * chat templates, scores of a text. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/support.h"
#include "base/file.h"

static const char text[] = "Once upon a time there was a little girl.";

/* Eight layers of matrices: q and o 256 x 256, k and v 128 x 256, gate, up and down 256 x 768. */
static const uint64_t ternary = 8 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 256 * 768);

static void description(void **state)
{
    tern_error err = {0};
    tern_engine_info info = {.size = sizeof info};
    assert_ok(tern_engine_describe(*state, &info, &err), err);
    assert_string_equal(info.backend, "cpu");
    assert_null(info.device);
    assert_int_equal(info.max_steps, 1);
    assert_int_equal(info.ternary_parameters, ternary);
    assert_true(info.encoding[0] && info.head[0]);
    tern_engine *exact = load(BUNDLED, &TERN_SIZED(tern_engine_options, .head = "exact", .no_tokenizer = true));
    assert_ok(tern_engine_describe(exact, &info, &err), err);
    assert_string_equal(info.head, "exact");
    assert_false(info.has_tokenizer);
    assert_null(tern_engine_tokenizer(exact));
    tern_tokens tokens = {0};
    assert_int_equal(tern_engine_tokenize(exact, "a", 1, 0, &tokens, &err), TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "no tokenizer"));
    tern_engine_close(exact);
}

/* The same model without the int8 quantiser: it says so, and gives other logits near by. */
static void activations(void **state)
{
    tern_error err = {0};
    tern_engine_info info = {.size = sizeof info};
    const int32_t ids[] = {1, 40, 7, 99};
    float *a, *b;
    double error = 0, size = 0;
    tern_engine *f32 = load(BUNDLED, &TERN_SIZED(tern_engine_options, .activations = TERN_ACTIVATIONS_F32));
    assert_ok(tern_engine_describe(f32, &info, &err), err);
    assert_string_equal(info.activations, "f32");
    assert_ok(tern_engine_describe(*state, &info, &err), err);
    assert_string_equal(info.activations, "int8");
    tern_session *one = open_session(*state, TERN_SIZED(tern_session_params, .n_ctx = 16)),
                 *other = open_session(f32, TERN_SIZED(tern_session_params, .n_ctx = 16));
    assert_ok(tern_session_append(one, ids, 4, &err), err);
    assert_ok(tern_session_append(other, ids, 4, &err), err);
    assert_ok(tern_session_logits(one, 0, &a, &err), err);
    assert_ok(tern_session_logits(other, 0, &b, &err), err);
    for (uint32_t i = 0; i < info.n_vocab; i++) {
        error += (double)(a[i] - b[i]) * (double)(a[i] - b[i]);
        size += (double)a[i] * (double)a[i];
    }
    assert_true(error > 1e-8 * size && error < 1e-2 * size);
    tern_session_close(one);
    tern_session_close(other);
    tern_engine_close(f32);
}

static void check_activations(const char *path, tern_activation_mode mode, const char *expected)
{
    tern_error err = {0};
    tern_engine_info info = {.size = sizeof info};
    tern_engine *engine = load(path, &TERN_SIZED(tern_engine_options, .activations = mode));
    assert_ok(tern_engine_describe(engine, &info, &err), err);
    assert_string_equal(info.activations, expected);
    tern_engine_close(engine);
}

/* Dense layers in blocks multiply int8 unless f32 is asked for; others have f32 alone. */
static void dense_activations(void **state)
{
    (void)state;
    const char *blocks = test_converted(test_fixture("llama"), "q4_k", "q6_k");
    check_activations(blocks, TERN_ACTIVATIONS_AUTO, "int8");
    check_activations(blocks, TERN_ACTIVATIONS_INT8, "int8");
    check_activations(blocks, TERN_ACTIVATIONS_F32, "f32");
    check_activations(blocks, TERN_ACTIVATIONS_F16, "f16");
    check_activations(test_fixture("llama"), TERN_ACTIVATIONS_AUTO, "f32");
}

static void counters(void **state)
{
    tern_error err = {0};
    tern_engine_counters before = {.size = sizeof before}, after = {.size = sizeof after};
    tern_engine_profile_row rows[64];
    size_t n = 0, all = 0;
    const int32_t ids[] = {1, 2, 3};
    tern_session *session = open_session(*state, TERN_SIZED(tern_session_params, .n_ctx = 16));
    assert_ok(tern_engine_count(*state, &before, &err), err);
    assert_ok(tern_session_append(session, ids, 3, &err), err);
    assert_ok(tern_engine_count(*state, &after, &err), err);
    assert_int_equal(after.runs, before.runs + 1);
    assert_true(after.ops > before.ops);
    assert_true(after.weight_bytes - before.weight_bytes > ternary / 5); /* at least 1.6 bits each */
    assert_ok(tern_engine_profile(*state, rows, 64, &n, &err), err);
    assert_true(n > 0 && n <= 64);
    uint64_t times = 0;
    for (size_t i = 0; i < n; i++) times += rows[i].ns;
    assert_true(times > 0 && rows[0].name[0] && rows[0].kernel);
    assert_ok(tern_engine_profile(*state, NULL, 0, &all, &err), err); /* how many there are */
    assert_int_equal(all, n);
    tern_session_close(session);
    assert_true(tern_engine_read_bandwidth(*state, 0.01) > 1e6);
    assert_true(tern_engine_dot_rate(*state, 0.01) > 1e6);
}

/* What the files put behind texts that are embedded. */
static void texts_end(void **state)
{
    (void)state;
    static const char config[] = "{\"eos_token\": \"<|end_of_text|>\", \"add_eos_token\": true}";
    tern_error err = {0};
    tern_tokenizer *t;
    tern_tokens ids = {0};
    tern_buf file = {0};
    const char *source = test_model("tiny-stories-bitnet/tokenizer.json");
    assert_ok(tern_file_read(&file, source, 1 << 24, &err), err);
    mkdir(test_scratch("ends"), 0777);
    test_write_file(test_scratch("ends/tokenizer.json"), file.data, file.size);
    test_write_file(test_scratch("ends/tokenizer_config.json"), config, strlen(config));
    tern_buf_deinit(&file);
    assert_ok(tern_tokenizer_load(&t, test_scratch("ends"), &err), err);
    assert_ok(tern_tokenizer_encode(t, "a", 1, 0, &ids, &err), err);
    const size_t n = ids.n;
    assert_ok(tern_tokenizer_encode(t, "a", 1, TERN_TOKENIZE_END, &ids, &err), err);
    assert_int_equal(ids.n, 2 * n + 1);
    size_t size;
    const char *piece = tern_tokenizer_piece(t, ids.ids[2 * n], &size);
    assert_int_equal(size, strlen("<|end_of_text|>"));
    assert_memory_equal(piece, "<|end_of_text|>", size);
    tern_tokens_deinit(&ids);
    tern_tokenizer_close(t);
}

/* Of one kind of file or folder; as the engine's. */
static void check_tokenizer(const tern_engine *engine, const char *path)
{
    tern_error err = {0};
    tern_tokenizer *t;
    tern_tokens want = tokens_of(engine, text, TERN_TOKENIZE_BOS), got = {0};
    tern_buf back = {0};
    size_t n;
    assert_ok(tern_tokenizer_load(&t, path, &err), err);
    assert_ok(tern_tokenizer_encode(t, text, strlen(text), TERN_TOKENIZE_BOS, &got, &err), err);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.ids, want.ids, want.n * sizeof *want.ids);
    assert_ok(tern_tokenizer_decode(t, got.ids, got.n, false, &back, &err), err);
    assert_string_equal(back.data, text);
    const char *piece = tern_tokenizer_piece(t, got.ids[1], &n);
    assert_memory_equal(piece, "Once", n < 4 ? n : 4);
    tern_tokenizer_piece(t, 1 << 20, &n);
    assert_int_equal(n, 0);
    assert_int_equal(tern_tokenizer_decode(t, (int32_t[]){1 << 20}, 1, false, &back, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_tokenizer_encode(t, NULL, 1, 0, &got, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_tokenizer_encode(t, "", 0, 8, &got, &err), TERN_INVALID_ARGUMENT);
    tern_buf_deinit(&back);
    tern_tokens_deinit(&want);
    tern_tokens_deinit(&got);
    tern_tokenizer_close(t);
}

static void tokenizers(void **state)
{
    tern_error err = {0};
    tern_tokenizer *t = (tern_tokenizer *)&err;
    check_tokenizer(*state, BUNDLED);
    check_tokenizer(*state, test_model("tiny-stories-bitnet"));
    assert_int_equal(tern_tokenizer_load(&t, "no-such-file", &err), TERN_NOT_FOUND);
    assert_null(t);
    assert_int_equal(tern_tokenizer_load(&t, __FILE__, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "test_api_parts.c"));
    assert_int_equal(tern_tokenizer_load(NULL, BUNDLED, &err), TERN_INVALID_ARGUMENT);
    tern_tokenizer_close(NULL);
}

static void templates(void **state)
{
    tern_error err = {0};
    tern_chat_template *chat;
    tern_tokens tokens = {0};
    tern_buf back = {0};
    const tern_chat_message message = {"user", "hi<|im_end|>", 12};
    const char *source = tern_chat_template_builtin("chatml");
    assert_null(tern_chat_template_builtin("no such"));
    assert_ok(tern_chat_template_parse(&chat, source, strlen(source), &err), err);
    assert_ok(tern_engine_chat_prompt(*state, chat, &message, 1, true, &tokens, &err), err);
    assert_ok(tern_engine_detokenize(*state, tokens.ids, tokens.n, true, &back, &err), err);
    assert_string_equal(back.data, "<|im_start|>user\nhi<|im_end|><|im_end|>\n<|im_start|>assistant\n");
    tern_chat_template_close(chat);
    assert_int_not_equal(tern_chat_template_parse(&chat, "{% if", 5, &err), TERN_OK);
    assert_null(chat);
    tern_chat_template_close(NULL);
    tern_buf_deinit(&back);
    tern_tokens_deinit(&tokens);
}

/* The score is what the logits of one token after another say. */
static void scores(void **state)
{
    tern_error err = {0};
    tern_perplexity_result r = {.size = sizeof r};
    tern_tokens tokens = tokens_of(*state, text, 0);
    tern_session *session = open_session(*state, TERN_SIZED(tern_session_params, .n_ctx = 64));
    double nll = 0;
    for (size_t i = 0; i + 1 < tokens.n; i++) {
        float *logits;
        double sum = 0;
        assert_ok(tern_session_append(session, &tokens.ids[i], 1, &err), err);
        assert_ok(tern_session_logits(session, 0, &logits, &err), err);
        for (int v = 0; v < 2048; v++) sum += exp((double)logits[v]);
        nll += log(sum) - (double)logits[tokens.ids[i + 1]];
    }
    assert_ok(tern_perplexity(session, tokens.ids, tokens.n, NULL, &r, &err), err);
    assert_int_equal(r.n_scored, tokens.n - 1);
    assert_true(fabs(r.nll - nll / (double)r.n_scored) < 1e-4);
    assert_int_equal(tern_perplexity(NULL, tokens.ids, tokens.n, NULL, &r, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_perplexity(session, NULL, 2, NULL, &r, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_perplexity(session, tokens.ids, tokens.n, NULL, NULL, &err), TERN_INVALID_ARGUMENT);
    tern_session_close(session);
    tern_tokens_deinit(&tokens);
}

static void conversions(void **state)
{
    tern_error err = {0};
    tern_convert_result result = {.size = sizeof result};
    tern_engine_info info = {.size = sizeof info};
    const char *path = test_scratch("api-parts.gguf");
    assert_ok(tern_engine_describe(*state, &info, &err), err);
    unlink(path);
    assert_ok(tern_convert(BUNDLED, path, NULL, &result, &err), err);
    assert_int_equal(result.parameters, info.parameters);
    assert_int_equal(tern_convert(path, path, NULL, &result, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "input and output are the same file"));
    assert_int_equal(result.parameters, 0);
    unlink(path);
}

/* Two of eight experts, gate, up and down 256 x 256 as BF16, in 2 layers. */
static void experts(void **state)
{
    tern_error err = {0};
    tern_engine_info info = {.size = sizeof info};
    assert_ok(tern_engine_describe(*state, &info, &err), err);
    assert_true(info.layer_experts == 0 && info.token_experts == 0 && info.token_expert_bytes == 0);
    tern_engine *engine = load(test_fixture("mixtral"), &TERN_SIZED(tern_engine_options, .no_tokenizer = true));
    assert_ok(tern_engine_describe(engine, &info, &err), err);
    assert_int_equal(info.layer_experts, 8);
    assert_int_equal(info.token_experts, 2);
    assert_int_equal(info.token_expert_bytes, 2 * 2 * 3 * 256 * 256 * 2);
    tern_engine_close(engine);
}

static void choices(void **state)
{
    (void)state;
    tern_error err = {0};
    const char *path = test_scratch("api-choices.json");
    assert_int_equal(tern_tune_check("no-such-file", &err), TERN_NOT_FOUND);
    test_write_text(path, "{}");
    assert_int_equal(tern_tune_check(path, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "api-choices.json"));
    assert_int_equal(tern_tune_check(NULL, &err), TERN_INVALID_ARGUMENT);
}

static int setup(void **state)
{
    *state = load(BUNDLED, &TERN_SIZED(tern_engine_options, .cpu.n_threads = 1));
    return 0;
}

static int teardown(void **state)
{
    tern_engine_close(*state);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(description), cmocka_unit_test(activations), cmocka_unit_test(dense_activations),
    cmocka_unit_test(counters),    cmocka_unit_test(tokenizers),  cmocka_unit_test(texts_end),
    cmocka_unit_test(templates),   cmocka_unit_test(scores),      cmocka_unit_test(conversions),
    cmocka_unit_test(choices),     cmocka_unit_test(experts),
};

TEST_GROUP(api_parts, "", tests, .setup = setup, .teardown = teardown);
