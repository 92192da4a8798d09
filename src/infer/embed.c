/* One vector for a text: hidden states after the last norm, pooled. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "infer/session_internal.h"

enum { MOST_STATES = 64 };

/* What is gathered of the hidden states of a text. */
typedef struct pool {
    uint32_t n_embd;
    double *sum;   /* [n_embd] */
    float *states; /* [MOST_STATES][n_embd] */
} pool;

static tern_status pool_open(pool *p, uint32_t n_embd, tern_error *err)
{
    *p = (pool){.n_embd = n_embd, .sum = tern_calloc(n_embd, sizeof *p->sum)};
    p->states = tern_calloc((size_t)n_embd * MOST_STATES, sizeof *p->states);
    return p->sum && p->states ? TERN_OK : tern_fail_alloc(err, (size_t)n_embd * MOST_STATES * sizeof *p->states);
}

static void pool_close(pool *p)
{
    tern_free(p->sum);
    tern_free(p->states);
}

/* Evaluates n tokens and adds their states. */
static tern_status add(tern_session *session, pool *p, const int32_t *ids, uint32_t n, tern_error *err)
{
    const tern_config *c = tern_engine_config(tern_session_engine(session));
    uint32_t most = tern_session_max_outputs(session);
    if (most > MOST_STATES) most = MOST_STATES;
    for (uint32_t at = 0; at < n;) {
        const uint32_t piece = n - at < most ? n - at : most;
        TERN_TRY(tern_session_append_all(session, ids + at, piece, err));
        TERN_TRY(tern_session_hidden(session, c->n_layers, piece, p->states, err));
        for (size_t i = 0; i < (size_t)piece * p->n_embd; i++) p->sum[i % p->n_embd] += (double)p->states[i];
        at += piece;
    }
    return TERN_OK;
}

static tern_status gather(tern_session *session, pool *p, const int32_t *ids, uint32_t n, tern_pooling pooling,
                          tern_error *err)
{
    if (pooling == TERN_POOLING_MEAN) return add(session, p, ids, n, err);
    if (pooling == TERN_POOLING_CLS) return add(session, p, ids, 1, err);
    if (n > 1) TERN_TRY(tern_session_append(session, ids, n - 1, err));
    return add(session, p, ids + n - 1, 1, err);
}

static void finish(const pool *p, uint32_t n, bool normalize, float *out)
{
    double square = 0, factor = 1.0 / n;
    for (uint32_t i = 0; i < p->n_embd; i++) square += p->sum[i] * factor * p->sum[i] * factor;
    if (normalize) factor /= fmax(sqrt(square), 1e-12);
    for (uint32_t i = 0; i < p->n_embd; i++) out[i] = (float)(p->sum[i] * factor);
}

tern_status tern_session_embed(tern_session *session, const int32_t *ids, uint32_t n, tern_pooling pooling,
                               bool normalize, float *out, tern_error *err)
{
    pool p;
    if (n == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "embedding of 0 tokens: at least 1 expected");
    if (pooling > TERN_POOLING_CLS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "pooling %d: 0 to %d expected", (int)pooling, TERN_POOLING_CLS);
    if (tern_engine_backend(tern_session_engine(session))->info.never_waits)
        return tern_fail(err, TERN_UNSUPPORTED, "embedding on a device that cannot be waited for");
    tern_status status = pool_open(&p, tern_engine_config(tern_session_engine(session))->n_embd, err);
    tern_session_truncate(session, 0);
    if (status == TERN_OK) status = gather(session, &p, ids, n, pooling, err);
    if (status == TERN_OK) finish(&p, pooling == TERN_POOLING_MEAN ? n : 1, normalize, out);
    pool_close(&p);
    return status;
}
