/* Runs the planned rows of a step: one run where the backend groups_rows, else one for each set of adapters. A model in
 * stages, one to a process, has as many runs in flight, each with a part of the sequences. */
#include <string.h>

#include "infer/batch/batch_internal.h"
#include "infer/sample/wanted.h"
#include "tern/ranks.h"

/* Counts over the sequences of one run. */
typedef struct row_counts {
    uint32_t n, n_outputs;
    uint32_t n_logits; /* outputs up to the last one whose token the host chooses */
    uint32_t n_chosen; /* outputs whose tokens the device chooses */
    bool states;       /* hidden states of all rows are wanted */
} row_counts;

/* The sequences of one run: those with these graphs, of this part. */
typedef struct run_filter {
    const tern_batch_graphs *graphs;
    uint32_t part;
} run_filter;

static bool is_selected(const run_filter *filter, const tern_sequence *s)
{
    return s->graphs == filter->graphs && s->part == filter->part && s->n_rows;
}

/* The first token of completions that share a prompt is drawn from the same logits, several times. */
static bool fits_device(const tern_batch *b, const tern_sequence *s)
{
    const tern_request_params *p = &s->request->params;
    return b->runner.params.sample_rows && !p->logprobs && !p->grammar && !tern_sequence__has_waiting_forks(s) &&
           s->n_outputs <= TERN_SAMPLE_MAX_STEPS && tern_sampler_fits_gpu(&p->sampler);
}

