/* One sequence: appending tokens, forgetting them, making room. */
#include "infer/session.h"

#include <string.h>

#include "base/alloc.h"
#include "infer/session_state.h"

enum { DEFAULT_CTX = 2048, DEFAULT_BATCH = 512, SMALL_CACHE_BYTES = 64 << 20 };

bool tern_kv_is_f32(tern_kv_type kv, const tern_config *config, uint32_t n_ctx)
{
    uint64_t bytes = 2ull * sizeof(float) * config->n_layers * config->n_kv_heads * config->head_dim * n_ctx;
    return kv == TERN_KV_F32 || (kv == TERN_KV_AUTO && bytes <= SMALL_CACHE_BYTES);
}

static tern_status resolve_params(const tern_config *c, const tern_session_params *in, tern_runner_params *out, tern_error *err)
{
    uint32_t n_ctx = in->n_ctx;
    if (n_ctx == 0) n_ctx = c->n_ctx_train < DEFAULT_CTX ? c->n_ctx_train : DEFAULT_CTX;
    if (n_ctx > c->n_ctx_train)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "context of %u tokens: the model was trained for at most %u", n_ctx, c->n_ctx_train);
    uint32_t n_batch = in->n_batch ? in->n_batch : DEFAULT_BATCH;
    if (n_batch > n_ctx) n_batch = n_ctx;
    uint32_t max_outputs = in->max_outputs ? in->max_outputs : 1;
    *out = (tern_runner_params){.n_ctx = n_ctx, .n_batch = n_batch, .max_outputs = max_outputs < n_batch ? max_outputs : n_batch,
                                .kv_f32 = tern_kv_is_f32(in->kv, c, n_ctx), .keep_hidden = in->keep_hidden};
    return TERN_OK;
}

tern_status tern_session_open(tern_session **session, tern_engine *engine, const tern_session_params *params, tern_error *err)
{
    TERN_NEED(session, err);
    *session = NULL;
    TERN_NEED(engine, err);
    const tern_config *c = tern_engine_config(engine);
    tern_runner_params resolved;
    TERN_TRY(resolve_params(c, params ? params : &(tern_session_params){0}, &resolved, err));
    tern_session *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    tern_status status = tern_runner_open(&s->runner, engine, &resolved, err);
    if (status == TERN_OK) {
        s->tokens = tern_calloc(resolved.n_ctx, sizeof *s->tokens);
        s->logits = tern_calloc((size_t)resolved.max_outputs * c->n_vocab, sizeof(float));
        if (!s->tokens || !s->logits) status = tern_fail_alloc(err, (uint64_t)resolved.max_outputs * c->n_vocab * 4);
    }
    if (status == TERN_OK) *session = s;
    else tern_session_close(s);
    return status;
}

void tern_session_close(tern_session *session)
{
    if (!session) return;
    tern_runner_deinit(&session->runner);
    tern_free(session->tokens);
    tern_free(session->logits);
    tern_free(session);
}

tern_engine *tern_session_engine(const tern_session *session)
{
    return session->runner.engine;
}

uint32_t tern_session_n_ctx(const tern_session *session)
{
    return session->runner.params.n_ctx;
}

uint32_t tern_session_max_outputs(const tern_session *session)
{
    return session->runner.params.max_outputs;
}

const int32_t *tern_session_tokens(const tern_session *session)
{
    return session->tokens;
}

uint32_t tern_session_n_tokens(const tern_session *session)
{
    return session->n_tokens;
}

float *tern_session_logits(const tern_session *session, uint32_t row)
{
    if (row >= session->runner.params.max_outputs) return NULL;
    return session->logits + (size_t)row * tern_engine_config(session->runner.engine)->n_vocab;
}

const tern_graph *tern_session_graph(const tern_session *session, bool prefill)
{
    return prefill ? &session->runner.prefill.graph : &session->runner.decode.graph;
}

static tern_status check(const tern_session *s, const int32_t *ids, uint32_t n, tern_error *err)
{
    if (n) TERN_NEED(ids, err);
    uint32_t n_vocab = tern_engine_config(s->runner.engine)->n_vocab, n_ctx = s->runner.params.n_ctx;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "token %u is id %d: 0 to %u expected", i, ids[i], n_vocab - 1);
    if (n > n_ctx - s->n_tokens)
        return tern_fail(err, TERN_CONTEXT_FULL, "context full: %u tokens and %u more, of %u", s->n_tokens, n, n_ctx);
    return TERN_OK;
}

static tern_status step(tern_session *s, const int32_t *ids, uint32_t n, uint32_t n_outputs, tern_error *err)
{
    tern_runner_step one = {.ids = ids, .n_tokens = n, .first_position = s->n_tokens, .n_outputs = n_outputs, .n_wanted = s->n_wanted};
    TERN_TRY(tern_runner_run(&s->runner, &one, s->logits, err));
    memmove(s->tokens + s->n_tokens, ids, n * sizeof *ids); /* a shift appends what already lies there */
    s->n_tokens += n;
    return TERN_OK;
}

void tern_session_want(tern_session *session, uint32_t n)
{
    session->n_wanted = n;
}

tern_status tern_session_append(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err)
{
    TERN_NEED(session, err);
    TERN_TRY(check(session, ids, n, err));
    for (uint32_t at = 0; at < n;) {
        uint32_t left = n - at, size = left < session->runner.params.n_batch ? left : session->runner.params.n_batch;
        TERN_TRY(step(session, ids + at, size, size == left, err));
        at += size;
    }
    return TERN_OK;
}

tern_status tern_session_append_all(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err)
{
    TERN_NEED(session, err);
    if (n == 0 || n > session->runner.params.max_outputs)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "logits of %u tokens: 1 to %u expected", n, session->runner.params.max_outputs);
    TERN_TRY(check(session, ids, n, err));
    return step(session, ids, n, n, err);
}

tern_status tern_session_hidden(const tern_session *session, uint32_t index, uint32_t n, float *out, tern_error *err)
{
    TERN_NEED(session, err);
    TERN_NEED(out, err);
    tern_runner *r = (tern_runner *)(uintptr_t)&session->runner;
    const tern_runner_graph *g = n == 1 ? &r->decode : &r->prefill;
    uint32_t value = tern_graph_hidden(&g->graph, index);
    if (value == TERN_NO_VALUE)
        return tern_fail(err, TERN_NOT_FOUND, "hidden state %u: the session keeps %s", index,
                         r->params.keep_hidden ? "one for each layer and the embedding's" : "none");
    return tern_runner_read(r, g, value, n, out, err);
}

void tern_session_truncate(tern_session *session, uint32_t n)
{
    if (n < session->n_tokens) session->n_tokens = n;
}

tern_status tern_session_shift(tern_session *session, uint32_t n_keep, tern_error *err)
{
    TERN_NEED(session, err);
    uint32_t n = session->n_tokens;
    if (n < 2 || n_keep > n - 2)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "context shift: %u tokens to keep, of %u: two fewer at most expected", n_keep, n);
    uint32_t n_moved = (n - n_keep) / 2;
    int32_t *moved = session->tokens + n_keep;
    memmove(moved, session->tokens + n - n_moved, n_moved * sizeof *moved);
    session->n_tokens = n_keep;
    return tern_session_append(session, moved, n_moved, err);
}
