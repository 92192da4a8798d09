/* What a run takes, before anything is allocated, and what to say when that is too much. */
#include <stdio.h>
#include <string.h>

#include "train/trainer/internal.h"

static void add_weight(const tern_trainer *t, const tern_trainer_weight *m, tern_trainer_plan *plan)
{
    const tern_weight *w = &m->weight;
    uint64_t weight = w->bytes + (w->encoding->ternary ? w->rows * sizeof(float) : 0);
    if (m->shown.ternary) plan->masters += tern_trainer__state_bytes(m, TERN_STATE_MASTER);
    *(m->shown.ternary || !m->learns ? &plan->weights : &plan->masters) += weight;
    if (t->params.ranks) plan->gradients += tern_trainer__state_bytes(m, TERN_STATE_GRADIENT); /* of a pass */
    if (tern_trainer__owns(t, m)) {
        plan->gradients += tern_trainer__state_bytes(m, TERN_STATE_GRADIENT);
        plan->moments += tern_trainer__state_bytes(m, TERN_STATE_M) + tern_trainer__state_bytes(m, TERN_STATE_V);
    }
    if (m->learns) plan->n_trained += (uint64_t)m->shown.rows * m->shown.cols;
    if (!m->source) plan->n_parameters += (uint64_t)m->shown.rows * m->shown.cols;
}

static void add_graph(const tern_trainer_graph *g, tern_trainer_plan *plan)
{
    plan->other += g->graph.param_bytes + tern_graph_bytes_of(&g->graph, TERN_VALUE_OUTPUT);
}

static void measure(tern_trainer *t)
{
    tern_trainer_plan *p = &t->plan;
    const tern_graph *g = &t->graphs[TERN_TRAINER_EVALUATE].graph;
    p->n_parameters = tern_model_parameters(t->model);
    for (size_t i = 0; i < t->n_fixed && !t->params.engine; i++) p->weights += t->fixed[i].weight->bytes;
    for (size_t i = 0; i < t->n_made; i++) add_weight(t, &t->made[i], p);
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++)
        if (t->graphs[i].used) add_graph(&t->graphs[i], p);
    p->other += tern_graph_bytes_of(g, TERN_VALUE_CONSTANT);
    p->activations = tern_trainer__activation_bytes(t);
    p->gradients += tern_trainer__gradient_bytes(t);
    p->total = p->weights + p->masters + p->gradients + p->moments + p->activations + p->other;
    p->limit = t->params.memory_limit ? t->params.memory_limit : t->backend->info.memory;
}

static tern_status check_engine(const tern_trainer *t, tern_error *err)
{
    const tern_engine *e = t->params.engine;
    if (!e || (tern_engine_backend(e) == t->backend && tern_engine_model(e) == t->model)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "an engine of another model or backend: the trainer's expected");
}

tern_status tern_trainer__init(tern_trainer *t, tern_backend *backend, const tern_model *model,
                               const tern_trainer_params *params, tern_error *err)
{
    *t = (tern_trainer){.backend = backend, .model = model, .config = tern_model_config(model), .params = *params};
    TERN_TRY(tern_trainer__check_params(params, t->config, err));
    TERN_TRY(check_engine(t, err));
    TERN_TRY(tern_trainer__check_ranks(t, err));
    t->blended = params->blend_steps > 0;
    tern_trainer__count_rows(&t->plan, t->config, params,
                             params->memory_limit ? params->memory_limit : backend->info.memory);
    TERN_TRY(tern_trainer__choose_tensors(t, err));
    tern_trainer__assign_owners(t);
    TERN_TRY(tern_trainer__build_graphs(t, err));
    measure(t);
    return TERN_OK;
}

tern_status tern_trainer_make_plan(tern_trainer_plan *plan, tern_backend *backend, const tern_model *model,
                                   const tern_trainer_params *params, tern_error *err)
{
    tern_trainer t;
    tern_status status = tern_trainer__init(&t, backend, model, params, err);
    *plan = status == TERN_OK ? t.plan : (tern_trainer_plan){0};
    tern_trainer__deinit(&t);
    return status;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

tern_status tern_trainer__check_memory(const tern_trainer *t, tern_error *err)
{
    const tern_trainer_plan *p = &t->plan;
    char help[256];
    if (p->limit == 0 || p->total <= p->limit) return TERN_OK;
    tern_trainer__suggest(t, help, sizeof help);
    return tern_fail(err, TERN_OUT_OF_MEMORY,
                     "training takes %.2f GiB (weights %.2f, masters %.2f, gradients %.2f, moments %.2f, activations "
                     "%.2f, other %.2f), at most %.2f GiB expected;%s",
                     gib(p->total), gib(p->weights), gib(p->masters), gib(p->gradients), gib(p->moments),
                     gib(p->activations), gib(p->other), gib(p->limit), help);
}
