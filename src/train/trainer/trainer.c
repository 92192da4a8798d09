/* Opening and closing a trainer, and looking at what it holds. */
#include "base/alloc.h"
#include "train/trainer/internal.h"

void tern_trainer__deinit(tern_trainer *t)
{
    tern_backend *b = t->backend;
    tern_trainer__leave_call(t, TERN_OK);
    tern_trainer__free_graphs(t);
    for (size_t i = 0; i < t->n_made; i++) {
        tern_trainer__free_weight(t, &t->made[i]);
        for (int state = 0; state < TERN_STATE_COUNT; state++) b->buffer_free(b, t->made[i].states[state]);
        b->buffer_free(b, t->made[i].pass);
    }
    for (size_t i = 0; i < t->n_fixed; i++)
        if (!t->fixed[i].borrowed) b->buffer_free(b, t->fixed[i].buffer);
    for (int i = 0; i < 2; i++) {
        tern_free(t->loras[i]);
        tern_free(t->weights[i]);
        tern_free(t->updates[i]);
    }
    tern_free(t->made);
    tern_free(t->learning);
    tern_free(t->fixed);
    tern_free(t->losses);
    tern_free(t->norms);
    tern_collective_close(t->collective);
    tern_free(t->exchanged);
    tern_free(t->order);
    tern_free_aligned(t->gathered);
    tern_free(t->routes);
    tern_free(t->expert_rows);
}

static tern_status open_parts(tern_trainer *t, tern_error *err)
{
    TERN_TRY(tern_trainer__check_memory(t, err));
    TERN_TRY(tern_trainer__check_graphs(t, err));
    t->losses = tern_calloc(t->plan.n_tokens, sizeof *t->losses);
    t->norms = tern_calloc(t->n_learning + 1, sizeof *t->norms);
    if (!t->losses || !t->norms) return tern_fail_alloc(err, (t->plan.n_tokens + t->n_learning) * sizeof(float));
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
    for (size_t i = 0; i < t->n_made; i++)
        for (int state = 0; state < TERN_STATE_COUNT; state++) {
            if (state == TERN_STATE_MASTER) continue;
            t->backend->buffer_free(t->backend, t->made[i].states[state]);
            t->made[i].states[state] = NULL;
        }
    for (size_t i = 0; i < t->n_made; i++) {
        t->backend->buffer_free(t->backend, t->made[i].pass);
        t->made[i].pass = NULL;
    }
    for (size_t i = 0; i < t->n_made; i++)
        if (t->made[i].shown.ternary) tern_trainer__free_weight(t, &t->made[i]);
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
    return trainer->n_learning;
}

const tern_trainer_tensor *tern_trainer_tensor_at(const tern_trainer *trainer, size_t i)
{
    return &trainer->learning[i]->shown;
}
