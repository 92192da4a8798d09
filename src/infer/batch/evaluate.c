/* Running the planned rows of a step: one run, where the backend groups_rows, else one for each set of adapters. */
#include <string.h>

#include "infer/batch/batch_internal.h"
#include "infer/wanted.h"

/* The rows of one run. */
typedef struct rows {
    uint32_t n, n_outputs;
    uint32_t n_logits; /* outputs up to the last one whose token the host chooses */
    uint32_t n_chosen; /* outputs whose tokens the device chooses */
    bool states;       /* the hidden states of all rows are */
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
        r.n += s->n_rows + s->n_drafted;
        r.states |= p->embed;
        s->on_device = false;
        if (!s->n_outputs) continue;
        r.n_outputs += s->n_outputs;
        s->on_device = fits_device(b, s);
    }
    return r;
}

/* Logits that several completions draw from have to be all there, as those that were wanted again. */
static tern_logits_needed needed_by(tern_sequence *s)
{
    const tern_request_params *p = &s->request->params;
    tern_logits_needed needed = {0};
    if (!p->logprobs && !p->grammar && !s->redo) needed = tern_logits_needed_by(&p->sampler);
    if (needed.tail > 0 && tern_sequence__is_awaited(s)) needed = (tern_logits_needed){0};
    s->tail = needed.tail;
    return needed;
}

/* Which logits a run's sequences need: *n_top of COUNTS, and WANTED. */
static uint32_t put_wanted(tern_batch *b, const tern_batch_graphs *graphs, const tern_bound_graph *g)
{
    uint32_t n_top;
    tern_wanted *wanted = tern_bound_param(g, TERN_PARAM_WANTED);
    if (!wanted) return 0;
    tern_wanted_begin(wanted, &n_top);
    for (uint32_t i = 0; i < b->n_running; i++) {
        tern_sequence *s = b->running[i];
        if (s->graphs != graphs || !s->n_rows || !s->n_outputs) continue;
        tern_logits_needed needed = needed_by(s);
        tern_wanted_add(wanted, &n_top, &needed, s->tokens, s->n_tokens, s->n_outputs);
        needed.n_biases = 0;
        tern_wanted_add(wanted, &n_top, &needed, s->drafted, s->n_drafted, s->n_drafted);
    }
    return n_top;
}

tern_runner_graph *tern_batch__graph_for(tern_runner_graphs *set, uint32_t n)
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

/* Where the rows of a run go: in b->states, in b->logits. */
typedef struct place {
    uint32_t first_row, first_output;
} place;

static uint32_t group_of(const tern_sequence *s)
{
    return s->set ? s->set->group : 0;
}

/* The rows of a group's sequences that the device chooses for, or of its others. */
static void put_some(tern_batch *b, const tern_batch_graphs *graphs, const tern_bound_graph *g, uint32_t group,
                     bool on_device, rows *put, place at)
{
    for (uint32_t i = 0; i < b->n_running; i++) {
        tern_sequence *s = b->running[i];
        if (s->graphs != graphs || !s->n_rows || s->on_device != on_device || group_of(s) != group) continue;
        put_rows(g, s, put->n, put->n_outputs);
        put_samplers(g, s, put->n_outputs);
        s->first_row = at.first_row + put->n;
        s->first_output = at.first_output + put->n_outputs;
        put->n += s->n_rows + s->n_drafted;
        put->n_outputs += s->n_outputs;
        if (on_device) put->n_chosen += s->n_outputs;
        else if (s->n_outputs) put->n_logits = put->n_outputs;
    }
}

/* Those of a set of adapters, which follow each other. */
static void put_set(tern_batch *b, const tern_batch_graphs *graphs, const tern_bound_graph *g, uint32_t group,
                    tern_row_group *to, rows *put, place at)
{
    *to = (tern_row_group){.first_token = put->n, .first_output = put->n_outputs};
    put_some(b, graphs, g, group, false, put, at);
    put_some(b, graphs, g, group, true, put, at);
    to->n_tokens = put->n - to->first_token;
    to->n_outputs = put->n_outputs - to->first_output;
}

/* Whether the host chooses a token of the group. */
static bool has_host(const tern_batch *b, const tern_batch_graphs *graphs, uint32_t group)
{
    bool has = false;
    for (uint32_t i = 0; i < b->n_running && !has; i++) {
        const tern_sequence *s = b->running[i];
        has = s->graphs == graphs && s->n_rows && s->n_outputs && !s->on_device && group_of(s) == group;
    }
    return has;
}

/* What the device chooses comes last, as far as sets of adapters allow it, so that the fewest logits are read. */
static rows put_all(tern_batch *b, const tern_batch_graphs *graphs, const tern_bound_graph *g, place at)
{
    tern_row_group *groups = (tern_row_group *)(void *)tern_bound_param(g, TERN_PARAM_GROUPS);
    const uint32_t n_groups = groups ? graphs->n_groups : 0;
    rows put = {0};
    put_some(b, graphs, g, 0, false, &put, at);
    for (uint32_t i = 0; i < n_groups; i++)
        if (has_host(b, graphs, i + 1)) put_set(b, graphs, g, i + 1, &groups[i], &put, at);
    for (uint32_t i = 0; i < n_groups; i++)
        if (!has_host(b, graphs, i + 1)) put_set(b, graphs, g, i + 1, &groups[i], &put, at);
    put_some(b, graphs, g, 0, true, &put, at);
    return put;
}

static tern_status run(tern_batch *b, const tern_batch_graphs *graphs, const rows *r, place at, tern_error *err)
{
    tern_runner_graph *graph = tern_batch__graph_for(graphs->graphs, r->n);
    const tern_bound_graph *g = &graph->bound;
    const uint32_t counts[3] = {r->n, r->n_outputs, put_wanted(b, graphs, g)};
    tern_backend *backend = tern_engine_backend(b->engine);
    memcpy(tern_bound_param(g, TERN_PARAM_COUNTS), counts, sizeof counts);
    memcpy(tern_bound_param(g, TERN_PARAM_PAGES), b->tables,
           (size_t)b->params.n_parallel * b->max_pages * sizeof *b->tables);
    const rows put = put_all(b, graphs, g, at);
    TERN_TRY(tern_bound_start(g, 1, err));
    if (r->states)
        TERN_TRY(tern_runner_read(graph, graph->graph.states, r->n,
                                  b->states + (size_t)at.first_row * tern_engine_config(b->engine)->n_embd, err));
    if (r->n_outputs == 0) return backend->wait(backend, err);
    if (put.n_logits)
        TERN_TRY(tern_runner_read(graph, graph->graph.logits, put.n_logits,
                                  b->logits + (size_t)at.first_output * b->n_vocab, err));
    if (put.n_chosen == 0) return TERN_OK;
    return tern_bound_read(&graph->bound, graph->graph.row_tokens, b->chosen + at.first_output,
                           r->n_outputs * sizeof *b->chosen, err);
}

tern_status tern_batch__evaluate(tern_batch *b, tern_error *err)
{
    place at = {0};
    tern_batch__choose_graphs(b);
    for (const tern_batch_graphs *g = &b->plain; g; g = g == &b->plain ? b->beside : g->next) {
        const rows r = count_rows(b, g);
        if (r.n == 0) continue;
        TERN_TRY(run(b, g, &r, at, err));
        at.first_row += r.n;
        at.first_output += r.n_outputs;
        b->counts.step_tokens += r.n;
    }
    return TERN_OK;
}
