/* Generating on the host: sampling from logits, one token after the other, with drafts when they are wanted. */
#include <math.h>

#include "base/alloc.h"
#include "infer/session/generate_internal.h"

tern_status tern_generation__host_init(tern_generation *g, tern_error *err)
{
    const size_t bytes = (g->params.draft_tokens + (size_t)1) * sizeof *g->batch;
    g->batch = tern_alloc(bytes);
    if (!g->batch) return tern_fail_alloc(err, bytes);
    if (g->params.filter) {
        g->n_filter_words = ((size_t)tern_engine_config(tern_session_engine(g->session))->n_vocab + 31) / 32;
        g->filter_mask = tern_alloc(g->n_filter_words * sizeof *g->filter_mask);
        if (!g->filter_mask) return tern_fail_alloc(err, g->n_filter_words * sizeof *g->filter_mask);
    }
    if (!g->params.draft_tokens) return TERN_OK;
    tern_accept_rates_init(&g->rates);
    TERN_TRY(tern_step_costs_init(&g->costs, g->params.draft_tokens + 1, g->params.draft_costs, err));
    return tern_draft_init(&g->draft, tern_session_n_ctx(g->session), err);
}

void tern_generation__host_deinit(tern_generation *g)
{
    tern_draft_deinit(&g->draft);
    tern_step_costs_deinit(&g->costs);
    tern_free(g->batch);
    tern_free(g->filter_mask);
}

tern_status tern_generation__host_begin(tern_generation *g, const int32_t *prompt, uint32_t n, tern_error *err)
{
    tern_session *s = g->session;
    TERN_TRY(tern_session__begin(s, prompt, n, 1, err));
    if (n == 0) s->n_evaluated = s->n_tokens - 1; /* whatever the rows hold, the last token's logits are made again */
    return TERN_OK;
}

/* A small model guesses, or the model's own block. */
static bool drafts_by_model(const tern_generation *g)
{
    return g->params.draft || g->session->mtp;
}

/* Tokens that must match for a look-up to be trusted more than the draft model. */
static uint32_t shortest_match(const tern_generation *g)
{
    return drafts_by_model(g) ? TERN_DRAFT_LONGEST : 1;
}

/* The tokens that would follow the last decided one. */
static void look_up(tern_generation *g)
{
    g->match = tern_draft_match(&g->draft, shortest_match(g), &g->lookup_id);
}

/* Takes what the session holds as decided, with the logits of its last token in row 0. */
static void commit_all(tern_generation *g)
{
    g->position = tern_session_n_tokens(g->session);
    g->row = 0;
    g->n_model_drafted = 0;
    if (!g->params.draft_tokens) return;
    tern_draft_reset(&g->draft, tern_session_tokens(g->session), g->position);
    look_up(g);
}

void tern_generation__host_evaluated(tern_generation *g)
{
    if (g->reevaluating) {
        g->row = 0;
        return;
    }
    if (!g->committing) {
        commit_all(g);
        return;
    }
    g->committing = false;
    g->position++;
    g->row = 0;
    if (g->params.draft_tokens)
        tern_step_costs_learn(&g->costs, g->n_rows, tern_generation__now_ms() - g->step_start_ms);
}

void tern_generation__host_end(tern_generation *g)
{
    tern_session *s = g->session;
    if (g->reevaluating && s->n_tokens < g->position)
        s->n_tokens = g->position; /* it failed: the next append does it */
    tern_session_truncate(s, g->position);
    if (!g->committing) return;
    s->n_tokens = g->position + 1; /* it was shown; the next append takes it along */
    g->committing = false;
}

