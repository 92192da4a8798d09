/* Calls of a session on the CPU, made to be a device that cannot be waited for: refused, gone on with, given up,
 * without allocations. */
#include "base/alloc.h"
#include "infer/compare/compare.h"
#include "infer/generation.h"
#include "support/logits.h"
#include "support/pending_backend.h"

/* What has no steps says so. */
static void refused(void **state)
{
    const generation_fixture *f = *state;
    tern_error err = {0};
    tern_generate_result result = {.size = sizeof result};
    tern_session *session = generation_session(f, 64);
    tern_generate_params params = generation_params(f);
    const int32_t ids[] = {1, 2, 3};
    test_make_pending(generation_backend(f), GENERATION_SEED);
    assert_int_equal(tern_generate(session, ids, 3, &params, &result, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "generating all at once on cpu: it cannot be waited for");
    assert_int_equal(tern_session_save(session, test_scratch("pending"), &err), TERN_UNSUPPORTED);
    assert_int_equal(tern_session_restore(session, test_scratch("pending"), &err), TERN_UNSUPPORTED);
    assert_int_equal(tern_perplexity(session, ids, 3, &(tern_perplexity_params){.size = sizeof(tern_perplexity_params)},
                                     &(tern_perplexity_result){.size = sizeof(tern_perplexity_result)}, &err),
                     TERN_UNSUPPORTED);
    tern_compare_params how = {.ids = ids, .n_ids = 3};
    tern_compare_result compared = {0};
    assert_int_equal(tern_compare(f->engine, f->engine, &how, &compared, &err), TERN_UNSUPPORTED);
    tern_compare_result_deinit(&compared);
    test_end_pending(generation_backend(f));
    tern_session_close(session);
}

/* Errors of opening, which leave the session as it was. */
static void bad_openings(void **state)
{
    const generation_fixture *f = *state;
    tern_error err = {0};
    tern_session *session = generation_session(f, 16);
    tern_generation *g = (tern_generation *)&err;
    tern_generate_params params = generation_params(f);
    int32_t ids[17] = {1, -3};
    assert_int_equal(tern_generation_open(&g, session, NULL, 0, &params, &err), TERN_INVALID_ARGUMENT);
    assert_null(g);
    assert_int_equal(tern_generation_open(&g, session, ids, 2, &params, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "token 1 is id -3"));
    ids[1] = 0;
    assert_int_equal(tern_generation_open(&g, session, ids, 17, &params, &err), TERN_CONTEXT_FULL);
    params.sampler.top_p = -1;
    assert_int_equal(tern_generation_open(&g, session, ids, 2, &params, &err), TERN_INVALID_ARGUMENT);
    assert_null(g);
    assert_int_equal(tern_session_n_tokens(session), 0);
    tern_generation_close(NULL);
    tern_session_close(session);
}

/* What the same calls give while they can wait; `out` is [5][n_vocab], then hidden states, then a vector by pooling. */
static void call_all(tern_session *s, const int32_t *ids, float *out, bool pending)
{
    tern_error err = {0};
    const tern_config *c = tern_engine_config(tern_session_engine(s));
    uint64_t before = test_pending_count();
    tern_status status;
    while ((status = tern_session_append(s, ids, 20, &err)) == TERN_PENDING) continue;
    assert_ok(status, err);
    assert_int_equal(tern_session_n_tokens(s), 20);
    memcpy(out, test_logits(s, 0), c->n_vocab * sizeof *out);
    while ((status = tern_session_append_all(s, ids + 20, 3, &err)) == TERN_PENDING) continue;
    assert_ok(status, err);
    memcpy(out + c->n_vocab, test_logits(s, 0), 3 * c->n_vocab * sizeof *out);
    while ((status = tern_session_hidden(s, 1, 3, out + 5 * c->n_vocab, &err)) == TERN_PENDING) continue;
    assert_ok(status, err);
    while ((status = tern_session_shift(s, 2, &err)) == TERN_PENDING) continue;
    assert_ok(status, err);
    assert_int_equal(tern_session_n_tokens(s), 2 + 21 / 2);
    memcpy(out + 4 * c->n_vocab, test_logits(s, 0), c->n_vocab * sizeof *out);
    float *vectors = out + 5 * c->n_vocab + 3 * c->n_embd;
    for (int pooling = TERN_POOLING_LAST; pooling <= TERN_POOLING_CLS; pooling++, vectors += c->n_embd) {
        while ((status = tern_session_embed(s, ids, 20, (tern_pooling)pooling, true, vectors, &err)) == TERN_PENDING)
            continue;
        assert_ok(status, err);
    }
    assert_true(!pending || test_pending_count() > before);
}

static void calls_go_on(void **state)
{
    const generation_fixture *f = *state;
    const tern_config *c = tern_engine_config(f->engine);
    const size_t n = 5 * (size_t)c->n_vocab + (3 + 1 + TERN_POOLING_CLS) * c->n_embd;
    float *want = calloc(n, sizeof *want), *got = calloc(n, sizeof *got);
    tern_tokens ids =
        ids_of(f->engine, "Once upon a time there was a little girl who liked to play in the garden all day. "
                          "One day she saw a big red ball and ran to get it.");
    tern_session *session =
        open_session(f->engine, TERN_SIZED(tern_session_params, .n_ctx = 64, .n_batch = GENERATION_BATCH,
                                           .max_outputs = 3, .keep_hidden = true));
    assert_true(ids.n >= 23);
    call_all(session, ids.ids, want, false);
    for (uint64_t seed = 1; seed < 6; seed++) {
        tern_session_truncate(session, 0);
        test_make_pending(generation_backend(f), seed);
        call_all(session, ids.ids, got, true);
        test_end_pending(generation_backend(f));
        assert_memory_equal(got, want, n * sizeof *want);
    }
    tern_tokens_deinit(&ids);
    tern_session_close(session);
    free(want);
    free(got);
}

/* A text whose embedding was given up leaves nothing to the next one. */
static void embedding_given_up(void **state)
{
    const generation_fixture *f = *state;
    const uint32_t n_embd = tern_engine_config(f->engine)->n_embd;
    tern_error err = {0};
    const int32_t ids[] = {1, 5, 9}, others[] = {2, 6};
    float *want = calloc(n_embd, sizeof *want), *got = calloc(n_embd, sizeof *got);
    tern_session *session =
        open_session(f->engine, TERN_SIZED(tern_session_params, .n_ctx = 64, .max_outputs = 3, .keep_hidden = true));
    assert_ok(tern_session_embed(session, others, 2, TERN_POOLING_MEAN, true, want, &err), err);
    test_make_pending(generation_backend(f), 5);
    for (int again = 0; again < 40 && !test_pending_reading(); again++) {
        tern_session_truncate(session, 0);
        tern_session_embed(session, ids, 3, TERN_POOLING_MEAN, true, got, &err);
    }
    assert_true(test_pending_reading());
    tern_session_truncate(session, 0);
    tern_status status;
    while ((status = tern_session_embed(session, others, 2, TERN_POOLING_MEAN, true, got, &err)) == TERN_PENDING)
        continue;
    assert_ok(status, err);
    assert_memory_equal(got, want, n_embd * sizeof *want);
    test_end_pending(generation_backend(f));
    tern_session_close(session);
    free(want);
    free(got);
}

/* truncate, other adapters and closing give up what a PENDING call was about. */
static void given_up(void **state)
{
    const generation_fixture *f = *state;
    tern_error err = {0};
    const uint32_t n_vocab = tern_engine_config(f->engine)->n_vocab;
    float *want = calloc(n_vocab, sizeof *want);
    const int32_t ids[] = {1, 5, 9}, others[] = {2, 6};
    tern_session *session = generation_session(f, 64);
    assert_ok(tern_session_append(session, others, 2, &err), err);
    memcpy(want, test_logits(session, 0), n_vocab * sizeof *want);
    test_make_pending(generation_backend(f), 3);
    for (int i = 0; i < 3; i++) {
        tern_status status;
        tern_session_truncate(session, 0);
        for (int again = 0; again < 40 && !test_pending_reading(); again++) {
            tern_session_truncate(session, 0);
            tern_session_append(session, ids, 3, &err);
        }
        assert_true(test_pending_reading());
        if (i == 0) tern_session_truncate(session, 0);
        if (i == 1) assert_ok(tern_session_set_loras(session, NULL, 0, &err), err);
        if (i == 2) {
            tern_session_close(session);
            session = generation_session(f, 64);
        }
        assert_false(test_pending_reading());
        assert_int_equal(tern_session_n_tokens(session), 0);
        while ((status = tern_session_append(session, others, 2, &err)) == TERN_PENDING) continue;
        assert_ok(status, err);
        assert_memory_equal(test_logits(session, 0), want, n_vocab * sizeof *want);
    }
    test_end_pending(generation_backend(f));
    tern_session_close(session);
    free(want);
}

typedef struct watched {
    uint64_t counts[100];
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
    const generation_fixture *f = *state;
    tern_session *session = generation_session(f, 32);
    watched w = {.n = 0};
    bool done;
    tern_error err = {0};
    tern_generate_params params = {
        .size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = 60, .on_piece = watch, .context = &w};
    params.context_shift = params.ignore_eos = true;
    test_make_pending(generation_backend(f), 4);
    tern_generation *g = open_generation(session, "Once", &params);
    assert_ok(run_steps(g, UINT32_MAX, &done, &err), err);
    assert_true(done);
    tern_generation_close(g);
    test_end_pending(generation_backend(f));
    assert_in_range(w.n, 60, 61);
    for (uint32_t i = 1; i < w.n; i++) assert_int_equal(w.counts[i], w.counts[0]);
    tern_session_close(session);
}

static const struct CMUnitTest host[] = {
    cmocka_unit_test(refused),  cmocka_unit_test(bad_openings),  cmocka_unit_test(calls_go_on),
    cmocka_unit_test(given_up), cmocka_unit_test(no_allocation), cmocka_unit_test(embedding_given_up),
};
static const struct CMUnitTest device[] = {
    cmocka_unit_test(given_up),
    cmocka_unit_test(no_allocation),
};

TEST_GROUP(generation_calls, "slow", host, .setup = generation_open, .teardown = generation_close);
TEST_GROUP(generation_calls_stepping, "slow", device, .setup = generation_open_stepping, .teardown = generation_close);
