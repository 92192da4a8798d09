/* Generation step by step on a device that cannot be waited for, on every backend: what is generated at once, on the
 * same device while it can be waited for, says what is right. */
#include "infer/generation.h"
#include "support/pending_backend.h"

static void check_generation(const generation_fixture *f, uint32_t n_ctx, const char *prompt,
                             const tern_generate_params *params, uint32_t stop_after)
{
    generated want = {.seen.stop_after = stop_after}, got = {.seen.stop_after = stop_after};
    tern_session *session = generation_session(f, n_ctx);
    at_once(session, prompt, *params, &want);
    tern_session_truncate(session, 0);
    test_make_pending(generation_backend(f), GENERATION_SEED);
    by_steps(session, prompt, *params, &got);
    assert_true(test_pending_count() > 0);
    test_end_pending(generation_backend(f));
    assert_same_generated(&got, &want);
    forget(&want.seen);
    forget(&got.seen);
    tern_session_close(session);
}

static void samplers(void **state)
{
    const generation_fixture *f = *state;
    static const tern_logit_bias bias = {300, 4.0f};
    static const tern_sampler_chain chain = {.size = sizeof chain, .xtc_probability = 0.5f, .dry_multiplier = 1};
    static const tern_sampler_chain mirostat = {.size = sizeof mirostat, .mirostat_tau = 4};
    for (uint32_t i = 0; i < 9; i++) {
        tern_generate_params params = generation_params(f);
        tern_sampler_params *s = &params.sampler;
        s->seed = 7 + i;
        if (i == 0) s->temperature = 0;
        if (i == 2) s->top_k = 65;
        if (i == 3) s->repetition_penalty = 1.1f, s->presence_penalty = 0.2f, s->frequency_penalty = 0.1f;
        if (i == 4) s->biases = &bias, s->n_biases = 1;
        if (i == 5) s->typical_p = 0.5f;
        if (i == 6) s->temperature = 0, params.draft_tokens = 4;
        if (i == 7) s->chain = &chain;
        if (i == 8) s->chain = &mirostat, params.draft_tokens = 4;
        check_generation(f, 128, generation_story, &params, 0);
    }
}

/* Ends of every kind, and a context that is made room in. */
static void ends(void **state)
{
    static const char *const stop = ".";
    const generation_fixture *f = *state;
    tern_generate_params params = generation_params(f);
    params.sampler.temperature = 0;
    check_generation(f, 128, generation_story, &params, 3); /* the callback's */
    params.stops = &stop;
    params.n_stops = 1;
    check_generation(f, 128, generation_story, &params, 0);
    params.n_stops = 0;
    check_generation(f, 128, "They learned that it is good to be", &params, 0); /* an end token */
    params.max_tokens = 0;
    check_generation(f, f->slow ? 14 : 24, "Once upon", &params, 0);
    for (uint32_t draft = 0; draft <= 4; draft += 4) {
        params.max_tokens = f->slow ? 16 : 40;
        params.context_shift = params.ignore_eos = true;
        params.n_keep = 2;
        params.draft_tokens = draft;
        check_generation(f, f->slow ? 14 : 24, "Once upon", &params, 0);
    }
}

/* Whatever call it is after: the session has a prefix of what there would have been, and goes on to the rest of it. */
static void check_left(const generation_fixture *f, tern_session *session, const generated *whole, uint32_t n_seen,
                       const tern_generate_params *params)
{
    generated rest = {0};
    tern_generate_params how = *params;
    const uint32_t n = tern_session_n_tokens(session), n_prompt = whole->n_tokens - whole->seen.n_ids;
    assert_true(n <= n_prompt ? n_seen == 0 : n == n_prompt + n_seen);
    assert_memory_equal(tern_session_tokens(session), whole->tokens, n * sizeof *whole->tokens);
    if (n < n_prompt || n_seen >= how.max_tokens) return;
    how.max_tokens -= n_seen;
    by_steps(session, NULL, how, &rest);
    assert_int_equal(rest.seen.n_ids, whole->seen.n_ids - n_seen);
    assert_memory_equal(rest.seen.ids, whole->seen.ids + n_seen, rest.seen.n_ids * sizeof *rest.seen.ids);
    assert_int_equal(rest.n_tokens, whole->n_tokens);
    assert_memory_equal(rest.tokens, whole->tokens, rest.n_tokens * sizeof *rest.tokens);
    forget(&rest.seen);
    (void)f;
}

typedef enum left_how { LEFT_STOP, LEFT_CLOSE, LEFT_FAIL } left_how;

