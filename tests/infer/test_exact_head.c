/* `--head exact`: every logit that is given has the full head's bits, and the wanted highest are always given. */
#include "support/golden.h"
#include "support/logits.h"
#include "support/test.h"

#include <math.h>

#include "base/rng.h"

enum { N_TOKENS = 40, N_TOKENS_QUICK = 10 };

static tern_engine *open_engine(const char *path, const char *head, bool exact)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    tern_engine_params params = {
        .backend = {.n_threads = 2}, .head = head ? tern_encoding_by_name(head) : NULL, .head_exact = exact};
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &params, &err), err);
    return engine;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The value of the n-th highest logit. */
static float nth_highest(const float *logits, uint32_t n_vocab, uint32_t n)
{
    float *sorted = malloc(n_vocab * sizeof *sorted);
    memcpy(sorted, logits, n_vocab * sizeof *sorted);
    qsort(sorted, n_vocab, sizeof *sorted, descending);
    float v = sorted[n - 1];
    free(sorted);
    return v;
}

static uint32_t compare(const float *full, const float *screened, uint32_t n_vocab, uint32_t wanted)
{
    float least = nth_highest(full, n_vocab, wanted);
    uint32_t n_left_out = 0;
    for (uint32_t r = 0; r < n_vocab; r++) {
        if (screened[r] == -INFINITY) {
            assert_true(full[r] < least);
            n_left_out++;
        } else {
            assert_memory_equal(&screened[r], &full[r], sizeof(float));
        }
    }
    return n_left_out;
}

static void check(const char *path, const char *head)
{
    static const uint32_t wanted[] = {1, 2, 5, 40, 256};
    tern_error err = {0};
    tern_rng rng = {.state = 7};
    tern_engine *engines[2] = {open_engine(path, head, false), open_engine(path, head, true)};
    tern_session *sessions[2] = {test_session(engines[0], false), test_session(engines[1], false)};
    uint32_t n_vocab = tern_engine_config(engines[0])->n_vocab, n_left_out = 0;
    const uint32_t n_tokens = test_quick() ? N_TOKENS_QUICK : N_TOKENS;
    for (uint32_t t = 0; t < n_tokens; t++) {
        int32_t id = (int32_t)tern_rng_below(&rng, n_vocab);
        uint32_t n = wanted[t % (sizeof wanted / sizeof *wanted)];
        tern_session_set_n_top(sessions[1], n);
        for (int i = 0; i < 2; i++) assert_ok(tern_session_append(sessions[i], &id, 1, &err), err);
        n_left_out += compare(test_logits(sessions[0], 0), test_logits(sessions[1], 0), n_vocab, n);
    }
    assert_true(n_left_out > n_tokens * n_vocab / 4); /* it does leave out what it can */
    for (int i = 0; i < 2; i++) {
        tern_session_close(sessions[i]);
        tern_engine_close(engines[i]);
    }
}

static void tied_bf16(void **state)
{
    (void)state;
    check(test_model("tiny-stories-bitnet"), NULL);
}

static void requantised(void **state)
{
    (void)state;
    check(test_model("tiny-stories-bitnet"), "f16");
    check(test_model("tiny-stories-bitnet"), "q8_0");
}

static void untied(void **state)
{
    (void)state;
    check(test_fixture("llama"), NULL);
}

/* Rows of a step that gives several, as a draft does that is verified. */
static void several_tokens(void **state)
{
    enum { N = 11, WANTED = 3 };
    tern_error err = {0};
    tern_rng rng = {.state = 8};
    int32_t ids[N];
    tern_engine *engines[2];
    tern_session *sessions[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        engines[i] = open_engine(test_model("tiny-stories-bitnet"), NULL, i);
        const tern_session_params params = {.n_ctx = 64, .max_outputs = N};
        assert_ok(tern_session_open(&sessions[i], engines[i], &params, &err), err);
    }
    const uint32_t n_vocab = tern_engine_config(engines[0])->n_vocab;
    for (int i = 0; i < N; i++) ids[i] = (int32_t)tern_rng_below(&rng, n_vocab);
    tern_session_set_n_top(sessions[1], WANTED);
    for (int i = 0; i < 2; i++) assert_ok(tern_session_append_all(sessions[i], ids, N, &err), err);
    for (uint32_t t = 0; t < N; t++)
        assert_true(compare(test_logits(sessions[0], t), test_logits(sessions[1], t), n_vocab, WANTED) > n_vocab / 4);
    for (int i = 0; i < 2; i++) {
        tern_session_close(sessions[i]);
        tern_engine_close(engines[i]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(several_tokens),
    cmocka_unit_test(tied_bf16),
    cmocka_unit_test(requantised),
    cmocka_unit_test(untied),
};

TEST_GROUP(exact_head, "web", tests);
