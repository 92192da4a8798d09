/* Generation in steps on every backend: one token at a time or many, the same tokens. */
#include "backend/counters.h"
#include "base/alloc.h"
#include "infer/steps.h"
#include "support/logits.h"

/* The trained model ends this after 9 tokens. */
static const char ending[] = "Tess was not afraid any more. \"We did it!\" they shouted. And they";

static const uint32_t counts[] = {8, 3, 1, 2, 128};

enum { N_STEPS_COUNTS = sizeof counts / sizeof *counts, N_STEPS_COUNTS_SLOW = 2 };

static void assert_same_seen(const seen *a, const seen *b)
{
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, a->n_ids * sizeof *a->ids);
    assert_int_equal(a->text.size, b->text.size);
    assert_memory_equal(a->text.data, b->text.data, a->text.size);
}

/* Generates with the reference and with every number of steps; everything a caller sees must be the same. */
static void check_same(const steps_fixture *f, uint32_t n_ctx, const char *prompt, const tern_generate_params *how,
                       uint32_t stop_after)
{
    seen want = {.stop_after = stop_after};
    tern_generate_params params = *how;
    tern_session *reference = steps_reference(f, n_ctx);
    params.on_piece = see;
    params.context = &want;
    tern_generate_result expected = generate(reference, prompt, &params);
    for (uint32_t i = 0; i < (f->slow ? N_STEPS_COUNTS_SLOW : N_STEPS_COUNTS); i++) {
        seen got = {.stop_after = stop_after};
        tern_session *session = steps_session(f, n_ctx, counts[i]);
        params.context = &got;
        tern_generate_result result = generate(session, prompt, &params);
        assert_int_equal(result.steps, counts[i]);
        assert_same_seen(&got, &want);
        assert_int_equal(result.reason, expected.reason);
        assert_int_equal(result.n_generated, expected.n_generated);
        assert_int_equal(result.n_prompt, expected.n_prompt);
        assert_int_equal(tern_session_n_tokens(session), tern_session_n_tokens(reference));
        assert_memory_equal(tern_session_tokens(session), tern_session_tokens(reference),
                            4 * tern_session_n_tokens(session));
        forget(&got);
        tern_session_close(session);
    }
    tern_session_close(reference);
    forget(&want);
}

static void greedy(void **state)
{
    const steps_fixture *f = *state;
    tern_generate_params params = greedy_params(NULL, f->slow ? 18 : 60);
    check_same(*state, 256, steps_story, &params, 0);
    if (!f->slow) check_same(*state, 256, "ROMEO:", &params, 0);
    params.max_tokens = 1;
    check_same(*state, 256, steps_story, &params, 0);
}

/* A prompt longer than a batch, and one of a single token. */
static void prompts(void **state)
{
    const steps_fixture *f = *state;
    tern_generate_params params = greedy_params(NULL, f->slow ? 3 : 12);
    char text[512] = "";
    for (int i = 0; i < 20 && !f->slow; i++) strcat(text, "The cat sat. ");
    check_same(*state, 256, text, &params, 0);
    check_same(*state, 256, "", &params, 0); /* BOS alone */
}

static void sampled(void **state)
{
    const steps_fixture *f = *state;
    for (uint32_t i = 0; i < (f->slow ? 2 : 6); i++) {
        tern_generate_params params = {
            .size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = f->slow ? 10 : 50};
        params.sampler.seed = 100 + i;
        params.sampler.temperature = 0.5f + 0.25f * (float)i;
        if (i & 1) params.sampler.top_k = 64, params.sampler.min_p = 0, params.sampler.top_p = 1;
        if (i == 4) params.sampler.top_k = 1;
        check_same(*state, 256, steps_story, &params, 0);
    }
}

