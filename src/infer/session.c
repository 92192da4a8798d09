/* One sequence: appending tokens, forgetting them, making room. */
#include "infer/session.h"

#include <string.h>

#include "base/alloc.h"
#include "infer/session_state.h"

enum { DEFAULT_CTX = 2048, DEFAULT_BATCH = 512, DEFAULT_STEPS = 8, SMALL_CACHE_BYTES = 64 << 20 };

bool tern_kv_is_f32(tern_kv_type kv, const tern_config *config, uint32_t n_ctx)
{
    uint64_t bytes = 2ull * sizeof(float) * config->n_layers * config->n_kv_heads * config->head_dim * n_ctx;
    return kv == TERN_KV_F32 || (kv == TERN_KV_AUTO && bytes <= SMALL_CACHE_BYTES);
}

/* How many tokens a generation asks of the backend at once. */
static tern_status resolve_steps(const tern_backend *b, const tern_session_params *in, uint32_t *steps, tern_error *err)
{
    *steps = 0;
    if (in->steps > TERN_SAMPLE_MAX_STEPS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u tokens at once: at most %d expected", in->steps,
                         TERN_SAMPLE_MAX_STEPS);
    if (b->max_steps <= 1 || in->host_sampling || in->keep_hidden) return TERN_OK;
    *steps = in->steps ? in->steps : DEFAULT_STEPS;
    if (*steps > b->max_steps) *steps = b->max_steps;
    return TERN_OK;
}

static tern_status resolve_params(const tern_config *c, const tern_session_params *in, tern_runner_params *out,
                                  tern_error *err)
{
    uint32_t n_ctx = in->n_ctx;
    if (n_ctx == 0) n_ctx = c->n_ctx_train < DEFAULT_CTX ? c->n_ctx_train : DEFAULT_CTX;
    if (n_ctx > c->n_ctx_train)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "context of %u tokens: the model was trained for at most %u",
                         n_ctx, c->n_ctx_train);
    uint32_t n_batch = in->n_batch ? in->n_batch : DEFAULT_BATCH;
    if (n_batch > n_ctx) n_batch = n_ctx;
    uint32_t max_outputs = in->max_outputs ? in->max_outputs : 1;
    *out = (tern_runner_params){.n_ctx = n_ctx,
                                .n_batch = n_batch,
                                .max_outputs = max_outputs < n_batch ? max_outputs : n_batch,
                                .kv_f32 = tern_kv_is_f32(in->kv, c, n_ctx),
                                .keep_hidden = in->keep_hidden,
                                .loras = in->loras,
                                .n_loras = in->n_loras};
    return TERN_OK;
}

