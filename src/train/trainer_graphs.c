/* The graphs of a trainer: built, given memory, and run. */
#include <string.h>

#include "base/alloc.h"
#include "train/trainer_internal.h"

enum { LOGITS_BYTES = 64 << 20, LEAST_BYTES = 256, BLOCK_ALIGNMENT = 256 };

/* As few chunks of logits as LOGITS_BYTES allows, of one size; a run is as many rows as they have. */
void tern_trainer__count_rows(tern_trainer_plan *plan, const tern_config *config, const tern_trainer_params *params)
{
    uint64_t n = (uint64_t)params->batch * params->seq, row_bytes = (uint64_t)config->n_vocab * sizeof(float);
    uint64_t most = LOGITS_BYTES / row_bytes / TERN_ROW_ALIGNMENT * TERN_ROW_ALIGNMENT;
    if (most == 0) most = TERN_ROW_ALIGNMENT;
    uint64_t n_chunks = (n + most - 1) / most;
    uint64_t chunk = n_chunks == 1 ? n : tern_round_up((n + n_chunks - 1) / n_chunks, TERN_ROW_ALIGNMENT);
    plan->chunk = (uint32_t)chunk;
    plan->n_tokens = (uint32_t)(n_chunks * chunk);
}

static tern_status build_training(tern_trainer *t, tern_trainer_graph_kind kind, tern_error *err)
{
    tern_trainer_graph *g = &t->graphs[kind];
    const tern_trainer_params *p = &t->params;
    tern_graph_options options = {.weights = t->places[kind == TERN_TRAINER_EVALUATE],
                                  .max_tokens = t->plan.n_tokens,
                                  .max_outputs = t->plan.chunk,
                                  .n_ctx = p->seq,
                                  .n_sequences = 1,
                                  .n_pages = (p->seq + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE,
                                  .f32_activations = p->f32_activations,
                                  .training = true,
                                  .fake_quantize = t->blended};
    const tern_graph_backward_options backward = {.checkpoint = p->checkpoint};
    TERN_TRY(tern_graph_build(&g->graph, t->model, &options, err));
    g->used = true;
    g->graph.activation_block = tern_trainer__activation_block(t);
    if (kind == TERN_TRAINER_STEP) TERN_TRY(tern_graph_differentiate(&g->graph, &backward, err));
    return tern_graph_plan(&g->graph, t->backend->fusions, err);
}

static tern_status build_updates(tern_trainer *t, tern_trainer_graph_kind kind, tern_graph_phase phase, bool sync,
                                 tern_error *err)
{
    tern_trainer_graph *g = &t->graphs[kind];
    const tern_graph_update *updates = t->updates[kind == TERN_TRAINER_REQUANTIZE];
    TERN_TRY(tern_graph_build_updates(&g->graph, t->config, updates, t->n_learning, phase, sync, err));
    g->used = true;
    return tern_graph_plan(&g->graph, t->backend->fusions, err);
}

/* How each tensor is updated. Codes made anew from masters that were cut already need no cutting: the scale that they
 * were cut by is gone after loading. */
static bool describe_updates(tern_trainer *t)
{
    const tern_trainer_params *p = &t->params;
    bool masters = false;
    for (size_t i = 0; i < t->n_learning; i++) {
        const tern_trainer_made *m = t->learning[i];
        t->updates[0][i] = (tern_graph_update){.weight = &m->weight,
                                               .master = m->shown.dtype[TERN_STATE_MASTER],
                                               .optimizer = p->optimizer,
                                               .momentum = p->momentum > 0,
                                               .m = p->m,
                                               .v = p->v,
                                               .decays = !tern_role_is_norm(m->shown.role),
                                               .threshold = p->threshold,
                                               .clamp = p->clamp,
                                               .has_master = m->shown.ternary};
        t->updates[1][i] = t->updates[0][i];
        t->updates[1][i].clamp = 0;
        masters = masters || m->shown.ternary;
    }
    return masters;
}

tern_status tern_trainer__build(tern_trainer *t, tern_error *err)
{
    bool masters = describe_updates(t);
    TERN_TRY(build_training(t, TERN_TRAINER_STEP, err));
    TERN_TRY(build_training(t, TERN_TRAINER_EVALUATE, err));
    TERN_TRY(build_updates(t, TERN_TRAINER_NORMS, TERN_GRAPH_NORMS, false, err));
    TERN_TRY(build_updates(t, TERN_TRAINER_UPDATE, TERN_GRAPH_UPDATE, true, err));
    if (!masters) return TERN_OK;
    if (t->params.sync_every > 1) TERN_TRY(build_updates(t, TERN_TRAINER_UPDATE_ALONE, TERN_GRAPH_UPDATE, false, err));
    return build_updates(t, TERN_TRAINER_REQUANTIZE, TERN_GRAPH_REQUANTIZE, true, err);
}

tern_status tern_trainer__check_graphs(const tern_trainer *t, tern_error *err)
{
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++) {
        const tern_graph *g = &t->graphs[i].graph;
        for (size_t k = 0; t->graphs[i].used && k < g->n_ops; k++)
            TERN_TRY(t->backend->supports(t->backend, g, &g->ops[k], err));
    }
    return TERN_OK;
}

