/* States of layers that recur: which a sequence has, and which its next step leaves. */
#include "infer/batch/batch_internal.h"

static tern_states *states_of(tern_batch *b)
{
    return &b->kv.pages.states;
}

static void hold(tern_batch *b, tern_sequence *s, uint32_t n_tokens, uint32_t row)
{
    tern_states_hold(states_of(b), row);
    s->states[s->n_states++] = (tern_held_state){.n_tokens = n_tokens, .row = row};
}

/* The page of the tree whose ids end with token n - 1; TERN_NO_PAGE: it is not there, or ends elsewhere. */
static uint32_t page_of_end(const tern_batch *b, const tern_sequence *s, uint32_t n)
{
    const uint32_t at = (n - 1) / TERN_PAGE_SIZE;
    if (n == 0 || at >= s->n_pages) return TERN_NO_PAGE;
    return b->kv.pages.items[s->pages[at]].n_ids >= n - at * TERN_PAGE_SIZE ? s->pages[at] : TERN_NO_PAGE;
}

static void keep_in_page(tern_batch *b, const tern_sequence *s, const tern_held_state *held)
{
    const uint32_t page = page_of_end(b, s, held->n_tokens);
    if (page == TERN_NO_PAGE || b->params.no_prefix_reuse) return;
    tern_pages_keep_state(&b->kv.pages, page, held->n_tokens - (held->n_tokens - 1) / TERN_PAGE_SIZE * TERN_PAGE_SIZE,
                          held->row);
}

void tern_sequence__settle_states(tern_batch *b, tern_sequence *s)
{
    tern_held_state best = {0, TERN_NO_ROW};
    if (!states_of(b)->n) return;
    for (uint32_t i = 0; i < s->n_states; i++) {
        const tern_held_state *held = &s->states[i];
        if (held->n_tokens > s->n_evaluated) continue; /* of guesses that were wrong */
        if (held->n_tokens % TERN_PAGE_SIZE == 0) keep_in_page(b, s, held);
        if (best.row == TERN_NO_ROW || held->n_tokens > best.n_tokens) best = *held;
    }
    for (uint32_t i = 0; i < s->n_states; i++)
        if (s->states[i].row != best.row) tern_states_release(states_of(b), s->states[i].row);
    s->n_states = best.row == TERN_NO_ROW ? 0 : 1;
    s->states[0] = best;
    s->n_evaluated = best.n_tokens;
}

void tern_sequence__share_page_state(tern_batch *b, tern_sequence *s, uint32_t at, uint32_t page)
{
    const tern_page *p = &b->kv.pages.items[page];
    const uint32_t n = at * TERN_PAGE_SIZE + p->state_ids;
    if (!s->n_states && p->state != TERN_NO_ROW && n <= s->n_evaluated) hold(b, s, n, p->state);
}

void tern_sequence__share_state(tern_batch *b, tern_sequence *s)
{
    if (!states_of(b)->n) return;
    for (uint32_t i = s->n_pages; i-- > 0;) tern_sequence__share_page_state(b, s, i, s->pages[i]);
    s->n_evaluated = s->n_states ? s->states[0].n_tokens : 0;
    while (s->n_pages * TERN_PAGE_SIZE >= s->n_evaluated + TERN_PAGE_SIZE)
        tern_pages_release(&b->kv.pages, s->pages[--s->n_pages]);
    if (s->n_indexed > s->n_evaluated / TERN_PAGE_SIZE) s->n_indexed = s->n_evaluated / TERN_PAGE_SIZE;
}

void tern_sequence__fork_state(tern_batch *b, tern_sequence *s, const tern_sequence *other)
{
    s->n_states = 0;
    for (uint32_t i = 0; i < other->n_states; i++)
        if (other->states[i].n_tokens == other->n_evaluated) hold(b, s, other->n_evaluated, other->states[i].row);
}

void tern_sequence__release_states(tern_batch *b, tern_sequence *s)
{
    if (!states_of(b)->n) return;
    for (uint32_t i = 0; i < s->n_states; i++) {
        if (s->states[i].n_tokens <= s->n_evaluated) keep_in_page(b, s, &s->states[i]);
        tern_states_release(states_of(b), s->states[i].row);
    }
    s->n_states = 0;
}

uint32_t tern_batch__most_drafted(const tern_batch *b)
{
    return b->kv.pages.states.n ? TERN_BATCH_MAX_STATES - 3 : UINT32_MAX;
}

/* A state after so many tokens, for the row of the step whose word this is. */
static void take(tern_batch *b, tern_sequence *s, uint32_t n_tokens, uint32_t *to)
{
    const uint32_t row = s->n_states < TERN_BATCH_MAX_STATES ? tern_states_take(states_of(b)) : TERN_NO_ROW;
    *to = row == TERN_NO_ROW ? TERN_NO_STATE : row;
    if (row != TERN_NO_ROW) s->states[s->n_states++] = (tern_held_state){.n_tokens = n_tokens, .row = row};
}

/* As above where one is left beside those that every sequence must have. */
static void take_spare(tern_batch *b, tern_sequence *s, uint32_t n_tokens, uint32_t *to)
{
    if (tern_states_available(states_of(b)) > b->n_running) take(b, s, n_tokens, to);
}

void tern_sequence__put_states(tern_batch *b, tern_sequence *s, const tern_bound_graph *g, uint32_t n)
{
    uint32_t *states = tern_bound_param(g, TERN_PARAM_STATES);
    if (!states) return;
    uint32_t *to = states + b->params.n_parallel + n;
    const uint32_t n_rows = s->n_rows + s->n_drafted, end = s->n_evaluated + s->n_rows;
    const uint32_t page_end = end / TERN_PAGE_SIZE * TERN_PAGE_SIZE;
    states[s->slot] = s->n_states ? s->states[0].row : 0;
    for (uint32_t i = 0; i < n_rows; i++) to[i] = TERN_NO_STATE;
    take(b, s, end, &to[s->n_rows - 1]); /* the one that must be there: two for each sequence are */
    for (uint32_t i = 0; i < s->n_drafted; i++) take_spare(b, s, end + 1 + i, &to[s->n_rows + i]);
    if (page_end > s->n_evaluated && page_end < end) take_spare(b, s, page_end, &to[page_end - s->n_evaluated - 1]);
}
