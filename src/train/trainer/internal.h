/* The inside of a trainer: the tensors that it makes, its graphs, and the steps of opening. */
#ifndef TERN_TRAIN_TRAINER_INTERNAL_H
#define TERN_TRAIN_TRAINER_INTERNAL_H

#include "graph/bound.h"
#include "graph/training.h"
#include "train/collective.h"
#include "train/trainer/trainer.h"

/* A tensor that stands in for one of the model, or half an adapter. */
typedef struct tern_trainer_weight {
    tern_trainer_tensor shown;
    char name[TERN_ROLE_NAME_BYTES + 40];
    tern_weight weight;        /* what the graphs see */
    const tern_weight *source; /* the model's; NULL: half an adapter */
    bool learns;               /* false: of an adapter that is frozen */
    bool is_b;                 /* the second half */
    uint32_t n_experts;        /* of a half: each has as many rows; 1: none */
    const float *start;        /* of a half: the adapter to go on from, or NULL */
    void *data;                /* of the weight, where the backend reads it in place */
    float *row_scales;
    tern_buffer *buffer;
    tern_buffer *states[TERN_STATE_COUNT]; /* GRADIENT: of the step so far, all its passes. Of several ranks the owner
                                            * alone has others than MASTER */
    uint32_t owner;                        /* the rank that updates it */
    tern_buffer *pass;                     /* with ranks: the gradient of this one's last pass, whole */
} tern_trainer_weight;

/* A weight of the model as it is. */
typedef struct tern_trainer_frozen {
    const tern_weight *weight;
    tern_buffer *buffer;
    bool borrowed; /* of an engine */
} tern_trainer_frozen;

typedef enum tern_trainer_graph_kind {
    TERN_TRAINER_STEP,     /* losses and gradients; with optimizer_in_backward losses and norms, where it clips */
    TERN_TRAINER_EVALUATE, /* losses */
    TERN_TRAINER_NORMS,
    TERN_TRAINER_UPDATE,       /* with new ternary codes; with optimizer_in_backward in one graph with the backward */
    TERN_TRAINER_UPDATE_ALONE, /* without: sync_every > 1 */
    TERN_TRAINER_REQUANTIZE,   /* new ternary codes alone */
    TERN_TRAINER_CLEAR,        /* with ranks: gradients of a pass become zeros */
    TERN_TRAINER_SYNC,         /* with ranks: the same after an UPDATE_ALONE, with what UPDATE does besides */
    TERN_TRAINER_N_GRAPHS
} tern_trainer_graph_kind;

typedef struct tern_trainer_graph {
    bool used;
    tern_graph graph;
    tern_bound_graph bound;
} tern_trainer_graph;

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

enum { TERN_TRAINER_PARTS = 6 }; /* of a backward whose gradients are exchanged meanwhile, at most */

struct tern_trainer {
    tern_backend *backend;
    const tern_model *model;
    const tern_config *config;
    tern_trainer_params params;
    tern_trainer_plan plan;
    uint64_t n_steps;
    bool blended; /* ternary layers are dense for now */
    bool torn;    /* updated by a step that was not finite */
    bool finished;

    tern_trainer_weight *made;
    size_t n_made;
    tern_trainer_weight **learning; /* [n_learning], in the order of files */
    size_t n_learning;
    tern_trainer_frozen *fixed;
    size_t n_fixed;
    uint32_t lora_rank; /* of the adapter; its halves have as many more, zeros, as devices want */
    float lora_scale;
    tern_graph_lora *loras[2];     /* of the graphs that train, and of the one that evaluates */
    tern_graph_weight *weights[2]; /* [n_layers][TERN_ROLE_COUNT] each */
    tern_graph_update *updates[2]; /* [n_learning]; the second keeps masters as they are */

    tern_trainer_graph graphs[TERN_TRAINER_N_GRAPHS];
    tern_activations activations; /* in buffers of activation_block bytes */
    tern_activations gradients;   /* the same, of brief ones: zeros between runs */
    tern_graph_buffers constants;
    float *losses;                                 /* [n_tokens] */
    float *norms;                                  /* [n_learning + 1] */
    tern_collective *collective;                   /* with ranks, as is what follows */
    tern_collective_tensor *exchanged;             /* [n_learning] what is exchanged just now */
    uint32_t *order;                               /* [n_learning] as the backward makes their gradients whole */
    size_t n_parts, part_ends[TERN_TRAINER_PARTS]; /* so many of them are whole after each part */
    uint32_t n_active;                             /* ranks that have a pass of this round */
    uint8_t *gathered;                             /* small things of all ranks */
    bool no_sums;                                  /* the sums of gradients are zeros */
    struct tern_route *routes; /* [n_tokens][n_experts_used] of one layer; of models with experts, as is what follows */
    uint64_t *expert_rows;     /* [n_layers][n_experts] of the last step */
    tern_trainer_pending work;
};

