/* Requests: checking and copying them, starting their sequences, and what they come to. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/choice.h"
#include "base/sized.h"
#include "infer/batch/batch_internal.h"

static tern_status check_prompt(const tern_batch *b, const tern_request_params *p, tern_error *err)
{
    if (p->n_prompt == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "prompt of 0 tokens: at least 1 expected");
    TERN_NEED(p->prompt, err);
    if (p->embed ? p->n_prompt > b->params.n_ctx : p->n_prompt >= b->params.n_ctx)
        return tern_fail(err, TERN_CONTEXT_FULL, "prompt of %u tokens: at most %u, %s, expected", p->n_prompt,
                         b->params.n_ctx - !p->embed, p->embed ? "the context" : "one less than the context");
    for (uint32_t i = 0; i < p->n_prompt; i++)
        if (p->prompt[i] < 0 || (uint32_t)p->prompt[i] >= b->n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "token %u is id %d: 0 to %u expected", i, p->prompt[i],
                             b->n_vocab - 1);
    return TERN_OK;
}

static tern_status check_embedding(const tern_request_params *p, tern_error *err)
{
    if (p->n > 1) return tern_fail(err, TERN_INVALID_ARGUMENT, "%u vectors of a text: 1 expected", p->n);
    return tern_choice_check(TERN_CHOICE_POOLING, p->pooling, err);
}

static tern_sampler_model sampled_model(const tern_batch *b)
{
    return (tern_sampler_model){b->n_vocab, b->params.n_ctx, b->tokenizer};
}

static tern_status check_params(const tern_batch *b, const tern_request_params *p, tern_error *err)
{
    TERN_TRY(check_prompt(b, p, err));
    if (p->echo_from > p->n_prompt)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "echo_from %u: at most the prompt's %u tokens expected",
                         p->echo_from, p->n_prompt);
    if (p->n_stops) TERN_NEED(p->stops, err);
    if (p->n_loras) TERN_NEED(p->loras, err);
    if (p->n_top_logprobs > TERN_BATCH_MAX_TOP_LOGPROBS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u top log-probabilities: at most %d expected", p->n_top_logprobs,
                         TERN_BATCH_MAX_TOP_LOGPROBS);
    for (uint32_t i = 0; p->top_ids && i < p->n_top_logprobs; i++)
        if (p->top_ids[i] < 0 || (uint32_t)p->top_ids[i] >= b->n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "top_ids: %d found, 0 to %u expected", p->top_ids[i],
                             b->n_vocab - 1);
    TERN_TRY(tern_lora__check(b->engine, p->loras, p->n_loras, err));
    if (p->embed) return check_embedding(p, err);
    const tern_sampler_model model = sampled_model(b);
    return tern_sampler_check(&model, &p->sampler, err);
}

static void request_free(tern_request *r)
{
    for (uint32_t i = 0; r->stops && i < r->params.n_stops; i++) tern_free(r->stops[i]);
    tern_free(r->stops);
    tern_free(r->prompt);
    tern_free(r->loras);
    tern_free(r->sequences);
    tern_free(r);
}

static void release_request(tern_request *r)
{
    if (atomic_fetch_sub(&r->n_holders, 1) == 1) request_free(r);
}

void tern_request_free(tern_request *request)
{
    if (!request) return;
    atomic_store(&request->cancelled, true);
    release_request(request);
}

void tern_request_cancel(tern_request *request)
{
    atomic_store(&request->cancelled, true);
}

static bool copy_stops(tern_request *r, const tern_request_params *p)
{
    r->stops = tern_calloc((size_t)p->n_stops + 1, sizeof(char *));
    for (uint32_t i = 0; r->stops && i < p->n_stops; i++)
        if (!(r->stops[i] = tern_strdup(p->stops[i]))) return false;
    return r->stops != NULL;
}

/* Copies what the caller may take back. */
static bool copy_params(tern_request *r, const tern_request_params *p)
{
    const uint32_t n = p->n ? p->n : 1;
    r->params = *p;
    r->params.n = n;
    r->params.n_loras = 0;
    r->prompt = tern_alloc(p->n_prompt * sizeof *r->prompt);
    r->loras = tern_calloc((size_t)p->n_loras + 1, sizeof *r->loras);
    r->sequences = tern_calloc(n, sizeof *r->sequences);
    if (!copy_stops(r, p) || !r->prompt || !r->loras || !r->sequences) return false;
    memcpy(r->prompt, p->prompt, p->n_prompt * sizeof *r->prompt);
    for (uint32_t i = 0; i < p->n_loras; i++)
        if (p->loras[i].scale < 0 || p->loras[i].scale > 0) r->loras[r->params.n_loras++] = p->loras[i];
    r->params.prompt = r->prompt;
    r->params.loras = r->loras;
    r->params.stops = (const char *const *)r->stops;
    for (uint32_t i = 0; i < n; i++)
        r->sequences[i] = (tern_sequence){.request = r,
                                          .index = i,
                                          .awaits_prompt = i > 0,
                                          .result = {.index = i, .n_prompt = p->n_prompt},
                                          .submitted_ms = tern_batch__now_ms()};
    return true;
}

