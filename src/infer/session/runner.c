/* The graphs of a session: built, bound to memory, prepared, and run step by step. */
#include "infer/session/runner.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/stages.h"
#include "infer/follow/follow.h"
#include "infer/sample/wanted.h"

/* Kernels that multiply tiles, which a few decoded tokens fill least badly (docs/internals/batch-invariance.md). */
enum { INVARIANT_ROWS = 32 };

static tern_backend *backend_of(const tern_runner *r)
{
    return tern_engine_backend(r->engine);
}

/* The model, or its block that drafts tokens. */
static const tern_model *model_of(const tern_runner *r)
{
    const tern_model *model = tern_engine_model(r->engine);
    return r->params.mtp ? tern_model_mtp(model) : model;
}

static tern_block_rows block_rows(const tern_runner *r)
{
    const tern_block_rows rows = tern_engine_int8_blocks(r->engine);
    return r->params.f32_blocks && rows == TERN_BLOCK_ROWS_AUTO ? TERN_BLOCK_ROWS_F32 : rows;
}

static uint32_t n_states(const tern_runner *r)
{
    return r->params.n_sequences ? r->params.n_states : r->states.n;
}

static tern_status build_graph(const tern_runner *r, const tern_runner_graphs *set, const tern_lora_weights *weights,
                               tern_runner_graph *g, uint32_t max_tokens, tern_error *err)
{
    const tern_runner_params *p = &r->params;
    tern_backend *b = backend_of(r);
    tern_graph_options options = {.weights = weights->weights,
                                  .max_tokens = max_tokens,
                                  .max_outputs = p->max_outputs < max_tokens ? p->max_outputs : max_tokens,
                                  .n_ctx = p->n_ctx,
                                  .n_sequences = p->n_sequences ? p->n_sequences : 1,
                                  .n_pages = r->n_pages,
                                  .n_ring_pages = r->n_ring_pages,
                                  .n_states = n_states(r),
                                  .n_groups = set->loras.n_groups,
                                  .kv = p->kv,
                                  .keep_hidden = p->keep_hidden,
                                  .keep_states = set->additional || p->keep_states,
                                  .sampler = g == &set->steps,
                                  .sampler_rows = p->sample_rows,
                                  .f32_activations = tern_engine_f32_activations(r->engine),
                                  .no_fusion = tern_engine_no_fusion(r->engine),
                                  .kernel_rows = tern_engine_batch_invariant(r->engine) ? INVARIANT_ROWS : 0,
                                  .usual_tokens = g == &set->few ? p->n_sequences : 0,
                                  .int8_blocks = block_rows(r),
                                  .halves = p->f32_blocks ? p->halves : tern_engine_half_rows(r->engine),
                                  .int8_table = block_rows(r) == TERN_BLOCK_ROWS_INT8 && b->info.int8_blocks,
                                  .head = tern_engine_head(r->engine),
                                  .screened_head = tern_engine_head_exact(r->engine)};
    TERN_TRY(tern_graph_build(&g->graph, model_of(r), &options, err));
    if (!p->unfused) TERN_TRY(tern_graph_fuse(&g->graph, b, err));
    TERN_TRY(tern_graph_take_stage(&g->graph, tern_model_stages(model_of(r)), err));
    if (p->keep_all) tern_graph_keep_all(&g->graph);
    return tern_graph_plan(&g->graph, b->info.fusions, err);
}

static tern_status build_all(const tern_runner *r, tern_runner_graphs *set, tern_error *err)
{
    tern_lora_weights weights = {0};
    TERN_TRY(tern_lora__weights(&weights, r->engine, &set->loras, err));
    tern_status status = build_graph(r, set, &weights, &set->decode, 1, err);
    if (status == TERN_OK) status = build_graph(r, set, &weights, &set->prefill, r->params.n_batch, err);
    if (status == TERN_OK && r->params.steps) status = build_graph(r, set, &weights, &set->steps, 1, err);
    if (status == TERN_OK && r->params.n_sequences)
        status = build_graph(r, set, &weights, &set->few, r->params.max_outputs, err);
    tern_lora__weights_deinit(&weights);
    return status;
}