/* Several passes make a step: the gradients of each are brief and begin at zero, and are added up in the order of the
 * passes. */
static inline bool tern_trainer__sums(const tern_trainer *t)
{
    return t->params.accumulate > 1 && !t->params.ranks;
}

/* ---- parameters */

tern_status tern_trainer__check_params(const tern_trainer_params *params, const tern_config *config, tern_error *err);
/* How much of the quantisers is in effect at a step. */
float tern_trainer__blend(const tern_trainer *t, uint64_t step);

/* ---- tensors */

/* Which tensors there are, and what the graphs see of them. */
tern_status tern_trainer__choose_tensors(tern_trainer *t, tern_error *err);
/* Sets made[i].weight for the present phase (t->blended). */
tern_status tern_trainer__shape_weights(tern_trainer *t, tern_error *err);
/* Memory and first values: of everything; of what the phase of gradual quantisation changes. */
tern_status tern_trainer__allocate_tensors(tern_trainer *t, tern_error *err);
tern_status tern_trainer__allocate_weight(tern_trainer *t, tern_trainer_weight *m, tern_error *err);
/* Once all graphs are prepared: the host's copies of weights that the backend has copied. */
void tern_trainer__free_host_copies(tern_trainer *t);
void tern_trainer__free_weight(tern_trainer *t, tern_trainer_weight *m);
/* Rows [first, first + n) of what a tensor starts from. */
tern_status tern_trainer__initial_rows(const tern_trainer *t, const tern_trainer_weight *m, uint32_t first, uint32_t n,
                                       float *out, tern_error *err);
/* n floats as F32 or BF16 (to the nearest). */
void tern_trainer__store_floats(tern_dtype dtype, const float *x, size_t n, void *out);

static inline uint64_t tern_trainer__state_bytes(const tern_trainer_weight *m, tern_state state)
{
    tern_dtype dtype = m->shown.dtype[state];
    return dtype == TERN_DTYPE_U32 ? 0 : tern_row_bytes(dtype, m->shown.cols, m->shown.rows);
}

/* ---- graphs */

/* Rows of a run and of a chunk of logits, on a device of so much memory (0: not known). */
void tern_trainer__count_rows(tern_trainer_plan *plan, const tern_config *config, const tern_trainer_params *params,
                              uint64_t memory);
tern_status tern_trainer__build_graphs(tern_trainer *t, tern_error *err);
/* UNSUPPORTED where the backend lacks an op, said before gigabytes are filled. */
tern_status tern_trainer__check_graphs(const tern_trainer *t, tern_error *err);
/* Their memory, bound and prepared. */
tern_status tern_trainer__prepare_graphs(tern_trainer *t, tern_error *err);
void tern_trainer__free_graphs(tern_trainer *t);
/* Bytes of what the graphs share: activations, brief gradients. */
uint64_t tern_trainer__activation_bytes(const tern_trainer *t);
uint64_t tern_trainer__gradient_bytes(const tern_trainer *t);
/* The bytes of a buffer of activations; 0: all are in one. */
uint64_t tern_trainer__activation_block(const tern_trainer *t);
/* Writes the parameters and starts the graph. */
tern_status tern_trainer__run_graph(tern_trainer *t, tern_trainer_graph_kind kind, const tern_train_params *training,
                                    tern_error *err);
/* New ternary codes of all masters. */
tern_status tern_trainer__requantize(tern_trainer *t, tern_error *err);
/* One step more is done; its updates are under way. */
tern_status tern_trainer__finish_step(tern_trainer *t, tern_error *err);
/* From dense layers to ternary ones, or back, as the number of steps asks. */
tern_status tern_trainer__change_phase(tern_trainer *t, tern_error *err);

/* ---- ranks (ranks.c) */

