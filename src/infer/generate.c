/* The loop of sampling and decoding. */
#include "infer/generate_state.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void tern_generation__stop(tern_generation *g, tern_stop_reason reason)
{
    g->result->reason = reason;
    g->stopped = true;
}

static tern_status check(const tern_generation *g, uint32_t n_prompt, tern_error *err)
{
    const tern_generate_params *p = g->params;
    uint32_t n_ctx = tern_session_n_ctx(g->session), n_rows = tern_session_max_outputs(g->session);
    if (n_prompt == 0 && tern_session_n_tokens(g->session) == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "prompt of 0 tokens, and none before: at least 1 expected");
    if (p->context_shift && (n_ctx < 2 || p->n_keep > n_ctx - 2))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "context shift keeps %u tokens: at most %u of a context of %u expected", p->n_keep,
                         n_ctx < 2 ? 0 : n_ctx - 2, n_ctx);
    if (p->draft_tokens >= n_rows && p->draft_tokens > 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%u drafted tokens: at most %u expected, one less than the session's logits rows",
                         p->draft_tokens, n_rows - 1);
    return TERN_OK;
}

static tern_status begin(tern_generation *g, tern_error *err)
{
    const tern_generate_params *p = g->params;
    uint32_t n_vocab = tern_engine_config(tern_session_engine(g->session))->n_vocab;
    TERN_TRY(tern_sampler_open(&g->sampler, n_vocab, &p->sampler, err));
    TERN_TRY(tern_stop_filter_init(&g->filter, p->stops, p->n_stops, err));
    g->batch = tern_alloc((p->draft_tokens + 1ull) * sizeof *g->batch);
    if (!g->batch) return tern_fail_alloc(err, (p->draft_tokens + 1ull) * sizeof *g->batch);
    if (p->draft_tokens) TERN_TRY(tern_draft_init(&g->draft, tern_session_n_ctx(g->session), err));
    return TERN_OK;
}

static void end(tern_generation *g)
{
    tern_sampler_close(g->sampler);
    tern_stop_filter_deinit(&g->filter);
    tern_draft_deinit(&g->draft);
    tern_free(g->batch);
}

/* Takes what the session holds as decided, with the logits of its last token in row 0. */
static void decide_all(tern_generation *g)
{
    g->position = tern_session_n_tokens(g->session);
    g->row = 0;
    if (g->params->draft_tokens) tern_draft_reset(&g->draft, tern_session_tokens(g->session), g->position);
}

static tern_status prefill(tern_generation *g, const int32_t *prompt, uint32_t n_prompt, tern_error *err)
{
    int32_t last;
    if (n_prompt == 0) { /* whatever the rows held, the logits of the last token are computed again */
        uint32_t n = tern_session_n_tokens(g->session) - 1;
        last = tern_session_tokens(g->session)[n];
        tern_session_truncate(g->session, n);
        prompt = &last;
    }
    TERN_TRY(tern_session_append(g->session, prompt, n_prompt ? n_prompt : 1, err));
    decide_all(g);
    return TERN_OK;
}