/* Wherever in a run the text ends: at a stop string, by the caller, at the end token. */
static void stops(void **state)
{
    static const char *const stops[] = {" lived near", "eadow. Te", ".", "p"};
    const steps_fixture *f = *state;
    for (size_t i = 0; i < (f->slow ? 1 : sizeof stops / sizeof *stops); i++) {
        tern_generate_params params = greedy_params(NULL, 40);
        params.stops = &stops[i];
        params.n_stops = 1;
        check_same(*state, 256, steps_story, &params, 0);
    }
    for (uint32_t after = f->slow ? 5 : 1; after < (f->slow ? 6 : 20); after += 3) {
        tern_generate_params params = greedy_params(NULL, 40);
        check_same(*state, 256, steps_story, &params, after);
    }
}

static void end_token(void **state)
{
    const steps_fixture *f = *state;
    tern_generate_params params = greedy_params(NULL, f->slow ? 10 : 40);
    tern_session *session = steps_session(f, 96, 8);
    params.on_piece = NULL;
    assert_int_equal(generate(session, ending, &params).reason, TERN_STOP_END_TOKEN);
    tern_session_close(session);
    check_same(f, 96, ending, &params, 0);
    params.ignore_eos = true;
    check_same(f, 96, ending, &params, 0);
}

static void context_ends(void **state)
{
    const steps_fixture *f = *state;
    const uint32_t n_ctx = f->slow ? 14 : 40;
    tern_generate_params params = greedy_params(NULL, 0);
    check_same(f, n_ctx, steps_story, &params, 0);
    params.max_tokens = f->slow ? 20 : 90;
    params.context_shift = params.ignore_eos = true;
    params.n_keep = 3;
    check_same(f, n_ctx, steps_story, &params, 0);
}

/* After a generation: its logits, an append, a file, another generation. */
static void afterwards(void **state)
{
    steps_fixture *f = *state;
    tern_error err = {0};
    const char *path = test_scratch("steps-session");
    tern_session *a = steps_session(f, 128, 8), *b = steps_reference(f, 128), *c = steps_reference(f, 128);
    const uint32_t n_vocab = tern_engine_config(f->engine)->n_vocab;
    const uint32_t half = f->slow ? 6 : 20;
    seen s = {0}, whole = {0};
    tern_generate_params params = greedy_params(&whole, 2 * half);
    tern_generate_result result = {.size = sizeof result};
    generate(b, steps_story, &params);
    params = greedy_params(&s, half);
    generate(a, steps_story, &params);
    uint32_t n = tern_session_n_tokens(a);
    assert_ok(tern_session_save(a, path, &err), err);
    assert_ok(tern_session_restore(c, path, &err), err);
    assert_int_equal(tern_session_n_tokens(c), n);
    const float *logits = test_logits(a, 0), *same = test_logits(c, 0);
    assert_non_null(logits);
    assert_memory_equal(logits, same, n_vocab * sizeof *logits);
    assert_int_equal(tern_session_n_tokens(a), n);
    assert_ok(tern_generate(a, NULL, 0, &params, &result, &err), err);
    assert_same_seen(&s, &whole);
    assert_int_equal(tern_session_n_tokens(a), n + half);
    assert_ok(tern_session_append(a, s.ids, 2, &err), err); /* takes the last token along */
    assert_int_equal(tern_session_n_tokens(a), n + half + 2);
    tern_session_truncate(a, n);
    s.n_ids = 0;
    s.text.size = 0;
    assert_ok(tern_generate(a, NULL, 0, &params, &result, &err), err);
    assert_memory_equal(s.ids, whole.ids + half, half * sizeof *s.ids);
    remove(path);
    forget(&s);
    forget(&whole);
    tern_session_close(a);
    tern_session_close(b);
    tern_session_close(c);
}

