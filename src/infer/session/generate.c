/* Generating text, step by step: the prompt, the tokens, and when to stop. */
#include <string.h>
#include <time.h>

#include "backend/counters.h"
#include "base/alloc.h"
#include "base/sized.h"
#include "infer/session/generate_internal.h"

double tern_generation__now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void tern_generation__stop(tern_generation *g, tern_stop_reason reason)
{
    g->result.reason = reason;
    g->stopped = true;
}

static tern_status check_params(const tern_session *s, uint32_t n_prompt, const tern_generate_params *p,
                                tern_error *err)
{
    uint32_t n_ctx = tern_session_n_ctx(s), n_rows = tern_session_max_outputs(s);
    if (n_prompt == 0 && tern_session_n_tokens(s) == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "prompt of 0 tokens, and none before: at least 1 expected");
    if (p->context_shift && (n_ctx < 2 || p->n_keep > n_ctx - 2))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "context shift keeps %u tokens: at most %u of a context of %u expected", p->n_keep,
                         n_ctx < 2 ? 0 : n_ctx - 2, n_ctx);
    if (p->draft_tokens >= n_rows && p->draft_tokens > 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%u drafted tokens: at most %u expected, one less than the session's logits rows",
                         p->draft_tokens, n_rows - 1);
    return p->draft && p->draft_tokens ? tern_draft_model_check(p->draft, s, err) : TERN_OK;
}

static void show_text(tern_generation *g, int32_t id)
{
    tern_piece piece = {.id = id, .text = g->filter.text.data, .n_text = g->filter.n_shown};
    if (g->params.on_piece && !g->params.on_piece(g->params.context, &piece) && !g->stopped)
        tern_generation__stop(g, TERN_STOP_CALLER);
}

tern_status tern_generation__emit(tern_generation *g, int32_t id, tern_error *err)
{
    g->result.n_generated++;
    if (g->result.n_generated == g->params.max_tokens) tern_generation__stop(g, TERN_STOP_LENGTH);
    tern_stop_filter_advance(&g->filter);
    if (g->tokenizer)
        TERN_TRY(tern_text_stream_add(&g->stream, g->tokenizer, id, g->params.show_special, &g->filter.text, err));
    if (tern_stop_filter_scan(&g->filter)) tern_generation__stop(g, TERN_STOP_STRING);
    show_text(g, id);
    return TERN_OK;
}

/* Shows what was held back when no more text will come. */
static tern_status flush(tern_generation *g, tern_error *err)
{
    if (g->result.reason == TERN_STOP_STRING) return TERN_OK;
    tern_stop_filter_advance(&g->filter);
    TERN_TRY(tern_text_stream_finish(&g->stream, &g->filter.text, err));
    tern_stop_filter_release(&g->filter);
    if (g->filter.n_shown && g->result.reason != TERN_STOP_CALLER) show_text(g, -1);
    return TERN_OK;
}

bool tern_generation__is_end(const tern_generation *g, int32_t id)
{
    return !g->params.ignore_eos && g->tokenizer && tern_token_is_end(g->tokenizer, id);
}

static uint64_t weight_bytes(const tern_generation *g)
{
    const tern_backend *b = tern_engine_backend(tern_session_engine(g->session));
    tern_backend_counters counters = {0};
    b->counters(b, &counters);
    return counters.weight_bytes;
}

/* Times and counters as they are now. */
static void update_result(tern_generation *g)
{
    double now = tern_generation__now_ms();
    g->result.prefill_ms = (g->prompt_evaluated ? g->decode_start_ms : now) - g->start_ms;
    g->result.decode_ms = g->prompt_evaluated ? now - g->decode_start_ms : 0;
    g->result.weight_bytes = g->prompt_evaluated ? weight_bytes(g) - g->start_bytes : 0;
}

static tern_status begin(tern_generation *g, const int32_t *prompt, uint32_t n_prompt, tern_error *err)
{
    const tern_generate_params *p = &g->params;
    const tern_sampler_model model = {tern_engine_config(tern_session_engine(g->session))->n_vocab,
                                      tern_session_n_ctx(g->session), g->tokenizer};
    TERN_TRY(tern_sampler_open(&g->sampler, &model, &p->sampler, err));
    TERN_TRY(tern_stop_filter_init(&g->filter, p->stops, p->n_stops, err));
    TERN_TRY(tern_generation__host_init(g, err));
    g->on_device = tern_generation__on_device(g->session, p);
    if (g->on_device) return tern_session__begin_extend(g->session, prompt, n_prompt, err);
    return tern_generation__host_begin(g, prompt, n_prompt, err);
}

static void generation_free(tern_generation *g)
{
    tern_sampler_close(g->sampler);
    tern_stop_filter_deinit(&g->filter);
    tern_generation__host_deinit(g);
    tern_free(g);
}

