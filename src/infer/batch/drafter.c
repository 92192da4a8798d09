/* Guesses of a small model for the sequences of a batch. Each slot has pages of its own, in their order. */
#include "infer/batch/drafter.h"

#include <string.h>

#include "base/alloc.h"
#include "infer/draft/model.h"
#include "infer/engine/memory_need.h"
#include "infer/session/session.h"

enum { LEAST_BATCH = 128 /* tokens of a step, that is of texts which are new to the model */ };

/* The tokens of a slot that the small model has evaluated. */
typedef struct evaluated_text {
    int32_t *tokens; /* [n_ctx] */
    uint32_t n;
} evaluated_text;

struct tern_drafter {
    tern_engine *engine;
    tern_runner runner;
    uint32_t n_vocab, n_ctx, n_slots, n_batch;
    evaluated_text *slots; /* [n_slots] */
    float *logits;         /* [n_slots][n_vocab] */
};

static void order_pages(const tern_bound_graph *g, uint32_t n_pages)
{
    uint32_t *pages = tern_bound_param(g, TERN_PARAM_PAGES);
    for (uint32_t i = 0; i < n_pages; i++) pages[i] = i;
}

static tern_status open_runner(tern_drafter *d, tern_error *err)
{
    const tern_config *c = tern_engine_config(d->engine);
    const uint32_t n_pages = d->n_slots * ((d->n_ctx + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE);
    tern_runner_params params = {.n_ctx = d->n_ctx,
                                 .n_batch = d->n_batch,
                                 .max_outputs = d->n_slots,
                                 .n_sequences = d->n_slots,
                                 .n_pages = n_pages};
    const tern_kv_types kv = {TERN_KV_AUTO, TERN_KV_AUTO};
    TERN_TRY(tern_kv_resolve(kv, c, d->n_ctx, tern_engine_backend(d->engine), &params.kv, err));
    TERN_TRY(tern_memory_check(d->engine, &params, false, err));
    TERN_TRY(tern_runner_open(&d->runner, d->engine, &params, err));
    order_pages(&d->runner.graphs->decode.bound, n_pages);
    order_pages(&d->runner.graphs->few.bound, n_pages);
    order_pages(&d->runner.graphs->prefill.bound, n_pages);
    return TERN_OK;
}

static tern_status allocate(tern_drafter *d, tern_error *err)
{
    d->logits = tern_calloc((size_t)d->n_slots * d->n_vocab, sizeof *d->logits);
    d->slots = tern_calloc(d->n_slots, sizeof *d->slots);
    bool all = d->logits && d->slots;
    for (uint32_t i = 0; all && i < d->n_slots; i++)
        all = (d->slots[i].tokens = tern_calloc(d->n_ctx, sizeof *d->slots[i].tokens)) != NULL;
    return all ? TERN_OK : tern_fail_alloc(err, (uint64_t)d->n_slots * d->n_vocab * sizeof *d->logits);
}

tern_status tern_drafter_open(tern_drafter **drafter, tern_engine *engine, uint32_t n_vocab, uint32_t n_ctx,
                              uint32_t n_slots, tern_error *err)
{
    const tern_config *c = tern_engine_config(engine);
    *drafter = NULL;
    TERN_TRY(tern_engine__needs_waiting(engine, "drafting by a model", err));
    if (c->n_vocab != n_vocab)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "draft model with a vocabulary of %u tokens: %u expected",
                         c->n_vocab, n_vocab);
    if (c->recurrence.n_heads)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "draft model of %s, whose layers recur: one with keys and values in each layer expected",
                         c->architecture);
    tern_drafter *d = tern_calloc(1, sizeof *d);
    if (!d) return tern_fail_alloc(err, sizeof *d);
    d->engine = engine;
    d->n_vocab = n_vocab;
    d->n_ctx = n_ctx < c->n_ctx_train ? n_ctx : c->n_ctx_train;
    d->n_slots = n_slots;
    d->n_batch = n_slots > LEAST_BATCH ? n_slots : LEAST_BATCH;
    tern_status status = allocate(d, err);
    if (status == TERN_OK) status = open_runner(d, err);
    if (status == TERN_OK) *drafter = d;
    else tern_drafter_close(d);
    return status;
}

void tern_drafter_close(tern_drafter *d)
{
    if (!d) return;
    tern_runner_deinit(&d->runner);
    for (uint32_t i = 0; d->slots && i < d->n_slots; i++) tern_free(d->slots[i].tokens);
    tern_free(d->slots);
    tern_free(d->logits);
    tern_free(d);
}

