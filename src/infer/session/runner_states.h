/* States that layers which recur keep of a runner's one sequence: a state is that after so many of its tokens, so that
 * a step can only begin where there is one. Several are kept, so that tokens can be taken back. */
#ifndef TERN_INFER_SESSION_RUNNER_STATES_H
#define TERN_INFER_SESSION_RUNNER_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_runner_state {
    uint32_t n_tokens; /* that it is the state after; 0: it is free */
    uint32_t age;      /* of the step that wrote it */
    bool checkpoint;   /* written at the end of a prompt's step */
} tern_runner_state;

/* Zeroed: the model has none. */
typedef struct tern_runner_states {
    tern_runner_state *items; /* [n], rows of RECURRENT values */
    uint32_t n;
    uint32_t clock;
} tern_runner_states;

/* Two that steps write in turns, and n_checkpoints at the ends of prompts. Errors: OUT_OF_MEMORY. */
tern_status tern_runner_states_init(tern_runner_states *states, uint32_t n_checkpoints, tern_error *err);
void tern_runner_states_deinit(tern_runner_states *states);
/* The most tokens, at most n, after which there is a state. */
uint32_t tern_runner_states_last(const tern_runner_states *states, uint32_t n);
/* The state after n tokens, at least 1; states->n: there is none. */
uint32_t tern_runner_states_find(const tern_runner_states *states, uint32_t n);
/* A step of n tokens from `first` on, where there is a state: which it goes on from, and which it leaves. The states of
 * more than `first` tokens are lost. in_place: it is the same one, which is then of other tokens. */
void tern_runner_states_step(tern_runner_states *states, uint32_t first, uint32_t n, bool in_place, uint32_t *from,
                             uint32_t *to);

#endif
