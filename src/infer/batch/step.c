/* One step of a batch, from the queue to the callbacks. */
#include <string.h>

#include "infer/batch/batch_internal.h"
#include "infer/session/nonfinite.h"

/* Milliseconds that a step waits for masks: beside its rows, and without other work. */
static const double MOST_PATIENCE_MS = 2, IDLE_MS = 5;

static void take_submitted(tern_batch *b)
{
    tern_sequence **end = &b->queue;
    while (*end) end = &(*end)->next;
    pthread_mutex_lock(&b->inbox.lock);
    *end = b->inbox.first;
    b->inbox.first = NULL;
    b->inbox.last = &b->inbox.first;
    pthread_mutex_unlock(&b->inbox.lock);
    for (; *end; end = &(*end)->next) b->n_waiting++;
}

static bool is_cancelled(const tern_sequence *s)
{
    return atomic_load(&s->request->cancelled);
}

void tern_batch__end(tern_batch *b, tern_sequence *s, const tern_error *error)
{
    tern_batch__release_slot(b, s);
    tern_sequence__finish(b, s, error);
}

/* A callback may cancel another one meanwhile, which the next step sees. */
static void end_cancelled(tern_batch *b)
{
    for (uint32_t i = b->n_running; i-- > 0;) {
        tern_sequence *s = b->running[i];
        if (!is_cancelled(s) || tern_mask_give_up(&s->mask, &b->sampling.masker)) continue;
        tern_sequence__stop(s, TERN_STOP_CALLER);
        tern_batch__end(b, s, NULL);
    }
    for (tern_sequence **at = &b->queue; *at;) {
        tern_sequence *s = *at;
        if (!is_cancelled(s)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        b->n_waiting--;
        tern_sequence__stop(s, TERN_STOP_CALLER);
        tern_sequence__finish(b, s, NULL);
    }
}

static float *logits_at(const tern_batch *b, const tern_sequence *s, uint32_t output)
{
    return b->outputs.logits + (size_t)(s->first_output + output) * b->n_vocab;
}

static tern_status check_finite(const tern_batch *b, const tern_sequence *s, tern_error *err)
{
    const bool screened = tern_engine_head_exact(b->engine);
    const uint32_t end = s->n_evaluated + s->n_rows + s->n_drafted;
    for (uint32_t i = 0; i < s->n_outputs; i++) {
        const uint32_t chosen = b->outputs.device_tokens[s->first_output + i];
        if (s->on_device && chosen != TERN_SAMPLE_NOT_FINITE && chosen >= b->n_vocab)
            return tern_fail(err, TERN_INTERNAL, "the device chose token %u of a vocabulary of %u", chosen, b->n_vocab);
        if (s->on_device ? chosen == TERN_SAMPLE_NOT_FINITE
                         : !tern_all_finite(logits_at(b, s, i), b->n_vocab, screened))
            return tern_fail(err, TERN_NOT_FINITE, "logits that are not finite, at position %u",
                             end - s->n_outputs + i);
    }
    return TERN_OK;
}

/* Shows the prompt's tokens, or with their probabilities those after the step's logits. */
static tern_status echo_prompt(tern_batch *b, tern_sequence *s, tern_error *err)
{
    const tern_request_params *p = &s->request->params;
    const uint32_t n = s->result.n_prompt, end = s->n_evaluated, first = end - s->n_outputs;
    if (!p->echo || s->n_echoed == n) return TERN_OK;
    if (!p->logprobs || first == 0) TERN_TRY(tern_sequence__echo(b, s, 0, p->logprobs ? 1 : n, NULL, err));
    if (!p->logprobs) return TERN_OK;
    return tern_sequence__echo(b, s, first + 1, end < n ? end + 1 : n, logits_at(b, s, 0), err);
}

/* Whether what was guessed for token `id`, the one after i right guesses, was right; what is looked up for the next. */
static void learn_drafts(const tern_batch *b, tern_sequence *s, uint32_t i, int32_t id)
{
    if (tern_batch__drafts_by_model(b) && i < s->n_drafted)
        tern_accept_rates_learn(&s->rates, TERN_DRAFT_BY_MODEL, s->draft_ids[i] == id);
    if (!s->draft.tokens) return;
    if (s->match) tern_accept_rates_learn(&s->rates, s->match, s->lookup_id == id);
    tern_draft_add(&s->draft, id);
    s->match = tern_draft_match(&s->draft, 1, &s->lookup_id);
}

/* Whether the next token may be chosen. The time that a step waits for masks is bounded, in all. */
static bool has_mask(tern_batch *b, const tern_sequence *s)
{
    if (!s->mask.grammar || s->unconstrained) return true;
    const double began = tern_batch__now_ms();
    const bool ready = tern_mask_is_ready(&s->mask, &b->sampling.masker, b->sampling.patience_ms);
    b->sampling.patience_ms -= tern_batch__now_ms() - began;
    return ready;
}

/* Keeps the logits of the next token until its mask is ready. */
static void hold(const tern_batch *b, tern_sequence *s, const float *logits)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): made with the grammar that is waited for */
    memmove(s->held_logits, logits, b->n_vocab * sizeof *s->held_logits);
    s->holds = true;
    s->redo = false;
}