/* State that all graphs of the runner share, whatever adapters they have. */
static tern_status create_shared(tern_runner *r, const tern_graph *g, tern_error *err)
{
    tern_backend *b = backend_of(r);
    TERN_TRY(tern_graph_buffers_make(&r->constants, b, g, TERN_VALUE_CONSTANT, err));
    TERN_TRY(tern_graph_buffers_make(&r->recurrent, b, g, TERN_VALUE_RECURRENT, err));
    return tern_graph_buffers_make(&r->caches, b, g, TERN_VALUE_CACHE, err);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static tern_status create_activations(const tern_runner *r, tern_runner_graphs *set, tern_error *err)
{
    uint64_t bytes = larger(set->decode.graph.activation_bytes, set->steps.graph.activation_bytes);
    bytes = larger(bytes, set->few.graph.activation_bytes);
    return tern_activations_make(&set->activations, backend_of(r), larger(bytes, set->prefill.graph.activation_bytes),
                                 0, err);
}

/* A runner and the set of graphs that is being bound. */
typedef struct binder {
    const tern_runner *runner;
    const tern_runner_graphs *set;
} binder;

static tern_buffer *weight_buffer(const binder *k, const tern_weight *weight)
{
    tern_buffer *buffer = tern_engine__weight_buffer(k->runner->engine, weight);
    const tern_lora_uses *loras = &k->set->loras;
    for (uint32_t i = 0; i < loras->n && !buffer; i++) buffer = tern_lora__buffer(loras->uses[i].lora, weight);
    return buffer;
}

/* Outputs are each graph's own. */
static tern_status find_value(void *context, const tern_graph *graph, uint32_t value, tern_binding *out,
                              tern_error *err)
{
    const binder *k = context;
    const tern_value *v = &graph->values[value];
    switch (v->kind) {
    case TERN_VALUE_OUTPUT: return TERN_OK;
    case TERN_VALUE_WEIGHT: out->buffer = weight_buffer(k, v->weight); break;
    case TERN_VALUE_CACHE: out->buffer = tern_graph_buffers_at(&k->runner->caches, graph, value); break;
    case TERN_VALUE_RECURRENT: out->buffer = tern_graph_buffers_at(&k->runner->recurrent, graph, value); break;
    case TERN_VALUE_CONSTANT: out->buffer = tern_graph_buffers_at(&k->runner->constants, graph, value); break;
    default: break;
    }
    return out->buffer ? TERN_OK : tern_fail(err, TERN_INTERNAL, "%s: the session has no memory for it", v->name);
}

static tern_status bind(const tern_runner *r, const tern_runner_graphs *set, tern_runner_graph *g, tern_error *err)
{
    binder k = {.runner = r, .set = set};
    const tern_bound_options options = {.find = find_value, .context = &k, .activations = &set->activations};
    TERN_TRY(tern_bound_open(&g->bound, backend_of(r), &g->graph, &options, err));
    uint32_t *pages = tern_bound_param(&g->bound, TERN_PARAM_PAGES);
    uint32_t *ring = tern_bound_param(&g->bound, TERN_PARAM_RING_PAGES);
    const uint32_t n_ordered = r->params.n_sequences ? 0 : r->n_pages;
    for (uint32_t page = 0; page < n_ordered; page++) pages[page] = page;
    for (uint32_t page = 0; ring && page < r->n_pages; page++) ring[page] = page % r->n_ring_pages;
    g->bound.ranks = tern_engine_ranks(r->engine);
    if (g->bound.ranks) g->bound.number = tern_engine__next_number(r->engine);
    return tern_bound_prepare(&g->bound, err);
}

static tern_status bind_all(const tern_runner *r, tern_runner_graphs *set, tern_error *err)
{
    TERN_TRY(create_activations(r, set, err));
    TERN_TRY(bind(r, set, &set->decode, err));
    TERN_TRY(bind(r, set, &set->prefill, err));
    if (r->params.n_sequences) TERN_TRY(bind(r, set, &set->few, err));
    return r->params.steps ? bind(r, set, &set->steps, err) : TERN_OK;
}

/* Those that do something. */
static tern_status copy_active_loras(const tern_runner *r, tern_runner_graphs *graphs, const tern_lora_set *sets,
                                     uint32_t n_sets, tern_error *err)
{
    tern_lora_uses *to = &graphs->loras;
    const bool groups = graphs->additional && backend_of(r)->info.groups_rows;
    size_t n = 1;
    for (uint32_t i = 0; i < n_sets; i++) {
        TERN_TRY(tern_lora__check(r->engine, sets[i].loras, sets[i].n_loras, err));
        n += sets[i].n_loras;
    }
    to->uses = tern_calloc(n, sizeof *to->uses);
    to->groups = tern_calloc(n, sizeof *to->groups);
    if (!to->uses || !to->groups) return tern_fail_alloc(err, n * sizeof *to->uses);
    to->n_groups = groups ? n_sets : 0;
    for (uint32_t i = 0; i < n_sets; i++)
        for (uint32_t k = 0; k < sets[i].n_loras; k++) {
            if (sets[i].loras[k].scale == 0) continue;
            to->groups[to->n] = groups ? i + 1 : 0;
            to->uses[to->n++] = sets[i].loras[k];
        }
    return TERN_OK;
}

static void graph_deinit(tern_runner_graph *g)
{
    tern_bound_close(&g->bound);
    tern_graph_deinit(&g->graph);
}

static void graphs_free(tern_backend *b, tern_runner_graphs *set)
{
    if (!set) return;
    graph_deinit(&set->decode);
    graph_deinit(&set->prefill);
    graph_deinit(&set->steps);
    graph_deinit(&set->few);
    tern_activations_free(&set->activations, b);
    tern_free(set->loras.uses);
    tern_free(set->loras.groups);
    tern_free(set);
}

/* The first ones also say how large what they share must be. */
tern_status tern_runner__make_graphs(tern_runner *r, const tern_lora_set *sets, uint32_t n_sets, bool additional,
                                     tern_runner_graphs **out, tern_error *err)
{
    tern_runner_graphs *set = tern_calloc(1, sizeof *set);
    if (!set) return tern_fail_alloc(err, sizeof *set);
    set->additional = additional;
    if (tern_engine_ranks(r->engine)) set->number = tern_engine__next_number(r->engine);
    tern_status status = copy_active_loras(r, set, sets, n_sets, err);
    if (status == TERN_OK) status = build_all(r, set, err);
    if (status == TERN_OK && !r->caches.buffers) status = create_shared(r, &set->prefill.graph, err);
    if (status == TERN_OK) status = bind_all(r, set, err);
    if (status == TERN_OK) *out = set;
    else graphs_free(backend_of(r), set);
    return status;
}

/* A device that chooses tokens may go further than the generation, by as many as it chooses at once. */
static tern_status size_caches(tern_runner *r, tern_error *err)
{
    const tern_config *c = tern_model_config(model_of(r));
    const uint32_t n_batch = r->params.n_batch, steps = r->params.steps ? TERN_SAMPLE_MAX_STEPS : 1;
    tern_graph_options sizes = {.n_ctx = r->params.n_ctx};
    tern_graph_size_caches(&sizes, c, n_batch > steps ? n_batch : steps);
    r->n_pages = r->params.n_sequences ? r->params.n_pages : sizes.n_pages;
    r->n_ring_pages = r->params.n_sequences ? 0 : sizes.n_ring_pages;
    r->window = tern_config_window(c);
    if (!c->recurrence.n_heads || r->params.n_sequences) return TERN_OK;
    return tern_runner_states_init(&r->states, r->params.n_states, err);
}

tern_status tern_runner_build(tern_runner_graphs **graphs, tern_engine *engine, const tern_runner_params *params,
                              tern_error *err)
{
    tern_runner r = {.engine = engine, .params = *params};
    TERN_TRY(size_caches(&r, err));
    tern_runner_graphs *set = *graphs = tern_calloc(1, sizeof *set);
    const tern_lora_set all = {params->loras, params->n_loras};
    tern_status status = set ? copy_active_loras(&r, set, &all, 1, err) : tern_fail_alloc(err, sizeof *set);
    if (status == TERN_OK) status = build_all(&r, set, err);
    tern_runner_states_deinit(&r.states);
    if (status == TERN_OK) return TERN_OK;
    tern_runner_unbuild(set, engine);
    *graphs = NULL;
    return status;
}

void tern_runner_unbuild(tern_runner_graphs *graphs, tern_engine *engine)
{
    graphs_free(tern_engine_backend(engine), graphs);
}

tern_status tern_runner_open(tern_runner *runner, tern_engine *engine, const tern_runner_params *params,
                             tern_error *err)
{
    *runner = (tern_runner){.engine = engine, .params = *params};
    tern_status status = size_caches(runner, err);
    if (status == TERN_OK) status = tern_follow__open_runner(runner, err);
    const tern_lora_set all = {params->loras, params->n_loras};
    if (status == TERN_OK) status = tern_runner__make_graphs(runner, &all, 1, false, &runner->graphs, err);
    runner->params.loras = NULL; /* the caller's */
    if (status != TERN_OK) tern_runner_deinit(runner);
    return status;
}

/* On all ranks. */
static tern_status make_graphs_on_all_ranks(tern_runner *runner, const tern_lora_set *sets, uint32_t n_sets,
                                            bool additional, tern_runner_graphs **out, tern_error *err)
{
    const uint32_t number = tern_engine__next_number(runner->engine);
    TERN_TRY(tern_follow__add_graphs(runner, number, sets, n_sets, additional, err));
    tern_engine__expect_number(runner->engine, number);
    const tern_status status = tern_runner__make_graphs(runner, sets, n_sets, additional, out, err);
    if (status != TERN_OK) tern_follow__drop_graphs(runner->engine, number);
    return status;
}

tern_status tern_runner_set_loras(tern_runner *runner, const tern_lora_use *loras, uint32_t n, tern_error *err)
{
    tern_runner_graphs *set = NULL;
    const tern_lora_set all = {loras, n};
    TERN_TRY(tern_lora__check(runner->engine, loras, n, err));
    TERN_TRY(make_graphs_on_all_ranks(runner, &all, 1, false, &set, err));
    tern_runner_drop_graphs(runner, runner->graphs);
    runner->graphs = set;
    return TERN_OK;
}

tern_status tern_runner_add_graphs(tern_runner *runner, const tern_lora_set *sets, uint32_t n_sets,
                                   tern_runner_graphs **graphs, tern_error *err)
{
    *graphs = NULL;
    return make_graphs_on_all_ranks(runner, sets, n_sets, true, graphs, err);
}

void tern_runner_drop_graphs(tern_runner *runner, tern_runner_graphs *graphs)
{
    if (graphs) tern_follow__drop_graphs(runner->engine, graphs->number);
    graphs_free(backend_of(runner), graphs);
}

void tern_runner_deinit(tern_runner *runner)
{
    if (!runner->engine) return;
    tern_backend *b = backend_of(runner);
    tern_follow__close_runner(runner);
    graphs_free(b, runner->graphs);
    tern_graph_buffers_free(&runner->constants, b);
    tern_graph_buffers_free(&runner->caches, b);
    tern_graph_buffers_free(&runner->recurrent, b);
    tern_runner_states_deinit(&runner->states);
    *runner = (tern_runner){0};
}

tern_runner_graph *tern_runner_graph_for(tern_runner_graphs *set, uint32_t n)
{
    if (n == 1) return &set->decode;
    return n <= set->few.graph.max_tokens ? &set->few : &set->prefill;
}

void tern_runner_set_step(const tern_runner_graph *graph, const tern_runner_step *step)
{
    const tern_bound_graph *g = &graph->bound;
    const uint32_t n = step->n_tokens, counts[3] = {n, step->n_outputs, step->n_top};
    uint32_t *positions = tern_bound_param(g, TERN_PARAM_POSITIONS), *outputs = tern_bound_param(g, TERN_PARAM_OUTPUTS);
    memcpy(tern_bound_param(g, TERN_PARAM_COUNTS), counts, sizeof counts);
    memcpy(tern_bound_param(g, TERN_PARAM_IDS), step->ids, n * sizeof *step->ids);
    for (uint32_t i = 0; i < n; i++) positions[i] = step->first_position + i;
    for (uint32_t i = 0; i < step->n_outputs; i++) outputs[i] = n - step->n_outputs + i;
    if (step->hidden) {
        const tern_value *hidden = &graph->graph.values[graph->graph.params[TERN_PARAM_HIDDEN]];
        memcpy(tern_bound_param(g, TERN_PARAM_HIDDEN), step->hidden, (size_t)n * hidden->cols * sizeof *step->hidden);
    }
    tern_wanted *wanted = tern_bound_param(g, TERN_PARAM_WANTED);
    if (wanted && step->wanted) *wanted = *step->wanted;
    else if (wanted) tern_wanted_begin(wanted, &(uint32_t){0});
}

tern_status tern_runner_read(tern_runner_graph *graph, uint32_t value, uint32_t n_rows, float *out, tern_error *err)
{
    const uint64_t bytes = (uint64_t)n_rows * graph->graph.values[value].cols * sizeof(float);
    return tern_bound_read(&graph->bound, value, out, bytes, err);
}

void tern_runner_mark_written(tern_runner *r, uint32_t first, uint32_t n)
{
    if (first == 0) r->n_written = r->first_kept = 0;
    if (first + n > r->n_written) r->n_written = first + n;
    if (!r->n_ring_pages || !r->n_written) return;
    const uint32_t used = (r->n_written - 1) / TERN_PAGE_SIZE + 1;
    const uint32_t lost = used > r->n_ring_pages ? (used - r->n_ring_pages) * TERN_PAGE_SIZE : 0;
    if (lost > r->first_kept) r->first_kept = lost;
}

uint32_t tern_runner_last_start(const tern_runner *r, uint32_t position)
{
    if (r->states.n) position = tern_runner_states_last(&r->states, position);
    const bool held = r->first_kept == 0 || (position >= r->window && position + 1 - r->window >= r->first_kept);
    return held ? position : 0;
}

/* The state that a step of one sequence begins with, and the one that it leaves. */
static void set_states(tern_runner *r, const tern_runner_graph *g, uint32_t first, uint32_t n_tokens, uint32_t n_steps)
{
    uint32_t *states = tern_bound_param(&g->bound, TERN_PARAM_STATES);
    if (!states || !r->states.n) return;
    for (uint32_t t = 0; t < n_tokens; t++) states[1 + t] = TERN_NO_STATE;
    tern_runner_states_step(&r->states, first, n_tokens * n_steps, n_steps > 1, &states[0], &states[n_tokens]);
}

tern_runner_graph *tern_runner_graph_of(const tern_runner *runner, const tern_runner_step *step)
{
    return step->n_tokens == 1 ? &runner->graphs->decode : &runner->graphs->prefill;
}

tern_status tern_runner_start(tern_runner *runner, const tern_runner_step *step, tern_error *err)
{
    const tern_runner_graph *g = tern_runner_graph_of(runner, step);
    tern_runner_set_step(g, step);
    set_states(runner, g, step->first_position, step->n_tokens, 1);
    tern_runner_mark_written(runner, step->first_position, step->n_tokens);
    return tern_bound_start(&g->bound, 1, err);
}

/* The read waits itself: two waits would be two turns of a browser's event loop. */
tern_status tern_runner_finish(tern_runner *runner, const tern_runner_step *step, float *logits, tern_error *err)
{
    tern_runner_graph *g = tern_runner_graph_of(runner, step);
    if (step->n_outputs == 0) return tern_bound_wait(&g->bound, err);
    return tern_runner_read(g, g->graph.logits, step->n_outputs, logits, err);
}

tern_status tern_runner_run(tern_runner *runner, const tern_runner_step *step, float *logits, tern_error *err)
{
    TERN_TRY(tern_runner_start(runner, step, err));
    return tern_runner_finish(runner, step, logits, err);
}

tern_status tern_runner_start_steps(tern_runner *runner, const tern_runner_steps *steps, tern_error *err)
{
    const tern_runner_graph *g = &runner->graphs->steps;
    tern_runner_step first = {.ids = &steps->id,
                              .n_tokens = 1,
                              .first_position = steps->position,
                              .n_outputs = 1,
                              .n_top = steps->sample->top_k};
    memcpy(tern_bound_param(&g->bound, TERN_PARAM_SAMPLER), steps->sample, sizeof *steps->sample);
    tern_runner_set_step(g, &first);
    set_states(runner, g, steps->position, 1, steps->sample->n_tokens);
    tern_runner_mark_written(runner, steps->position, steps->sample->n_tokens);
    return tern_bound_start(&g->bound, steps->sample->n_tokens, err);
}

tern_status tern_runner_finish_steps(tern_runner *runner, uint32_t n, uint32_t *tokens, tern_error *err)
{
    tern_runner_graph *g = &runner->graphs->steps;
    TERN_TRY(tern_bound_read(&g->bound, g->graph.tokens, tokens, (1 + (uint64_t)n) * sizeof *tokens, err));
    if (tokens[0] >= 1 && tokens[0] <= n) return TERN_OK;
    return tern_fail(err, TERN_INTERNAL, "%s chose %u tokens in a run: 1 to %u expected", backend_of(runner)->info.name,
                     tokens[0], n);
}

void tern_runner_abandon(tern_runner *runner)
{
    tern_runner_graphs *set = runner->graphs;
    if (!set) return;
    tern_bound_forget(&set->decode.bound);
    tern_bound_forget(&set->prefill.bound);
    tern_bound_forget(&set->steps.bound);
}
