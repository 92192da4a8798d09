/* Vectors of texts are the golden hidden states, pooled. */
#include <math.h>

#include "support/golden.h"
#include "support/logits.h"
#include "support/test.h"

enum { MOST = 1024 };

static tern_error err;

/* In f64, from PyTorch's states [n][n_embd] after the last norm. */
static void want_of(const float *states, uint32_t n, uint32_t n_embd, tern_pooling pooling, bool normalize, float *out)
{
    const uint32_t first = pooling == TERN_POOLING_LAST ? n - 1 : 0, count = pooling == TERN_POOLING_MEAN ? n : 1;
    double y[MOST] = {0}, square = 0;
    for (uint32_t t = first; t < first + count; t++)
        for (uint32_t i = 0; i < n_embd; i++) y[i] += (double)states[(size_t)t * n_embd + i] / count;
    for (uint32_t i = 0; i < n_embd; i++) square += y[i] * y[i];
    for (uint32_t i = 0; i < n_embd; i++) out[i] = (float)(normalize ? y[i] / sqrt(square) : y[i]);
}

static void check_model(const char *model, const char *golden_path, uint32_t max_outputs)
{
    test_golden golden;
    uint32_t n;
    test_golden_open(&golden, golden_path);
    tern_engine *engine = test_engine(model, NULL);
    tern_session *session;
    const tern_session_params params = {.size = sizeof params,
                                        .n_ctx = 128,
                                        .max_outputs = max_outputs,
                                        .kv = {TERN_KV_F32, TERN_KV_F32},
                                        .keep_hidden = true};
    assert_ok(tern_session_open(&session, engine, &params, &err), err);
    const int32_t *ids = test_golden_ids(&golden, 0, &n);
    const tern_st_tensor *hidden = tern_safetensors_find(golden.file, "0.hidden");
    const uint32_t n_embd = tern_engine_config(engine)->n_embd;
    const float *states = (const float *)(const void *)hidden->data + (size_t)(hidden->dims[0] - 1) * n * n_embd;
    for (int pooling = 0; pooling <= TERN_POOLING_CLS; pooling++)
        for (int normalize = 0; normalize < 2; normalize++) {
            float got[MOST], want[MOST];
            assert_true(n_embd <= MOST);
            want_of(states, n, n_embd, (tern_pooling)pooling, normalize, want);
            assert_ok(tern_session_embed(session, ids, n, (tern_pooling)pooling, normalize, got, &err), err);
            double error = test_rms_error(got, want, n_embd);
            if (!(error <= 2e-3)) fail_msg("%s, pooling %d: off by %g", model, pooling, error);
        }
    tern_session_close(session);
    tern_engine_close(engine);
    test_golden_close(&golden);
}

static void are_pooled_states(void **state)
{
    (void)state;
    for (uint32_t max_outputs = 1; max_outputs <= 64; max_outputs *= 4) {
        check_model(test_fixture("bitnet"), test_fixture("bitnet/golden.safetensors"), max_outputs);
        check_model(test_fixture("gemma3"), test_fixture("gemma3/golden.safetensors"), max_outputs);
        check_model(test_made("qwen3"), test_made("qwen3/golden.safetensors"), max_outputs);
    }
}

static void refusals(void **state)
{
    (void)state;
    float out[MOST];
    const int32_t id = 1;
    tern_engine *engine = test_engine(test_fixture("llama"), NULL);
    tern_session *session = test_session(engine, false);
    assert_int_equal(tern_session_embed(session, &id, 0, TERN_POOLING_LAST, false, out, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "0 tokens"));
    assert_int_equal(tern_session_embed(session, &id, 1, TERN_POOLING_LAST, false, out, &err), TERN_NOT_FOUND);
    assert_int_equal(tern_session_embed(session, &id, 1, (tern_pooling)7, false, out, &err), TERN_INVALID_ARGUMENT);
    tern_session_close(session);
    tern_engine_close(engine);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(are_pooled_states),
    cmocka_unit_test(refusals),
};

TEST_GROUP(embed, "", tests);
