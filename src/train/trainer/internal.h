/* The inside of a trainer. Each of its parts has a struct and a header: tensors.h, graphs.h, exchange.h; what a step
 * and a plan need is here. */
#ifndef TERN_TRAIN_TRAINER_INTERNAL_H
#define TERN_TRAIN_TRAINER_INTERNAL_H

#include "train/trainer/exchange.h"
#include "train/trainer/graphs.h"
#include "train/trainer/tensors.h"

typedef enum tern_trainer_call {
    TERN_TRAINER_CALL_NONE,
    TERN_TRAINER_CALL_STEP,
    TERN_TRAINER_CALL_BACKWARD,
    TERN_TRAINER_CALL_EVALUATE,
    TERN_TRAINER_CALL_READ,
    TERN_TRAINER_CALL_ADAPTER
} tern_trainer_call;

/* How far a call that gave PENDING has come. */
typedef struct tern_trainer_pending {
    tern_trainer_call call;
    uint64_t key;          /* what else tells two calls apart */
    bool running;          /* a graph was run, and what it made is to be read */
    bool accumulated;      /* some of the batch's gradients are there */
    size_t n_runs;         /* done */
    uint32_t n_reads;      /* done, of the next run: its losses, then the routes of each layer */
    double sum;            /* of their losses */
    uint32_t n_passes;     /* optimizer_in_backward: done, of the one or two over the batch */
    double loss, norm;     /* the same: of the first of two */
    bool infinite;         /* the gradients of a pass so far were no numbers */
    bool updating;         /* the same: weights change */
    tern_adapter *adapter; /* with the first n_halves halves */
    size_t n_halves;
    float *half; /* where one is read to */
} tern_trainer_pending;

/* How a model's routers share tokens out; empty without experts. */
typedef struct tern_trainer_experts {
    struct tern_route *routes; /* [n_tokens][n_experts_used] of one layer */
    uint64_t *rows;            /* [n_layers][n_experts] of the last step */
} tern_trainer_experts;

struct tern_trainer {
    tern_backend *backend;
    const tern_model *model;
    const tern_config *config;
    tern_trainer_params params;
    tern_trainer_plan plan;
    uint64_t n_steps;
    bool blended;  /* ternary layers are dense for now */
    bool diverged; /* updated by a step that was not finite */
    bool finished;

    tern_trainer_tensors tensors;
    tern_trainer_graphs graphs;
    tern_trainer_exchange exchange;
    tern_trainer_experts experts;
    float *losses; /* [n_tokens] */
    float *norms;  /* [n_trainable + 1] */
    tern_trainer_pending pending;
};

/* Several passes make a step: the gradients of each are brief and begin at zero, and are added up in the order of the
 * passes. */
static inline bool tern_trainer__sums(const tern_trainer *t)
{
    return t->params.accumulate > 1 && !t->params.ranks;
}

/* ---- parameters (params.c) */

tern_status tern_trainer__check_params(const tern_trainer_params *params, const tern_config *config, tern_error *err);
/* How much of the quantisers is in effect at a step. */
float tern_trainer__blend(const tern_trainer *t, uint64_t step);

/* ---- plan (plan.c) */

/* All but memory: what tern_trainer_make_plan needs, and opening begins with. */
tern_status tern_trainer__init(tern_trainer *t, tern_backend *backend, const tern_model *model,
                               const tern_trainer_params *params, tern_error *err);
void tern_trainer__deinit(tern_trainer *t);
/* Rows of a run and of a chunk of logits, on a device of so much memory (0: not known). */
void tern_trainer__count_rows(tern_trainer_plan *plan, const tern_config *config, const tern_trainer_params *params,
                              uint64_t memory);
/* OUT_OF_MEMORY, with options that would help, where the plan is over its limit. */
tern_status tern_trainer__check_memory(const tern_trainer *t, tern_error *err);

/* ---- experts (experts.c): nothing where there are none */

/* The routes of all layers become outputs of the graph. */
void tern_trainer__keep_routes(tern_graph *graph);
tern_status tern_trainer__open_expert_counts(tern_trainer *t, tern_error *err);
void tern_trainer__clear_expert_counts(tern_trainer *t);
/* Adds the routes of a run, whose losses have been read, to those of the step, layer by layer. PENDING: again. */
tern_status tern_trainer__count_experts(tern_trainer *t, const tern_trainer_graph *g, const tern_train_row *rows,
                                        size_t n_rows, tern_error *err);

/* ---- calls that may give PENDING (step.c) */

/* Begins a call, or goes on with it; another one that gave PENDING is given up. */
tern_status tern_trainer__enter_call(tern_trainer *t, tern_trainer_call call, uint64_t key, tern_error *err);
/* Ends it, unless it is PENDING. Returns status. */
tern_status tern_trainer__leave_call(tern_trainer *t, tern_status status);
/* A read that belongs to the call. */
tern_status tern_trainer__read_buffer(tern_trainer *t, const tern_buffer *buffer, void *data, uint64_t bytes,
                                      tern_error *err);

#endif
