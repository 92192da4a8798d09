/* The graphs of a trainer: built, given memory, and run. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "ops/op.h"
#include "train/trainer/internal.h"

enum { BLOCK_ALIGNMENT = 256 };

/* The graph of a step, differentiated; with optimizer_in_backward, or several passes to a step, what becomes of its
 * gradients too. */
static tern_status differentiate(const tern_trainer *t, tern_trainer_graph_kind kind, tern_graph *graph,
                                 tern_error *err)
{
    const tern_graph_backward_options backward = {.checkpoint = t->params.checkpoint, .bf16 = t->params.bf16};
    const bool sums = tern_trainer__sums(t), steps = kind != TERN_TRAINER_STEP;
    const tern_graph_in_backward what = {.updates = t->tensors.updates[0],
                                         .n = t->tensors.n_trainable,
                                         .norms = !steps || t->params.clip == 0,
                                         .steps = steps,
                                         .sync = kind == TERN_TRAINER_UPDATE,
                                         .sums = sums};
    tern_trainer__keep_routes(graph);
    TERN_TRY(tern_graph_differentiate(graph, &backward, err));
    return sums || t->params.optimizer_in_backward ? tern_graph_update_in_backward(graph, &what, err) : TERN_OK;
}

static tern_status build_training(tern_trainer *t, tern_trainer_graph_kind kind, tern_error *err)
{
    tern_trainer_graph *g = &t->graphs.all[kind];
    const tern_trainer_params *p = &t->params;
    tern_graph_options options = {.weights = t->tensors.graph_weights[kind == TERN_TRAINER_EVALUATE],
                                  .max_tokens = t->plan.n_tokens,
                                  .max_outputs = t->plan.chunk,
                                  .n_ctx = p->seq,
                                  .n_sequences = 1,
                                  .n_pages = (p->seq + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE,
                                  .f32_activations = p->f32_activations,
                                  .halves = p->bf16,
                                  .training = true,
                                  .fake_quantize = t->blended};
    TERN_TRY(tern_graph_build(&g->graph, t->model, &options, err));
    g->used = true;
    g->graph.activation_block = tern_trainer__activation_block(t);
    if (kind != TERN_TRAINER_EVALUATE) TERN_TRY(differentiate(t, kind, &g->graph, err));
    return tern_graph_plan(&g->graph, t->backend->info.fusions, err);
}

static tern_status build_updates(tern_trainer *t, tern_trainer_graph_kind kind, tern_graph_phase phase, bool sync,
                                 tern_error *err)
{
    tern_trainer_graph *g = &t->graphs.all[kind];
    const tern_graph_update *updates = t->tensors.updates[kind == TERN_TRAINER_REQUANTIZE];
    TERN_TRY(tern_graph_build_updates(&g->graph, t->config, updates, t->tensors.n_trainable, phase, sync, err));
    g->used = true;
    g->graph.activation_block = tern_trainer__activation_block(t);
    return tern_graph_plan(&g->graph, t->backend->info.fusions, err);
}

/* How each tensor is updated. Codes made anew from masters that were cut already need no cutting: the scale that they
 * were cut by is gone after loading. */
static bool describe_updates(tern_trainer *t)
{
    const tern_trainer_params *p = &t->params;
    bool masters = false;
    for (size_t i = 0; i < t->tensors.n_trainable; i++) {
        const tern_trainer_weight *m = t->tensors.trainable[i];
        t->tensors.updates[0][i] = (tern_graph_update){.weight = &m->weight,
                                                       .master = m->info.dtype[TERN_STATE_MASTER],
                                                       .optimizer = p->optimizer,
                                                       .momentum = p->momentum > 0,
                                                       .m = p->m,
                                                       .v = p->v,
                                                       .decays = !tern_role_is_vector(m->info.role),
                                                       .threshold = p->threshold,
                                                       .clamp = p->clamp,
                                                       .has_master = m->info.ternary,
                                                       .elsewhere = !tern_trainer__owns(t, m)};
        t->tensors.updates[1][i] = t->tensors.updates[0][i];
        t->tensors.updates[1][i].clamp = 0;
        masters = masters || m->info.ternary;
    }
    return masters;
}

/* Each rank takes the steps of its own tensors; all make the codes of all, once they have the masters. */
static tern_status build_updates_on_ranks(tern_trainer *t, bool masters, tern_error *err)
{
    bool any = false;
    for (size_t i = 0; i < t->tensors.n_trainable; i++) any = any || tern_trainer__owns(t, t->tensors.trainable[i]);
    TERN_TRY(build_updates(t, TERN_TRAINER_CLEAR, TERN_GRAPH_CLEAR, false, err));
    if (any) TERN_TRY(build_updates(t, TERN_TRAINER_NORMS, TERN_GRAPH_NORMS, false, err));
    if (any) TERN_TRY(build_updates(t, TERN_TRAINER_UPDATE_ALONE, TERN_GRAPH_UPDATE, false, err));
    return masters ? build_updates(t, TERN_TRAINER_SYNC, TERN_GRAPH_REQUANTIZE, true, err) : TERN_OK;
}

tern_status tern_trainer__build_graphs(tern_trainer *t, tern_error *err)
{
    const tern_trainer_params *p = &t->params;
    const bool masters = describe_updates(t), alone = masters && p->sync_every > 1;
    if (!p->optimizer_in_backward || p->clip > 0) TERN_TRY(build_training(t, TERN_TRAINER_STEP, err));
    TERN_TRY(build_training(t, TERN_TRAINER_EVALUATE, err));
    if (p->optimizer_in_backward) {
        TERN_TRY(build_training(t, TERN_TRAINER_UPDATE, err));
        if (alone) TERN_TRY(build_training(t, TERN_TRAINER_UPDATE_ALONE, err));
    } else if (p->ranks) {
        TERN_TRY(build_updates_on_ranks(t, masters, err));
    } else {
        TERN_TRY(build_updates(t, TERN_TRAINER_NORMS, TERN_GRAPH_NORMS, false, err));
        TERN_TRY(build_updates(t, TERN_TRAINER_UPDATE, TERN_GRAPH_UPDATE, true, err));
        if (alone) TERN_TRY(build_updates(t, TERN_TRAINER_UPDATE_ALONE, TERN_GRAPH_UPDATE, false, err));
    }
    if (!masters) return TERN_OK;
    return build_updates(t, TERN_TRAINER_REQUANTIZE, TERN_GRAPH_REQUANTIZE, true, err);
}

tern_status tern_trainer__check_graphs(const tern_trainer *t, tern_error *err)
{
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++) {
        const tern_graph *g = &t->graphs.all[i].graph;
        for (size_t k = 0; t->graphs.all[i].used && k < g->n_ops; k++)
            TERN_TRY(t->backend->supports(t->backend, g, &g->ops[k], err));
    }
    return TERN_OK;
}

