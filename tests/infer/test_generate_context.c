/* Generation at the end of the context, with drafts, and with the exact head. */
#include "infer/generate_cases.h"

#include "backend/counters.h"

static void context_full(void **state)
{
    fixture *f = *state;
    tern_error err = {0};
    seen whole, s = {0};
    generate_plain_text(f, &whole, 60);
    tern_session *session = open_session(
        f->engine, TERN_SIZED(tern_session_params, .n_ctx = 40, .kv = {TERN_KV_F32, TERN_KV_F32}, .max_outputs = 5));
    tern_generate_params params = greedy_params(&s, 0);
    for (params.draft_tokens = 0; params.draft_tokens <= 4; params.draft_tokens += 4) {
        tern_generate_result result = generate(session, generate_story, &params);
        assert_int_equal(result.reason, TERN_STOP_CONTEXT);
        assert_int_equal(result.n_prompt + result.n_generated, 40);
        assert_int_equal(tern_session_n_tokens(session), 40);
        assert_memory_equal(s.ids, whole.ids, result.n_generated * sizeof *s.ids);
        s.n_ids = 0;
    }
    params.draft_tokens = 0;
    int32_t ids[41] = {0};
    tern_generate_result result = {.size = sizeof result};
    tern_session_truncate(session, 0);
    assert_int_equal(tern_generate(session, ids, 41, &params, &result, &err), TERN_CONTEXT_FULL);
    assert_string_equal(err.message, "context full: 0 tokens and 41 more, of 40");
    assert_int_equal(tern_session_n_tokens(session), 0);
    tern_session_close(session);
    forget(&s);
    forget(&whole);
}

/* Greedy text with shifts, by the plain definition: whenever the context is full, a fresh session gets what is kept. */
static void context_shift(void **state)
{
    fixture *f = *state;
    enum { CTX = 32, KEEP = 3, LENGTH = 80 };
    tern_error err = {0};
    tern_session *session = open_session(
        f->engine, TERN_SIZED(tern_session_params, .n_ctx = CTX, .kv = {TERN_KV_F32, TERN_KV_F32}, .max_outputs = 6));
    tern_session *other =
        open_session(f->engine, TERN_SIZED(tern_session_params, .n_ctx = CTX, .kv = {TERN_KV_F32, TERN_KV_F32}));
    tern_tokens prompt = ids_of(f->engine, generate_story);
    int32_t kept[CTX], want[LENGTH];
    uint32_t n = (uint32_t)prompt.n, n_vocab = tern_engine_config(f->engine)->n_vocab;
    memcpy(kept, prompt.ids, n * sizeof *kept);
    assert_ok(tern_session_append(other, kept, n, &err), err);
    for (uint32_t i = 0; i < LENGTH; i++) {
        if (n == CTX) {
            uint32_t n_moved = (CTX - KEEP) / 2;
            memmove(kept + KEEP, kept + CTX - n_moved, n_moved * sizeof *kept);
            n = KEEP + n_moved;
            tern_session_truncate(other, 0);
            assert_ok(tern_session_append(other, kept, n, &err), err);
        }
        const float *logits = test_logits(other, 0);
        uint32_t best = 0;
        for (uint32_t v = 1; v < n_vocab; v++)
            if (logits[v] > logits[best]) best = v;
        want[i] = kept[n++] = (int32_t)best;
        assert_ok(tern_session_append(other, &want[i], 1, &err), err);
    }
    for (uint32_t n_drafted = 0; n_drafted <= 5; n_drafted += 5) {
        seen s = {0};
        tern_generate_params params = greedy_params(&s, LENGTH);
        params.context_shift = true;
        params.ignore_eos = true;
        params.n_keep = KEEP;
        params.draft_tokens = n_drafted;
        generate(session, generate_story, &params);
        assert_int_equal(s.n_ids, LENGTH);
        assert_memory_equal(s.ids, want, sizeof want);
        assert_int_equal(tern_session_n_tokens(session), n);
        assert_memory_equal(tern_session_tokens(session), kept, n * sizeof *kept);
        forget(&s);
    }
    tern_tokens_deinit(&prompt);
    tern_session_close(session);
    tern_session_close(other);
}

