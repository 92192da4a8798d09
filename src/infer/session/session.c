/* One sequence: opening and closing it, its adapters, and what it holds. */
#include "infer/session/session.h"

#include "base/alloc.h"
#include "base/sized.h"
#include "infer/engine/memory_need.h"
#include "infer/session/internal.h"

enum {
    DEFAULT_CTX = 2048,
    DEFAULT_STEPS = 8,
    PROMPT_STATES = 2 /* kept at ends of prompts unless the caller says how many, for tokens that are taken back */
};

/* How many tokens a generation asks of the backend at once. */
_Static_assert((int)TERN_SESSION_MAX_STEPS == (int)TERN_SAMPLE_MAX_STEPS, "what tern/infer.h says");

static tern_status resolve_steps(const tern_backend *b, const tern_session_params *in, uint32_t *steps, tern_error *err)
{
    *steps = 0;
    if (in->steps > TERN_SAMPLE_MAX_STEPS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u tokens at once: at most %d expected", in->steps,
                         TERN_SAMPLE_MAX_STEPS);
    if (b->info.max_steps <= 1 || in->host_sampling || in->keep_hidden) return TERN_OK;
    *steps = in->steps ? in->steps : b->info.never_waits ? 1 : DEFAULT_STEPS;
    if (*steps > b->info.max_steps) *steps = b->info.max_steps;
    return TERN_OK;
}

static tern_status resolve_params(const tern_engine *engine, const tern_session_params *in, tern_runner_params *out,
                                  tern_error *err)
{
    const tern_config *c = tern_engine_config(engine);
    uint32_t n_ctx = in->n_ctx;
    if (n_ctx == 0) n_ctx = c->n_ctx_train < DEFAULT_CTX ? c->n_ctx_train : DEFAULT_CTX;
    if (n_ctx > c->n_ctx_train)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "context of %u tokens: the model was trained for at most %u",
                         n_ctx, c->n_ctx_train);
    uint32_t n_batch = in->n_batch ? in->n_batch : TERN_SESSION_DEFAULT_BATCH;
    if (n_batch > n_ctx) n_batch = n_ctx;
    uint32_t max_outputs = in->max_outputs ? in->max_outputs : 1;
    if (in->n_state_checkpoints > TERN_MAX_STATE_CHECKPOINTS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u state checkpoints: at most %d expected",
                         in->n_state_checkpoints, TERN_MAX_STATE_CHECKPOINTS);
    const uint32_t n_states = in->n_state_checkpoints ? in->n_state_checkpoints : PROMPT_STATES;
    *out = (tern_runner_params){.n_ctx = n_ctx,
                                .n_batch = n_batch,
                                .max_outputs = max_outputs < n_batch ? max_outputs : n_batch,
                                .keep_hidden = in->keep_hidden,
                                .keep_states = in->mtp,
                                .n_states = c->recurrence.n_heads ? n_states : 0,
                                .loras = in->loras,
                                .n_loras = in->n_loras};
    return tern_kv_resolve(in->kv, c, n_ctx, tern_engine_backend(engine), &out->kv, err);
}

tern_status tern_session_resolve(const tern_engine *engine, const tern_session_params *params, tern_runner_params *out,
                                 uint32_t *steps, tern_error *err)
{
    tern_session_params own;
    TERN_TRY(TERN_SIZED_READ(&own, params, err));
    TERN_TRY(resolve_params(engine, &own, out, err));
    TERN_TRY(resolve_steps(tern_engine_backend(engine), &own, steps, err));
    out->steps = *steps > 0;
    return TERN_OK;
}

tern_status tern_session_open(tern_session **session, tern_engine *engine, const tern_session_params *params,
                              tern_error *err)
{
    TERN_NEED(session, err);
    *session = NULL;
    TERN_NEED(engine, err);
    const tern_config *c = tern_engine_config(engine);
    tern_runner_params resolved;
    tern_session_params own;
    uint32_t steps;
    TERN_TRY(TERN_SIZED_READ(&own, params, err));
    TERN_TRY(tern_session_resolve(engine, &own, &resolved, &steps, err));
    TERN_TRY(tern_lora__check(engine, resolved.loras, resolved.n_loras, err));
    TERN_TRY(tern_memory_check(engine, &resolved, false, err));
    tern_session *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    s->steps = steps;
    s->steps_chosen = own.steps > 0;
    tern_status status;
    TERN_GOTO(tern_runner_open(&s->runner, engine, &resolved, err));
    if (own.mtp) TERN_GOTO(tern_mtp_open(&s->mtp, engine, &resolved, err));
    s->tokens = tern_calloc(resolved.n_ctx, sizeof *s->tokens);
    s->logits = tern_calloc((size_t)resolved.max_outputs * c->n_vocab, sizeof(float));
    if (!s->tokens || !s->logits)
        TERN_GOTO(tern_fail_alloc(err, (uint64_t)resolved.max_outputs * c->n_vocab * sizeof(float)));
    *session = s;
    return TERN_OK;
fail:
    tern_session_close(s);
    return status;
}

void tern_session_close(tern_session *session)
{
    if (!session) return;
    tern_session__drop_embedding(session);
    tern_nonfinite_close(session->search);
    tern_mtp_close(session->mtp);
    tern_runner_deinit(&session->runner);
    tern_free(session->tokens);
    tern_free(session->logits);
    tern_free(session);
}

tern_status tern_session_set_loras(tern_session *session, const tern_lora_use *loras, uint32_t n, tern_error *err)
{
    TERN_NEED(session, err);
    tern_session__abandon(session);
    tern_session__drop_embedding(session);
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

uint64_t tern_session_kv_bytes(const tern_session *session)
{
    return tern_graph_bytes_of(&session->runner.graphs->prefill.graph, TERN_VALUE_CACHE);
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

void tern_session_set_n_top(tern_session *session, uint32_t n)
{
    session->needed = (tern_logits_needed){.n_top = n};
}

tern_status tern_session_hidden(tern_session *session, uint32_t index, uint32_t n, float *out, tern_error *err)
{
    TERN_NEED(session, err);
    TERN_NEED(out, err);
    tern_runner *r = &session->runner;
    tern_runner_graph *g = n == 1 ? &r->graphs->decode : &r->graphs->prefill;
    uint32_t value = tern_graph_hidden(&g->graph, index);
    if (value == TERN_NO_VALUE)
        return tern_fail(err, TERN_NOT_FOUND, "hidden state %u: the session keeps %s", index,
                         r->params.keep_hidden ? "one for each layer and the embedding's" : "none");
    return tern_runner_read(g, value, n, out, err);
}
