/* The states of a grammar's machine: closures over the steps that read nothing, and a table of transitions. */
#include "text/grammar/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { FEW = 16, MAX_FRAMES = 1 << 20, MAX_ITEMS = 1 << 22, KEPT_FRAMES = 1 << 16, KEPT_ITEMS = 1 << 18 };

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint64_t h = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32) ^ (uint32_t)h;
}

static uint32_t hash_items(const tern_grammar_item *items, size_t n)
{
    uint32_t h = (uint32_t)n;
    for (size_t i = 0; i < n; i++) h = mix(h ^ items[i].pc, items[i].frame);
    return h;
}

static uint32_t hash_of(const tern_grammar_machine *m, const tern_grammar_table *t, uint32_t number)
{
    if (t == &m->by_frame) return mix(m->frames[number].parent, m->frames[number].to);
    if (t == &m->by_seen) return mix(m->seen[number].pc, m->seen[number].frame);
    return hash_items(m->items + m->states[number].first, m->states[number].n);
}

static void put(const tern_grammar_machine *m, tern_grammar_table *t, uint32_t number)
{
    size_t at = hash_of(m, t, number) & (t->cap - 1);
    while (t->slots[at]) at = (at + 1) & (t->cap - 1);
    t->slots[at] = number + 1;
    t->n++;
}

/* Room for one more number, of which there are n so far: 0 .. n - 1. */
static tern_status make_room(const tern_grammar_machine *m, tern_grammar_table *t, size_t n, tern_error *err)
{
    if (t->cap && n * 2 < t->cap) return TERN_OK;
    const size_t cap = t->cap ? t->cap * 2 : 64;
    uint32_t *slots = tern_calloc(cap, sizeof *slots);
    if (!slots) return tern_fail_alloc(err, cap * sizeof *slots);
    tern_free(t->slots);
    *t = (tern_grammar_table){.slots = slots, .cap = cap};
    const uint32_t first = t == &m->by_state ? TERN_GRAMMAR_DEAD : 0;
    for (uint32_t i = first; i < n; i++) put(m, t, i);
    return TERN_OK;
}

static void clear(tern_grammar_table *t)
{
    if (t->n) memset(t->slots, 0, t->cap * sizeof *t->slots);
    t->n = 0;
}

tern_status tern_grammar_machine__frame(tern_grammar_machine *m, tern_grammar_frame frame, uint32_t *out,
                                        tern_error *err)
{
    tern_grammar_table *t = &m->by_frame;
    TERN_TRY(make_room(m, t, m->n_frames, err));
    for (size_t at = mix(frame.parent, frame.to) & (t->cap - 1); t->slots[at]; at = (at + 1) & (t->cap - 1)) {
        const tern_grammar_frame *f = &m->frames[t->slots[at] - 1];
        *out = t->slots[at] - 1;
        if (f->parent == frame.parent && f->to == frame.to && *out > TERN_GRAMMAR_BASE) return TERN_OK;
    }
    if (m->n_frames >= MAX_FRAMES)
        return tern_fail(err, TERN_LIMIT, "the grammar nests in more than %d ways", MAX_FRAMES);
    TERN_TRY(tern_grow((void **)&m->frames, &m->cap_frames, m->n_frames + 1, sizeof *m->frames, err));
    *out = (uint32_t)m->n_frames;
    frame.depth = m->frames[frame.parent].depth + 1;
    m->frames[m->n_frames++] = frame;
    put(m, t, *out);
    return TERN_OK;
}

/* Adds a place to those that are reached, unless it is there. */
static tern_status reach(tern_grammar_machine *m, uint32_t pc, uint32_t frame, tern_error *err)
{
    tern_grammar_table *t = &m->by_seen;
    if (m->work++ >= TERN_GRAMMAR_MAX_WORK)
        return tern_fail(err, TERN_LIMIT,
                         "the grammar takes more than %d steps for one token: fewer or smaller repetitions within "
                         "repetitions expected",
                         TERN_GRAMMAR_MAX_WORK);
    if (m->n_seen < FEW) {
        for (size_t i = 0; i < m->n_seen; i++)
            if (m->seen[i].pc == pc && m->seen[i].frame == frame) return TERN_OK;
    } else {
        TERN_TRY(make_room(m, t, m->n_seen, err));
        if (t->n == 0)
            for (uint32_t i = 0; i < m->n_seen; i++) put(m, t, i);
        for (size_t at = mix(pc, frame) & (t->cap - 1); t->slots[at]; at = (at + 1) & (t->cap - 1)) {
            const tern_grammar_item *item = &m->seen[t->slots[at] - 1];
            if (item->pc == pc && item->frame == frame) return TERN_OK;
        }
    }
    if (m->n_seen >= TERN_GRAMMAR_MAX_WAYS)
        return tern_fail(err, TERN_LIMIT,
                         "the grammar can read the text in more than %d ways: fewer or smaller repetitions within "
                         "repetitions expected",
                         TERN_GRAMMAR_MAX_WAYS);
    TERN_TRY(tern_grow((void **)&m->seen, &m->cap_seen, m->n_seen + 1, sizeof *m->seen, err));
    m->seen[m->n_seen++] = (tern_grammar_item){pc, frame};
    if (t->n) put(m, t, (uint32_t)m->n_seen - 1);
    return TERN_OK;
}