uint64_t tern_trainer__activation_bytes(const tern_trainer *t)
{
    uint64_t bytes = LEAST_BYTES;
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++)
        if (t->graphs[i].used && t->graphs[i].graph.activation_bytes > bytes)
            bytes = t->graphs[i].graph.activation_bytes;
    return bytes;
}

uint64_t tern_trainer__activation_block(const tern_trainer *t)
{
    return t->backend->max_buffer / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
}

uint32_t tern_trainer__output(const tern_trainer_graph *g)
{
    return g->graph.losses != TERN_NO_VALUE ? g->graph.losses : g->graph.norms;
}

void *tern_trainer__param(const tern_trainer_graph *g, tern_param which)
{
    uint32_t value = g->graph.params[which];
    return value == TERN_NO_VALUE ? NULL : g->staging + g->graph.values[value].offset;
}

static tern_status find_weight(const tern_trainer *t, const tern_value *v, const tern_trainer_made **made,
                               tern_buffer **buffer, tern_error *err)
{
    *made = NULL;
    *buffer = NULL;
    for (size_t i = 0; i < t->n_made && !*made; i++)
        if (&t->made[i].weight == v->weight) *made = &t->made[i];
    for (size_t i = 0; i < t->n_fixed && !*buffer; i++)
        if (t->fixed[i].weight == v->weight) *buffer = t->fixed[i].buffer;
    if (*made) *buffer = (*made)->buffer;
    return *buffer ? TERN_OK : tern_fail(err, TERN_INTERNAL, "%s: a value of no weight", v->name);
}

static tern_binding activation_at(const tern_trainer *t, uint64_t offset)
{
    uint64_t block = tern_trainer__activation_block(t);
    if (block == 0) return (tern_binding){.buffer = t->activations[0], .offset = offset};
    return (tern_binding){.buffer = t->activations[offset / block], .offset = offset % block};
}

static tern_status bind_value(tern_trainer *t, tern_trainer_graph *g, uint32_t id, tern_error *err)
{
    const tern_value *v = &g->graph.values[id];
    tern_binding *out = &g->bindings[id];
    const tern_trainer_made *made;
    switch (v->kind) {
    case TERN_VALUE_WEIGHT: return find_weight(t, v, &made, &out->buffer, err);
    case TERN_VALUE_STATE:
        TERN_TRY(find_weight(t, v, &made, &out->buffer, err));
        out->buffer = made ? made->states[v->state] : NULL;
        return out->buffer ? TERN_OK : tern_fail(err, TERN_INTERNAL, "%s: a state that is not kept", v->name);
    case TERN_VALUE_CONSTANT: out->buffer = t->rope_table; break;
    case TERN_VALUE_ACTIVATION: *out = activation_at(t, v->offset); break;
    case TERN_VALUE_PARAM: *out = (tern_binding){.buffer = g->params, .offset = v->offset}; break;
    case TERN_VALUE_OUTPUT: out->buffer = g->output; break;
    case TERN_VALUE_CACHE: break; /* not in training graphs */
    }
    return TERN_OK;
}

static tern_status prepare(tern_trainer *t, tern_trainer_graph *g, tern_error *err)
{
    tern_backend *b = t->backend;
    uint32_t output = tern_trainer__output(g);
    g->bindings = tern_calloc(g->graph.n_values, sizeof *g->bindings);
    g->staging = tern_calloc(1, tern_size_of(g->graph.param_bytes));
    if (!g->bindings || !g->staging) return tern_fail_alloc(err, g->graph.n_values * sizeof *g->bindings);
    TERN_TRY(b->buffer_create(b, g->graph.param_bytes, &g->params, err));
    if (output != TERN_NO_VALUE) TERN_TRY(b->buffer_create(b, g->graph.values[output].bytes, &g->output, err));
    for (uint32_t i = 0; i < g->graph.n_values; i++) TERN_TRY(bind_value(t, g, i, err));
    return b->prepare(b, &g->graph, g->bindings, &g->prepared, err);
}

