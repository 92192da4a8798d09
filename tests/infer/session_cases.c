/* What the tests of sessions share. */
#include "infer/session_cases.h"

tern_engine *session_engine;

tern_session *session_session, *session_other;

int32_t session_ids[N_IDS];

size_t session_logits_bytes;

int session_setup(void **state)
{
    (void)state;
    session_engine = open_trained(1);
    session_session =
        open_session(session_engine, TERN_SIZED(tern_session_params, .n_ctx = CTX, .kv = {TERN_KV_F16, TERN_KV_F16},
                                                .n_batch = 33, .max_outputs = 5));
    session_other = open_session(session_engine, TERN_SIZED(tern_session_params, .n_ctx = CTX,
                                                            .kv = {TERN_KV_F16, TERN_KV_F16}, .max_outputs = 5));
    session_logits_bytes = tern_engine_config(session_engine)->n_vocab * sizeof(float);
    for (int32_t i = 0; i < N_IDS; i++) session_ids[i] = (i * 577 + 31) % 2000;
    return 0;
}

int session_teardown(void **state)
{
    (void)state;
    tern_session_close(session_session);
    tern_session_close(session_other);
    tern_engine_close(session_engine);
    return 0;
}

void session_append(tern_session *s, const int32_t *from, uint32_t n)
{
    tern_error err = {0};
    assert_ok(tern_session_append(s, from, n, &err), err);
}

void session_assert_same(tern_session *a, tern_session *b)
{
    assert_int_equal(tern_session_n_tokens(a), tern_session_n_tokens(b));
    assert_memory_equal(tern_session_tokens(a), tern_session_tokens(b), tern_session_n_tokens(a) * sizeof *session_ids);
    for (uint32_t i = 0; i < 4; i++) {
        assert_memory_equal(test_logits(a, 0), test_logits(b, 0), session_logits_bytes);
        session_append(a, &session_ids[i], 1);
        session_append(b, &session_ids[i], 1);
    }
}
