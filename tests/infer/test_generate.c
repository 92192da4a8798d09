/* Generation: golden text, stop conditions, streaming, allocations. */
#include "infer/generate_cases.h"

#include "base/bytes.h"
#include "text/tokenizer/tokenizer.h"

enum { MAX_BYTES = 1 << 20 };

static void check_golden(tern_session *session, const char *prompt, const json_t *golden)
{
    const json_t *ids = json_object_get(golden, "ids");
    const char *text = json_string_value(json_object_get(golden, "text")); /* prompt included */
    uint32_t n = (uint32_t)json_array_size(ids);
    seen s = {0};
    tern_generate_params params = greedy_params(&s, 64);
    tern_generate_result result = generate(session, prompt, &params);
    assert_int_equal(result.n_prompt + result.n_generated, n);
    assert_int_equal(tern_session_n_tokens(session), n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(tern_session_tokens(session)[i], json_number_value(json_array_get(ids, i)));
    assert_string_equal(s.text.data, text + strlen(prompt));
    assert_int_equal(result.reason, TERN_STOP_LENGTH);
    forget(&s);
}

static void golden_text(void **state)
{
    fixture *f = *state;
    tern_error err = {0};
    json_t *root;
    assert_ok(tern_json_read(&root, test_model("tiny-stories-bitnet/golden_greedy.json"), MAX_BYTES, &err), err);
    const char *prompt;
    json_t *golden;
    json_object_foreach(root, prompt, golden) check_golden(f->session, prompt, golden);
    tern_json_free(root);
}

/* No piece may show a stop string, and what comes before it must be there whole, wherever tokens end. */
static void stop_strings(void **state)
{
    fixture *f = *state;
    seen whole;
    generate_plain_text(f, &whole, 40);
    assert_true(whole.text.size > 80);
    char parts[4][13] = {0}; /* across tokens */
    for (size_t i = 0; i < 4; i++) memcpy(parts[i], (char *)whole.text.data + 22 + 7 * i, i == 3 ? 2 : 7 + 2 * i);
    const char *const stops[] = {parts[0], parts[1], parts[2], parts[3], "p", ".", "E", "Once", "zebra"};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        seen s = {0};
        tern_generate_params params = greedy_params(&s, 40);
        params.stops = &stops[i];
        params.n_stops = 1;
        tern_generate_result result = generate(f->session, generate_story, &params);
        const char *at = strstr(whole.text.data, stops[i]);
        assert_int_equal(result.reason, at ? TERN_STOP_STRING : TERN_STOP_LENGTH);
        assert_int_equal(s.text.size, at ? (size_t)(at - whole.text.data) : whole.text.size);
        assert_memory_equal(s.text.data, whole.text.data, s.text.size);
        assert_memory_equal(s.ids, whole.ids, s.n_ids * sizeof *s.ids);
        assert_int_equal(s.n_ids, result.n_generated);
        assert_int_equal(tern_session_n_tokens(f->session), result.n_prompt + result.n_generated);
        forget(&s);
    }
    forget(&whole);
}

/* Text that was held back for a stop string that never came is shown at the end. */
static void held_back(void **state)
{
    fixture *f = *state;
    seen whole;
    generate_plain_text(f, &whole, 30);
    char stop[32];
    const char *tail = whole.text.data + whole.text.size - 6;
    snprintf(stop, sizeof stop, "%s#####", tail);
    const char *const stops[] = {stop};
    seen s = {0};
    tern_generate_params params = greedy_params(&s, 30);
    params.stops = stops;
    params.n_stops = 1;
    tern_generate_result result = generate(f->session, generate_story, &params);
    assert_int_equal(result.reason, TERN_STOP_LENGTH);
    assert_int_equal(s.n_pieces, 31);
    assert_string_equal(s.text.data, whole.text.data);
    forget(&s);
    forget(&whole);
}

