/* Generation in steps: cases that hold for every device, given sessions to compare. The including file says what "the
 * same" is compared with. */
#ifndef TERN_TESTS_INFER_STEPS_CASES_H
#define TERN_TESTS_INFER_STEPS_CASES_H

#include "infer/support.h"

#include "base/alloc.h"
#include "support/logits.h"

/* The engine under test, and how a session of the reference is opened on it. */
typedef struct steps_fixture {
    tern_engine *engine;
    tern_session_params reference; /* one token at a time */
    bool slow;                     /* a GPU in software: few tokens of each kind */
} steps_fixture;

static const char steps_story[] = "Once upon a time";
static const char steps_moral[] = "They learned that it is good to be"; /* ends soon */
static const uint32_t steps_counts[] = {8, 3, 1, 2, 128};
enum { N_STEPS_COUNTS = sizeof steps_counts / sizeof *steps_counts, N_STEPS_COUNTS_SLOW = 2 };

static inline tern_session *steps_session(const steps_fixture *f, uint32_t n_ctx, uint32_t steps)
{
    return open_session(f->engine,
                        (tern_session_params){.n_ctx = n_ctx, .kv = TERN_KV_F32, .steps = steps, .n_batch = 64});
}

static inline tern_session *steps_reference(const steps_fixture *f, uint32_t n_ctx)
{
    tern_session_params params = f->reference;
    params.n_ctx = n_ctx;
    params.kv = TERN_KV_F32;
    params.n_batch = 64;
    return open_session(f->engine, params);
}

static inline void assert_same_seen(const seen *a, const seen *b)
{
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, a->n_ids * sizeof *a->ids);
    assert_int_equal(a->text.size, b->text.size);
    assert_memory_equal(a->text.data, b->text.data, a->text.size);
}

/* Generates with the reference and with every number of steps; everything a caller sees must be the same. */
static inline void check_same(const steps_fixture *f, uint32_t n_ctx, const char *prompt,
                              const tern_generate_params *how, uint32_t stop_after)
{
    seen want = {.stop_after = stop_after};
    tern_generate_params params = *how;
    tern_session *reference = steps_reference(f, n_ctx);
    params.on_piece = see;
    params.context = &want;
    tern_generate_result expected = generate(reference, prompt, &params);
    for (uint32_t i = 0; i < (f->slow ? N_STEPS_COUNTS_SLOW : N_STEPS_COUNTS); i++) {
        seen got = {.stop_after = stop_after};
        tern_session *session = steps_session(f, n_ctx, steps_counts[i]);
        params.context = &got;
        tern_generate_result result = generate(session, prompt, &params);
        assert_int_equal(result.steps, steps_counts[i]);
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

static inline void steps_greedy(void **state)
{
    const steps_fixture *f = *state;
    tern_generate_params params = greedy_params(NULL, f->slow ? 18 : 60);
    check_same(*state, 256, steps_story, &params, 0);
    if (!f->slow) check_same(*state, 256, "ROMEO:", &params, 0);
    params.max_tokens = 1;
    check_same(*state, 256, steps_story, &params, 0);
}

/* A prompt longer than a batch, and one of a single token. */
static inline void steps_prompts(void **state)
{
    const steps_fixture *f = *state;
    tern_generate_params params = greedy_params(NULL, f->slow ? 3 : 12);
    char text[512] = "";
    for (int i = 0; i < 20 && !f->slow; i++) strcat(text, "The cat sat. ");
    check_same(*state, 256, text, &params, 0);
    check_same(*state, 256, "", &params, 0); /* BOS alone */
}

static inline void steps_sampled(void **state)
{
    const steps_fixture *f = *state;
    for (uint32_t i = 0; i < (f->slow ? 2 : 6); i++) {
        tern_generate_params params = {.sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = f->slow ? 10 : 50};
        params.sampler.seed = 100 + i;
        params.sampler.temperature = 0.5f + 0.25f * (float)i;
        if (i & 1) params.sampler.top_k = 64, params.sampler.min_p = 0, params.sampler.top_p = 1;
        if (i == 4) params.sampler.top_k = 1;
        check_same(*state, 256, steps_story, &params, 0);
    }
}

/* Wherever in a run the text ends: at a stop string, by the caller, at the end token. */
static inline void steps_stops(void **state)
{
    static const char *const stops[] = {" lived in", "ning the cat", ".", "p"};
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

static inline void steps_end_token(void **state)
{
    const steps_fixture *f = *state;
    tern_generate_params params = greedy_params(NULL, f->slow ? 10 : 40);
    tern_session *session = steps_session(f, 64, 8);
    params.on_piece = NULL;
    assert_int_equal(generate(session, steps_moral, &params).reason, TERN_STOP_END_TOKEN);
    tern_session_close(session);
    check_same(f, 64, steps_moral, &params, 0);
    params.ignore_eos = true;
    check_same(f, 64, steps_moral, &params, 0);
}

static inline void steps_context(void **state)
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
static inline void steps_afterwards(void **state)
{
    steps_fixture *f = *state;
    tern_error err = {0};
    const char *path = test_scratch("steps-session");
    tern_session *a = steps_session(f, 128, 8), *b = steps_reference(f, 128), *c = steps_reference(f, 128);
    const uint32_t n_vocab = tern_engine_config(f->engine)->n_vocab;
    const uint32_t half = f->slow ? 6 : 20;
    seen s = {0}, whole = {0};
    tern_generate_params params = greedy_params(&whole, 2 * half);
    tern_generate_result result;
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
static inline void steps_counted(void **state)
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
        tern_generate_result result;
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

static inline bool watch(void *context, const tern_piece *piece)
{
    watched *w = context;
    (void)piece;
    w->counts[w->n++] = tern_alloc_count();
    return true;
}

static inline void steps_no_allocation(void **state)
{
    steps_fixture *f = *state;
    tern_session *session = steps_session(f, f->slow ? 14 : 64, 8);
    const uint32_t n = f->slow ? 17 : 160;
    watched w = {.n = 0};
    tern_generate_params params = {.sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = n, .on_piece = watch, .context = &w};
    params.context_shift = params.ignore_eos = true; /* with shifts on the way */
    generate(session, steps_story, &params);
    assert_in_range(w.n, n, n + 1);
    for (uint32_t i = 1; i < w.n; i++) assert_int_equal(w.counts[i], w.counts[0]);
    tern_session_close(session);
}

/* What the device cannot choose, the host does: one at a time, and the result says so. */
static inline void steps_on_host(void **state)
{
    steps_fixture *f = *state;
    tern_session *session = open_session(f->engine, (tern_session_params){.n_ctx = 128, .max_outputs = 5, .steps = 8});
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

static inline void steps_refused(void **state)
{
    steps_fixture *f = *state;
    tern_session *session = NULL;
    tern_error err = {0};
    tern_session_params params = {.steps = 129};
    assert_int_equal(tern_session_open(&session, f->engine, &params, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "129 tokens at once: at most 128 expected");
    assert_null(session);
}

#define STEPS_CASES                                                                                                    \
    cmocka_unit_test(steps_greedy), cmocka_unit_test(steps_prompts), cmocka_unit_test(steps_sampled),                  \
        cmocka_unit_test(steps_stops), cmocka_unit_test(steps_end_token), cmocka_unit_test(steps_context),             \
        cmocka_unit_test(steps_afterwards), cmocka_unit_test(steps_counted), cmocka_unit_test(steps_no_allocation),    \
        cmocka_unit_test(steps_on_host), cmocka_unit_test(steps_refused)

#endif
