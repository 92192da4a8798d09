/* The tensors of a trainer: which ones learn, what the graphs see of them, and their memory. */
#ifndef TERN_TRAIN_TRAINER_TENSORS_H
#define TERN_TRAIN_TRAINER_TENSORS_H

#include "graph/training.h"
#include "quant/weight.h"
#include "train/trainer/trainer.h"

/* A tensor that stands in for one of the model, or half an adapter. */
typedef struct tern_trainer_weight {
    tern_trainer_tensor info;
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
    tern_buffer *states[TERN_STATE_COUNT]; /* GRADIENT: of the step so far, all its passes. With several ranks, only the
                                              owner has others than MASTER */
    uint32_t owner;                        /* the rank that updates it */
    tern_buffer *pass;                     /* with ranks: the gradient of this one's last pass, whole */
} tern_trainer_weight;

/* A weight of the model as it is. */
typedef struct tern_trainer_frozen {
    const tern_weight *weight;
    tern_buffer *buffer;
    bool borrowed; /* of an engine */
} tern_trainer_frozen;

typedef struct tern_trainer_tensors {
    tern_trainer_weight *weights; /* [n_weights] */
    size_t n_weights;
    tern_trainer_weight **trainable; /* [n_trainable] of them, in the order of files */
    size_t n_trainable;
    tern_trainer_frozen *frozen; /* [n_frozen] */
    size_t n_frozen;
    uint32_t lora_rank; /* of the adapter; its halves have as many more, zeros, as devices want */
    float lora_scale;
    /* The memory of the graphs that train, and of the one that evaluates. */
    tern_graph_lora *graph_loras[2];
    tern_graph_weight *graph_weights[2]; /* [n_layers][TERN_ROLE_COUNT] each */
    tern_graph_update *updates[2];       /* [n_trainable]; the second keeps masters as they are */
} tern_trainer_tensors;

static inline uint64_t tern_trainer__state_bytes(const tern_trainer_weight *m, tern_state state)
{
    tern_dtype dtype = m->info.dtype[state];
    return dtype == TERN_DTYPE_U32 ? 0 : tern_row_bytes(dtype, m->info.cols, m->info.rows);
}

/* ---- which there are (tensors.c) */

tern_status tern_trainer__choose_tensors(tern_trainer *t, tern_error *err);
void tern_trainer__free_tensors(tern_trainer *t);

/* ---- their memory and what it holds (states.c) */

/* Sets the `weight` of each for the present phase (t->blended). */
tern_status tern_trainer__shape_weights(tern_trainer *t, tern_error *err);
/* Memory and first values: of everything; of what the phase of gradual quantisation changes. */
tern_status tern_trainer__allocate_tensors(tern_trainer *t, tern_error *err);
tern_status tern_trainer__allocate_weight(tern_trainer *t, tern_trainer_weight *m, tern_error *err);
/* Once all graphs are prepared: frees the host's copies of weights that the backend has copied. */
void tern_trainer__free_host_copies(tern_trainer *t);
void tern_trainer__free_weight(tern_trainer *t, tern_trainer_weight *m);
/* Frees the states of all tensors, but the MASTERs only with `masters`. */
void tern_trainer__free_states(tern_trainer *t, bool masters);

#endif