/* A bias makes the end token the only choice, unless it is ignored. */
static void end_token(void **state)
{
    fixture *f = *state;
    const tern_tokenizer *t = tern_model_tokenizer(tern_engine_model(f->engine));
    const tern_logit_bias bias = {tern_tokenizer_eos(t), 1e6f};
    for (int ignore = 0; ignore < 2; ignore++) {
        seen s = {0};
        tern_generate_params params = greedy_params(&s, 5);
        params.sampler.biases = &bias;
        params.sampler.n_biases = 1;
        params.ignore_eos = ignore;
        tern_generate_result result = generate(f->session, generate_story, &params);
        assert_int_equal(result.reason, ignore ? TERN_STOP_LENGTH : TERN_STOP_END_TOKEN);
        assert_int_equal(result.n_generated, ignore ? 5 : 0);
        assert_int_equal(tern_session_n_tokens(f->session), result.n_prompt + result.n_generated);
        assert_int_equal(s.text.size, 0);
        forget(&s);
    }
    seen s = {0};
    tern_generate_params params = greedy_params(&s, 2);
    params.sampler.biases = &bias;
    params.sampler.n_biases = params.ignore_eos = params.show_special = 1;
    generate(f->session, generate_story, &params);
    tern_span piece = tern_token_piece(t, bias.id);
    assert_int_equal(s.text.size, 2 * piece.size);
    assert_memory_equal(s.text.data, piece.data, piece.size);
    forget(&s);
}

/* Stopped by the caller and gone on with: the same text as in one go. */
static void caller_stops(void **state)
{
    fixture *f = *state;
    tern_error err = {0};
    seen whole;
    generate_plain_text(f, &whole, 30);
    seen s = {.stop_after = 11};
    tern_generate_params params = greedy_params(&s, 30);
    tern_generate_result result = generate(f->session, generate_story, &params);
    assert_int_equal(result.reason, TERN_STOP_CALLER);
    assert_int_equal(result.n_generated, 11);
    params.max_tokens = 19;
    assert_ok(tern_generate(f->session, NULL, 0, &params, &result, &err), err);
    assert_int_equal(result.reason, TERN_STOP_LENGTH);
    assert_int_equal(result.n_prompt, 0);
    assert_int_equal(s.n_ids, 30);
    assert_memory_equal(s.ids, whole.ids, 30 * sizeof *s.ids);
    forget(&s);
    forget(&whole);
}

typedef struct watched {
    uint64_t counts[64];
    uint32_t n;
} watched;

static bool watch(void *context, const tern_piece *piece)
{
    (void)piece;
    watched *w = context;
    w->counts[w->n++] = tern_alloc_count();
    return true;
}

static void no_allocation(void **state)
{
    fixture *f = *state;
    const char *const stops[] = {"\n\n\n", "cat liked to swim"};
    tern_session *session = open_session(f->engine, TERN_SIZED(tern_session_params, .n_ctx = 64, .max_outputs = 5));
    for (uint32_t n_drafted = 0; n_drafted <= 4; n_drafted += 4) {
        watched w = {.n = 0};
        tern_generate_params params = greedy_params(NULL, 60); /* with a context shift on the way */
        params.sampler.temperature = 0.7f;
        params.sampler.repetition_penalty = 1.1f;
        params.context_shift = params.ignore_eos = true;
        params.n_keep = 4;
        params.stops = stops;
        params.n_stops = 2;
        params.draft_tokens = n_drafted;
        params.on_piece = watch;
        params.context = &w;
        generate(session, generate_story, &params);
        assert_in_range(w.n, 60, 61);
        for (uint32_t i = 1; i < w.n; i++) assert_int_equal(w.counts[i], w.counts[0]);
    }
    tern_session_close(session);
}