/* Room for one more request, and its completions at the end of those that arrived. */
static tern_status enqueue(tern_batch *b, tern_request *r, tern_error *err)
{
    pthread_mutex_lock(&b->inbox.lock);
    const bool fits = !b->params.max_queue || b->inbox.n_queued < b->params.max_queue;
    for (uint32_t i = 0; fits && i < r->params.n; i++) {
        r->sequences[i].age = b->inbox.n_submitted++;
        *b->inbox.last = &r->sequences[i];
        b->inbox.last = &r->sequences[i].next;
    }
    if (fits) {
        b->inbox.n_queued++;
        b->inbox.published.waiting += r->params.n;
    }
    pthread_mutex_unlock(&b->inbox.lock);
    if (fits) return TERN_OK;
    return tern_fail(err, TERN_BUSY, "the queue is full: %u requests wait", b->params.max_queue);
}

tern_status tern_batch_submit(tern_batch *batch, const tern_request_params *params, tern_request **request,
                              tern_error *err)
{
    TERN_NEED(request, err);
    *request = NULL;
    TERN_NEED(batch, err);
    TERN_NEED(params, err);
    tern_request_params own;
    TERN_TRY(TERN_SIZED_READ(&own, params, err));
    TERN_TRY(check_params(batch, &own, err));
    tern_request *r = tern_calloc(1, sizeof *r);
    if (!r) return tern_fail_alloc(err, sizeof *r);
    atomic_init(&r->n_holders, 2);
    const tern_status status =
        copy_params(r, &own) ? enqueue(batch, r, err) : tern_fail_alloc(err, own.n_prompt * sizeof(int32_t));
    if (status == TERN_OK) *request = r;
    else request_free(r);
    return status;
}

tern_status tern_request_force(tern_request *request, uint32_t index, const int32_t *ids, uint32_t n, tern_error *err)
{
    TERN_NEED(request, err);
    if (n) TERN_NEED(ids, err);
    if (index >= request->params.n)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "completion %u found, at most %u expected", index,
                         request->params.n - 1);
    tern_sequence *s = &request->sequences[index];
    int32_t *copy = tern_calloc((size_t)n + 1, sizeof *copy);
    if (!copy) return tern_fail_alloc(err, n * sizeof *copy);
    if (n) memcpy(copy, ids, n * sizeof *copy);
    tern_free(s->forced);
    s->forced = copy;
    s->n_forced = n;
    s->forced_at = 0;
    return TERN_OK;
}

void tern_request_constrain(tern_request *request, uint32_t index)
{
    if (request && index < request->params.n) request->sequences[index].unconstrained = false;
}

/* Tokens that the keys and values of one set of adapters stand for. */
static uint64_t adapter_salt(const tern_request_params *p)
{
    uint64_t salt = 0;
    for (uint32_t i = 0; i < p->n_loras; i++) {
        uint32_t bits;
        memcpy(&bits, &p->loras[i].scale, sizeof bits);
        salt = (salt ^ tern_lora__fingerprint(p->loras[i].lora)) * 0x100000001b3u + bits + 1;
    }
    return salt;
}

static tern_status open_mask(tern_batch *b, tern_sequence *s, tern_error *err)
{
    s->unconstrained = s->request->params.grammar_waits;
    s->held_logits = tern_calloc(b->n_vocab, sizeof *s->held_logits);
    if (!s->held_logits) return tern_fail_alloc(err, b->n_vocab * sizeof *s->held_logits);
    return tern_mask_open(&s->mask, &b->sampling.masker, s->request->params.grammar, err);
}

