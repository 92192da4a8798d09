/* One vector for a text: hidden states after the last norm, pooled. */
#include "base/alloc.h"
#include "infer/session/internal.h"
#include "infer/session/pooling.h"

enum { MOST_STATES = 64 };

/* Evaluates tokens `first` .. end - 1 of n and adds their states. */
static tern_status add_states(tern_session *session, tern_pool_states *pool, float *states, const int32_t *ids,
                              uint32_t first, uint32_t end, uint32_t n, tern_error *err)
{
    const tern_config *c = tern_engine_config(tern_session_engine(session));
    uint32_t most = tern_session_max_outputs(session);
    if (most > MOST_STATES) most = MOST_STATES;
    for (uint32_t at = first, piece; at < end; at += piece) {
        piece = end - at < most ? end - at : most;
        TERN_TRY(tern_session_append_all(session, ids + at, piece, err));
        TERN_TRY(tern_session_hidden(session, c->n_layers, piece, states, err));
        tern_pool_states_add(pool, states, at, piece, n);
    }
    return TERN_OK;
}

static tern_status pool_states(tern_session *session, tern_pool_states *pool, float *states, const int32_t *ids,
                               uint32_t n, tern_error *err)
{
    if (pool->pooling == TERN_POOLING_MEAN) return add_states(session, pool, states, ids, 0, n, n, err);
    if (pool->pooling == TERN_POOLING_CLS) return add_states(session, pool, states, ids, 0, 1, n, err);
    if (n > 1) TERN_TRY(tern_session_append(session, ids, n - 1, err));
    return add_states(session, pool, states, ids, n - 1, n, n, err);
}

tern_status tern_session_embed(tern_session *session, const int32_t *ids, uint32_t n, tern_pooling pooling,
                               bool normalize, float *out, tern_error *err)
{
    tern_pool_states pool;
    const uint32_t n_embd = tern_engine_config(tern_session_engine(session))->n_embd;
    if (n == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "embedding of 0 tokens: at least 1 expected");
    if (tern_engine_backend(tern_session_engine(session))->info.never_waits)
        return tern_fail(err, TERN_UNSUPPORTED, "embedding on a device that cannot be waited for");
    TERN_TRY(tern_pool_states_init(&pool, pooling, n_embd, err));
    float *states = tern_calloc((size_t)n_embd * MOST_STATES, sizeof *states);
    tern_session_truncate(session, 0);
    const tern_status status = states ? pool_states(session, &pool, states, ids, n, err)
                                      : tern_fail_alloc(err, (size_t)n_embd * MOST_STATES * sizeof *states);
    if (status == TERN_OK) tern_pool_states_finish(&pool, normalize, out);
    tern_pool_states_deinit(&pool);
    tern_free(states);
    return status;
}