static void refusals(void **state)
{
    fixture *f = *state;
    tern_error err = {0};
    tern_generate_result result = {.size = sizeof result};
    const int32_t n_vocab = (int32_t)tern_engine_config(f->engine)->n_vocab;
    int32_t ids[] = {5, 7, n_vocab};
    char wrong[64];
    snprintf(wrong, sizeof wrong, "token 2 is id %d: 0 to %d expected", n_vocab, n_vocab - 1);
    tern_generate_params params = greedy_params(NULL, 1);
    params.on_piece = NULL;
    tern_session_truncate(f->session, 0);
    assert_int_equal(tern_generate(f->session, ids, 0, &params, &result, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "prompt of 0 tokens, and none before: at least 1 expected");
    assert_int_equal(tern_generate(f->session, ids, 3, &params, &result, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, wrong);
    params.draft_tokens = 9;
    assert_int_equal(tern_generate(f->session, ids, 2, &params, &result, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "9 drafted tokens: at most 8 expected, one less than the session's logits rows");
    params.draft_tokens = 0;
    params.context_shift = true;
    params.n_keep = 511;
    assert_int_equal(tern_generate(f->session, ids, 2, &params, &result, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "context shift keeps 511 tokens: at most 510 of a context of 512 expected");
    params.context_shift = false;
    params.sampler.top_p = 7;
    assert_int_equal(tern_generate(f->session, ids, 2, &params, &result, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_session_n_tokens(f->session), 0);
    params.sampler.top_p = 1;
    int64_t live = tern_alloc_live();
    assert_ok(tern_generate(f->session, ids, 2, &params, &result, &err), err); /* no callback */
    assert_int_equal(result.n_generated, 1);
    assert_int_equal(tern_alloc_live(), live);
}

/* Every allocation of a generation fails once. */
static void out_of_memory(void **state)
{
    fixture *f = *state;
    tern_error err = {0};
    const int32_t ids[] = {5, 7};
    const char *const stops[] = {"x"};
    tern_generate_params params = greedy_params(NULL, 3);
    params.on_piece = NULL;
    params.draft_tokens = 4;
    params.stops = stops;
    params.n_stops = 1;
    params.sampler.temperature = 1;
    int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    uint64_t n = 0;
    while (status != TERN_OK) {
        tern_generate_result result = {.size = sizeof result};
        tern_session_truncate(f->session, 0);
        tern_alloc_fail_after(++n, false);
        status = tern_generate(f->session, ids, 2, &params, &result, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        assert_int_equal(tern_alloc_live(), live);
    }
    assert_true(n > 8);
}

/* Models without a tokenizer generate ids. */
static void no_tokenizer(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    assert_ok(tern_model_open(&model, test_fixture("llama"), &(tern_model_options){.no_tokenizer = true}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &(tern_engine_params){.backend = {.n_threads = 1}}, &err), err);
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64));
    seen s = {0};
    tern_generate_params params = greedy_params(&s, 10);
    tern_generate_result result = {.size = sizeof result};
    const int32_t prompt[] = {1, 2, 3};
    assert_ok(tern_generate(session, prompt, 3, &params, &result, &err), err);
    assert_int_equal(s.n_ids, 10);
    assert_int_equal(s.text.size, 0);
    assert_memory_equal(tern_session_tokens(session) + 3, s.ids, 10 * sizeof *s.ids);
    tern_session_close(session);
    tern_engine_close(engine);
    forget(&s);
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(tern_stop_reason_name(TERN_STOP_STRING), "stop string");
    assert_string_equal(tern_stop_reason_name((tern_stop_reason)99), "unknown");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(golden_text), cmocka_unit_test(stop_strings),  cmocka_unit_test(held_back),
    cmocka_unit_test(end_token),   cmocka_unit_test(caller_stops),  cmocka_unit_test(no_allocation),
    cmocka_unit_test(refusals),    cmocka_unit_test(out_of_memory), cmocka_unit_test(no_tokenizer),
    cmocka_unit_test(names),
};

TEST_GROUP(generate, "shared slow threads web", tests, .setup = generate_setup, .teardown = generate_teardown);
