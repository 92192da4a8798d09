/* Which states a runner's one sequence has. */
#include "infer/session/runner_states.h"

#include "base/alloc.h"

enum { IN_TURNS = 2 };

tern_status tern_runner_states_init(tern_runner_states *states, uint32_t n_checkpoints, tern_error *err)
{
    *states = (tern_runner_states){.n = IN_TURNS + n_checkpoints};
    states->items = tern_calloc(states->n, sizeof *states->items);
    return states->items ? TERN_OK : tern_fail_alloc(err, states->n * sizeof *states->items);
}

void tern_runner_states_deinit(tern_runner_states *states)
{
    tern_free(states->items);
    *states = (tern_runner_states){0};
}

uint32_t tern_runner_states_last(const tern_runner_states *states, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < states->n; i++)
        if (states->items[i].n_tokens <= n && states->items[i].n_tokens > most) most = states->items[i].n_tokens;
    return most;
}

uint32_t tern_runner_states_find(const tern_runner_states *states, uint32_t n)
{
    uint32_t i = 0;
    while (i < states->n && states->items[i].n_tokens != n) i++;
    return i;
}

/* Free ones first, then the one that was written longest ago: of checkpoints where a checkpoint comes, and of the
 * others where they are enough. */
static uint32_t choose(const tern_runner_states *states, uint32_t but, bool checkpoint)
{
    uint32_t best = UINT32_MAX, n_others = 0;
    for (uint32_t i = 0; i < states->n; i++) n_others += !states->items[i].checkpoint && states->items[i].n_tokens;
    for (uint32_t i = 0; i < states->n; i++) {
        const tern_runner_state *s = &states->items[i], *b = best == UINT32_MAX ? NULL : &states->items[best];
        if (i == but) continue;
        if (!s->n_tokens) return i;
        const bool fits = s->checkpoint == checkpoint || n_others < IN_TURNS;
        const bool b_fits = b && (b->checkpoint == checkpoint || n_others < IN_TURNS);
        if (!b || (fits && !b_fits) || (fits == b_fits && s->age < b->age)) best = i;
    }
    return best;
}

void tern_runner_states_step(tern_runner_states *states, uint32_t first, uint32_t n, bool in_place, uint32_t *from,
                             uint32_t *to)
{
    const bool checkpoint = n > 1 && !in_place;
    *from = first ? tern_runner_states_find(states, first) : 0; /* of none: position 0 begins with zeros */
    for (uint32_t i = 0; i < states->n; i++)
        if (states->items[i].n_tokens > first) states->items[i].n_tokens = 0;
    *to = in_place ? *from : choose(states, first ? *from : UINT32_MAX, checkpoint);
    states->items[*to] = (tern_runner_state){.n_tokens = first + n, .age = ++states->clock, .checkpoint = checkpoint};
}