static tern_status fill_rope_table(tern_trainer *t, tern_error *err)
{
    const tern_graph *g = &t->graphs[TERN_TRAINER_STEP].graph;
    const tern_value *v = &g->values[g->rope_table];
    float *table = tern_alloc(v->bytes);
    if (!table) return tern_fail_alloc(err, v->bytes);
    tern_rope_rows(v->frequencies, v->cols / 2, 0, g->max_pages * TERN_PAGE_SIZE, table);
    tern_status status = t->backend->buffer_write(t->backend, t->rope_table, 0, table, v->bytes, err);
    tern_free(table);
    return status;
}

static tern_status create_activations(tern_trainer *t, tern_error *err)
{
    uint64_t left = tern_trainer__activation_bytes(t), block = tern_trainer__activation_block(t);
    if (block == 0) block = left;
    if ((left - 1) / block >= TERN_TRAINER_MAX_BLOCKS)
        return tern_fail(err, TERN_LIMIT, "%llu bytes of activations in buffers of %llu: at most %d of them expected",
                         (unsigned long long)left, (unsigned long long)block, TERN_TRAINER_MAX_BLOCKS);
    for (size_t i = 0; left; i++) {
        uint64_t bytes = left < block ? left : block;
        TERN_TRY(t->backend->buffer_create(t->backend, bytes, &t->activations[i], err));
        left -= bytes;
    }
    return TERN_OK;
}

tern_status tern_trainer__prepare(tern_trainer *t, tern_error *err)
{
    const tern_graph *g = &t->graphs[TERN_TRAINER_STEP].graph;
    tern_backend *b = t->backend;
    TERN_TRY(create_activations(t, err));
    TERN_TRY(b->buffer_create(b, g->values[g->rope_table].bytes, &t->rope_table, err));
    TERN_TRY(fill_rope_table(t, err));
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++)
        if (t->graphs[i].used) TERN_TRY(prepare(t, &t->graphs[i], err));
    tern_trainer__drop_data(t);
    return TERN_OK;
}

void tern_trainer__free_graphs(tern_trainer *t)
{
    tern_backend *b = t->backend;
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++) {
        tern_trainer_graph *g = &t->graphs[i];
        b->prepared_free(b, g->prepared);
        b->buffer_free(b, g->params);
        b->buffer_free(b, g->output);
        tern_free(g->bindings);
        tern_free(g->staging);
        if (g->used) tern_graph_deinit(&g->graph);
        *g = (tern_trainer_graph){0};
    }
    for (size_t i = 0; i < TERN_TRAINER_MAX_BLOCKS; i++) b->buffer_free(b, t->activations[i]);
    memset(t->activations, 0, sizeof t->activations);
    b->buffer_free(b, t->rope_table);
    t->rope_table = NULL;
}

tern_status tern_trainer__run(tern_trainer *t, tern_trainer_graph_kind kind, const tern_train_params *training,
                              tern_error *err)
{
    tern_trainer_graph *g = &t->graphs[kind];
    tern_backend *b = t->backend;
    const uint32_t counts[3] = {g->graph.max_tokens, g->graph.max_outputs, 0};
    void *at = tern_trainer__param(g, TERN_PARAM_TRAINING);
    memcpy(tern_trainer__param(g, TERN_PARAM_COUNTS), counts, sizeof counts);
    if (at) memcpy(at, training, sizeof *training);
    TERN_TRY(b->buffer_write(b, g->params, 0, g->staging, g->graph.param_bytes, err));
    return b->run(b, g->prepared, 1, err);
}

tern_status tern_trainer__wait(tern_trainer *t, tern_error *err)
{
    tern_status status = t->backend->wait(t->backend, err);
    return status == TERN_PENDING ? TERN_OK : status;
}

tern_status tern_trainer__requantize(tern_trainer *t, tern_error *err)
{
    const tern_train_params training = {.blend = tern_trainer__blend(t, t->n_steps)};
    if (!t->graphs[TERN_TRAINER_REQUANTIZE].used) return TERN_OK;
    TERN_TRY(tern_trainer__run(t, TERN_TRAINER_REQUANTIZE, &training, err));
    return tern_trainer__wait(t, err);
}

tern_status tern_trainer__change_phase(tern_trainer *t, tern_error *err)
{
    bool blended = t->n_steps < t->params.blend_steps;
    if (blended == t->blended) return TERN_OK;
    TERN_TRY(tern_trainer__wait(t, err));
    tern_trainer__free_graphs(t);
    t->blended = blended;
    for (size_t i = 0; i < t->n_made; i++)
        if (t->made[i].shown.ternary) tern_trainer__free_weight(t, &t->made[i]);
    TERN_TRY(tern_trainer__shape_weights(t, err));
    TERN_TRY(tern_trainer__build(t, err));
    for (size_t i = 0; i < t->n_made; i++)
        if (t->made[i].shown.ternary) TERN_TRY(tern_trainer__allocate_weight(t, &t->made[i], err));
    return tern_trainer__prepare(t, err);
}