/* A small model guesses: here the same one, in a context that is soon too short, so that look-up goes on alone; with
 * shifts of the context; greedily, where all its guesses are right, and not. */
static void draft_models_change_nothing(void **state)
{
    fixture *f = *state;
    const tern_session_params shape = {
        .size = sizeof shape, .n_ctx = 64, .kv = {TERN_KV_F32, TERN_KV_F32}, .max_outputs = 5};
    tern_session *session = open_session(f->engine, shape),
                 *small = open_session(f->engine,
                                       TERN_SIZED(tern_session_params, .n_ctx = 60, .kv = {TERN_KV_F32, TERN_KV_F32}));
    uint32_t n_accepted = 0, n_found = 0;
    for (uint32_t i = 0; i < 3; i++) {
        seen plain = {0}, s = {0};
        tern_generate_params params = greedy_params(&plain, 90);
        params.ignore_eos = params.context_shift = true;
        params.n_keep = 2;
        params.sampler.temperature = 0.5f * (float)i;
        tern_session_truncate(session, 0);
        tern_generate_result without = generate(session, generate_story, &params), with;
        params.context = &s;
        params.draft_tokens = 4;
        params.draft = small;
        tern_session_truncate(session, 0);
        with = generate(session, generate_story, &params);
        assert_int_equal(with.n_generated, without.n_generated);
        assert_memory_equal(s.ids, plain.ids, plain.n_ids * sizeof *s.ids);
        if (i == 0) {
            n_accepted = with.n_accepted;
            params.draft = NULL;
            tern_session_truncate(session, 0);
            n_found = generate(session, generate_story, &params).n_accepted;
        }
        forget(&s);
        forget(&plain);
    }
    printf("%u drafted tokens of 90 accepted, by look-up alone %u\n", n_accepted, n_found);
    assert_true(n_accepted > n_found);
    tern_session_close(small);
    tern_session_close(session);
}

static void draft_models_are_checked(void **state)
{
    fixture *f = *state;
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    tern_generate_result result = {.size = sizeof result};
    assert_ok(tern_model_open(&model, test_fixture("llama"), &(tern_model_options){.no_tokenizer = true}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &(tern_engine_params){.backend = {.n_threads = 1}}, &err), err);
    tern_session *other = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64));
    tern_generate_params params = greedy_params(NULL, 1);
    params.on_piece = NULL;
    params.draft_tokens = 4;
    params.draft = f->session;
    assert_int_equal(tern_generate(f->session, (int32_t[]){5}, 1, &params, &result, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "draft session: another session expected");
    params.draft = other;
    assert_int_equal(tern_generate(f->session, (int32_t[]){5}, 1, &params, &result, &err), TERN_INVALID_ARGUMENT);
    char want[96];
    snprintf(want, sizeof want, "draft model with a vocabulary of %u tokens: %u expected",
             tern_engine_config(engine)->n_vocab, tern_engine_config(f->engine)->n_vocab);
    assert_string_equal(err.message, want);
    tern_session_close(other);
    tern_engine_close(engine);
}

