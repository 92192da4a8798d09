/* Keeping a grammar's machine small: now and then it forgets all but the places where somebody is. */
#include "base/alloc.h"
#include "text/grammar/internal.h"

enum { MOST_WORDS = 1 << 22 };

/* Items of states as numbers: for each state the count of its items and whether it ends; for each item its place, the
 * depth of its frames, and where each returns to, outermost first. */
typedef struct notes {
    uint32_t *words;
    size_t n, cap, at;
} notes;

static tern_status note(notes *w, uint32_t word, tern_error *err)
{
    if (w->n >= MOST_WORDS)
        return tern_fail(err, TERN_LIMIT, "the states of a grammar take more than %d numbers", MOST_WORDS);
    TERN_TRY(tern_grow((void **)&w->words, &w->cap, w->n + 1, sizeof *w->words, err));
    w->words[w->n++] = word;
    return TERN_OK;
}

static tern_status note_item(notes *w, const tern_grammar_machine *m, tern_grammar_item item, tern_error *err)
{
    const uint32_t depth = m->frames[item.frame].depth;
    TERN_TRY(note(w, item.pc, err));
    TERN_TRY(note(w, depth, err));
    for (uint32_t i = 0; i < depth; i++) TERN_TRY(note(w, 0, err));
    uint32_t frame = item.frame;
    for (uint32_t i = 0; i < depth; i++, frame = m->frames[frame].parent) w->words[w->n - 1 - i] = m->frames[frame].to;
    return TERN_OK;
}

static tern_status note_state(notes *w, const tern_grammar_machine *m, uint32_t state, tern_error *err)
{
    const tern_grammar_place *s = &m->states[state];
    TERN_TRY(note(w, s->n, err));
    TERN_TRY(note(w, s->ends, err));
    for (uint32_t i = 0; i < s->n; i++) TERN_TRY(note_item(w, m, m->items[s->first + i], err));
    return TERN_OK;
}

static tern_status read_item(notes *w, tern_grammar_machine *m, tern_grammar_item *item, tern_error *err)
{
    uint32_t frame = TERN_GRAMMAR_BOTTOM;
    const uint32_t pc = w->words[w->at++], depth = w->words[w->at++];
    for (uint32_t i = 0; i < depth; i++)
        TERN_TRY(tern_grammar_machine__frame(m, (tern_grammar_frame){.parent = frame, .to = w->words[w->at++]}, &frame,
                                             err));
    *item = (tern_grammar_item){pc, frame};
    return TERN_OK;
}

static tern_status read_state(notes *w, tern_grammar *g, uint32_t *state, tern_error *err)
{
    const uint32_t n = w->words[w->at++];
    const bool ends = w->words[w->at++] != 0;
    TERN_TRY(tern_grow((void **)&g->waiting, &g->cap_waiting, n + (size_t)1, sizeof *g->waiting, err));
    for (uint32_t i = 0; i < n; i++) TERN_TRY(read_item(w, &g->machine, &g->waiting[i], err));
    return tern_grammar_machine__enter(&g->machine, g->waiting, n, ends, state, err);
}

/* A state that is made again was there before, so that the memory for it is there as well. */
static tern_status make_again(tern_grammar *g, notes *w, tern_error *err)
{
    tern_grammar_machine__forget(&g->machine);
    tern_grammar_machine__begin(&g->machine, UINT64_MAX);
    tern_grammar__masks_forget(g);
    for (tern_grammar_state *s = g->states; s && w->words; s = s->after) TERN_TRY(read_state(w, g, &s->at, err));
    return TERN_OK;
}

tern_status tern_grammar__trim(tern_grammar *g, tern_error *err)
{
    notes w = {0};
    tern_status status = TERN_OK;
    if (!tern_grammar_machine__is_full(&g->machine)) return TERN_OK;
    for (const tern_grammar_state *s = g->states; s && status == TERN_OK; s = s->after)
        status = note_state(&w, &g->machine, s->at, err);
    for (const tern_grammar_state *s = g->states; s && status == TERN_OK; s = s->after)
        status = tern_grow((void **)&g->waiting, &g->cap_waiting, g->machine.states[s->at].n + (size_t)1,
                           sizeof *g->waiting, err);
    if (status == TERN_OK) status = make_again(g, &w, err);
    tern_free(w.words);
    return status;
}
