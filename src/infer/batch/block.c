/* Guesses of the model's own block for the sequences of a batch. */
#include <string.h>

#include "base/alloc.h"
#include "infer/batch/batch_internal.h"
#include "infer/draft/model.h"
#include "infer/draft/mtp.h"
#include "infer/session/runner_pages.h"

/* A token of the sequence in a slot, whose hidden state waits for the block. */
typedef struct waiting_row {
    uint32_t slot, position;
} waiting_row;

struct tern_batch_block {
    tern_runner runner;
    uint32_t n_embd, n_vocab, n_slots, max_rows;
    waiting_row *rows; /* [max_rows]; those of a slot in the order of their positions */
    float *hidden;     /* [max_rows][n_embd] */
    uint32_t n_rows;
    float *logits, *left;         /* [n_slots][n_vocab], [n_slots][n_embd] of the outputs of a run */
    tern_draft_request **outputs; /* [n_slots] for which they are */
};

static tern_status allocate(tern_batch_block *k, tern_error *err)
{
    const uint64_t n_hidden = (uint64_t)k->max_rows * k->n_embd, n_logits = (uint64_t)k->n_slots * k->n_vocab;
    k->rows = tern_calloc(k->max_rows, sizeof *k->rows);
    k->hidden = tern_calloc(tern_size_of(n_hidden), sizeof *k->hidden);
    k->logits = tern_calloc(tern_size_of(n_logits), sizeof *k->logits);
    k->left = tern_calloc((size_t)k->n_slots * k->n_embd, sizeof *k->left);
    k->outputs = tern_calloc(k->n_slots, sizeof(tern_draft_request *));
    if (k->rows && k->hidden && k->logits && k->left && k->outputs) return TERN_OK;
    return tern_fail_alloc(err, (n_hidden + n_logits) * sizeof(float));
}

tern_status tern_batch__open_block(tern_batch *b, const tern_runner_params *batch, tern_error *err)
{
    const tern_runner_params params = tern_mtp_params(batch);
    tern_batch_block *k = b->drafts.block = tern_calloc(1, sizeof *k);
    if (!k) return tern_fail_alloc(err, sizeof *k);
    k->n_embd = tern_engine_config(b->engine)->n_embd;
    k->n_vocab = b->n_vocab;
    k->n_slots = batch->n_sequences;
    k->max_rows = params.n_batch;
    TERN_TRY(allocate(k, err));
    TERN_TRY(tern_batch__allocate_states(b, err));
    return tern_runner_open(&k->runner, b->engine, &params, err);
}

void tern_batch__close_block(tern_batch *b)
{
    tern_batch_block *k = b->drafts.block;
    if (!k) return;
    tern_runner_deinit(&k->runner);
    tern_free(k->rows);
    tern_free(k->hidden);
    tern_free(k->logits);
    tern_free(k->left);
    tern_free(k->outputs);
    tern_free(k);
    b->drafts.block = NULL;
}

bool tern_sequence__feeds_block(const tern_batch *b, const tern_sequence *s)
{
    return b->drafts.block && s->request->params.draft_tokens && !s->request->params.embed;
}

tern_status tern_batch__copy_page(tern_batch *b, uint32_t from, uint32_t to, tern_error *err)
{
    TERN_TRY(tern_runner_copy_page(&b->runner, from, to, b->kv.page_copy, err));
    tern_batch_block *k = b->drafts.block;
    return k ? tern_runner_copy_page(&k->runner, from, to, b->kv.page_copy, err) : TERN_OK;
}

/* Keeps a waiting row at place `to`, which is not behind its own. */
static void move_row(tern_batch_block *k, uint32_t from, uint32_t to)
{
    if (from == to) return;
    k->rows[to] = k->rows[from];
    memcpy(k->hidden + (size_t)to * k->n_embd, k->hidden + (size_t)from * k->n_embd, k->n_embd * sizeof *k->hidden);
}

/* The tokens of a slot from `first` on wait no more. */
static void drop_rows(tern_batch_block *k, uint32_t slot, uint32_t first)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->n_rows; i++)
        if (k->rows[i].slot != slot || k->rows[i].position < first) move_row(k, i, n++);
    k->n_rows = n;
}

void tern_sequence__leave_block(tern_batch *b, const tern_sequence *s)
{
    if (b->drafts.block) drop_rows(b->drafts.block, s->slot, 0);
}

/* A run of the block while its rows are put. */
typedef struct block_run {
    tern_runner_graph *graph;
    uint32_t n, n_outputs;
} block_run;

/* The hidden state of the token at a row's position, and the token after it. */
static void put_row(const tern_batch_block *k, block_run *run, const waiting_row *row, const float *hidden,
                    int32_t next)
{
    const tern_bound_graph *g = &run->graph->bound;
    const uint32_t n = run->n++;
    ((int32_t *)tern_bound_param(g, TERN_PARAM_IDS))[n] = next;
    ((uint32_t *)tern_bound_param(g, TERN_PARAM_POSITIONS))[n] = row->position;
    ((uint32_t *)tern_bound_param(g, TERN_PARAM_SEQUENCES))[n] = row->slot;
    memcpy((float *)tern_bound_param(g, TERN_PARAM_HIDDEN) + (size_t)n * k->n_embd, hidden, k->n_embd * sizeof *hidden);
}

/* The row that was put last makes a guess for this request. */
static void put_output(tern_batch_block *k, block_run *run, tern_draft_request *request)
{
    ((uint32_t *)tern_bound_param(&run->graph->bound, TERN_PARAM_OUTPUTS))[run->n_outputs] = run->n - 1;
    k->outputs[run->n_outputs++] = request;
}