/* Tokens from the logits of the last decided one on, or with NULL those that the device has chosen: the next, and more
 * while they were guessed rightly. */
static tern_status sample_tokens(tern_batch *b, tern_sequence *s, float *logits, tern_error *err)
{
    const uint32_t n_drafted = s->n_drafted;
    const uint32_t *chosen = logits ? NULL : b->outputs.device_tokens + s->first_output + s->n_outputs - 1 - n_drafted;
    for (uint32_t i = 0; i <= n_drafted && !s->stopped; i++) {
        int32_t id;
        float *own = logits ? logits + (size_t)i * b->n_vocab : NULL;
        if (!has_mask(b, s)) {
            hold(b, s, own);
            break;
        }
        TERN_TRY(tern_sequence__sample(b, s, own, chosen ? chosen[i] : 0, &id, err));
        if (id < 0) break;
        s->tokens[s->n_tokens++] = id;
        b->counters.generated_tokens++;
        learn_drafts(b, s, i, id);
        if (i == n_drafted || s->draft_ids[i] != id) break;
        s->n_evaluated = s->n_tokens;
        s->result.n_accepted++;
        b->counters.accepted_tokens++;
    }
    if (s->redo) s->n_evaluated = s->n_tokens - 1;
    if (!s->stopped && s->n_tokens == b->params.n_ctx) tern_sequence__stop(s, TERN_STOP_CONTEXT);
    tern_batch__index_pages(b, s);
    return TERN_OK;
}

/* The other completions that share the prompt go on from the same logits. */
static void sample_forks(tern_batch *b, tern_request *r)
{
    for (uint32_t i = 1; i < r->params.n; i++) {
        tern_sequence *s = &r->sequences[i];
        tern_error error = {0};
        if (!s->must_fork) continue;
        s->must_fork = false;
        s->first_ms = tern_batch__now_ms();
        tern_status status = TERN_OK;
        if (s->request->params.echo) status = tern_sequence__echo(b, s, 0, s->result.n_prompt, NULL, &error);
        memcpy(b->sampling.fork_logits, b->sampling.prompt_logits, b->n_vocab * sizeof *b->sampling.fork_logits);
        if (status == TERN_OK) status = sample_tokens(b, s, b->sampling.fork_logits, &error);
        if (s->stopped || status != TERN_OK) tern_batch__end(b, s, status == TERN_OK ? NULL : &error);
    }
}

bool tern_sequence__has_waiting_forks(const tern_sequence *s)
{
    const tern_request *r = s->request;
    return s->index == 0 && r->params.n > 1 && r->sequences[1].awaits_prompt;
}

/* All decided tokens are evaluated: the next ones are chosen. */
static tern_status commit_tokens(tern_batch *b, tern_sequence *s, tern_error *err)
{
    float *logits = logits_at(b, s, s->n_outputs - 1 - s->n_drafted);
    const bool awaited = tern_sequence__has_waiting_forks(s);
    if (!(s->first_ms > 0)) s->first_ms = tern_batch__now_ms();
    TERN_TRY(echo_prompt(b, s, err));
    if (awaited) {
        memcpy(b->sampling.prompt_logits, logits, b->n_vocab * sizeof *logits);
        tern_batch__fork(b, s);
    }
    if (s->stopped) return TERN_OK;
    const tern_status status = sample_tokens(b, s, s->on_device ? NULL : logits, err);
    if (awaited) sample_forks(b, s->request);
    return status;
}

