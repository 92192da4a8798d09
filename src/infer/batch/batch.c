/* A batch: opening and closing it, and what it tells of itself. */
#include <time.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "infer/batch/batch_internal.h"
#include "infer/draft/mtp.h"
#include "infer/engine/memory_need.h"
#include "infer/session/session.h"

enum { DEFAULT_PARALLEL = 8, DEFAULT_CTX = 4096, DEFAULT_BATCH = 512, SPARE_OUTPUTS = 16, DEFAULT_CHECKPOINTS = 8 };

double tern_batch__now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

bool tern_batch__drafts_by_model(const tern_batch *b)
{
    return b->drafts.drafter || b->drafts.block;
}

static tern_status check_drafts(tern_engine *engine, const tern_batch_params *p, tern_error *err)
{
    if (p->mtp && p->draft)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a draft model and the model's own block: one of them expected");
    return p->mtp ? tern_mtp_check(engine, err) : TERN_OK;
}

static tern_status resolve_params(tern_batch_params *p, const tern_config *c, tern_error *err)
{
    p->n_parallel = or_default(p->n_parallel, DEFAULT_PARALLEL);
    if (p->n_parallel > TERN_BATCH_MAX_PARALLEL)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u sequences in a step: at most %d expected", p->n_parallel,
                         TERN_BATCH_MAX_PARALLEL);
    if (p->n_state_checkpoints > TERN_MAX_STATE_CHECKPOINTS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u state checkpoints: at most %d expected",
                         p->n_state_checkpoints, TERN_MAX_STATE_CHECKPOINTS);
    p->n_ctx = or_default(p->n_ctx, c->n_ctx_train < DEFAULT_CTX ? c->n_ctx_train : DEFAULT_CTX);
    if (p->n_ctx > c->n_ctx_train)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "context of %u tokens: the model was trained for at most %u",
                         p->n_ctx, c->n_ctx_train);
    p->n_batch = or_default(p->n_batch, DEFAULT_BATCH);
    if (p->n_batch < p->n_parallel) p->n_batch = p->n_parallel;
    p->max_outputs = or_default(p->max_outputs, p->n_parallel + SPARE_OUTPUTS);
    if (p->max_outputs < p->n_parallel) p->max_outputs = p->n_parallel;
    if (p->max_outputs > p->n_batch) p->max_outputs = p->n_batch;
    return TERN_OK;
}

static void size_pages(tern_batch *b, tern_cache_types types)
{
    const tern_config *c = tern_engine_config(b->engine);
    for (size_t i = 0; i < 2; i++) b->kv.page_bytes[i] = tern_kv_page_bytes(c, tern_kv_type_at(types, i));
    uint32_t n_layers = 0;
    for (uint32_t i = 0; i < c->n_layers; i++) n_layers += !tern_config_layer(c, i).recurs;
    b->kv.total_page_bytes = n_layers * (b->kv.page_bytes[0] + b->kv.page_bytes[1]);
}

static tern_status count_pages(const tern_batch *b, uint32_t *out, tern_error *err)
{
    const tern_batch_params *p = &b->params;
    const uint64_t each = b->kv.total_page_bytes;
    const bool bounded = p->cache_bytes && each; /* where all layers recur no page holds anything */
    const uint64_t n = bounded ? p->cache_bytes / each : (uint64_t)p->n_parallel * b->kv.max_pages;
    if (n < b->kv.max_pages)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "cache of %llu bytes: at least %llu, one sequence of %u positions, expected",
                         (unsigned long long)p->cache_bytes, (unsigned long long)(each * b->kv.max_pages), p->n_ctx);
    if (n >= INT32_MAX) return tern_fail(err, TERN_LIMIT, "%llu pages", (unsigned long long)n);
    *out = (uint32_t)n;
    return TERN_OK;
}