static tern_status reach_return(tern_grammar_machine *m, uint32_t frame, tern_error *err)
{
    const tern_grammar_frame f = m->frames[frame];
    if (frame == TERN_GRAMMAR_BOTTOM) m->ends = true;
    else if (frame == TERN_GRAMMAR_BASE) m->escapes = true;
    else return reach(m, f.to, f.parent, err);
    return TERN_OK;
}

static tern_status reach_call(tern_grammar_machine *m, tern_grammar_op op, uint32_t frame, tern_error *err)
{
    uint32_t inner;
    if (m->frames[frame].depth >= TERN_GRAMMAR_MAX_DEPTH) return TERN_OK;
    TERN_TRY(tern_grammar_machine__frame(m, (tern_grammar_frame){.parent = frame, .to = op.b}, &inner, err));
    return reach(m, op.a, inner, err);
}

/* Follows all that is reached without reading; what waits stays in `seen`, ordered. */
static tern_status follow(tern_grammar_machine *m, tern_error *err)
{
    for (size_t i = 0; i < m->n_seen; i++) {
        const tern_grammar_item at = m->seen[i];
        const tern_grammar_op op = m->program->ops[at.pc];
        if (op.code == TERN_GRAMMAR_OP_RETURN) TERN_TRY(reach_return(m, at.frame, err));
        if (op.code == TERN_GRAMMAR_OP_CALL) TERN_TRY(reach_call(m, op, at.frame, err));
        if (op.code == TERN_GRAMMAR_OP_JUMP || op.code == TERN_GRAMMAR_OP_SPLIT)
            TERN_TRY(reach(m, op.a, at.frame, err));
        if (op.code == TERN_GRAMMAR_OP_SPLIT) TERN_TRY(reach(m, op.b, at.frame, err));
    }
    return TERN_OK;
}

static int compare(const void *a, const void *b)
{
    const tern_grammar_item *x = a, *y = b;
    if (x->pc != y->pc) return x->pc < y->pc ? -1 : 1;
    return (x->frame > y->frame) - (x->frame < y->frame);
}

static void keep_waiting(tern_grammar_machine *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_seen; i++) {
        const uint32_t code = m->program->ops[m->seen[i].pc].code;
        if (code == TERN_GRAMMAR_OP_READ || code == TERN_GRAMMAR_OP_TAKE) m->seen[n++] = m->seen[i];
    }
    m->n_seen = n;
    if (n > 1) qsort(m->seen, n, sizeof *m->seen, compare);
}

static bool is_seen(const tern_grammar_machine *m, const tern_grammar_place *s)
{
    if (s->n != m->n_seen || s->ends != m->ends || s->escapes != m->escapes) return false;
    return s->n == 0 || memcmp(m->items + s->first, m->seen, s->n * sizeof *m->seen) == 0;
}

/* The state of what is in `seen`, which is there already or is made. */
static tern_status intern(tern_grammar_machine *m, uint32_t *state, tern_error *err)
{
    tern_grammar_table *t = &m->by_state;
    TERN_TRY(make_room(m, t, m->n_states, err));
    const uint32_t hash = hash_items(m->seen, m->n_seen);
    for (size_t at = hash & (t->cap - 1); t->slots[at]; at = (at + 1) & (t->cap - 1)) {
        *state = t->slots[at] - 1;
        if (is_seen(m, &m->states[*state])) return TERN_OK;
    }
    if (m->n_states >= TERN_GRAMMAR_MAX_STATES || m->n_items + m->n_seen > MAX_ITEMS)
        return tern_fail(err, TERN_LIMIT, "the grammar has more than %d states at one place", TERN_GRAMMAR_MAX_STATES);
    TERN_TRY(tern_grow((void **)&m->states, &m->cap_states, m->n_states + 1, sizeof *m->states, err));
    TERN_TRY(tern_grow((void **)&m->items, &m->cap_items, m->n_items + m->n_seen + 1, sizeof *m->items, err));
    if (m->n_seen) memcpy(m->items + m->n_items, m->seen, m->n_seen * sizeof *m->seen);
    *state = (uint32_t)m->n_states;
    m->states[m->n_states++] = (tern_grammar_place){
        .first = (uint32_t)m->n_items, .n = (uint32_t)m->n_seen, .ends = m->ends, .escapes = m->escapes};
    m->n_items += m->n_seen;
    put(m, t, *state);
    return TERN_OK;
}