/* Leaves a generation after so many calls (or reads that fail); returns false when it was done before. */
static bool leave(const generation_fixture *f, tern_session *session, const generated *whole, uint32_t after,
                  left_how how, const tern_generate_params *params)
{
    tern_error err = {0};
    bool done = false;
    seen s = {0};
    tern_generate_result result = {.size = sizeof result};
    tern_generate_params own = *params;
    own.on_piece = see;
    own.context = &s;
    tern_session_truncate(session, 0);
    tern_generation *g = open_generation(session, generation_story, &own);
    if (how == LEFT_FAIL) test_pending_fail_after(after);
    tern_status status = run_steps(g, how == LEFT_FAIL ? UINT32_MAX : after, &done, &err);
    test_pending_fail_after(0);
    const bool left = !done;
    if (how == LEFT_FAIL && left) {
        assert_int_equal(status, TERN_INTERNAL);
        assert_non_null(strstr(err.message, "was to fail"));
        assert_int_equal(tern_generation_step(g, &done, &err), TERN_INTERNAL);
    }
    if (how == LEFT_STOP && left) {
        const uint32_t n_before = s.n_ids;
        tern_generation_stop(g);
        assert_ok(run_steps(g, 200, &done, &err), err);
        assert_true(done);
        assert_int_equal(s.n_ids, n_before);
    }
    tern_generation_describe(g, &result, NULL);
    if (how == LEFT_STOP && left && s.n_ids < params->max_tokens) assert_int_equal(result.reason, TERN_STOP_CALLER);
    assert_int_equal(result.n_generated, s.n_ids);
    tern_generation_close(g);
    assert_false(test_pending_reading());
    if (left) check_left(f, session, whole, s.n_ids, params);
    forget(&s);
    return left;
}

static void check_leaving(const generation_fixture *f, left_how how, const tern_generate_params *params)
{
    generated whole = {0};
    tern_session *session = generation_session(f, 128);
    at_once(session, generation_story, *params, &whole);
    test_make_pending(generation_backend(f), GENERATION_SEED + 1);
    uint32_t n = 0, after = how == LEFT_FAIL ? 1 : 0;
    const uint32_t stride = !f->slow ? 1 : how == LEFT_FAIL ? 2 : 5;
    for (; leave(f, session, &whole, after, how, params); after += stride) n++;
    assert_true(n > 1);
    test_end_pending(generation_backend(f));
    forget(&whole.seen);
    tern_session_close(session);
}

static void check_all_leaving(const generation_fixture *f, left_how how)
{
    tern_generate_params params = generation_params(f);
    params.max_tokens = 9;
    params.ignore_eos = true;
    params.sampler.temperature = 0; /* what goes on draws anew */
    check_leaving(f, how, &params);
    params.sampler.repetition_penalty = 1.1f; /* the host's */
    check_leaving(f, how, &params);
    params.draft_tokens = 4;
    if (!f->slow) check_leaving(f, how, &params);
}

static void stopped(void **state)
{
    check_all_leaving(*state, LEFT_STOP);
}

static void closed(void **state)
{
    check_all_leaving(*state, LEFT_CLOSE);
}

static void failed(void **state)
{
    check_all_leaving(*state, LEFT_FAIL);
}

/* As many tokens at once as seems right: the same tokens. */
static void adapts(void **state)
{
    const generation_fixture *f = *state;
    generated want = {0}, got = {0};
    tern_generate_params params = generation_params(f);
    tern_session *session = generation_session(f, 128);
    at_once(session, generation_story, params, &want);
    const bool on_device = want.result.steps > 0;
    const tern_session_params how = {
        .size = sizeof how, .n_ctx = 128, .n_batch = GENERATION_BATCH, .kv = {TERN_KV_F32, TERN_KV_F32}};
    tern_session_close(session);
    tern_session_close(open_session(f->engine, how)); /* Vulkan tries new kernels, which it waits for */
    test_make_pending(generation_backend(f), GENERATION_SEED);
    session = open_session(f->engine, how);
    by_steps(session, generation_story, params, &got);
    if (on_device) assert_in_range(got.result.steps, 1, 32);
    else assert_int_equal(got.result.steps, 0);
    assert_int_equal(got.n_tokens, want.n_tokens);
    assert_memory_equal(got.tokens, want.tokens, want.n_tokens * sizeof *want.tokens);
    tern_session_close(session);
    test_end_pending(generation_backend(f));
    forget(&want.seen);
    forget(&got.seen);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(samplers), cmocka_unit_test(ends),   cmocka_unit_test(stopped),
    cmocka_unit_test(closed),   cmocka_unit_test(failed), cmocka_unit_test(adapts),
};

TEST_GROUP(generation, "backends slow long", tests, .setup = generation_open, .teardown = generation_close);
TEST_GROUP(generation_stepping, "slow", tests, .setup = generation_open_stepping, .teardown = generation_close);
