/* Perplexity against PyTorch's number and against its definition. */
#include "infer/support.h"

#include <math.h>

#include "quant/encoding.h"
#include "support/golden.h"
#include "support/logits.h"

enum { N_TOKENS = 4096, WINDOW = 512, STEP = 128 };

static tern_engine *engine;

static int setup(void **state)
{
    (void)state;
    engine = open_trained(0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tern_engine_close(engine);
    return 0;
}

static tern_tokens heldout(void)
{
    tern_tokens ids = test_heldout(engine);
    assert_true(ids.n >= N_TOKENS);
    return ids;
}

static bool count_calls(void *context, double done)
{
    assert_true(done > 0 && done <= 1);
    ++*(uint32_t *)context;
    return true;
}

static void golden(void **state)
{
    (void)state;
    tern_error err = {0};
    uint32_t n_calls = 0;
    tern_tokens ids = heldout();
    tern_perplexity_result result = {.size = sizeof result};
    tern_perplexity_params params = {
        .size = sizeof params, .window = WINDOW, .progress = count_calls, .context = &n_calls};
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = WINDOW, .max_outputs = STEP));
    assert_ok(tern_perplexity(session, ids.ids, N_TOKENS, &params, &result, &err), err);
    double want = test_heldout_nll();
    if (!(fabs(exp(want - result.nll) - 1) <= 0.005)) fail_msg("ppl %g, %g expected", result.ppl, exp(want));
    assert_true(result.ppl == exp(result.nll));
    assert_int_equal(result.n_scored, N_TOKENS - N_TOKENS / WINDOW);
    assert_int_equal(result.n_windows, N_TOKENS / WINDOW);
    assert_int_equal(n_calls, N_TOKENS / STEP);
    tern_session_close(session);
    tern_tokens_deinit(&ids);
}

/* By the definition, token by token; the last window is short, and a window is no multiple of a step. */
static void definition(void **state)
{
    (void)state;
    enum { N = 101, SMALL = 30 };
    tern_error err = {0};
    tern_tokens ids = heldout();
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64, .max_outputs = 7));
    uint32_t n_vocab = tern_engine_config(engine)->n_vocab, n_scored = 0, n_right = 0;
    double nll = 0;
    for (uint32_t i = 0; i < N; i++) {
        if (i % SMALL == 0) tern_session_truncate(session, 0);
        assert_ok(tern_session_append(session, &ids.ids[i], 1, &err), err);
        if (i % SMALL == SMALL - 1 || i + 1 == N) continue;
        const float *logits = test_logits(session, 0);
        double sum = 0;
        bool right = true;
        for (uint32_t v = 0; v < n_vocab; v++) {
            sum += exp((double)(logits[v] - logits[ids.ids[i + 1]]));
            right = right && !(logits[v] > logits[ids.ids[i + 1]]);
        }
        nll += log(sum);
        n_right += right;
        n_scored++;
    }
    tern_perplexity_result result = {.size = sizeof result};
    assert_ok(tern_perplexity(session, ids.ids, N, &TERN_SIZED(tern_perplexity_params, .window = SMALL), &result, &err),
              err);
    assert_int_equal(result.n_scored, n_scored);
    assert_int_equal(result.n_windows, 4);
    assert_true(fabs(result.nll - nll / n_scored) < 1e-6);
    assert_true(fabs(result.top1 - (double)n_right / n_scored) < 1e-12);
    assert_true(result.kl == 0);
    tern_session_close(session);
    tern_tokens_deinit(&ids);
}

/* The same model with its head in Q4_K is near, not equal; the divergence is the definition's, in that direction. */
static void comparison(void **state)
{
    (void)state;
    enum { N = 40 };
    tern_error err = {0};
    tern_model *model;
    tern_engine *coarse;
    assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
    tern_engine_params coarse_params = {.backend = {.n_threads = 1}, .head = tern_encoding_by_name("q4_k")};
    assert_ok(tern_engine_open(&coarse, model, &coarse_params, &err), err);
    tern_tokens ids = heldout();
    tern_session *a = open_session(coarse, TERN_SIZED(tern_session_params, .n_ctx = 64, .max_outputs = N));
    tern_session *b = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64, .max_outputs = N));
    tern_session *same = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 40, .max_outputs = 7));
    tern_perplexity_result result = {.size = sizeof result}, itself = {.size = sizeof itself};
    assert_ok(tern_perplexity(a, ids.ids, N, &TERN_SIZED(tern_perplexity_params, .against = b), &result, &err), err);
    assert_ok(tern_perplexity(same, ids.ids, N, &TERN_SIZED(tern_perplexity_params, .against = b), &itself, &err), err);
    assert_true(itself.kl == 0 && itself.same_top1 == 1);
    uint32_t n_vocab = tern_engine_config(engine)->n_vocab;
    tern_session_truncate(a, 0);
    tern_session_truncate(b, 0);
    assert_ok(tern_session_append_all(a, ids.ids, N, &err), err);
    assert_ok(tern_session_append_all(b, ids.ids, N, &err), err);
    double kl = 0;
    for (uint32_t row = 0; row + 1 < N; row++) {
        const float *q = test_logits(a, row), *p = test_logits(b, row);
        double sum_p = 0, sum_q = 0;
        for (uint32_t i = 0; i < n_vocab; i++) sum_p += exp((double)p[i]), sum_q += exp((double)q[i]);
        for (uint32_t i = 0; i < n_vocab; i++)
            kl += exp((double)p[i]) / sum_p * log(exp((double)p[i]) / sum_p / (exp((double)q[i]) / sum_q));
    }
    kl /= N - 1;
    if (!(fabs(result.kl - kl) < 1e-6 * kl)) fail_msg("KL %g, %g expected", result.kl, kl);
    assert_true(kl > 1e-5 && kl < 0.1 && result.same_top1 > 0.5);
    tern_session_close(same);
    tern_session_close(a);
    tern_session_close(b);
    tern_engine_close(coarse);
    tern_tokens_deinit(&ids);
}

static bool cancel(void *context, double done)
{
    (void)context;
    return done < 0.3;
}

static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_tokens ids = heldout();
    tern_perplexity_result result = {.size = sizeof result};
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = 64, .max_outputs = 16));
    assert_int_equal(tern_perplexity(session, ids.ids, 1,
                                     &(tern_perplexity_params){.size = sizeof(tern_perplexity_params)}, &result, &err),
                     TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "text of 1 tokens: at least 2 expected");
    assert_int_equal(
        tern_perplexity(session, ids.ids, 10, &TERN_SIZED(tern_perplexity_params, .window = 65), &result, &err),
        TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "window of 65 tokens: 2 to 64, the context, expected");
    assert_int_equal(
        tern_perplexity(session, ids.ids, 10, &TERN_SIZED(tern_perplexity_params, .window = 1), &result, &err),
        TERN_INVALID_ARGUMENT);
    assert_int_equal(
        tern_perplexity(session, ids.ids, 160, &TERN_SIZED(tern_perplexity_params, .progress = cancel), &result, &err),
        TERN_CANCELLED);
    assert_string_equal(err.message, "cancelled after 48 of 160 tokens");
    assert_true(result.n_scored == 0);
    tern_session_close(session);
    tern_tokens_deinit(&ids);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(golden),
    cmocka_unit_test(definition),
    cmocka_unit_test(comparison),
    cmocka_unit_test(refusals),
};

TEST_GROUP(perplexity, "shared slow", tests, .setup = setup, .teardown = teardown);