uint64_t tern_trainer__activation_bytes(const tern_trainer *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++)
        if (t->graphs.all[i].used && t->graphs.all[i].graph.activation_bytes > bytes)
            bytes = t->graphs.all[i].graph.activation_bytes;
    return bytes;
}

uint64_t tern_trainer__gradient_bytes(const tern_trainer *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++)
        if (t->graphs.all[i].used && t->graphs.all[i].graph.gradient_bytes > bytes)
            bytes = t->graphs.all[i].graph.gradient_bytes;
    return bytes;
}

uint64_t tern_trainer__activation_block(const tern_trainer *t)
{
    return t->backend->info.max_buffer / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
}

static tern_status find_weight(const tern_trainer *t, const tern_value *v, const tern_trainer_weight **made,
                               tern_buffer **buffer, tern_error *err)
{
    *made = NULL;
    *buffer = NULL;
    for (size_t i = 0; i < t->tensors.n_weights && !*made; i++)
        if (&t->tensors.weights[i].weight == v->weight) *made = &t->tensors.weights[i];
    for (size_t i = 0; i < t->tensors.n_frozen && !*buffer; i++)
        if (t->tensors.frozen[i].weight == v->weight) *buffer = t->tensors.frozen[i].buffer;
    if (*made) *buffer = (*made)->buffer;
    return *buffer ? TERN_OK : tern_fail(err, TERN_INTERNAL, "%s: a value of no weight", v->name);
}

/* The master of the graph that adds up passes is the gradient of all others. With ranks it has the gradient of one
 * pass. */
static tern_buffer *state_of(const tern_trainer *t, const tern_graph *graph, const tern_trainer_weight *made,
                             tern_state state)
{
    const bool sum = tern_trainer__sums(t) && graph == &t->graphs.all[TERN_TRAINER_STEP].graph;
    if (!made) return NULL;
    const bool of_pass =
        graph == &t->graphs.all[TERN_TRAINER_STEP].graph || graph == &t->graphs.all[TERN_TRAINER_CLEAR].graph;
    if (made->pass && state == TERN_STATE_GRADIENT && of_pass) return made->pass;
    return made->states[sum && state == TERN_STATE_MASTER ? TERN_STATE_GRADIENT : state];
}