/* Each sequence goes on from one and leaves another; the rest are those of guesses and of pages. */
static uint32_t count_states(const tern_batch *b)
{
    if (!tern_engine_config(b->engine)->recurrence.n_heads) return 0;
    return 2 * b->params.n_parallel + or_default(b->params.n_state_checkpoints, DEFAULT_CHECKPOINTS);
}

static tern_status open_runner(tern_batch *b, tern_error *err)
{
    const tern_batch_params *p = &b->params;
    tern_runner_params r = {.n_ctx = p->n_ctx,
                            .n_batch = p->n_batch,
                            .max_outputs = p->max_outputs,
                            .n_sequences = p->n_parallel,
                            .n_states = count_states(b),
                            .keep_states = p->mtp,
                            .sample_rows = tern_engine_backend(b->engine)->info.samples_rows};
    b->max_outputs = r.max_outputs;
    b->kv.max_pages = (p->n_ctx + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE;
    TERN_TRY(
        tern_kv_resolve(p->kv, tern_engine_config(b->engine), p->n_ctx, tern_engine_backend(b->engine), &r.kv, err));
    size_pages(b, r.kv);
    TERN_TRY(count_pages(b, &r.n_pages, err));
    TERN_TRY(tern_memory_check(b->engine, &r, false, err));
    TERN_TRY(tern_runner_open(&b->runner, b->engine, &r, err));
    b->adapters.plain_graphs = (tern_batch_graphs){.graphs = b->runner.graphs};
    if (p->mtp) TERN_TRY(tern_batch__open_block(b, &r, err));
    TERN_TRY(tern_pages_init(&b->kv.pages, r.n_pages, err));
    return r.n_states ? tern_states_init(&b->kv.pages.states, r.n_states, err) : TERN_OK;
}

static tern_status allocate_buffers(tern_batch *b, tern_error *err)
{
    const uint32_t n = b->params.n_parallel;
    b->kv.tables = tern_calloc((size_t)n * b->kv.max_pages, sizeof *b->kv.tables);
    b->outputs.logits = tern_calloc((size_t)b->max_outputs * b->n_vocab, sizeof *b->outputs.logits);
    b->outputs.device_tokens = tern_calloc(b->max_outputs, sizeof *b->outputs.device_tokens);
    b->sampling.prompt_logits = tern_calloc(b->n_vocab, sizeof *b->sampling.prompt_logits);
    b->sampling.fork_logits = tern_calloc(b->n_vocab, sizeof *b->sampling.fork_logits);
    b->sampling.raw_logits = tern_calloc(b->n_vocab, sizeof *b->sampling.raw_logits);
    b->kv.page_copy = tern_alloc(tern_size_of(b->kv.page_bytes[b->kv.page_bytes[1] > b->kv.page_bytes[0]]));
    b->running = tern_calloc(n, sizeof(tern_sequence *));
    b->slots = tern_calloc(n, sizeof(tern_sequence *));
    b->in_step = tern_calloc(n, sizeof(tern_sequence *));
    b->drafts.requests = tern_calloc(n, sizeof *b->drafts.requests);
    const bool rows = b->outputs.logits && b->outputs.device_tokens && b->sampling.prompt_logits &&
                      b->sampling.fork_logits && b->sampling.raw_logits && b->kv.page_copy;
    if (rows && b->kv.tables && b->running && b->slots && b->in_step && b->drafts.requests) return TERN_OK;
    return tern_fail_alloc(err, (uint64_t)b->max_outputs * b->n_vocab * sizeof *b->outputs.logits);
}

tern_status tern_batch_open(tern_batch **batch, tern_engine *engine, const tern_batch_params *params, tern_error *err)
{
    TERN_NEED(batch, err);
    *batch = NULL;
    TERN_NEED(engine, err);
    TERN_TRY(tern_engine__needs_waiting(engine, "a batch", err));
    tern_batch *b = tern_calloc(1, sizeof *b);
    if (!b) return tern_fail_alloc(err, sizeof *b);
    b->engine = engine;
    b->tokenizer = tern_model_tokenizer(tern_engine_model(engine));
    b->n_vocab = tern_engine_config(engine)->n_vocab;
    b->inbox.last = &b->inbox.first;
    pthread_mutex_init(&b->inbox.lock, NULL);
    tern_status status;
    TERN_GOTO(TERN_SIZED_READ(&b->params, params, err));
    TERN_GOTO(resolve_params(&b->params, tern_engine_config(engine), err));
    TERN_GOTO(check_drafts(engine, &b->params, err));
    TERN_GOTO(open_runner(b, err));
    TERN_GOTO(allocate_buffers(b, err));
    TERN_GOTO(tern_masker_init(&b->sampling.masker, b->n_vocab, err));
    TERN_GOTO(tern_pace_init(&b->pace, b->params.n_batch, b->params.max_step_ms, err));
    TERN_GOTO(tern_step_costs_init(&b->drafts.costs, b->max_outputs, b->params.draft_costs, err));
    if (b->params.draft)
        TERN_GOTO(tern_drafter_open(&b->drafts.drafter, b->params.draft, b->n_vocab, b->params.n_ctx,
                                    b->params.n_parallel, err));
    b->inbox.published.pages = b->counters.pages = b->kv.pages.n;
    *batch = b;
    return TERN_OK;
fail:
    tern_batch_close(b);
    return status;
}

static void cancel_all(tern_batch *b)
{
    for (uint32_t i = 0; i < b->n_running; i++) atomic_store(&b->running[i]->request->cancelled, true);
    for (tern_sequence *s = b->queue; s; s = s->next) atomic_store(&s->request->cancelled, true);
    for (tern_sequence *s = b->inbox.first; s; s = s->next) atomic_store(&s->request->cancelled, true);
}

/* Also what callbacks submit meanwhile. */
static void end_all(tern_batch *b)
{
    for (bool busy = true; busy;) {
        cancel_all(b);
        if (tern_batch_step(b, &busy, NULL) != TERN_OK) break;
    }
}

void tern_batch_close(tern_batch *batch)
{
    if (!batch) return;
    if (batch->in_step) end_all(batch);
    tern_masker_deinit(&batch->sampling.masker);
    tern_runner_deinit(&batch->runner);
    tern_pages_deinit(&batch->kv.pages);
    tern_pace_deinit(&batch->pace);
    tern_step_costs_deinit(&batch->drafts.costs);
    tern_free(batch->kv.tables);
    tern_free(batch->outputs.logits);
    tern_free(batch->outputs.states);
    tern_free(batch->outputs.device_tokens);
    tern_free(batch->sampling.prompt_logits);
    tern_free(batch->sampling.fork_logits);
    tern_free(batch->sampling.raw_logits);
    tern_free(batch->kv.page_copy);
    tern_free(batch->running);
    tern_free(batch->slots);
    tern_free(batch->in_step);
    tern_free(batch->drafts.requests);
    tern_drafter_close(batch->drafts.drafter);
    tern_batch__close_block(batch);
    pthread_mutex_destroy(&batch->inbox.lock);
    tern_free(batch);
}

uint32_t tern_batch_n_ctx(const tern_batch *batch)
{
    return batch->params.n_ctx;
}

uint32_t tern_batch_n_parallel(const tern_batch *batch)
{
    return batch->params.n_parallel;
}

tern_status tern_batch_count(const tern_batch *batch, tern_batch_counters *counters, tern_error *err)
{
    TERN_NEED(batch, err);
    tern_batch *b = (tern_batch *)(uintptr_t)batch; /* the lock is not part of what it is */
    pthread_mutex_lock(&b->inbox.lock);
    const tern_batch_counters shown = b->inbox.published;
    pthread_mutex_unlock(&b->inbox.lock);
    return TERN_SIZED_WRITE(counters, &shown, err);
}
