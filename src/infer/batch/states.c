/* Which row of RECURRENT values has which state. */
#include "infer/batch/states.h"

#include <assert.h>

#include "base/alloc.h"

tern_status tern_states_init(tern_states *states, uint32_t n, tern_error *err)
{
    *states = (tern_states){.n = n, .rows = tern_calloc(n, sizeof *states->rows)};
    return states->rows ? TERN_OK : tern_fail_alloc(err, n * sizeof *states->rows);
}

void tern_states_deinit(tern_states *states)
{
    tern_free(states->rows);
    *states = (tern_states){0};
}

uint32_t tern_states_take(tern_states *states)
{
    uint32_t best = TERN_NO_ROW;
    for (uint32_t i = 0; i < states->n; i++) {
        const tern_state_row *r = &states->rows[i];
        if (r->n_holders) continue;
        if (best == TERN_NO_ROW || !r->page_row || (states->rows[best].page_row && r->age < states->rows[best].age))
            best = i;
        if (!r->page_row) break;
    }
    if (best == TERN_NO_ROW) return best;
    if (states->rows[best].page_row) tern_states_drop(states, states->rows[best].page_row);
    states->rows[best].n_holders = 1;
    return best;
}

uint32_t tern_states_available(const tern_states *states)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < states->n; i++) n += !states->rows[i].n_holders;
    return n;
}

void tern_states_hold(tern_states *states, uint32_t row)
{
    states->rows[row].n_holders++;
}

void tern_states_release(tern_states *states, uint32_t row)
{
    assert(states->rows[row].n_holders > 0);
    states->rows[row].n_holders--;
}

void tern_states_keep(tern_states *states, uint32_t row, uint32_t *page_row)
{
    if (*page_row != TERN_NO_ROW) tern_states_drop(states, page_row);
    if (states->rows[row].page_row) tern_states_drop(states, states->rows[row].page_row);
    states->rows[row].page_row = page_row;
    states->rows[row].age = ++states->clock;
    *page_row = row;
}

void tern_states_drop(tern_states *states, uint32_t *page_row)
{
    if (*page_row == TERN_NO_ROW) return;
    states->rows[*page_row].page_row = NULL;
    *page_row = TERN_NO_ROW;
}