/* Outputs are each graph's own. */
static tern_status find_value(void *context, const tern_graph *graph, uint32_t value, tern_binding *out,
                              tern_error *err)
{
    const tern_trainer *t = context;
    const tern_value *v = &graph->values[value];
    const tern_trainer_weight *made = NULL;
    switch (v->kind) {
    case TERN_VALUE_WEIGHT: return find_weight(t, v, &made, &out->buffer, err);
    case TERN_VALUE_CONSTANT: out->buffer = tern_graph_buffers_at(&t->graphs.constants, graph, value); break;
    case TERN_VALUE_STATE:
        if (graph->brief_gradients && v->state == TERN_STATE_GRADIENT) {
            *out = tern_activations_at(&t->graphs.gradients, v->offset);
            break;
        }
        TERN_TRY(find_weight(t, v, &made, &out->buffer, err));
        out->buffer = state_of(t, graph, made, v->state);
        break;
    default: return TERN_OK;
    }
    return out->buffer ? TERN_OK : tern_fail(err, TERN_INTERNAL, "%s: a value that is not kept", v->name);
}

static tern_status prepare_graph(tern_trainer *t, tern_trainer_graph *g, tern_error *err)
{
    const tern_bound_options options = {.find = find_value, .context = t, .activations = &t->graphs.activations};
    TERN_TRY(tern_bound_open(&g->bound, t->backend, &g->graph, &options, err));
    return tern_bound_prepare(&g->bound, err);
}

tern_status tern_trainer__prepare_graphs(tern_trainer *t, tern_error *err)
{
    const tern_graph *g = &t->graphs.all[TERN_TRAINER_EVALUATE].graph;
    tern_backend *b = t->backend;
    const uint64_t gradients = tern_trainer__gradient_bytes(t);
    TERN_TRY(tern_activations_make(&t->graphs.activations, b, tern_trainer__activation_bytes(t),
                                   tern_trainer__activation_block(t), err));
    if (gradients)
        TERN_TRY(tern_activations_make(&t->graphs.gradients, b, gradients, tern_trainer__activation_block(t), err));
    TERN_TRY(tern_graph_buffers_make(&t->graphs.constants, b, g, TERN_VALUE_CONSTANT, err));
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++)
        if (t->graphs.all[i].used) TERN_TRY(prepare_graph(t, &t->graphs.all[i], err));
    TERN_TRY(tern_trainer__cut_backward(t, err));
    tern_trainer__free_host_copies(t);
    return TERN_OK;
}

void tern_trainer__free_graphs(tern_trainer *t)
{
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++) {
        tern_trainer_graph *g = &t->graphs.all[i];
        tern_bound_close(&g->bound);
        if (g->used) tern_graph_deinit(&g->graph);
        *g = (tern_trainer_graph){0};
    }
    tern_activations_free(&t->graphs.activations, t->backend);
    tern_activations_free(&t->graphs.gradients, t->backend);
    tern_graph_buffers_free(&t->graphs.constants, t->backend);
}

tern_status tern_trainer__run_graph(tern_trainer *t, tern_trainer_graph_kind kind, const tern_train_params *training,
                                    tern_error *err)
{
    const tern_trainer_graph *g = &t->graphs.all[kind];
    const uint32_t counts[3] = {g->graph.max_tokens, g->graph.max_outputs, 0};
    void *at = tern_bound_param(&g->bound, TERN_PARAM_TRAINING);
    memcpy(tern_bound_param(&g->bound, TERN_PARAM_COUNTS), counts, sizeof counts);
    if (at) memcpy(at, training, sizeof *training);
    return g->bound.n_parts ? tern_trainer__run_backward_parts(t, &g->bound, err) : tern_bound_start(&g->bound, 1, err);
}

tern_status tern_trainer__wait(tern_trainer *t, tern_error *err)
{
    tern_status status = t->backend->wait(t->backend, err);
    return status == TERN_PENDING ? TERN_OK : status;
}

tern_status tern_trainer__requantize(tern_trainer *t, tern_error *err)
{
    const tern_train_params training = {.next_blend = tern_trainer__blend(t, t->n_steps)};
    if (!t->graphs.all[TERN_TRAINER_REQUANTIZE].used) return TERN_OK;
    TERN_TRY(tern_trainer__run_graph(t, TERN_TRAINER_REQUANTIZE, &training, err));
    return tern_trainer__wait(t, err);
}

tern_status tern_trainer__change_phase(tern_trainer *t, tern_error *err)
{
    bool blended = t->n_steps < t->params.blend_steps;
    if (blended == t->blended) return TERN_OK;
    TERN_TRY(tern_trainer__wait(t, err));
    tern_trainer__free_graphs(t);
    t->blended = blended;
    for (size_t i = 0; i < t->tensors.n_weights; i++)
        if (t->tensors.weights[i].info.ternary) tern_trainer__free_weight(t, &t->tensors.weights[i]);
    TERN_TRY(tern_trainer__shape_weights(t, err));
    TERN_TRY(tern_trainer__build_graphs(t, err));
    for (size_t i = 0; i < t->tensors.n_weights; i++)
        if (t->tensors.weights[i].info.ternary) TERN_TRY(tern_trainer__allocate_weight(t, &t->tensors.weights[i], err));
    return tern_trainer__prepare_graphs(t, err);
}
