/* Opening and closing a trainer, and looking at what it holds. */
#include "base/alloc.h"
#include "train/trainer/internal.h"

void tern_trainer__deinit(tern_trainer *t)
{
    tern_trainer__leave_call(t, TERN_OK);
    tern_trainer__free_graphs(t);
    tern_trainer__free_tensors(t);
    tern_trainer__close_exchange(t);
    tern_free(t->experts.routes);
    tern_free(t->experts.rows);
    tern_free(t->losses);
    tern_free(t->norms);
}

static tern_status open_parts(tern_trainer *t, tern_error *err)
{
    TERN_TRY(tern_trainer__check_memory(t, err));
    TERN_TRY(tern_trainer__check_graphs(t, err));
    t->losses = tern_calloc(t->plan.n_tokens, sizeof *t->losses);
    t->norms = tern_calloc(t->tensors.n_trainable + 1, sizeof *t->norms);
    if (!t->losses || !t->norms)
        return tern_fail_alloc(err, (t->plan.n_tokens + t->tensors.n_trainable) * sizeof(float));
    TERN_TRY(tern_trainer__open_exchange(t, err));
    TERN_TRY(tern_trainer__open_expert_counts(t, err));
    TERN_TRY(tern_trainer__allocate_tensors(t, err));
    TERN_TRY(tern_trainer__prepare_graphs(t, err));
    return tern_trainer__requantize(t, err);
}

tern_status tern_trainer_open(tern_trainer **trainer, tern_backend *backend, const tern_model *model,
                              const tern_trainer_params *params, tern_error *err)
{
    *trainer = NULL;
    tern_trainer *t = tern_calloc(1, sizeof *t);
    if (!t) return tern_fail_alloc(err, sizeof *t);
    tern_status status = tern_trainer__init(t, backend, model, params, err);
    if (status == TERN_OK) status = open_parts(t, err);
    if (status == TERN_OK) *trainer = t;
    else tern_trainer_close(t);
    return status;
}

tern_status tern_trainer_finish(tern_trainer *trainer, tern_error *err)
{
    tern_trainer *t = trainer;
    tern_trainer__leave_call(t, TERN_OK);
    TERN_TRY(tern_trainer__wait(t, err));
    t->finished = true;
    tern_trainer__free_graphs(t);
    tern_trainer__free_states(t, false);
    for (size_t i = 0; i < t->tensors.n_weights; i++)
        if (t->tensors.weights[i].info.ternary) tern_trainer__free_weight(t, &t->tensors.weights[i]);
    return TERN_OK;
}

void tern_trainer_close(tern_trainer *trainer)
{
    if (!trainer) return;
    tern_trainer__deinit(trainer);
    tern_free(trainer);
}

const tern_trainer_params *tern_trainer_params_of(const tern_trainer *trainer)
{
    return &trainer->params;
}

const tern_trainer_plan *tern_trainer_plan_of(const tern_trainer *trainer)
{
    return &trainer->plan;
}

uint64_t tern_trainer_steps(const tern_trainer *trainer)
{
    return trainer->n_steps;
}

size_t tern_trainer_n_tensors(const tern_trainer *trainer)
{
    return trainer->tensors.n_trainable;
}

const tern_trainer_tensor *tern_trainer_tensor_at(const tern_trainer *trainer, size_t i)
{
    return &trainer->tensors.trainable[i]->info;
}
