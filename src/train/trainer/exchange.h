/* The exchanges between the ranks of a run: gradients while the backward runs, masters after an update, small numbers.
 * Every function does nothing, or what a single process needs, without ranks. */
#ifndef TERN_TRAIN_TRAINER_EXCHANGE_H
#define TERN_TRAIN_TRAINER_EXCHANGE_H

#include "graph/bound.h"
#include "train/collective.h"
#include "train/trainer/tensors.h"

enum { TERN_TRAINER_PARTS = 6 }; /* of a backward whose gradients are exchanged meanwhile, at most */

typedef struct tern_trainer_exchange {
    tern_collective *collective;
    tern_collective_tensor *tensors;               /* [n_trainable] of the exchange under way */
    uint32_t *order;                               /* [n_trainable] as the backward completes their gradients */
    size_t n_parts, part_ends[TERN_TRAINER_PARTS]; /* so many of them are complete after each part */
    uint32_t n_active;                             /* ranks that have a pass of this round */
    uint8_t *gathered;                             /* losses, norms or counts of all ranks */
    bool sums_are_zero;                            /* the sums of gradients */
} tern_trainer_exchange;

/* Whether this rank updates the tensor. */
bool tern_trainer__owns(const tern_trainer *t, const tern_trainer_weight *m);
/* Gives each tensor that learns an owner: the rank that has the least so far. */
void tern_trainer__assign_owners(tern_trainer *t);
tern_status tern_trainer__check_ranks(const tern_trainer *t, tern_error *err);
tern_status tern_trainer__open_exchange(tern_trainer *t, tern_error *err);
void tern_trainer__close_exchange(tern_trainer *t);

/* Cuts the graph of a pass into parts, the same on all ranks. Errors: INVALID_ARGUMENT. */
tern_status tern_trainer__cut_backward(tern_trainer *t, tern_error *err);
/* The gradients of the pass that is run next begin at zero. */
tern_status tern_trainer__clear_pass_gradients(tern_trainer *t, tern_error *err);
/* Runs this rank's pass part by part, NULL: it has none; what is whole of the passes of ranks 0 .. n_active - 1, which
 * follow each other, is on its way to the owners' sums meanwhile, and is there after the second call. */
tern_status tern_trainer__run_backward_parts(tern_trainer *t, const tern_bound_graph *pass, tern_error *err);
tern_status tern_trainer__finish_exchange(tern_trainer *t, tern_error *err);

/* The losses of those passes, to the call's sum. */
tern_status tern_trainer__gather_losses(tern_trainer *t, uint32_t n_active, tern_error *err);
/* t->norms of all owners, and whether any has met gradients that are not numbers. */
tern_status tern_trainer__gather_norms(tern_trainer *t, tern_error *err);
/* How many rows each expert had, on all ranks. */
tern_status tern_trainer__gather_expert_counts(tern_trainer *t, tern_error *err);
/* Sends the weights that the owners have updated to all. */
tern_status tern_trainer__broadcast_masters(tern_trainer *t, tern_error *err);
/* A state other than MASTER from its owner to rank 0; bytes counts there alone. */
tern_status tern_trainer__read_from_owner(tern_trainer *t, const tern_trainer_weight *m, tern_state state,
                                          uint8_t *bytes, tern_error *err);

#endif