/* The result of the step's rows for one sequence. */
static tern_status advance(tern_batch *b, tern_sequence *s, tern_error *err)
{
    TERN_TRY(check_finite(b, s, err));
    const tern_request_params *p = &s->request->params;
    if (p->embed) tern_sequence__pool_states(b, s);
    s->n_evaluated += s->n_rows;
    tern_batch__index_pages(b, s);
    if (p->embed) return s->n_evaluated == s->n_tokens ? tern_sequence__finish_embedding(s, err) : TERN_OK;
    return s->n_evaluated == s->n_tokens ? commit_tokens(b, s, err) : echo_prompt(b, s, err);
}

static bool is_held(const tern_sequence *s)
{
    return s->holds;
}

static bool has_rows(const tern_sequence *s)
{
    return s->n_rows > 0;
}

/* The running ones that `is` holds for, into in_step; the number of them. */
static uint32_t gather(tern_batch *b, bool (*is)(const tern_sequence *))
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_running; i++)
        if (is(b->running[i])) b->in_step[n++] = b->running[i];
    return n;
}

/* Tokens that waited for their masks. */
static void sample_held(tern_batch *b)
{
    const uint32_t n = gather(b, is_held);
    for (uint32_t i = 0; i < n; i++) {
        tern_sequence *s = b->in_step[i];
        tern_error error = {0};
        if (!tern_mask_is_ready(&s->mask, &b->sampling.masker, 0)) continue;
        s->holds = false;
        s->n_drafted = 0;
        const tern_status status = sample_tokens(b, s, s->held_logits, &error);
        if (status != TERN_OK || s->stopped) tern_batch__end(b, s, status == TERN_OK ? NULL : &error);
    }
}

static void advance_all(tern_batch *b)
{
    const uint32_t n = gather(b, has_rows);
    for (uint32_t i = 0; i < n; i++) {
        tern_sequence *s = b->in_step[i];
        tern_error error = {0};
        const tern_status status = advance(b, s, &error);
        if (status != TERN_OK || s->stopped) tern_batch__end(b, s, status == TERN_OK ? NULL : &error);
    }
}

/* The planned rows of sequences that decode, and those of prompts. */
static uint32_t count_planned(const tern_batch *b, uint32_t *n_decoding)
{
    uint32_t n_prompt = 0;
    *n_decoding = 0;
    for (uint32_t i = 0; i < b->n_running; i++) {
        const tern_sequence *s = b->running[i];
        const bool decodes = s->n_rows == 1 && s->n_evaluated + 1 == s->n_tokens && s->result.n_generated > 0;
        if (decodes) *n_decoding += 1 + s->n_drafted;
        else n_prompt += s->n_rows;
    }
    return n_prompt;
}

void tern_batch__publish(tern_batch *b)
{
    tern_batch_counters *c = &b->counters;
    c->running = b->n_running;
    c->pages_cached = b->kv.pages.n_idle;
    c->pages_used = b->kv.pages.n - tern_pages_available(&b->kv.pages);
    pthread_mutex_lock(&b->inbox.lock);
    c->waiting = b->n_waiting;
    for (const tern_sequence *s = b->inbox.first; s; s = s->next) c->waiting++;
    b->inbox.published = *c;
    pthread_mutex_unlock(&b->inbox.lock);
}

static tern_status run_step(tern_batch *b, tern_error *err)
{
    const double start = tern_batch__now_ms();
    uint32_t n_decoding;
    b->sampling.patience_ms = MOST_PATIENCE_MS;
    sample_held(b);
    TERN_TRY(tern_batch__plan(b, err));
    const uint32_t n_prompt = count_planned(b, &n_decoding);
    if (n_prompt + n_decoding == 0) {
        tern_masker_wait(&b->sampling.masker, IDLE_MS);
        return TERN_OK;
    }
    TERN_TRY(tern_batch__evaluate(b, err));
    advance_all(b);
    TERN_TRY(tern_batch__feed_block(b, err));
    const double ms = tern_batch__now_ms() - start;
    tern_pace_learn(&b->pace, n_decoding, n_prompt, ms);
    if (!n_prompt) tern_step_costs_learn(&b->drafts.costs, n_decoding, ms - b->drafts.step_ms);
    b->counters.steps++;
    b->counters.step_ms += ms;
    return TERN_OK;
}

tern_status tern_batch_step(tern_batch *batch, bool *busy, tern_error *err)
{
    TERN_NEED(batch, err);
    TERN_NEED(busy, err);
    tern_batch *b = batch;
    take_submitted(b);
    end_cancelled(b);
    tern_batch__admit(b);
    const tern_status status = b->n_running ? run_step(b, err) : TERN_OK;
    tern_batch__publish(b);
    *busy = b->inbox.published.running || b->inbox.published.waiting;
    return status;
}