/* One submit and one read of 4 N + 4 bytes for N tokens, and no allocation once the first run is over. */
static void counted(void **state)
{
    steps_fixture *f = *state;
    tern_backend *b = tern_engine_backend(f->engine);
    for (uint32_t steps = 1; steps <= (f->slow ? 4 : 32); steps *= 4) {
        tern_session *session = steps_session(f, 256, steps);
        seen s = {0};
        tern_error err = {0};
        tern_generate_params params = greedy_params(&s, steps);
        params.ignore_eos = true;
        generate(session, steps_story, &params);
        params.max_tokens = 3 * steps;
        tern_generate_result result = {.size = sizeof result};
        tern_backend_counters before, after;
        b->counters(b, &before);
        assert_ok(tern_generate(session, NULL, 0, &params, &result, &err), err);
        b->counters(b, &after);
        assert_int_equal(result.n_generated, 3 * steps);
        assert_int_equal(after.submits - before.submits, 3);
        assert_int_equal(after.downloaded_bytes - before.downloaded_bytes, 3 * (4 * steps + 4));
        assert_int_equal(after.allocations, before.allocations);
        forget(&s);
        tern_session_close(session);
    }
}

typedef struct watched {
    uint64_t counts[300];
    uint32_t n;
} watched;

static bool watch(void *context, const tern_piece *piece)
{
    watched *w = context;
    (void)piece;
    w->counts[w->n++] = tern_alloc_count();
    return true;
}

static void no_allocation(void **state)
{
    steps_fixture *f = *state;
    tern_session *session = steps_session(f, f->slow ? 14 : 64, 8);
    const uint32_t n = f->slow ? 17 : 160;
    watched w = {.n = 0};
    tern_generate_params params = {
        .size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = n, .on_piece = watch, .context = &w};
    params.context_shift = params.ignore_eos = true; /* with shifts on the way */
    generate(session, steps_story, &params);
    assert_in_range(w.n, n, n + 1);
    for (uint32_t i = 1; i < w.n; i++) assert_int_equal(w.counts[i], w.counts[0]);
    tern_session_close(session);
}

/* What the device cannot choose, the host does: one at a time, and the result says so. */
static void on_host(void **state)
{
    steps_fixture *f = *state;
    tern_session *session =
        open_session(f->engine, TERN_SIZED(tern_session_params, .n_ctx = 128, .max_outputs = 5, .steps = 8));
    const tern_logit_bias bias = {300, 1e6f};
    for (uint32_t i = 0; i < 5; i++) {
        const uint32_t n = f->slow ? 2 : 5;
        tern_generate_params params = greedy_params(NULL, n);
        params.on_piece = NULL;
        if (i == 0) params.sampler.repetition_penalty = 1.1f;
        if (i == 1) params.sampler.biases = &bias, params.sampler.n_biases = 1;
        if (i == 2) params.sampler.temperature = 1, params.sampler.top_k = 65;
        if (i == 3) params.sampler.temperature = 1, params.sampler.typical_p = 0.5f;
        if (i == 4) params.draft_tokens = 4;
        tern_generate_result result = generate(session, steps_story, &params);
        assert_int_equal(result.steps, 0);
        assert_int_equal(result.n_generated, n);
        if (i == 1) assert_int_equal(tern_session_tokens(session)[tern_session_n_tokens(session) - 1], 300);
    }
    tern_session_close(session);
}

static void refused(void **state)
{
    steps_fixture *f = *state;
    tern_session *session = NULL;
    tern_error err = {0};
    tern_session_params params = {.size = sizeof params, .steps = 129};
    assert_int_equal(tern_session_open(&session, f->engine, &params, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "129 tokens at once: at most 128 expected");
    assert_null(session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(greedy),     cmocka_unit_test(prompts),   cmocka_unit_test(sampled),
    cmocka_unit_test(stops),      cmocka_unit_test(end_token), cmocka_unit_test(context_ends),
    cmocka_unit_test(afterwards), cmocka_unit_test(counted),   cmocka_unit_test(no_allocation),
    cmocka_unit_test(on_host),    cmocka_unit_test(refused),
};

TEST_GROUP(generate_steps, "backends slow long", tests, .setup = steps_open, .teardown = steps_close);