tern_status tern_generation_open(tern_generation **generation, tern_session *session, const int32_t *prompt,
                                 uint32_t n_prompt, const tern_generate_params *params, tern_error *err)
{
    TERN_NEED(generation, err);
    *generation = NULL;
    TERN_NEED(session, err);
    TERN_NEED(params, err);
    tern_generate_params own;
    TERN_TRY(TERN_SIZED_READ(&own, params, err));
    TERN_TRY(check_params(session, n_prompt, &own, err));
    tern_generation *g = tern_calloc(1, sizeof *g);
    if (!g) return tern_fail_alloc(err, sizeof *g);
    *g = (tern_generation){.session = session,
                           .params = own,
                           .result = {.n_prompt = n_prompt},
                           .tokenizer = tern_model_tokenizer(tern_engine_model(tern_session_engine(session))),
                           .needed_before = session->needed,
                           .start_ms = tern_generation__now_ms()};
    tern_status status = begin(g, prompt, n_prompt, err);
    if (status != TERN_OK) {
        generation_free(g);
        return status;
    }
    if (!own.filter) g->needed = tern_logits_needed_by(&g->params.sampler);
    session->needed = g->needed;
    *generation = g;
    return TERN_OK;
}

/* The session has evaluated what it was to: the prompt, a shift, or a decided token. */
static void on_evaluated(tern_generation *g)
{
    if (!g->prompt_evaluated) {
        g->decode_start_ms = tern_generation__now_ms();
        g->start_bytes = weight_bytes(g);
    }
    g->prompt_evaluated = true;
    if (!g->on_device) tern_generation__host_evaluated(g);
}

/* A wish to stop is granted between batches of the prompt and between tokens, not while the device works. */
static void apply_stop_request(tern_generation *g)
{
    const tern_session_evaluation *evaluation = &g->session->evaluation;
    if (!g->stop_requested || g->stopped || g->n_running || evaluation->running ||
        (evaluation->active && g->prompt_evaluated))
        return;
    tern_session__abandon(g->session);
    tern_generation__stop(g, TERN_STOP_CALLER);
}

static tern_status advance(tern_generation *g, tern_error *err)
{
    const tern_session_evaluation *evaluation = &g->session->evaluation;
    apply_stop_request(g);
    if (!evaluation->active && !g->stopped)
        TERN_TRY(g->on_device ? tern_generation__device_step(g, err) : tern_generation__host_step(g, err));
    if (!evaluation->active) return TERN_OK;
    TERN_TRY(tern_session__advance(g->session, err));
    if (!evaluation->active) on_evaluated(g);
    return TERN_OK;
}

/* Leaves the session as it shall be. */
static void end(tern_generation *g)
{
    tern_session__abandon(g->session);
    if (g->prompt_evaluated && !g->on_device) tern_generation__host_end(g);
    update_result(g);
    g->over = true;
}

tern_status tern_generation_step(tern_generation *generation, bool *done, tern_error *err)
{
    TERN_NEED(generation, err);
    TERN_NEED(done, err);
    tern_generation *g = generation;
    *done = g->over && g->failed == TERN_OK;
    if (*done) return TERN_OK;
    if (g->over) return tern_fail(err, g->failed, "this generation has failed: no further step expected");
    tern_status status = advance(g, err);
    if (status == TERN_PENDING) return status;
    if (status == TERN_OK && (!g->stopped || g->session->evaluation.active)) return TERN_OK;
    end(g);
    if (status == TERN_OK) status = flush(g, err);
    g->failed = status;
    *done = status == TERN_OK;
    return status;
}

void tern_generation_stop(tern_generation *generation)
{
    generation->stop_requested = true;
}

tern_status tern_generation_describe(const tern_generation *generation, tern_generate_result *result, tern_error *err)
{
    TERN_NEED(generation, err);
    tern_generation now = *generation;
    if (!now.over) update_result(&now);
    return TERN_SIZED_WRITE(result, &now.result, err);
}

void tern_generation_close(tern_generation *generation)
{
    if (!generation) return;
    if (!generation->over) end(generation);
    generation->session->needed = generation->needed_before;
    generation_free(generation);
}

tern_status tern_generate(tern_session *session, const int32_t *prompt, uint32_t n_prompt,
                          const tern_generate_params *params, tern_generate_result *result, tern_error *err)
{
    TERN_NEED(session, err);
    TERN_NEED(params, err);
    tern_generation *g;
    const tern_generate_result nothing = {0};
    TERN_TRY(TERN_SIZED_WRITE(result, &nothing, err));
    TERN_TRY(tern_engine__needs_waiting(tern_session_engine(session), "generating all at once", err));
    TERN_TRY(tern_generation_open(&g, session, prompt, n_prompt, params, err));
    tern_status status = TERN_OK;
    for (bool done = false; status == TERN_OK && !done;) status = tern_generation_step(g, &done, err);
    tern_generation_describe(g, result, NULL); /* its size was looked at */
    tern_generation_close(g);
    return status;
}

const char *tern_stop_reason_name(tern_stop_reason reason)
{
    static const char *const names[] = {"end token", "stop string", "length", "context full", "caller"};
    return (unsigned)reason < sizeof names / sizeof *names ? names[reason] : "unknown";
}