uint32_t tern_trainer__n_ranks(const tern_trainer *t);
/* Whether this rank updates the tensor. */
bool tern_trainer__owns(const tern_trainer *t, const tern_trainer_weight *m);
/* Gives each tensor that learns an owner: the rank that has the least so far. */
void tern_trainer__assign_owners(tern_trainer *t);
tern_status tern_trainer__check_ranks(const tern_trainer *t, tern_error *err);
tern_status tern_trainer__open_exchange(tern_trainer *t, tern_error *err);
/* The gradients of the pass that is run next begin at zero; nothing without ranks. */
tern_status tern_trainer__clear_pass_gradients(tern_trainer *t, tern_error *err);
/* Cuts the graph of a pass into parts, the same on all ranks; nothing without ranks. Errors: INVALID_ARGUMENT. */
tern_status tern_trainer__cut_backward(tern_trainer *t, tern_error *err);
/* Runs this rank's pass part by part, NULL: it has none; what is whole of the passes of ranks 0 .. n_active - 1, which
 * follow each other, is on its way to the owners' sums meanwhile, and is there after the second call. */
tern_status tern_trainer__run_backward_parts(tern_trainer *t, const tern_bound_graph *pass, tern_error *err);
tern_status tern_trainer__finish_exchange(tern_trainer *t, tern_error *err);
/* The losses of those passes, to the call's sum. */
tern_status tern_trainer__gather_losses(tern_trainer *t, uint32_t n_active, tern_error *err);
/* t->norms of all owners, and whether any has met gradients that are no numbers; nothing without ranks. */
tern_status tern_trainer__gather_norms(tern_trainer *t, tern_error *err);
/* How many rows each expert had, on all ranks. */
tern_status tern_trainer__gather_expert_counts(tern_trainer *t, tern_error *err);
/* What the owners have updated, to all. */
tern_status tern_trainer__broadcast_masters(tern_trainer *t, tern_error *err);
/* A state other than MASTER from its owner to rank 0; bytes counts there alone. */
tern_status tern_trainer__read_from_owner(tern_trainer *t, const tern_trainer_weight *m, tern_state state,
                                          uint8_t *bytes, tern_error *err);

/* ---- experts: nothing where there are none */

/* The routes of all layers become outputs of the graph. */
void tern_trainer__keep_routes(tern_graph *graph);
tern_status tern_trainer__open_expert_counts(tern_trainer *t, tern_error *err);
void tern_trainer__clear_expert_counts(tern_trainer *t);
/* Adds the routes of a run, whose losses have been read, to those of the step, layer by layer. PENDING: again. */
tern_status tern_trainer__count_experts(tern_trainer *t, const tern_trainer_graph *g, const tern_train_row *rows,
                                        size_t n_rows, tern_error *err);

/* Waits, where the backend can be waited for; elsewhere what follows comes after it all the same. */
tern_status tern_trainer__wait(tern_trainer *t, tern_error *err);

/* ---- calls that may give PENDING */

/* Begins a call, or goes on with it; another one that gave PENDING is given up. */
tern_status tern_trainer__enter_call(tern_trainer *t, tern_trainer_call call, uint64_t key, tern_error *err);
/* Ends it, unless it is PENDING. Returns status. */
tern_status tern_trainer__leave_call(tern_trainer *t, tern_status status);
/* A read that belongs to the call. */
tern_status tern_trainer__read_buffer(tern_trainer *t, const tern_buffer *buffer, void *data, uint64_t bytes,
                                      tern_error *err);

/* ---- plan */

/* All but memory: what tern_trainer_make_plan needs, and opening begins with. */
tern_status tern_trainer__init(tern_trainer *t, tern_backend *backend, const tern_model *model,
                               const tern_trainer_params *params, tern_error *err);
void tern_trainer__deinit(tern_trainer *t);
/* Options with which a trainer over its limit fits, as words behind what was given (" --checkpoint --states 8bit takes
 * 3.20 GiB, --lora 16 1.10 GiB"), found by planning with them: the cheapest that tune all weights, and the cheapest
 * with an adapter. Where none is enough, those that take the least ("even"). */
void tern_trainer__suggest(const tern_trainer *t, char *out, size_t out_bytes);
/* OUT_OF_MEMORY, with what would help, where the plan is over its limit. */
tern_status tern_trainer__check_memory(const tern_trainer *t, tern_error *err);

#endif
