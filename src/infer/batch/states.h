/* States of a batch's sequences, of models with layers that recur: which row of RECURRENT values has which.
 *
 * A row is held by sequences that may go on from it, and by the page of the tree whose last tokens it is the state
 * after. A row that only a page holds is given up when another state needs it, the one that was kept longest ago first.
 */
#ifndef TERN_INFER_BATCH_STATES_H
#define TERN_INFER_BATCH_STATES_H

#include <stdint.h>

#include "base/error.h"

#define TERN_NO_ROW UINT32_MAX

/* Zeroed: the model keeps none. */
typedef struct tern_states {
    struct tern_state_row *rows; /* [n] */
    uint32_t n;
    uint64_t clock;
} tern_states;

typedef struct tern_state_row {
    uint32_t n_holders; /* sequences */
    uint32_t *page_row; /* where the page that holds it says so; NULL: none does */
    uint64_t age;       /* when a page took it */
} tern_state_row;

tern_status tern_states_init(tern_states *states, uint32_t n, tern_error *err);
void tern_states_deinit(tern_states *states);
/* A row with one holder; TERN_NO_ROW: sequences hold all. */
uint32_t tern_states_take(tern_states *states);
/* How many could be taken now. */
uint32_t tern_states_available(const tern_states *states);
void tern_states_hold(tern_states *states, uint32_t row);
void tern_states_release(tern_states *states, uint32_t row);
/* A page, which says so in *page_row, holds the row besides, instead of what it held. */
void tern_states_keep(tern_states *states, uint32_t row, uint32_t *page_row);
/* It does so no more. */
void tern_states_drop(tern_states *states, uint32_t *page_row);

#endif
