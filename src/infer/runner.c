/* The graphs of a session: built, bound to memory, prepared, and run step by step. */
#include "infer/runner.h"

#include <string.h>

#include "base/alloc.h"

static tern_status create(tern_runner *r, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    tern_backend *b = tern_engine_backend(r->engine);
    void *items = r->owned;
    TERN_TRY(tern_grow(&items, &r->cap_owned, r->n_owned + 1, sizeof *r->owned, err));
    r->owned = items;
    TERN_TRY(b->buffer_create(b, bytes, out, err));
    r->owned[r->n_owned++] = *out;
    return TERN_OK;
}

static tern_status build(tern_runner *r, tern_runner_graph *g, uint32_t max_tokens, tern_error *err)
{
    const tern_runner_params *p = &r->params;
    tern_backend *b = tern_engine_backend(r->engine);
    tern_graph_options options = {.max_tokens = max_tokens,
                                  .max_outputs = p->max_outputs < max_tokens ? p->max_outputs : max_tokens,
                                  .n_ctx = p->n_ctx,
                                  .n_sequences = 1,
                                  .n_pages = r->n_pages,
                                  .kv_f32 = p->kv_f32,
                                  .keep_hidden = p->keep_hidden,
                                  .sampler = g == &r->steps,
                                  .f32_activations = tern_engine_f32_activations(r->engine),
                                  .head = tern_engine_head(r->engine),
                                  .screened_head = tern_engine_head_exact(r->engine)};
    TERN_TRY(tern_graph_build(&g->graph, tern_engine_model(r->engine), &options, err));
    if (!p->unfused) TERN_TRY(tern_graph_fuse(&g->graph, b->fusions, err));
    if (p->keep_all) tern_graph_keep_all(&g->graph);
    return tern_graph_plan(&g->graph, b->fusions, err);
}

/* cos and sin of every position and frequency. */
static tern_status fill_rope_table(tern_runner *r, tern_error *err)
{
    const tern_config *c = tern_engine_config(r->engine);
    uint32_t half = c->head_dim / 2, n_positions = r->decode.graph.max_pages * TERN_PAGE_SIZE;
    float *frequencies = tern_calloc(half, sizeof(float)), *row = tern_calloc(c->head_dim, sizeof(float));
    tern_backend *b = tern_engine_backend(r->engine);
    tern_status status = frequencies && row ? TERN_OK : tern_fail_alloc(err, c->head_dim * sizeof(float));
    if (status == TERN_OK) tern_config_rope_frequencies(c, frequencies);
    for (uint32_t pos = 0; pos < n_positions && status == TERN_OK; pos++) {
        tern_config_rope_row(c, frequencies, pos, row);
        uint64_t bytes = c->head_dim * sizeof(float);
        status = b->buffer_write(b, r->rope_table, pos * bytes, row, bytes, err);
    }
    tern_free(frequencies);
    tern_free(row);
    return status;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static tern_status create_shared(tern_runner *r, tern_error *err)
{
    const tern_graph *g = &r->prefill.graph;
    uint64_t activations =
        larger(g->activation_bytes, larger(r->decode.graph.activation_bytes, r->steps.graph.activation_bytes));
    TERN_TRY(create(r, larger(activations, 256), &r->activations, err));
    TERN_TRY(create(r, g->values[g->rope_table].bytes, &r->rope_table, err));
    size_t n = 2 * (size_t)g->config->n_layers;
    r->caches = tern_calloc(n, sizeof *r->caches);
    if (!r->caches) return tern_fail_alloc(err, n * sizeof *r->caches);
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == TERN_VALUE_CACHE)
            TERN_TRY(create(r, g->values[i].bytes, &r->caches[r->n_caches++], err));
    return fill_rope_table(r, err);
}

static tern_status bind_value(tern_runner *r, const tern_runner_graph *g, const tern_value *v, size_t *cache,
                              tern_binding *out, tern_error *err)
{
    switch (v->kind) {
    case TERN_VALUE_WEIGHT: out->buffer = tern_engine__weight_buffer(r->engine, v->weight); break;
    case TERN_VALUE_CACHE: out->buffer = r->caches[(*cache)++]; break;
    case TERN_VALUE_CONSTANT: out->buffer = r->rope_table; break;
    case TERN_VALUE_ACTIVATION: *out = (tern_binding){.buffer = r->activations, .offset = v->offset}; break;
    case TERN_VALUE_PARAM: *out = (tern_binding){.buffer = g->params, .offset = v->offset}; break;
    case TERN_VALUE_STATE: break; /* of training graphs */
    case TERN_VALUE_OUTPUT: return create(r, v->bytes, &out->buffer, err);
    }
    return TERN_OK;
}

static void *param(const tern_runner_graph *g, tern_param which)
{
    return g->staging + g->graph.values[g->graph.params[which]].offset;
}

static tern_status bind(tern_runner *r, tern_runner_graph *g, tern_error *err)
{
    size_t cache = 0;
    g->bindings = tern_calloc(g->graph.n_values, sizeof *g->bindings);
    g->staging = tern_calloc(1, g->graph.param_bytes);
    if (!g->bindings || !g->staging) return tern_fail_alloc(err, g->graph.n_values * sizeof *g->bindings);
    TERN_TRY(create(r, g->graph.param_bytes, &g->params, err));
    for (size_t i = 0; i < g->graph.n_values; i++)
        TERN_TRY(bind_value(r, g, &g->graph.values[i], &cache, &g->bindings[i], err));
    uint32_t *pages = param(g, TERN_PARAM_PAGES);
    for (uint32_t page = 0; page < r->n_pages; page++) pages[page] = page;
    tern_backend *b = tern_engine_backend(r->engine);
    return b->prepare(b, &g->graph, g->bindings, &g->prepared, err);
}