static void begin(tern_grammar_machine *m)
{
    m->n_seen = 0;
    m->ends = m->escapes = false;
    clear(&m->by_seen);
}

static tern_status finish(tern_grammar_machine *m, uint32_t *state, tern_error *err)
{
    TERN_TRY(follow(m, err));
    keep_waiting(m);
    return intern(m, state, err);
}

tern_status tern_grammar_machine__enter(tern_grammar_machine *m, const tern_grammar_item *items, size_t n, bool ends,
                                        uint32_t *state, tern_error *err)
{
    begin(m);
    m->ends = ends;
    for (size_t i = 0; i < n; i++) TERN_TRY(reach(m, items[i].pc, items[i].frame, err));
    return finish(m, state, err);
}

tern_status tern_grammar_machine__read(tern_grammar_machine *m, uint32_t state, uint8_t byte, uint32_t *next,
                                       tern_error *err)
{
    const uint32_t known = m->states[state].next ? m->states[state].next[byte] : 0;
    *next = known;
    if (known) return TERN_OK;
    const tern_grammar_place s = m->states[state];
    begin(m);
    for (uint32_t i = 0; i < s.n; i++) {
        const tern_grammar_item item = m->items[s.first + i];
        const tern_grammar_op op = m->program->ops[item.pc];
        if (op.code == TERN_GRAMMAR_OP_READ && tern_grammar_set_has(&m->program->sets[op.a], byte))
            TERN_TRY(reach(m, op.b, item.frame, err));
    }
    TERN_TRY(finish(m, next, err));
    tern_grammar_place *place = &m->states[state];
    if (!place->next && !(place->next = tern_calloc(256, sizeof *place->next)))
        return tern_fail_alloc(err, 256 * sizeof *place->next);
    place->next[byte] = *next;
    return TERN_OK;
}

tern_status tern_grammar_machine__take(tern_grammar_machine *m, uint32_t state, uint32_t id, uint32_t *next,
                                       tern_error *err)
{
    const tern_grammar_place s = m->states[state];
    begin(m);
    for (uint32_t i = 0; i < s.n; i++) {
        const tern_grammar_item item = m->items[s.first + i];
        const tern_grammar_op op = m->program->ops[item.pc];
        if (op.code == TERN_GRAMMAR_OP_TAKE && op.a == id) TERN_TRY(reach(m, op.b, item.frame, err));
    }
    return finish(m, next, err);
}

tern_status tern_grammar_machine__init(tern_grammar_machine *m, const tern_grammar_program *program, tern_error *err)
{
    m->program = program;
    TERN_TRY(tern_grow((void **)&m->frames, &m->cap_frames, 64, sizeof *m->frames, err));
    TERN_TRY(tern_grow((void **)&m->states, &m->cap_states, 64, sizeof *m->states, err));
    TERN_TRY(tern_grow((void **)&m->items, &m->cap_items, 64, sizeof *m->items, err));
    TERN_TRY(make_room(m, &m->by_frame, 0, err));
    TERN_TRY(make_room(m, &m->by_state, 0, err));
    tern_grammar_machine__forget(m);
    return TERN_OK;
}

void tern_grammar_machine__forget(tern_grammar_machine *m)
{
    for (size_t i = 0; i < m->n_states; i++) tern_free(m->states[i].next);
    clear(&m->by_frame);
    clear(&m->by_state);
    m->n_items = 0;
    m->n_frames = 2; /* BOTTOM and BASE */
    m->frames[0] = m->frames[1] = (tern_grammar_frame){0};
    m->n_states = 2; /* none, and DEAD, which has no items */
    m->states[0] = m->states[1] = (tern_grammar_place){0};
    put(m, &m->by_state, TERN_GRAMMAR_DEAD);
}

bool tern_grammar_machine__is_full(const tern_grammar_machine *m)
{
    return m->n_states > TERN_GRAMMAR_KEPT_STATES || m->n_frames > KEPT_FRAMES || m->n_items > KEPT_ITEMS;
}

void tern_grammar_machine__deinit(tern_grammar_machine *m)
{
    for (size_t i = 0; i < m->n_states; i++) tern_free(m->states[i].next);
    tern_free(m->frames);
    tern_free(m->states);
    tern_free(m->items);
    tern_free(m->seen);
    tern_free(m->by_frame.slots);
    tern_free(m->by_state.slots);
    tern_free(m->by_seen.slots);
    *m = (tern_grammar_machine){0};
}