/* Forgets what the slot has evaluated of another text; the last token is evaluated in any case. */
static void match_slot(tern_drafter *d, tern_draft_request *g)
{
    evaluated_text *h = &d->slots[g->slot];
    uint32_t same = 0;
    const uint32_t most = h->n < g->n_tokens - 1 ? h->n : g->n_tokens - 1;
    while (same < most && h->tokens[same] == g->tokens[same]) same++;
    h->n = same;
    g->n = 0;
    g->active = g->n_tokens < d->n_ctx;
    if (g->active && g->most > d->n_ctx - g->n_tokens) g->most = d->n_ctx - g->n_tokens;
}

static int32_t token_at(const tern_draft_request *g, uint32_t i)
{
    return i < g->n_tokens ? g->tokens[i] : g->out[i - g->n_tokens];
}

/* The rows of a step. */
typedef struct drafter_step {
    uint32_t n, n_outputs;
} drafter_step;

/* As many tokens of a sequence as the step still takes; those that do not get as far as the last one wait. */
static void put_rows(const tern_drafter *d, const tern_bound_graph *g, tern_draft_request *request, drafter_step *s)
{
    int32_t *ids = tern_bound_param(g, TERN_PARAM_IDS);
    uint32_t *positions = tern_bound_param(g, TERN_PARAM_POSITIONS);
    uint32_t *sequences = tern_bound_param(g, TERN_PARAM_SEQUENCES), *outputs = tern_bound_param(g, TERN_PARAM_OUTPUTS);
    evaluated_text *h = &d->slots[request->slot];
    const uint32_t end = request->n_tokens + request->n;
    for (; h->n < end && s->n < d->n_batch; s->n++, h->n++) {
        ids[s->n] = h->tokens[h->n] = token_at(request, h->n);
        positions[s->n] = h->n;
        sequences[s->n] = request->slot;
    }
    request->active = h->n == end;
    if (request->active) outputs[s->n_outputs++] = s->n - 1;
}

static uint32_t count_rows(const tern_drafter *d, const tern_draft_request *requests, uint32_t n)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < n && rows < d->n_batch; i++)
        if (requests[i].active) rows += requests[i].n_tokens + requests[i].n - d->slots[requests[i].slot].n;
    return rows < d->n_batch ? rows : d->n_batch;
}

static void forget_slots(tern_drafter *d)
{
    for (uint32_t i = 0; i < d->n_slots; i++) d->slots[i].n = 0;
}

static tern_status run_step(tern_drafter *d, tern_draft_request *requests, uint32_t n, drafter_step *s, tern_error *err)
{
    tern_runner_graph *graph = tern_runner_graph_for(d->runner.graphs, count_rows(d, requests, n));
    *s = (drafter_step){0};
    for (uint32_t i = 0; i < n; i++)
        if (requests[i].active) put_rows(d, &graph->bound, &requests[i], s);
    const uint32_t counts[3] = {s->n, s->n_outputs, 0};
    memcpy(tern_bound_param(&graph->bound, TERN_PARAM_COUNTS), counts, sizeof counts);
    TERN_TRY(tern_bound_start(&graph->bound, 1, err));
    tern_backend *backend = tern_engine_backend(d->engine);
    if (!s->n_outputs) return backend->wait(backend, err);
    return tern_runner_read(graph, graph->graph.logits, s->n_outputs, d->logits, err);
}

/* The next token of those that have logits; whether any goes on. */
static bool sample_drafts(const tern_drafter *d, tern_draft_request *requests, uint32_t n)
{
    uint32_t output = 0;
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        tern_draft_request *g = &requests[i];
        double share;
        if (!g->active) continue;
        const int32_t id = tern_draft_model__likeliest(d->logits + (size_t)output++ * d->n_vocab, d->n_vocab, &share);
        g->active = share >= 0.5;
        if (!g->active) continue;
        g->out[g->n++] = id;
        g->active = g->n < g->most;
        any |= g->active;
    }
    return any;
}

tern_status tern_drafter_propose(tern_drafter *d, tern_draft_request *requests, uint32_t n, uint32_t *n_rows,
                                 tern_error *err)
{
    bool any = false;
    *n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        match_slot(d, &requests[i]);
        any |= requests[i].active;
    }
    while (any) {
        drafter_step s;
        const tern_status status = run_step(d, requests, n, &s, err);
        if (status != TERN_OK) {
            forget_slots(d);
            return status;
        }
        *n_rows += s.n;
        any = sample_drafts(d, requests, n);
    }
    return TERN_OK;
}
