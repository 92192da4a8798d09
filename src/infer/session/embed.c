/* One vector for a text: hidden states after the last norm, pooled. */
#include "base/alloc.h"
#include "infer/session/internal.h"
#include "infer/session/pooling.h"

enum { MOST_STATES = 64 };

/* An embedding under way: tokens 0 .. at - 1 have been read. */
struct tern_embedding {
    tern_pool_states pool;
    float *states;       /* [MOST_STATES][n_embd] */
    uint32_t first, end; /* the tokens whose states count; those before are only read */
    uint32_t at;
    bool appended; /* the piece that begins at `at`: its states come next */
};

void tern_session__drop_embedding(tern_session *session)
{
    tern_embedding *e = session->embedding;
    if (!e) return;
    tern_pool_states_deinit(&e->pool);
    tern_free(e->states);
    tern_free(e);
    session->embedding = NULL;
}

static tern_status begin(tern_session *s, uint32_t n, tern_pooling pooling, tern_error *err)
{
    const uint32_t n_embd = tern_engine_config(tern_session_engine(s))->n_embd;
    if (n == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "embedding of 0 tokens: at least 1 expected");
    tern_session_truncate(s, 0);
    tern_embedding *e = s->embedding = tern_calloc(1, sizeof *e);
    if (!e) return tern_fail_alloc(err, sizeof *e);
    TERN_TRY(tern_pool_states_init(&e->pool, pooling, n_embd, err));
    e->states = tern_calloc((size_t)n_embd * MOST_STATES, sizeof *e->states);
    if (!e->states) return tern_fail_alloc(err, (size_t)n_embd * MOST_STATES * sizeof *e->states);
    e->first = pooling == TERN_POOLING_LAST ? n - 1 : 0;
    e->end = pooling == TERN_POOLING_CLS ? 1 : n;
    return TERN_OK;
}

/* Tokens of the piece that begins at `at`. */
static uint32_t next_piece(const tern_session *s, const tern_embedding *e)
{
    if (e->at < e->first) return e->first - e->at;
    uint32_t most = tern_session_max_outputs(s);
    if (most > MOST_STATES) most = MOST_STATES;
    return e->end - e->at < most ? e->end - e->at : most;
}

static tern_status read_piece(tern_session *s, const int32_t *ids, uint32_t n, uint32_t piece, tern_error *err)
{
    tern_embedding *e = s->embedding;
    const bool counts = e->at >= e->first;
    if (!e->appended) TERN_TRY((counts ? tern_session_append_all : tern_session_append)(s, ids + e->at, piece, err));
    e->appended = true;
    if (!counts) return TERN_OK;
    const uint32_t last_state = tern_engine_config(tern_session_engine(s))->n_layers;
    TERN_TRY(tern_session_hidden(s, last_state, piece, e->states, err));
    tern_pool_states_add(&e->pool, e->states, e->at, piece, n);
    return TERN_OK;
}

static tern_status read_text(tern_session *s, const int32_t *ids, uint32_t n, tern_error *err)
{
    tern_embedding *e = s->embedding;
    while (e->at < e->end) {
        const uint32_t piece = next_piece(s, e);
        TERN_TRY(read_piece(s, ids, n, piece, err));
        e->at += piece;
        e->appended = false;
    }
    return TERN_OK;
}

tern_status tern_session_embed(tern_session *session, const int32_t *ids, uint32_t n, tern_pooling pooling,
                               bool normalize, float *out, tern_error *err)
{
    tern_status status = session->embedding ? TERN_OK : begin(session, n, pooling, err);
    if (status == TERN_OK) status = read_text(session, ids, n, err);
    if (status == TERN_OK) tern_pool_states_finish(&session->embedding->pool, normalize, out);
    if (status != TERN_PENDING) tern_session__drop_embedding(session);
    return status;
}