/* Sees to it that one more token fits. */
static tern_status shift_if_full(tern_generation *g, tern_error *err)
{
    if (g->position < tern_session_n_ctx(g->session)) return TERN_OK;
    if (g->params.context_shift) return tern_session__begin_shift(g->session, g->params.n_keep, false, err);
    tern_generation__stop(g, TERN_STOP_CONTEXT);
    return TERN_OK;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Guesses of the draft model; what one takes is learnt. */
static tern_status draft_by_model(tern_generation *g, uint32_t n, uint32_t *n_out, tern_error *err)
{
    tern_session *s = g->session;
    const double start = tern_generation__now_ms();
    s->tokens[g->position] = g->batch[0]; /* where it will be */
    if (g->params.draft)
        TERN_TRY(tern_draft_model_propose(g->params.draft, s->tokens, g->position + 1, g->batch + 1, n, n_out, err));
    else TERN_TRY(tern_mtp_propose(s->mtp, s->tokens, g->position + 1, g->batch + 1, n, n_out, err));
    if (!g->params.draft_costs) g->rates.model_ms = (tern_generation__now_ms() - start) / (*n_out ? *n_out : 1);
    g->n_model_drafted = *n_out;
    return TERN_OK;
}

/* Drafts tokens after batch[0], as many as fit and pay: by look-up, and where it finds little by the draft model. */
static tern_status draft(tern_generation *g, uint32_t *n_out, tern_error *err)
{
    *n_out = g->n_model_drafted = 0;
    const tern_generate_params *p = &g->params;
    const tern_step_plan plan = {1, 1};
    uint32_t n = smaller(p->draft_tokens, tern_session_n_ctx(g->session) - g->position - 1);
    if (p->max_tokens) n = smaller(n, p->max_tokens - g->result.n_generated);
    if (n == 0 || g->stopped || (!g->match && !drafts_by_model(g))) return TERN_OK;
    n = tern_speculate(&g->costs, &g->rates, &plan, g->match, n);
    if (n == 0) return TERN_OK;
    if (g->match) *n_out = tern_draft_propose(&g->draft, shortest_match(g), g->batch + 1, n);
    else TERN_TRY(draft_by_model(g, n, n_out, err));
    g->result.n_drafted += *n_out;
    return TERN_OK;
}

/* Whether what was guessed to come here came; and what is guessed to come next. */
static void learn_drafts(tern_generation *g, int32_t id)
{
    if (!g->params.draft_tokens) return;
    if (g->match) tern_accept_rates_learn(&g->rates, g->match, g->lookup_id == id);
    if (g->n_model_drafted) {
        const bool right = g->session->tokens[g->position] == id;
        tern_accept_rates_learn(&g->rates, TERN_DRAFT_BY_MODEL, right);
        g->n_model_drafted = right ? g->n_model_drafted - 1 : 0;
    }
    tern_draft_add(&g->draft, id);
    look_up(g);
}

/* Makes `id` the next decided token: it was drafted rightly, or the session is to evaluate it. */
static tern_status commit(tern_generation *g, int32_t id, tern_error *err)
{
    tern_session *s = g->session;
    learn_drafts(g, id);
    if (g->position < s->n_tokens && s->tokens[g->position] == id) {
        g->position++;
        g->row++;
        g->result.n_accepted++;
        return TERN_OK;
    }
    tern_session_truncate(s, g->position);
    g->batch[0] = id;
    uint32_t n;
    TERN_TRY(draft(g, &n, err));
    g->n_rows = 1 + n;
    g->step_start_ms = tern_generation__now_ms();
    TERN_TRY(tern_session__begin(s, g->batch, 1 + n, 1 + n, err));
    g->committing = true;
    return TERN_OK;
}

/* Evaluates the last decided token once more, for all its logits. */
static tern_status reevaluate_last(tern_generation *g, tern_error *err)
{
    const int32_t last = tern_session_tokens(g->session)[g->position - 1];
    tern_session_truncate(g->session, g->position - 1);
    g->session->needed = (tern_logits_needed){0};
    g->reevaluating = true;
    return tern_session__begin(g->session, &last, 1, 1, err);
}

/* UNDECIDED: it was begun to evaluate what is missing. */
static tern_status sample_token(tern_generation *g, float *logits, int32_t *id, tern_error *err)
{
    const float tail = g->session->needed.tail;
    *id = tern_sampler_try(g->sampler, logits, tern_session_tokens(g->session), g->position, tail);
    if (*id == TERN_SAMPLER_UNDECIDED) return reevaluate_last(g, err);
    g->reevaluating = false;
    g->session->needed = g->needed;
    return TERN_OK;
}

/* Bans the tokens that the filter does not allow; where it allows none, the text ends. */
static tern_status apply_filter(tern_generation *g, float *logits, tern_error *err)
{
    const tern_token_filter *f = g->params.filter;
    const uint32_t n_vocab = tern_engine_config(tern_session_engine(g->session))->n_vocab;
    uint32_t any = 0;
    if (!f) return TERN_OK;
    TERN_TRY(f->mask(f->context, g->filter_mask, g->n_filter_words, err));
    for (size_t i = 0; i < g->n_filter_words; i++) any |= g->filter_mask[i];
    for (uint32_t i = 0; i < n_vocab; i++)
        if (!(g->filter_mask[i / 32] >> i % 32 & 1)) logits[i] = -INFINITY;
    if (!any) tern_generation__stop(g, TERN_STOP_END_TOKEN);
    return TERN_OK;
}

static bool is_last(const tern_generation *g, int32_t id)
{
    if (g->params.filter && g->tokenizer && tern_token_is_end(g->tokenizer, id)) return true;
    return tern_generation__is_end(g, id);
}

tern_status tern_generation__host_step(tern_generation *g, tern_error *err)
{
    TERN_TRY(shift_if_full(g, err));
    if (g->stopped || g->session->evaluation.active) return TERN_OK;
    float *logits;
    TERN_TRY(tern_session_logits(g->session, g->row, &logits, err));
    TERN_TRY(apply_filter(g, logits, err));
    if (g->stopped) return TERN_OK;
    int32_t id;
    TERN_TRY(sample_token(g, logits, &id, err));
    if (id == TERN_SAMPLER_UNDECIDED) return TERN_OK;
    if (g->params.filter) TERN_TRY(g->params.filter->accept(g->params.filter->context, id, err));
    if (is_last(g, id)) {
        tern_generation__stop(g, TERN_STOP_END_TOKEN);
        return TERN_OK;
    }
    TERN_TRY(tern_generation__emit(g, id, err));
    return commit(g, id, err);
}