static tern_status finish_run(tern_batch *b, const block_run *run, tern_error *err)
{
    tern_batch_block *k = b->drafts.block;
    tern_runner_graph *g = run->graph;
    const uint32_t counts[3] = {run->n, run->n_outputs, 0};
    memcpy(tern_bound_param(&g->bound, TERN_PARAM_COUNTS), counts, sizeof counts);
    memcpy(tern_bound_param(&g->bound, TERN_PARAM_PAGES), b->kv.tables,
           (size_t)k->n_slots * b->kv.max_pages * sizeof *b->kv.tables);
    TERN_TRY(tern_bound_start(&g->bound, 1, err));
    tern_backend *backend = tern_engine_backend(b->engine);
    if (!run->n_outputs) return backend->wait(backend, err);
    TERN_TRY(tern_runner_read(g, g->graph.logits, run->n_outputs, k->logits, err));
    return tern_runner_read(g, tern_graph_hidden(&g->graph, 1), run->n_outputs, k->left, err);
}

/* The last token is chosen, and the hidden state of the one before it is this row's. */
static tern_draft_request *request_of(tern_draft_request *requests, uint32_t n, const waiting_row *row)
{
    for (uint32_t i = 0; i < n; i++)
        if (requests[i].slot == row->slot && requests[i].n_tokens == row->position + 2) return &requests[i];
    return NULL;
}

static bool has_next(const tern_batch *b, const waiting_row *row)
{
    return row->position + 1 < b->slots[row->slot]->n_tokens;
}

/* Runs the block over the rows that wait, except those of which the next token is not chosen; with a first guess for
 * each of n requests. */
static tern_status catch_up(tern_batch *b, tern_draft_request *requests, uint32_t n, uint32_t *n_outputs,
                            tern_error *err)
{
    tern_batch_block *k = b->drafts.block;
    uint32_t n_ready = 0, n_kept = 0;
    *n_outputs = 0;
    for (uint32_t i = 0; i < k->n_rows; i++) n_ready += has_next(b, &k->rows[i]);
    if (!n_ready) return TERN_OK;
    block_run run = {.graph = tern_runner_graph_for(k->runner.graphs, n_ready)};
    for (uint32_t i = 0; i < k->n_rows; i++) {
        const waiting_row *row = &k->rows[i];
        tern_draft_request *request = request_of(requests, n, row);
        if (!has_next(b, row)) {
            move_row(k, i, n_kept++);
            continue;
        }
        put_row(k, &run, row, k->hidden + (size_t)i * k->n_embd, b->slots[row->slot]->tokens[row->position + 1]);
        if (request) put_output(k, &run, request);
    }
    k->n_rows = n_kept;
    *n_outputs = run.n_outputs;
    return finish_run(b, &run, err);
}

/* The hidden states of a sequence's tokens from the step's first one on, as far as they stand. */
static tern_status feed(tern_batch *b, const tern_sequence *s, tern_error *err)
{
    tern_batch_block *k = b->drafts.block;
    const uint32_t n = s->n_evaluated - s->first_position;
    uint32_t n_outputs;
    drop_rows(k, s->slot, s->first_position); /* they were evaluated again */
    if (k->n_rows + n > k->max_rows) TERN_TRY(catch_up(b, NULL, 0, &n_outputs, err));
    memcpy(k->hidden + (size_t)k->n_rows * k->n_embd, b->outputs.states + (size_t)s->first_row * k->n_embd,
           (size_t)n * k->n_embd * sizeof *k->hidden);
    for (uint32_t i = 0; i < n; i++) k->rows[k->n_rows++] = (waiting_row){s->slot, s->first_position + i};
    return TERN_OK;
}

tern_status tern_batch__feed_block(tern_batch *b, tern_error *err)
{
    for (uint32_t i = 0; i < b->n_running; i++) {
        const tern_sequence *s = b->running[i];
        if (s->n_rows && tern_sequence__feeds_block(b, s)) TERN_TRY(feed(b, s, err));
    }
    return TERN_OK;
}

/* Whether the request takes the guess of its output, and wants one more. */
static bool take_guess(const tern_batch_block *k, tern_draft_request *request, uint32_t output)
{
    double share;
    const int32_t id = tern_draft_model__likeliest(k->logits + (size_t)output * k->n_vocab, k->n_vocab, &share);
    request->active = share >= 0.5;
    if (!request->active) return false;
    request->out[request->n++] = id;
    return request->active = request->n < request->most;
}

/* From the guesses of the last run and what the block left of them, the guesses after them. */
static tern_status run_on(tern_batch *b, uint32_t *n_outputs, tern_error *err)
{
    tern_batch_block *k = b->drafts.block;
    const uint32_t n = *n_outputs;
    uint32_t n_active = 0;
    for (uint32_t i = 0; i < n; i++) n_active += take_guess(k, k->outputs[i], i);
    *n_outputs = n_active;
    if (!n_active) return TERN_OK;
    block_run run = {.graph = tern_runner_graph_for(k->runner.graphs, n_active)};
    for (uint32_t i = 0; i < n; i++) {
        tern_draft_request *request = k->outputs[i];
        const waiting_row row = {request->slot, request->n_tokens - 2 + request->n};
        if (!request->active) continue;
        put_row(k, &run, &row, k->left + (size_t)i * k->n_embd, request->out[request->n - 1]);
        put_output(k, &run, request);
    }
    return finish_run(b, &run, err);
}

tern_status tern_batch__propose_by_block(tern_batch *b, tern_draft_request *requests, uint32_t n, uint32_t *n_rows,
                                         tern_error *err)
{
    uint32_t n_outputs;
    *n_rows = 0;
    TERN_TRY(catch_up(b, requests, n, &n_outputs, err));
    while (n_outputs) {
        *n_rows += n_outputs;
        TERN_TRY(run_on(b, &n_outputs, err));
    }
    return TERN_OK;
}
