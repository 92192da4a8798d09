/* Weights that are finite and make numbers that are not: an error with the first op, on every backend. */
#include "infer/session/nonfinite.h"

#include <float.h>
#include <math.h>
#include <unistd.h>

#include "base/alloc.h"
#include "infer/session/session.h"
#include "support/micro_model.h"
#include "support/op_case.h"
#include "support/pending_backend.h"
#include "support/stepping.h"
#include "support/test.h"

static const int32_t ids[] = {1, 7, 2, 5, 3, 3, 0, 6, 5};
enum { N_IDS = sizeof ids / sizeof *ids };

/* The micro model with two f32 of one tensor changed. */
static tern_engine *open_changed(const char *tensor, size_t at, float a, size_t n, bool f32_activations)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    micro_change change = {.seed = 3, .tensor = tensor, .at = at, .n = n};
    memcpy(change.bytes, (float[2]){a, a}, sizeof change.bytes);
    tern_buf bytes = micro_model(&change);
    tern_engine_params params = {.backend = {.n_threads = 1}, .f32_activations = f32_activations};
    if (test_on_gpu())
        params.backend = (tern_backend_options){.name = test_gpu_name(), .device = getenv("TERN_TEST_DEVICE")};
    const char *path = test_scratch("nonfinite.gguf");
    test_write_file(path, bytes.data, bytes.size);
    tern_buf_deinit(&bytes);
    assert_ok(tern_model_open(&model, path, NULL, &err), err);
    assert_ok(tern_engine_open(&engine, model, &params, &err), err);
    unlink(path);
    return engine;
}

static tern_session *open_session(tern_engine *engine, tern_session_params params)
{
    tern_error err = {0};
    tern_session *session;
    params.n_ctx = 64;
    assert_ok(tern_session_open(&session, engine, &params, &err), err);
    return session;
}

/* A GPU may have the last norm in the linear op that reads it. */
static bool names(const char *message, const char *words)
{
    return strstr(message, words) || (test_on_gpu() && strstr(words, "which makes result_norm (") &&
                                      strstr(message, "is linear, which makes logits ("));
}

static void assert_names(const tern_error *err, const char *words)
{
    if (err->code != TERN_NOT_FINITE || !names(err->message, words))
        fail_msg("status %d, \"%s\": \"%s\" expected", (int)err->code, err->message, words);
}

/* In one batch, in several, token by token; what was evaluated before stays. */
static void check_named(tern_engine *engine, tern_kv_type kv, const char *words)
{
    static const uint32_t batches[] = {64, 4, 1};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        tern_error err = {0};
        tern_session *session =
            open_session(engine, TERN_SIZED(tern_session_params, .n_batch = batches[i], .kv = {kv, kv}));
        assert_int_equal(tern_session_append(session, ids, N_IDS, &err), TERN_NOT_FINITE);
        assert_names(&err, words);
        assert_int_equal(tern_session_n_tokens(session), (N_IDS - 1) / batches[i] * batches[i]);
        tern_session_truncate(session, 0);
        assert_int_equal(tern_session_append(session, ids + N_IDS - 1, 1, &err), TERN_NOT_FINITE);
        assert_names(&err, words);
        tern_session_close(session);
    }
    tern_engine_close(engine);
}

/* Behind the codes of i2_s. */
static const size_t v_scale = 8 * 16 / 4, down_scale = 16 * 16 / 4;

static tern_engine *open_norm(void)
{
    return open_changed("output_norm.weight", 0, FLT_MAX, 8, false);
}

static void the_first_op_is_named(void **state)
{
    (void)state;
    if (test_on_gpu()) test_gpu_backend();
    check_named(open_norm(), TERN_KV_F32, "is rms_norm, which makes result_norm (column ");
    check_named(open_changed("blk.0.ffn_down.weight", down_scale, FLT_MAX, 4, false), TERN_KV_F32,
                "is linear, which makes l_out-0 in layer 0 (column ");
    check_named(open_changed("blk.0.attn_v.weight", v_scale, FLT_MAX, 4, true), TERN_KV_F32, "is linear, which makes ");
}

/* Finite in f32: the cache is what cannot hold it. */
static void caches_are_looked_at(void **state)
{
    (void)state;
    tern_error err = {0};
    check_named(open_changed("blk.0.attn_v.weight", v_scale, 1e7f, 4, true), TERN_KV_F16,
                "is rope_kv, which makes v_cache-0 in layer 0 (element ");
    tern_engine *engine = open_changed("blk.0.attn_v.weight", v_scale, 1e7f, 4, true);
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .kv = {TERN_KV_F32, TERN_KV_F32}));
    assert_ok(tern_session_append(session, ids, N_IDS, &err), err);
    tern_session_close(session);
    tern_engine_close(engine);
}