static tern_status allocate_sequence(tern_batch *b, tern_sequence *s, tern_error *err)
{
    const tern_request_params *p = &s->request->params;
    tern_sampler_params sampler = p->sampler;
    sampler.seed += s->index;
    s->tokens = tern_calloc(b->params.n_ctx, sizeof *s->tokens);
    s->draft_ids = tern_calloc((size_t)p->draft_tokens + 1, sizeof *s->draft_ids);
    if (!s->tokens || !s->draft_ids) return tern_fail_alloc(err, b->params.n_ctx * sizeof *s->tokens);
    if (p->embed) return tern_sequence__open_embedding(b, s, err);
    const tern_sampler_model model = sampled_model(b);
    TERN_TRY(tern_sampler_open(&s->sampler, &model, &sampler, err));
    if (p->grammar && !p->no_tokens) TERN_TRY(open_mask(b, s, err));
    if (p->draft_tokens && !tern_batch__drafts_by_model(b)) TERN_TRY(tern_draft_init(&s->draft, b->params.n_ctx, err));
    return tern_stop_filter_init(&s->filter, p->stops, p->n_stops, err);
}

tern_status tern_sequence__start(tern_batch *b, tern_sequence *s, tern_error *err)
{
    const tern_request_params *p = &s->request->params;
    if (s->started) return TERN_OK;
    TERN_TRY(allocate_sequence(b, s, err));
    TERN_TRY(tern_batch__acquire_adapters(b, p->loras, p->n_loras, p->embed, &s->adapters, err));
    memcpy(s->tokens, p->prompt, p->n_prompt * sizeof *s->tokens);
    tern_accept_rates_init(&s->rates);
    if (s->draft.tokens) {
        tern_draft_reset(&s->draft, s->tokens, p->n_prompt);
        s->match = tern_draft_match(&s->draft, 1, &s->lookup_id);
    }
    s->n_tokens = p->embed && p->pooling == TERN_POOLING_CLS ? 1 : p->n_prompt; /* the others change nothing */
    s->n_echoed = p->echo_from;
    s->salt = adapter_salt(p);
    s->started = true;
    s->started_ms = tern_batch__now_ms();
    s->result.queued_ms = s->started_ms - s->submitted_ms;
    return TERN_OK;
}

static void deinit_sequence(tern_batch *b, tern_sequence *s)
{
    tern_batch__release_adapters(b, s->adapters);
    tern_pool_states_deinit(&s->pool);
    tern_free(s->embedding);
    tern_sampler_close(s->sampler);
    tern_free(s->held_logits);
    tern_stop_filter_deinit(&s->filter);
    tern_draft_deinit(&s->draft);
    tern_free(s->tokens);
    tern_free(s->draft_ids);
    tern_free(s->forced);
    s->forced = NULL;
    s->adapters = NULL;
    s->embedding = NULL;
    s->sampler = NULL;
    s->held_logits = NULL;
    s->tokens = s->draft_ids = NULL;
}

static void set_times(tern_sequence *s)
{
    const double now = tern_batch__now_ms(), first = s->first_ms > 0 ? s->first_ms : now;
    if (!s->started) s->result.queued_ms = now - s->submitted_ms;
    else s->result.prefill_ms = first - s->started_ms;
    s->result.decode_ms = s->started ? now - first : 0;
}

void tern_request__leave_queue(tern_batch *b, tern_request *r)
{
    if (r->admitted) return;
    r->admitted = true;
    pthread_mutex_lock(&b->inbox.lock);
    b->inbox.n_queued--;
    pthread_mutex_unlock(&b->inbox.lock);
}

/* With the last of its completions: until then a thread may use their grammar, which closing would wait for. */
static void close_masks(tern_batch *b, tern_request *r)
{
    for (uint32_t i = 0; i < r->params.n; i++) tern_mask_close(&r->sequences[i].mask, &b->sampling.masker);
}

void tern_sequence__finish(tern_batch *b, tern_sequence *s, const tern_error *error)
{
    tern_request *r = s->request;
    tern_error own = {0};
    set_times(s);
    tern_request__leave_queue(b, r);
    s->result.error = error;
    if (!error && s->started && !r->params.embed && tern_sequence__flush(s, &own) != TERN_OK) s->result.error = &own;
    s->result.stop = s->result.reason == TERN_STOP_STRING ? s->filter.met : NULL;
    if (s->index == 0)
        for (uint32_t i = 1; i < r->params.n; i++) r->sequences[i].awaits_prompt = false;
    if (r->n_ended + 1 == r->params.n) close_masks(b, r);
    else tern_mask_give_up(&s->mask, &b->sampling.masker);
    if (r->params.on_end) r->params.on_end(r->params.context, &s->result);
    deinit_sequence(b, s);
    if (++r->n_ended == r->params.n) release_request(r);
}
