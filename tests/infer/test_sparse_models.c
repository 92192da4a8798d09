/* A trained model whose squared ReLU closes most gates: the same logits to the bit whatever is skipped, in steps and in
 * batches, and much is skipped. */
#include "backend/backend.h"
#include "backend/counters.h"
#include "infer/session/session.h"
#include "support/converted.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/test.h"

enum { N_IDS = 24 };

static tern_error err;

/* Logits of all ids, in steps of 1, 2, 3, 5 and 8. */
static float *logits_of(const char *path, tern_ffn_mode ffn, uint32_t n_threads, uint32_t *n_vocab,
                        tern_backend_counters *counters)
{
    static const uint32_t steps[] = {1, 1, 2, 3, 5, 8, 1, 1, 1, 1};
    const tern_engine_params params = {.backend = {.ffn = ffn, .n_threads = n_threads}};
    tern_engine *engine = test_engine_with(path, &params);
    tern_session *session = test_session(engine, false);
    *n_vocab = tern_engine_config(engine)->n_vocab;
    float *out = malloc((size_t)N_IDS * *n_vocab * sizeof *out);
    assert_non_null(out);
    int32_t ids[N_IDS];
    for (int32_t i = 0; i < N_IDS; i++) ids[i] = (i * 37 + 5) % 256;
    for (uint32_t at = 0, i = 0; at < N_IDS; at += steps[i++]) {
        assert_ok(tern_session_append_all(session, ids + at, steps[i], &err), err);
        memcpy(out + (size_t)at * *n_vocab, test_logits(session, 0), (size_t)steps[i] * *n_vocab * sizeof *out);
    }
    tern_backend *b = tern_engine_backend(engine);
    b->counters(b, counters);
    tern_session_close(session);
    tern_engine_close(engine);
    return out;
}

static void the_same_logits(void **state)
{
    static const char *const encodings[] = {"i2_s", "t160", "tq1_0"};
    (void)state;
    for (size_t e = 0; e < 3; e++) {
        const char *path = test_converted(test_small_model(), encodings[e], "f16");
        tern_backend_counters all, some;
        uint32_t n_vocab;
        float *want = logits_of(path, TERN_FFN_DENSE, 1, &n_vocab, &all);
        assert_true(all.ffn_rows > 0 && all.ffn_columns > 0);
        assert_int_equal(all.ffn_rows_read, all.ffn_rows);
        assert_int_equal(all.ffn_columns_read, all.ffn_columns);
        for (uint32_t n_threads = 1; n_threads <= 3; n_threads += 2) {
            float *got = logits_of(path, TERN_FFN_SPARSE, n_threads, &n_vocab, &some);
            assert_memory_equal(want, got, (size_t)N_IDS * n_vocab * sizeof *got);
            assert_true(some.ffn_rows_read < some.ffn_rows / 2 && some.ffn_columns_read < some.ffn_columns / 3);
            assert_true(some.weight_bytes < all.weight_bytes);
            free(got);
        }
        free(want);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_logits)};

TEST_GROUP(sparse_models, "", tests);