/* The device chooses the tokens, or the host: nothing is shown. */
static void generating_ends(void **state)
{
    (void)state;
    if (test_on_gpu()) test_gpu_backend();
    tern_engine *engine = open_norm();
    if (!test_on_gpu()) test_make_stepping(tern_engine_backend(engine));
    for (uint32_t i = 0; i < 4; i++) {
        tern_error err = {0};
        tern_session *session =
            open_session(engine, TERN_SIZED(tern_session_params, .steps = 4, .host_sampling = i & 1));
        tern_generate_params params = {.size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = 8};
        tern_generate_result result = {.size = sizeof result};
        if (i & 2) params.sampler.temperature = 0;
        assert_int_equal(tern_generate(session, ids, N_IDS, &params, &result, &err), TERN_NOT_FINITE);
        assert_names(&err, "which makes result_norm (");
        assert_int_equal(result.n_generated, 0);
        tern_session_close(session);
    }
    tern_engine_close(engine);
}

static void scoring_ends(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_perplexity_result result = {.size = sizeof result};
    tern_engine *engine = open_norm();
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .max_outputs = 4));
    assert_int_equal(tern_perplexity(session, ids, N_IDS, NULL, &result, &err), TERN_NOT_FINITE);
    assert_names(&err, "which makes result_norm (column ");
    tern_session_close(session);
    tern_engine_close(engine);
}

/* Where nothing can be waited for the search goes on call by call, and can be given up. */
static void searches_have_steps(void **state)
{
    (void)state;
    tern_engine *engine = open_changed("blk.0.ffn_down.weight", down_scale, FLT_MAX, 4, false);
    tern_session *session = open_session(engine, TERN_SIZED(tern_session_params, .n_batch = 4));
    test_make_pending(tern_engine_backend(engine), 5);
    for (uint32_t most = 1; most < 200; most += 7) {
        tern_error err = {0};
        tern_status status = TERN_PENDING;
        for (uint32_t i = 0; i < most && status == TERN_PENDING; i++)
            status = tern_session_append(session, ids, N_IDS, &err);
        if (status != TERN_PENDING) assert_names(&err, "l_out-0");
        tern_session_truncate(session, 0);
    }
    assert_true(test_pending_count() > 100);
    test_end_pending(tern_engine_backend(engine));
    tern_session_close(session);
    tern_engine_close(engine);
}

/* The error is the same where there is no memory to look for the op. */
static void without_memory(void **state)
{
    (void)state;
    tern_engine *engine = open_norm();
    tern_session *session = open_session(engine, (tern_session_params){.size = sizeof(tern_session_params)});
    tern_error err = {0};
    bool named = false, not_named = false;
    for (uint64_t i = 1; !named; i++) {
        tern_alloc_fail_after(i, true);
        assert_int_equal(tern_session_append(session, ids, N_IDS, &err), TERN_NOT_FINITE);
        tern_alloc_fail_after(0, false);
        named = names(err.message, "which makes result_norm (");
        not_named |= strstr(err.message, "the search for the op that they come from failed: out of memory") != NULL;
        tern_session_truncate(session, 0);
    }
    assert_true(not_named);
    tern_session_close(session);
    tern_engine_close(engine);
}

static void floats(void **state)
{
    (void)state;
    float x[200];
    for (uint32_t n = 1; n <= 200; n += n < 70 ? 1 : 61)
        for (uint32_t at = 0; at < n; at += 3) {
            for (uint32_t i = 0; i < n; i++) x[i] = i % 2 ? -FLT_MAX : FLT_TRUE_MIN;
            assert_true(tern_all_finite(x, n, false) && tern_all_finite(x, n, true));
            static const float bad[] = {NAN, -NAN, INFINITY};
            for (size_t k = 0; k < 3; k++) {
                x[at] = bad[k];
                assert_false(tern_all_finite(x, n, false) || tern_all_finite(x, n, true));
            }
            x[at] = -INFINITY;
            assert_false(tern_all_finite(x, n, false));
            assert_int_equal(tern_all_finite(x, n, true), n > 1);
        }
    for (uint32_t i = 0; i < 200; i++) x[i] = -INFINITY;
    assert_false(tern_all_finite(x, 200, true));
    assert_true(tern_all_finite(x, 0, false));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_first_op_is_named),
    cmocka_unit_test(generating_ends),
};

TEST_GROUP(nonfinite, "backends", tests, .teardown = test_backends_close);

static const struct CMUnitTest tests_cpu[] = {
    cmocka_unit_test(caches_are_looked_at), cmocka_unit_test(scoring_ends), cmocka_unit_test(searches_have_steps),
    cmocka_unit_test(without_memory),       cmocka_unit_test(floats),
};

TEST_GROUP(nonfinite_cpu, "", tests_cpu);