tern_status tern_session_open(tern_session **session, tern_engine *engine, const tern_session_params *params,
                              tern_error *err)
{
    TERN_NEED(session, err);
    *session = NULL;
    TERN_NEED(engine, err);
    const tern_config *c = tern_engine_config(engine);
    const tern_session_params defaults = {0};
    tern_runner_params resolved;
    uint32_t steps;
    if (!params) params = &defaults;
    TERN_TRY(resolve_params(c, params, &resolved, err));
    TERN_TRY(resolve_steps(tern_engine_backend(engine), params, &steps, err));
    resolved.steps = steps > 0;
    tern_session *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    s->steps = steps;
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

tern_status tern_session_set_loras(tern_session *session, const tern_lora_use *loras, uint32_t n, tern_error *err)
{
    TERN_NEED(session, err);
    return tern_runner_set_loras(&session->runner, loras, n, err);
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

const tern_graph *tern_session_graph(const tern_session *session, bool prefill)
{
    return prefill ? &session->runner.graphs->prefill.graph : &session->runner.graphs->decode.graph;
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

/* Evaluates what lies in `tokens` up to the n-th, and reads the logits of the last n_outputs of them. */
static tern_status evaluate(tern_session *s, uint32_t n, uint32_t n_outputs, tern_error *err)
{
    const uint32_t n_batch = s->runner.params.n_batch;
    while (s->n_evaluated < n) {
        uint32_t left = n - s->n_evaluated, size = left < n_batch ? left : n_batch;
        if (size < left && left - size < n_outputs) size = left - n_outputs; /* all outputs belong to one step */
        tern_runner_step one = {.ids = s->tokens + s->n_evaluated,
                                .n_tokens = size,
                                .first_position = s->n_evaluated,
                                .n_outputs = size == left ? n_outputs : 0,
                                .n_wanted = s->n_wanted};
        TERN_TRY(tern_runner_run(&s->runner, &one, s->logits, err));
        s->n_evaluated += size;
        if (s->n_tokens < s->n_evaluated) s->n_tokens = s->n_evaluated;
    }
    return TERN_OK;
}

float *tern_session_logits(const tern_session *session, uint32_t row)
{
    if (row >= session->runner.params.max_outputs) return NULL;
    if (session->n_evaluated < session->n_tokens) {
        tern_error ignored;
        if (evaluate((tern_session *)(uintptr_t)session, session->n_tokens, 1, &ignored) != TERN_OK) return NULL;
    }
    return session->logits + (size_t)row * tern_engine_config(session->runner.engine)->n_vocab;
}

void tern_session_want(tern_session *session, uint32_t n)
{
    session->n_wanted = n;
}

tern_status tern_session_append(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err)
{
    TERN_NEED(session, err);
    TERN_TRY(check(session, ids, n, err));
    if (n)
        memmove(session->tokens + session->n_tokens, ids,
                n * sizeof *ids); /* a shift appends what already lies there */
    return evaluate(session, session->n_tokens + n, 1, err);
}

tern_status tern_session__extend(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err)
{
    TERN_TRY(check(session, ids, n, err));
    if (n) memmove(session->tokens + session->n_tokens, ids, n * sizeof *ids);
    uint32_t end = session->n_tokens + n;
    if (session->n_evaluated == end) session->n_evaluated--;
    TERN_TRY(evaluate(session, end - 1, 0, err));
    session->n_tokens = end;
    return TERN_OK;
}

tern_status tern_session_append_all(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err)
{
    TERN_NEED(session, err);
    if (n == 0 || n > session->runner.params.max_outputs)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "logits of %u tokens: 1 to %u expected", n,
                         session->runner.params.max_outputs);
    TERN_TRY(check(session, ids, n, err));
    memmove(session->tokens + session->n_tokens, ids, n * sizeof *ids);
    return evaluate(session, session->n_tokens + n, n, err);
}

tern_status tern_session_hidden(const tern_session *session, uint32_t index, uint32_t n, float *out, tern_error *err)
{
    TERN_NEED(session, err);
    TERN_NEED(out, err);
    tern_runner *r = (tern_runner *)(uintptr_t)&session->runner;
    const tern_runner_graph *g = n == 1 ? &r->graphs->decode : &r->graphs->prefill;
    uint32_t value = tern_graph_hidden(&g->graph, index);
    if (value == TERN_NO_VALUE)
        return tern_fail(err, TERN_NOT_FOUND, "hidden state %u: the session keeps %s", index,
                         r->params.keep_hidden ? "one for each layer and the embedding's" : "none");
    return tern_runner_read(r, g, value, n, out, err);
}

void tern_session_truncate(tern_session *session, uint32_t n)
{
    if (n < session->n_tokens) session->n_tokens = n;
    if (n < session->n_evaluated) session->n_evaluated = n;
}

/* Moves the newer half to the place after n_keep and forgets the rest; *n_moved tokens lie there, to be appended. */
static tern_status move_newer(tern_session *s, uint32_t n_keep, uint32_t *n_moved, tern_error *err)
{
    uint32_t n = s->n_tokens;
    if (n < 2 || n_keep > n - 2)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "context shift: %u tokens to keep, of %u: two fewer at most expected", n_keep, n);
    *n_moved = (n - n_keep) / 2;
    memmove(s->tokens + n_keep, s->tokens + n - *n_moved, *n_moved * sizeof *s->tokens);
    tern_session_truncate(s, n_keep);
    return TERN_OK;
}

tern_status tern_session_shift(tern_session *session, uint32_t n_keep, tern_error *err)
{
    uint32_t n = 0;
    TERN_NEED(session, err);
    TERN_TRY(move_newer(session, n_keep, &n, err));
    return tern_session_append(session, session->tokens + n_keep, n, err);
}

tern_status tern_session__shift(tern_session *session, uint32_t n_keep, tern_error *err)
{
    uint32_t n = 0;
    TERN_TRY(move_newer(session, n_keep, &n, err));
    return tern_session__extend(session, session->tokens + n_keep, n, err);
}