static tern_status open_all(tern_runner *r, tern_error *err)
{
    TERN_TRY(build(r, &r->decode, 1, err));
    TERN_TRY(build(r, &r->prefill, r->params.n_batch, err));
    if (r->params.steps) TERN_TRY(build(r, &r->steps, 1, err));
    TERN_TRY(create_shared(r, err));
    TERN_TRY(bind(r, &r->decode, err));
    TERN_TRY(bind(r, &r->prefill, err));
    return r->params.steps ? bind(r, &r->steps, err) : TERN_OK;
}

tern_status tern_runner_open(tern_runner *runner, tern_engine *engine, const tern_runner_params *params,
                             tern_error *err)
{
    *runner = (tern_runner){.engine = engine, .params = *params};
    runner->n_pages = (uint32_t)(((uint64_t)params->n_ctx + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE);
    tern_status status = open_all(runner, err);
    if (status != TERN_OK) tern_runner_deinit(runner);
    return status;
}

static void graph_deinit(tern_backend *b, tern_runner_graph *g)
{
    b->prepared_free(b, g->prepared);
    tern_free(g->bindings);
    tern_free(g->staging);
    tern_graph_deinit(&g->graph);
}

void tern_runner_deinit(tern_runner *runner)
{
    if (!runner->engine) return;
    tern_backend *b = tern_engine_backend(runner->engine);
    graph_deinit(b, &runner->decode);
    graph_deinit(b, &runner->prefill);
    graph_deinit(b, &runner->steps);
    for (size_t i = 0; i < runner->n_owned; i++) b->buffer_free(b, runner->owned[i]);
    tern_free(runner->owned);
    tern_free(runner->caches);
    *runner = (tern_runner){0};
}

tern_status tern_runner_write(tern_runner *runner, const tern_runner_graph *g, const tern_runner_step *step,
                              tern_error *err)
{
    tern_backend *b = tern_engine_backend(runner->engine);
    uint32_t n = step->n_tokens, counts[3] = {n, step->n_outputs, step->n_wanted};
    uint32_t *positions = param(g, TERN_PARAM_POSITIONS), *outputs = param(g, TERN_PARAM_OUTPUTS);
    memcpy(param(g, TERN_PARAM_COUNTS), counts, sizeof counts);
    memcpy(param(g, TERN_PARAM_IDS), step->ids, n * sizeof *step->ids);
    for (uint32_t i = 0; i < n; i++) positions[i] = step->first_position + i;
    for (uint32_t i = 0; i < step->n_outputs; i++) outputs[i] = n - step->n_outputs + i;
    return b->buffer_write(b, g->params, 0, g->staging, g->graph.param_bytes, err);
}

tern_status tern_runner_read(tern_runner *runner, const tern_runner_graph *graph, uint32_t value, uint32_t n_rows,
                             float *out, tern_error *err)
{
    tern_backend *b = tern_engine_backend(runner->engine);
    const tern_binding *at = &graph->bindings[value];
    return b->buffer_read(b, at->buffer, at->offset, out, (uint64_t)n_rows * graph->graph.values[value].cols * 4, err);
}

tern_status tern_runner_run(tern_runner *runner, const tern_runner_step *step, float *logits, tern_error *err)
{
    bool one = step->n_tokens == 1;
    tern_runner_graph *g = one ? &runner->decode : &runner->prefill;
    tern_backend *b = tern_engine_backend(runner->engine);
    TERN_TRY(tern_runner_write(runner, g, step, err));
    TERN_TRY(b->run(b, g->prepared, 1, err));
    TERN_TRY(b->wait(b, err));
    if (step->n_outputs == 0) return TERN_OK;
    return tern_runner_read(runner, g, g->graph.logits, step->n_outputs, logits, err);
}

tern_status tern_runner_run_steps(tern_runner *runner, const tern_runner_steps *steps, uint32_t *tokens,
                                  tern_error *err)
{
    tern_runner_graph *g = &runner->steps;
    tern_backend *b = tern_engine_backend(runner->engine);
    uint32_t n = steps->sample->n_wanted;
    tern_runner_step first = {.ids = &steps->id,
                              .n_tokens = 1,
                              .first_position = steps->position,
                              .n_outputs = 1,
                              .n_wanted = steps->sample->top_k};
    memcpy(param(g, TERN_PARAM_SAMPLER), steps->sample, sizeof *steps->sample);
    TERN_TRY(tern_runner_write(runner, g, &first, err));
    TERN_TRY(b->run(b, g->prepared, n, err));
    const tern_binding *out = &g->bindings[g->graph.tokens];
    TERN_TRY(b->wait(b, err));
    TERN_TRY(b->buffer_read(b, out->buffer, out->offset, tokens, (1 + (uint64_t)n) * sizeof *tokens, err));
    if (tokens[0] >= 1 && tokens[0] <= n) return TERN_OK;
    return tern_fail(err, TERN_INTERNAL, "%s chose %u tokens in a run: 1 to %u expected", b->name, tokens[0], n);
}