static row_counts count_rows(const tern_batch *b, const run_filter *filter)
{
    row_counts r = {0};
    for (uint32_t i = 0; i < b->n_running; i++) {
        tern_sequence *s = b->running[i];
        if (!is_selected(filter, s)) continue;
        const tern_request_params *p = &s->request->params;
        r.n += s->n_rows + s->n_drafted;
        r.states |= p->embed || tern_sequence__feeds_block(b, s);
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
    if (needed.tail > 0 && tern_sequence__has_waiting_forks(s)) needed = (tern_logits_needed){0};
    s->tail = needed.tail;
    return needed;
}

/* Which logits a run's sequences need: *n_top of COUNTS, and WANTED. */
static uint32_t put_needed_logits(tern_batch *b, const run_filter *filter, const tern_bound_graph *g)
{
    uint32_t n_top;
    tern_wanted *wanted = tern_bound_param(g, TERN_PARAM_WANTED);
    if (!wanted) return 0;
    tern_wanted_begin(wanted, &n_top);
    for (uint32_t i = 0; i < b->n_running; i++) {
        tern_sequence *s = b->running[i];
        if (!is_selected(filter, s) || !s->n_outputs) continue;
        tern_logits_needed needed = needed_by(s);
        tern_wanted_add(wanted, &n_top, &needed, s->tokens, s->n_tokens, s->n_outputs);
        needed.n_biases = 0;
        tern_wanted_add(wanted, &n_top, &needed, s->draft_ids, s->n_drafted, s->n_drafted);
    }
    return n_top;
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
    memcpy(ids + s->n_rows, s->draft_ids, s->n_drafted * sizeof *ids);
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

/* Where a run's results begin in b->outputs.states and in b->outputs.logits. */
typedef struct run_offsets {
    uint32_t first_row, first_output;
} run_offsets;

static uint32_t group_of(const tern_sequence *s)
{
    return s->adapters ? s->adapters->group : 0;
}

/* The rows of a group's sequences whose tokens the device samples, or of those that the host samples. */
static void put_sequences(tern_batch *b, const run_filter *filter, const tern_bound_graph *g, uint32_t group,
                          bool on_device, row_counts *put, run_offsets at)
{
    for (uint32_t i = 0; i < b->n_running; i++) {
        tern_sequence *s = b->running[i];
        if (!is_selected(filter, s) || s->on_device != on_device || group_of(s) != group) continue;
        put_rows(g, s, put->n, put->n_outputs);
        tern_sequence__put_states(b, s, g, put->n);
        put_samplers(g, s, put->n_outputs);
        s->first_position = s->n_evaluated;
        s->first_row = at.first_row + put->n;
        s->first_output = at.first_output + put->n_outputs;
        put->n += s->n_rows + s->n_drafted;
        put->n_outputs += s->n_outputs;
        if (on_device) put->n_chosen += s->n_outputs;
        else if (s->n_outputs) put->n_logits = put->n_outputs;
    }
}

/* All rows of one set of adapters, which must be adjacent. */
static void put_group(tern_batch *b, const run_filter *filter, const tern_bound_graph *g, uint32_t group,
                      tern_row_group *to, row_counts *put, run_offsets at)
{
    *to = (tern_row_group){.first_token = put->n, .first_output = put->n_outputs};
    put_sequences(b, filter, g, group, false, put, at);
    put_sequences(b, filter, g, group, true, put, at);
    to->n_tokens = put->n - to->first_token;
    to->n_outputs = put->n_outputs - to->first_output;
}

/* Whether the host samples for a sequence of the group. */
static bool samples_on_host(const tern_batch *b, const run_filter *filter, uint32_t group)
{
    bool has = false;
    for (uint32_t i = 0; i < b->n_running && !has; i++) {
        const tern_sequence *s = b->running[i];
        has = is_selected(filter, s) && s->n_outputs && !s->on_device && group_of(s) == group;
    }
    return has;
}

/* Rows that the device samples come last, as far as sets of adapters allow it, so that the fewest logits are read. */
static row_counts put_groups(tern_batch *b, const run_filter *filter, const tern_bound_graph *g, run_offsets at)
{
    tern_row_group *groups = (tern_row_group *)(void *)tern_bound_param(g, TERN_PARAM_GROUPS);
    const uint32_t n_groups = groups ? filter->graphs->n_groups : 0;
    row_counts put = {0};
    put_sequences(b, filter, g, 0, false, &put, at);
    for (uint32_t i = 0; i < n_groups; i++)
        if (samples_on_host(b, filter, i + 1)) put_group(b, filter, g, i + 1, &groups[i], &put, at);
    for (uint32_t i = 0; i < n_groups; i++)
        if (!samples_on_host(b, filter, i + 1)) put_group(b, filter, g, i + 1, &groups[i], &put, at);
    put_sequences(b, filter, g, 0, true, &put, at);
    return put;
}

typedef struct batch_run {
    tern_runner_graph *graph;
    row_counts counts, put;
    run_offsets offsets;
} batch_run;

static float *logits_of(const tern_batch *b, const batch_run *run)
{
    return b->outputs.logits + (size_t)run->offsets.first_output * b->n_vocab;
}

static uint64_t bytes_of(const batch_run *run, uint32_t value, uint32_t n_rows)
{
    return (uint64_t)n_rows * run->graph->graph.values[value].cols * sizeof(float);
}

static uint64_t chosen_bytes(const batch_run *run)
{
    return run->counts.n_outputs * sizeof(uint32_t);
}

/* Reads start before the next run of the same graph begins. */
static tern_status start_reads(const batch_run *run, tern_error *err)
{
    const tern_bound_graph *g = &run->graph->bound;
    const tern_graph *graph = &run->graph->graph;
    if (run->counts.states)
        TERN_TRY(tern_bound_start_read(g, graph->states, bytes_of(run, graph->states, run->counts.n), err));
    if (run->put.n_logits)
        TERN_TRY(tern_bound_start_read(g, graph->logits, bytes_of(run, graph->logits, run->put.n_logits), err));
    return run->put.n_chosen ? tern_bound_start_read(g, graph->row_tokens, chosen_bytes(run), err) : TERN_OK;
}

static tern_status start_run(tern_batch *b, const run_filter *filter, const row_counts *r, run_offsets at,
                             batch_run *out, tern_error *err)
{
    tern_runner_graph *graph = tern_runner_graph_for(filter->graphs->graphs, r->n);
    const tern_bound_graph *g = &graph->bound;
    const uint32_t counts[3] = {r->n, r->n_outputs, put_needed_logits(b, filter, g)};
    memcpy(tern_bound_param(g, TERN_PARAM_COUNTS), counts, sizeof counts);
    memcpy(tern_bound_param(g, TERN_PARAM_PAGES), b->kv.tables,
           (size_t)b->params.n_parallel * b->kv.max_pages * sizeof *b->kv.tables);
    *out = (batch_run){.graph = graph, .counts = *r, .offsets = at, .put = put_groups(b, filter, g, at)};
    TERN_TRY(tern_bound_start(g, 1, err));
    return start_reads(out, err);
}

static tern_status finish_run(tern_batch *b, const batch_run *run, tern_error *err)
{
    tern_bound_graph *g = &run->graph->bound;
    const tern_graph *graph = &run->graph->graph;
    tern_backend *backend = tern_engine_backend(b->engine);
    const size_t first_state = (size_t)run->offsets.first_row * tern_engine_config(b->engine)->n_embd;
    if (run->counts.states)
        TERN_TRY(tern_bound_finish_read(g, graph->states, b->outputs.states + first_state,
                                        bytes_of(run, graph->states, run->counts.n), err));
    if (run->counts.n_outputs == 0) return backend->wait(backend, err);
    if (run->put.n_logits)
        TERN_TRY(tern_bound_finish_read(g, graph->logits, logits_of(b, run),
                                        bytes_of(run, graph->logits, run->put.n_logits), err));
    if (run->put.n_chosen == 0) return TERN_OK;
    return tern_bound_finish_read(g, graph->row_tokens, b->outputs.device_tokens + run->offsets.first_output,
                                  chosen_bytes(run), err);
}

static uint32_t n_stages(const tern_batch *b)
{
    const uint32_t n = b->runner.graphs->decode.graph.n_stages;
    return n ? n : 1;
}

/* Splits the sequences of the same graphs into parts of about as many rows, for pipeline stages; a part reads all
 * weights, so that it needs enough rows. Returns how many parts. */
static uint32_t assign_parts(tern_batch *b, const tern_batch_graphs *graphs)
{
    enum { LEAST_ROWS = 8 }; /* that kernels multiply at once */
    uint32_t all = 0, filled[TERN_MAX_RANKS] = {0};
    for (uint32_t i = 0; i < b->n_running; i++)
        if (b->running[i]->graphs == graphs) all += b->running[i]->n_rows + b->running[i]->n_drafted;
    uint32_t n = all / LEAST_ROWS < n_stages(b) ? all / LEAST_ROWS : n_stages(b);
    if (n == 0) n = 1;
    for (uint32_t i = 0; i < b->n_running; i++) {
        tern_sequence *s = b->running[i];
        if (s->graphs != graphs) continue;
        s->part = 0;
        for (uint32_t k = 1; k < n; k++)
            if (filled[k] < filled[s->part]) s->part = k;
        filled[s->part] += s->n_rows + s->n_drafted;
    }
    return n;
}

/* Runs that were started and not finished, oldest first: at most one for each stage. */
typedef struct in_flight {
    batch_run runs[TERN_MAX_RANKS];
    uint32_t n;
} in_flight;

static tern_status drain_runs(tern_batch *b, in_flight *f, uint32_t most, tern_error *err)
{
    while (f->n > most) {
        TERN_TRY(finish_run(b, &f->runs[0], err));
        memmove(f->runs, f->runs + 1, --f->n * sizeof *f->runs);
    }
    return TERN_OK;
}

static tern_status evaluate_graphs(tern_batch *b, const tern_batch_graphs *graphs, in_flight *f, run_offsets *at,
                                   tern_error *err)
{
    const uint32_t n_parts = assign_parts(b, graphs);
    for (uint32_t part = 0; part < n_parts; part++) {
        const run_filter filter = {graphs, part};
        const row_counts r = count_rows(b, &filter);
        if (r.n == 0) continue;
        TERN_TRY(drain_runs(b, f, n_stages(b) - 1, err));
        TERN_TRY(start_run(b, &filter, &r, *at, &f->runs[f->n++], err));
        if (n_stages(b) == 1) TERN_TRY(drain_runs(b, f, 0, err));
        at->first_row += r.n;
        at->first_output += r.n_outputs;
        b->counters.step_tokens += r.n;
    }
    return TERN_OK;
}

tern_status tern_batch__evaluate(tern_batch *b, tern_error *err)
{
    run_offsets at = {0};
    in_flight f = {.n = 0};
    tern_batch__choose_graphs(b);
    for (const tern_batch_graphs *g = &b->adapters.plain_graphs; g;
         g = g == &b->adapters.plain_graphs ? b->adapters.graphs : g->next)
        TERN_TRY(evaluate_graphs(b, g, &f, &at, err));
    return drain_runs(b, &f, 0, err);
}
