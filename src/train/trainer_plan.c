/* What a run takes, before anything is allocated, and what to say when that is too much. */
#include <stdio.h>
#include <string.h>

#include "train/trainer_internal.h"

static void add_made(const tern_trainer_made *m, tern_trainer_plan *plan)
{
    const tern_weight *w = &m->weight;
    uint64_t weight = w->bytes + (w->encoding->ternary ? w->rows * sizeof(float) : 0);
    if (m->shown.ternary) plan->masters += tern_trainer__state_bytes(m, TERN_STATE_MASTER);
    *(m->shown.ternary || !m->learns ? &plan->weights : &plan->masters) += weight;
    plan->gradients += tern_trainer__state_bytes(m, TERN_STATE_GRADIENT);
    plan->moments += tern_trainer__state_bytes(m, TERN_STATE_M) + tern_trainer__state_bytes(m, TERN_STATE_V);
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
    const tern_graph *g = &t->graphs[TERN_TRAINER_STEP].graph;
    p->n_parameters = tern_model_parameters(t->model);
    for (size_t i = 0; i < t->n_fixed && !t->params.engine; i++) p->weights += t->fixed[i].weight->bytes;
    for (size_t i = 0; i < t->n_made; i++) add_made(&t->made[i], p);
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++)
        if (t->graphs[i].used) add_graph(&t->graphs[i], p);
    p->other += tern_graph_bytes_of(g, TERN_VALUE_CONSTANT);
    p->activations = tern_trainer__activation_bytes(t);
    p->total = p->weights + p->masters + p->gradients + p->moments + p->activations + p->other;
    p->limit = t->params.memory_limit ? t->params.memory_limit : t->backend->info.memory;
}

static tern_status check_engine(const tern_trainer *t, tern_error *err)
{
    const tern_engine *e = t->params.engine;
    if (!e || (tern_engine_backend(e) == t->backend && tern_engine_model(e) == t->model)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "an engine of another model or backend: the trainer's expected");
}

tern_status tern_trainer__begin(tern_trainer *t, tern_backend *backend, const tern_model *model,
                                const tern_trainer_params *params, tern_error *err)
{
    *t = (tern_trainer){.backend = backend, .model = model, .config = tern_model_config(model), .params = *params};
    TERN_TRY(tern_trainer__check(params, t->config, err));
    TERN_TRY(check_engine(t, err));
    t->blended = params->blend_steps > 0;
    tern_trainer__count_rows(&t->plan, t->config, params);
    TERN_TRY(tern_trainer__choose(t, err));
    TERN_TRY(tern_trainer__build(t, err));
    measure(t);
    return TERN_OK;
}

tern_status tern_trainer_make_plan(tern_trainer_plan *plan, tern_backend *backend, const tern_model *model,
                                   const tern_trainer_params *params, tern_error *err)
{
    tern_trainer t;
    tern_status status = tern_trainer__begin(&t, backend, model, params, err);
    *plan = status == TERN_OK ? t.plan : (tern_trainer_plan){0};
    tern_trainer__deinit(&t);
    return status;
}

/* What takes less, in the order in which it costs: time, then accuracy, then what is learned. */
static const char *const savings[] = {"--checkpoint", "--batch 1 --accumulate %u", "--states 8bit", "--master bf16",
                                      "--lora 16"};

static void save(tern_trainer_params *p, size_t how)
{
    switch (how) {
    case 0: p->checkpoint = true; break;
    case 1:
        p->accumulate *= p->batch;
        p->batch = 1;
        break;
    case 2:
        p->m = TERN_DTYPE_M8;
        p->v = TERN_DTYPE_V8;
        break;
    case 3: p->master = TERN_DTYPE_BF16; break;
    default: /* without what LoRA does not go with */
        p->lora = (tern_trainer_lora){.rank = 16, .alpha = 16};
        p->blend_steps = 0;
        break;
    }
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* The first few options that together are enough: "--checkpoint --batch 1 takes 3.20 GiB". */
static void suggest(const tern_trainer *t, char *out, size_t out_bytes)
{
    tern_trainer_params p = t->params;
    tern_trainer_plan plan = t->plan;
    size_t n = sizeof savings / sizeof *savings, length = 0;
    uint64_t before = plan.total;
    for (size_t i = 0; i < n && plan.total > plan.limit; i++) {
        tern_trainer_params with = p;
        if (i == 4 && (p.lora.rank || p.lora.start)) break;
        save(&with, i);
        if (tern_trainer_make_plan(&plan, t->backend, t->model, &with, NULL) != TERN_OK) break;
        if (plan.total >= before) continue; /* it was so already */
        before = plan.total;
        p = with;
        out[length++] = ' ';
        length += (size_t)snprintf(out + length, out_bytes - length, savings[i], with.accumulate);
    }
    snprintf(out + length, out_bytes - length, length ? "%s takes %.2f GiB" : "%s nothing takes less (%.2f GiB)",
             length && before > plan.limit ? " even" : "", gib(before));
}

tern_status tern_trainer__check_plan(const tern_trainer *t, tern_error *err)
{
    const tern_trainer_plan *p = &t->plan;
    char help[160];
    if (p->limit == 0 || p->total <= p->limit) return TERN_OK;
    suggest(t, help, sizeof help);
    return tern_fail(err, TERN_OUT_OF_MEMORY,
                     "training takes %.2f GiB (weights %.2f, masters %.2f, gradients %.2f, moments %.2f, activations "
                     "%.2f, other %.2f), at most %.2f GiB expected;%s",
                     gib(p->total), gib(p->weights), gib(p->masters), gib(p->gradients), gib(p->moments),
                     gib(p->activations), gib(p->other), gib(p->limit), help);
}