/* Sees to it that one more token fits. */
static tern_status make_room(tern_generation *g, tern_error *err)
{
    if (g->position < tern_session_n_ctx(g->session)) return TERN_OK;
    if (!g->params->context_shift) {
        tern_generation__stop(g, TERN_STOP_CONTEXT);
        return TERN_OK;
    }
    TERN_TRY(tern_session_shift(g->session, g->params->n_keep, err));
    decide_all(g);
    return TERN_OK;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Drafts tokens after batch[0], as many as fit and are wanted; after a bad draft few, for each costs time. */
static uint32_t draft(tern_generation *g)
{
    const tern_generate_params *p = g->params;
    uint32_t n = smaller(p->draft_tokens, tern_session_n_ctx(g->session) - g->position - 1);
    if (p->max_tokens) n = smaller(n, p->max_tokens - g->result->n_generated);
    if (g->result->n_drafted) n = smaller(n, 2 * g->n_right + 1);
    if (n == 0 || g->stopped) return 0;
    n = tern_draft_propose(&g->draft, g->batch + 1, n);
    g->result->n_drafted += n;
    if (n) g->n_right = 0;
    return n;
}

/* Makes `id` the next decided token and sees to it that its logits are there. */
static tern_status decide(tern_generation *g, int32_t id, tern_error *err)
{
    if (g->params->draft_tokens) tern_draft_add(&g->draft, id);
    if (g->position < tern_session_n_tokens(g->session)) {
        if (tern_session_tokens(g->session)[g->position] == id) {
            g->position++;
            g->row++;
            g->n_right++;
            g->result->n_accepted++;
            return TERN_OK;
        }
        tern_session_truncate(g->session, g->position);
    }
    g->batch[0] = id;
    uint32_t n = draft(g);
    TERN_TRY(n ? tern_session_append_all(g->session, g->batch, n + 1, err)
               : tern_session_append(g->session, g->batch, 1, err));
    g->position++;
    g->row = 0;
    return TERN_OK;
}

static void show(tern_generation *g, int32_t id)
{
    tern_piece piece = {.id = id, .text = g->filter.text.data, .n_text = g->filter.n_shown};
    if (g->params->on_piece && !g->params->on_piece(g->params->context, &piece) && !g->stopped)
        tern_generation__stop(g, TERN_STOP_CALLER);
}

tern_status tern_generation__emit(tern_generation *g, int32_t id, tern_error *err)
{
    g->result->n_generated++;
    if (g->result->n_generated == g->params->max_tokens) tern_generation__stop(g, TERN_STOP_LENGTH);
    tern_stop_filter_advance(&g->filter);
    if (g->tokenizer)
        TERN_TRY(tern_text_stream_add(&g->stream, g->tokenizer, id, g->params->show_special, &g->filter.text, err));
    if (tern_stop_filter_scan(&g->filter)) tern_generation__stop(g, TERN_STOP_STRING);
    show(g, id);
    return TERN_OK;
}

/* Shows what was held back when no more text will come. */
static tern_status flush(tern_generation *g, tern_error *err)
{
    if (g->result->reason == TERN_STOP_STRING) return TERN_OK;
    tern_stop_filter_advance(&g->filter);
    TERN_TRY(tern_text_stream_finish(&g->stream, &g->filter.text, err));
    tern_stop_filter_release(&g->filter);
    if (g->filter.n_shown && g->result->reason != TERN_STOP_CALLER) show(g, -1);
    return TERN_OK;
}

bool tern_generation__is_end(const tern_generation *g, int32_t id)
{
    return !g->params->ignore_eos && g->tokenizer && tern_token_is_end(g->tokenizer, id);
}

/* One token: chosen, shown, decided. */
static tern_status step(tern_generation *g, tern_error *err)
{
    float *logits = tern_session_logits(g->session, g->row);
    int32_t id = tern_sampler_next(g->sampler, logits, tern_session_tokens(g->session), g->position);
    if (tern_generation__is_end(g, id)) {
        tern_generation__stop(g, TERN_STOP_END_TOKEN);
        return TERN_OK;
    }
    TERN_TRY(tern_generation__emit(g, id, err));
    return decide(g, id, err);
}

static tern_status loop(tern_generation *g, tern_error *err)
{
    tern_status status = TERN_OK;
    while (status == TERN_OK) {
        status = make_room(g, err);
        if (status != TERN_OK || g->stopped) break;
        status = step(g, err);
        if (g->stopped) break;
    }
    tern_session_truncate(g->session, g->position);
    return status;
}

static uint64_t weight_bytes(const tern_generation *g)
{
    const tern_backend *b = tern_engine_backend(tern_session_engine(g->session));
    tern_backend_counters counters = {0};
    b->counters(b, &counters);
    return counters.weight_bytes;
}

static tern_status run(tern_generation *g, const int32_t *prompt, uint32_t n_prompt, tern_error *err)
{
    const bool on_device = tern_generation__on_device(g->session, g->params);
    const double start = now_ms();
    TERN_TRY(on_device ? tern_session__extend(g->session, prompt, n_prompt, err) : prefill(g, prompt, n_prompt, err));
    const double first = now_ms();
    const uint64_t bytes = weight_bytes(g);
    g->result->n_prompt = n_prompt;
    g->result->prefill_ms = first - start;
    tern_status status = on_device ? tern_generation__loop_steps(g, err) : loop(g, err);
    if (status == TERN_OK) status = flush(g, err);
    g->result->decode_ms = now_ms() - first;
    g->result->weight_bytes = weight_bytes(g) - bytes;
    return status;
}

tern_status tern_generate(tern_session *session, const int32_t *prompt, uint32_t n_prompt,
                          const tern_generate_params *params, tern_generate_result *result, tern_error *err)
{
    TERN_NEED(session, err);
    TERN_NEED(params, err);
    TERN_NEED(result, err);
    *result = (tern_generate_result){0};
    tern_generation g = {.session = session,
                         .params = params,
                         .result = result,
                         .tokenizer = tern_model_tokenizer(tern_engine_model(tern_session_engine(session)))};
    TERN_TRY(check(&g, n_prompt, err));
    tern_status status = begin(&g, err);
    uint32_t n_wanted = session->n_wanted;
    tern_session_want(session, tern_sampler_wanted(&params->sampler));
    if (status == TERN_OK) status = run(&g, prompt, n_prompt, err);
    tern_session_want(session, n_wanted);
    end(&g);
    return status;
}

const char *tern_stop_reason_name(tern_stop_reason reason)
{
    static const char *const names[] = {"end token", "stop string", "length", "context full", "caller"};
    return (unsigned)reason < sizeof names / sizeof *names ? names[reason] : "unknown";
}
