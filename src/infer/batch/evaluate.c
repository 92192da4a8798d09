/* Running the planned rows of a step: one run for each set of adapters. */
#include <string.h>

#include "infer/batch/batch_internal.h"

/* The rows of one run. */
typedef struct rows {
    uint32_t n, n_outputs, n_top;
    uint32_t n_logits; /* the first outputs, whose tokens the host chooses */
    bool all;          /* logits are wanted */
} rows;

/* The first token of completions that share a prompt is drawn from the same logits, several times. */
static bool fits_device(const tern_batch *b, const tern_sequence *s)
{
    const tern_request_params *p = &s->request->params;
    return b->runner.params.sample_rows && !p->logprobs && !p->grammar && !tern_sequence__is_awaited(s) &&
           s->n_outputs <= TERN_SAMPLE_MAX_STEPS && tern_sampler_fits_gpu(&p->sampler);
}

static rows count_rows(const tern_batch *b, const tern_batch_graphs *graphs)
{
    rows r = {0};
    for (uint32_t i = 0; i < b->n_running; i++) {
        tern_sequence *s = b->running[i];
        if (s->graphs != graphs || !s->n_rows) continue;
        const tern_request_params *p = &s->request->params;
        const uint32_t n_top = tern_sampler_n_top(&p->sampler);
        r.n += s->n_rows + s->n_drafted;
        r.n_outputs += s->n_outputs;
        s->on_device = fits_device(b, s);
        if (!s->on_device) r.n_logits += s->n_outputs;
        if (p->logprobs || p->grammar || n_top == 0) r.all = true;
        if (n_top > r.n_top) r.n_top = n_top;
    }
    if (r.all) r.n_top = 0;
    return r;
}

static tern_runner_graph *graph_for(tern_runner_graphs *set, uint32_t n)
{
    if (n == 1) return &set->decode;
    return n <= set->few.graph.max_tokens ? &set->few : &set->prefill;
}

/* Puts a sequence's rows after the first n. */
static void put_rows(const tern_bound_graph *g, const tern_sequence *s, uint32_t n, uint32_t n_outputs)
{
    const uint32_t n_rows = s->n_rows + s->n_drafted;
    int32_t *ids = (int32_t *)tern_bound_param(g, TERN_PARAM_IDS) + n;
    uint32_t *positions = (uint32_t *)tern_bound_param(g, TERN_PARAM_POSITIONS) + n;
    uint32_t *sequences = (uint32_t *)tern_bound_param(g, TERN_PARAM_SEQUENCES) + n;
    uint32_t *outputs = (uint32_t *)tern_bound_param(g, TERN_PARAM_OUTPUTS) + n_outputs;
    memcpy(ids, s->tokens + s->n_evaluated, s->n_rows * sizeof *ids);
    memcpy(ids + s->n_rows, s->drafted, s->n_drafted * sizeof *ids);
    for (uint32_t i = 0; i < n_rows; i++) {
        positions[i] = s->n_evaluated + i;
        sequences[i] = s->slot;
    }
    for (uint32_t i = 0; i < s->n_outputs; i++) outputs[i] = n + n_rows - s->n_outputs + i;
}

/* How the device chooses the tokens of a sequence's outputs, the first of which is output `first`. */
static void put_samplers(const tern_bound_graph *g, const tern_sequence *s, uint32_t first)
{
    tern_sample_row *to = (tern_sample_row *)(void *)tern_bound_param(g, TERN_PARAM_SAMPLER);
    tern_sample_params p = {0};
    if (!to) return;
    if (s->on_device) tern_sampler_fill(s->sampler, &p, s->n_outputs);
    for (uint32_t i = 0; i < s->n_outputs; i++)
        to[first + i] = (tern_sample_row){.top_k = p.top_k,
                                          .temperature = p.temperature,
                                          .top_p = p.top_p,
                                          .min_p = p.min_p,
                                          .draw = s->on_device ? p.draws[i] : 0};
}

/* The rows of the sequences that the device chooses for, or of the others. */
static void put_all(tern_batch *b, const tern_batch_graphs *graphs, const tern_bound_graph *g, bool on_device,
                    rows *put, uint32_t first)
{
    for (uint32_t i = 0; i < b->n_running; i++) {
        tern_sequence *s = b->running[i];
        if (s->graphs != graphs || !s->n_rows || s->on_device != on_device) continue;
        put_rows(g, s, put->n, put->n_outputs);
        put_samplers(g, s, put->n_outputs);
        s->first_output = first + put->n_outputs;
        put->n += s->n_rows + s->n_drafted;
        put->n_outputs += s->n_outputs;
    }
}

/* `first`: of b->logits, where this run's rows go. */
static tern_status run(tern_batch *b, const tern_batch_graphs *graphs, const rows *r, uint32_t first, tern_error *err)
{
    tern_runner_graph *graph = graph_for(graphs->graphs, r->n);
    const tern_bound_graph *g = &graph->bound;
    const uint32_t counts[3] = {r->n, r->n_outputs, r->n_top};
    tern_backend *backend = tern_engine_backend(b->engine);
    memcpy(tern_bound_param(g, TERN_PARAM_COUNTS), counts, sizeof counts);
    memcpy(tern_bound_param(g, TERN_PARAM_PAGES), b->tables,
           (size_t)b->params.n_parallel * b->max_pages * sizeof *b->tables);
    rows put = {0};
    put_all(b, graphs, g, false, &put, first);
    put_all(b, graphs, g, true, &put, first);
    TERN_TRY(tern_bound_start(g, 1, err));
    if (r->n_outputs == 0) return backend->wait(backend, err);
    if (r->n_logits)
        TERN_TRY(
            tern_runner_read(graph, graph->graph.logits, r->n_logits, b->logits + (size_t)first * b->n_vocab, err));
    if (r->n_logits == r->n_outputs) return TERN_OK;
    return tern_bound_read(&graph->bound, graph->graph.row_tokens, b->chosen + first, r->n_outputs * sizeof *b->chosen,
                           err);
}

tern_status tern_batch__evaluate(tern_batch *b, tern_error *err)
{
    uint32_t first = 0;
    for (const tern_batch_graphs *g = &b->plain; g; g = g == &b->plain ? b->adapted : g->next) {
        const rows r = count_rows(b, g);
        if (r.n == 0) continue;
        TERN_TRY(run(b, g, &r, first, err));
        first += r.n_outputs;
        b->counts.step_tokens += r.n;
    }
    return TERN_OK;
}
