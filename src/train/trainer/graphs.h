/* The graphs of a trainer and the memory that they share. */
#ifndef TERN_TRAIN_TRAINER_GRAPHS_H
#define TERN_TRAIN_TRAINER_GRAPHS_H

#include "graph/bound.h"
#include "graph/training.h"
#include "train/trainer/trainer.h"

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

typedef struct tern_trainer_graphs {
    tern_trainer_graph all[TERN_TRAINER_N_GRAPHS];
    tern_activations activations; /* in buffers of activation_block bytes */
    tern_activations gradients;   /* the same, of brief ones: zeros between runs */
    tern_graph_buffers constants;
} tern_trainer_graphs;

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
/* Waits, where the backend can be waited for; elsewhere what follows comes after it all the same. */
tern_status tern_trainer__wait(tern_trainer *t, tern_error *err);
/* New ternary codes of all masters. */
tern_status tern_trainer__requantize(tern_trainer *t, tern_error *err);
/* From dense layers to ternary ones, or back, as the number of steps asks. */
tern_status tern_trainer__change_phase(tern_trainer *t, tern_error *err);

#endif