/* Whatever the settings and the seed: the same tokens with and without drafts. */
static void drafts_change_nothing(void **state)
{
    fixture *f = *state;
    const char *const prompts[] = {"The cat sat. The cat ran. The cat sat. The cat", generate_story};
    uint32_t n_drafted = 0, n_accepted = 0;
    for (uint32_t i = 0; i < 8; i++) {
        seen plain = {0}, s = {0};
        tern_generate_params params = {.size = sizeof params,
                                       .sampler = TERN_SAMPLER_DEFAULTS,
                                       .max_tokens = 60,
                                       .draft_costs = equal_costs,
                                       .on_piece = see,
                                       .context = &plain};
        params.sampler.seed = i;
        params.sampler.temperature = 0.25f * (float)(i / 2);
        if (i & 1) params.sampler.repetition_penalty = 1.2f, params.sampler.top_k = 0, params.sampler.typical_p = 0.9f;
        tern_generate_result without = generate(f->session, prompts[i & 1], &params), with;
        params.context = &s;
        params.draft_tokens = 1 + i;
        with = generate(f->session, prompts[i & 1], &params);
        assert_int_equal(without.n_drafted, 0);
        assert_int_equal(with.n_generated, without.n_generated);
        assert_int_equal(with.reason, without.reason);
        assert_memory_equal(s.ids, plain.ids, plain.n_ids * sizeof *s.ids);
        assert_int_equal(s.text.size, plain.text.size);
        assert_memory_equal(s.text.data, plain.text.data, s.text.size);
        assert_int_equal(tern_session_n_tokens(f->session), with.n_prompt + with.n_generated);
        assert_true(with.n_accepted <= with.n_drafted && with.n_accepted < with.n_generated);
        n_drafted += with.n_drafted;
        n_accepted += with.n_accepted;
        forget(&s);
        forget(&plain);
    }
    printf("%u of %u drafted tokens accepted\n", n_accepted, n_drafted);
    assert_true(n_accepted > 10);
}

/* A model forced to repeat itself accepts nearly every draft, and each step decides all of them. */
static void drafts_are_accepted(void **state)
{
    fixture *f = *state;
    const tern_logit_bias bias = {300, 1e6f};
    seen s = {0};
    tern_generate_params params = greedy_params(&s, 90);
    params.sampler.biases = &bias;
    params.sampler.n_biases = 1;
    params.draft_tokens = 8;
    tern_backend *b = tern_engine_backend(f->engine);
    tern_backend_counters before, after;
    b->counters(b, &before);
    tern_generate_result result = generate(f->session, generate_story, &params);
    b->counters(b, &after);
    for (uint32_t i = 0; i < 90; i++) assert_int_equal(s.ids[i], 300);
    assert_int_equal(result.n_accepted, result.n_drafted);
    assert_in_range(result.n_accepted, 78, 89);
    assert_in_range(after.runs - before.runs, 10, 13);
    forget(&s);
}

/* With the exact head the text is the same, and after it all logits are wanted again. */
static void exact_head(void **state)
{
    fixture *f = *state;
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
    assert_ok(
        tern_engine_open(&engine, model, &(tern_engine_params){.backend = {.n_threads = 1}, .head_exact = true}, &err),
        err);
    tern_session *session = open_session(
        engine, TERN_SIZED(tern_session_params, .n_ctx = 512, .kv = {TERN_KV_F32, TERN_KV_F32}, .max_outputs = 9));
    for (uint32_t i = 0; i < 6; i++) {
        seen full = {0}, exact = {0};
        tern_generate_params params = greedy_params(&full, 50);
        params.sampler.temperature = 0.5f * (float)(i / 2);
        params.sampler.repetition_penalty = i & 1 ? 1.3f : 1;
        params.draft_tokens = i & 1 ? 4 : 0;
        generate(f->session, generate_story, &params);
        params.context = &exact;
        generate(session, generate_story, &params);
        assert_int_equal(exact.n_ids, full.n_ids);
        assert_memory_equal(exact.ids, full.ids, full.n_ids * sizeof *full.ids);
        forget(&full);
        forget(&exact);
    }
    const int32_t id = 5;
    assert_ok(tern_session_append(session, &id, 1, &err), err);
    for (uint32_t v = 0; v < tern_engine_config(engine)->n_vocab; v++) assert_true(test_logits(session, 0)[v] > -1e30f);
    tern_session_close(session);
    tern_engine_close(engine);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(context_full),
    cmocka_unit_test(context_shift),
    cmocka_unit_test(drafts_change_nothing),
    cmocka_unit_test(drafts_are_accepted),
    cmocka_unit_test(exact_head),
    cmocka_unit_test(draft_models_change_nothing),
    cmocka_unit_test(draft_models_are_checked),
};

TEST_GROUP(generate_context, "slow threads", tests, .setup = generate_setup, .teardown = generate_teardown);
