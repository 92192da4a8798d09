/* The states of a grammar's machine: closures over the steps that read nothing, and a table of transitions. */
#include "text/grammar/machine.h"

#include <string.h>

#include "base/alloc.h"

enum {
    FEW = 16,
    MAX_FRAMES = 1 << 20,
    MAX_ITEMS = 1 << 22,
    KEPT_FRAMES = 1 << 16,
    KEPT_ITEMS = 1 << 18,
    KEPT_EDGES = 1 << 18,
    TABLE_STEPS = 16 /* for the table of a state, which takes memory */
};

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

/* The part of the source that most of n items stand in. */
static const char *find_label(const tern_grammar_machine *m, const tern_grammar_item *items, size_t n)
{
    const char *found = NULL;
    size_t lead = 0;
    for (size_t i = 0; i < n; i++) {
        const char *label = tern_grammar_program__label(m->program, items[i].pc);
        for (uint32_t at = items[i].frame; !label && at > TERN_GRAMMAR_BASE; at = m->frames[at].parent)
            label = tern_grammar_program__label(m->program, m->frames[at].to);
        if (lead == 0) found = label;
        lead = label == found ? lead + 1 : lead - 1;
    }
    return found ? found : "the grammar";
}

const char *tern_grammar_machine__label(const tern_grammar_machine *m, uint32_t state)
{
    return find_label(m, m->items + m->states[state].first, m->states[state].n);
}

static tern_status check_work(const tern_grammar_machine *m, tern_error *err)
{
    if (m->work <= m->most) return TERN_OK;
    const char *label = m->n_seen ? find_label(m, m->seen, m->n_seen) : tern_grammar_machine__label(m, m->at);
    return tern_fail(err, TERN_LIMIT,
                     "%s takes more than %llu steps for one token: fewer or smaller repetitions within repetitions "
                     "expected",
                     label, (unsigned long long)m->most);
}

void tern_grammar_machine__begin(tern_grammar_machine *m, uint64_t most)
{
    m->work = 0;
    m->most = most;
    m->count++;
}

tern_status tern_grammar_machine__count(tern_grammar_machine *m, uint64_t steps, tern_error *err)
{
    m->work += steps;
    m->count++;
    return check_work(m, err);
}

/* Adds a place to those that are reached, unless it is there. */
static tern_status reach(tern_grammar_machine *m, uint32_t pc, uint32_t frame, tern_error *err)
{
    tern_grammar_table *t = &m->by_seen;
    m->work++;
    TERN_TRY(check_work(m, err));
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
                         "%s can read the text in more than %d ways: fewer or smaller repetitions within repetitions "
                         "expected",
                         find_label(m, m->seen, m->n_seen), TERN_GRAMMAR_MAX_WAYS);
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

/* Orders frames by where they return to, so that it does not matter which of them was made first. */
static bool frame_less(const tern_grammar_machine *m, uint32_t a, uint32_t b)
{
    while (a != b && m->frames[a].to == m->frames[b].to && m->frames[a].depth && m->frames[b].depth) {
        a = m->frames[a].parent;
        b = m->frames[b].parent;
    }
    const tern_grammar_frame *x = &m->frames[a], *y = &m->frames[b];
    if (x->depth && y->depth && x->to != y->to) return x->to < y->to;
    return x->depth != y->depth ? x->depth < y->depth : a < b;
}

static bool less(const tern_grammar_machine *m, tern_grammar_item a, tern_grammar_item b)
{
    return a.pc != b.pc ? a.pc < b.pc : frame_less(m, a.frame, b.frame);
}

static void sift(const tern_grammar_machine *m, tern_grammar_item *items, size_t root, size_t n)
{
    const tern_grammar_item moved = items[root];
    for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
        if (child + 1 < n && less(m, items[child], items[child + 1])) child++;
        if (!less(m, moved, items[child])) break;
        items[root] = items[child];
        root = child;
    }
    items[root] = moved;
}

/* In place; items of long repetitions are mostly in order. */
static void sort_items(const tern_grammar_machine *m, tern_grammar_item *items, size_t n)
{
    size_t ordered = 1;
    while (ordered < n && less(m, items[ordered - 1], items[ordered])) ordered++;
    if (ordered >= n) return;
    for (size_t root = n / 2; root--;) sift(m, items, root, n);
    for (size_t end = n; --end;) {
        const tern_grammar_item last = items[end];
        items[end] = items[0];
        items[0] = last;
        sift(m, items, 0, end);
    }
}

static void keep_waiting(tern_grammar_machine *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_seen; i++) {
        const uint32_t code = m->program->ops[m->seen[i].pc].code;
        if (code == TERN_GRAMMAR_OP_READ || code == TERN_GRAMMAR_OP_TAKE) m->seen[n++] = m->seen[i];
    }
    m->n_seen = n;
    sort_items(m, m->seen, n);
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

/* The bytes of `same` that an item reads as it does `byte`. */
static void narrow(uint32_t same[8], const tern_grammar_set *set, bool has)
{
    for (unsigned i = 0; i < 8; i++) same[i] &= has ? set->bits[i] : ~set->bits[i];
}

/* Follows a byte from a state; the bytes in `same` lead to the same one. */
static tern_status follow_byte(tern_grammar_machine *m, uint32_t state, uint8_t byte, uint32_t same[8], uint32_t *to,
                               tern_error *err)
{
    const tern_grammar_place s = m->states[state];
    m->work += s.n / 8;
    begin(m);
    for (uint32_t i = 0; i < s.n; i++) {
        const tern_grammar_item item = m->items[s.first + i];
        const tern_grammar_op op = m->program->ops[item.pc];
        if (op.code != TERN_GRAMMAR_OP_READ) continue;
        const tern_grammar_set *set = &m->program->sets[op.a];
        const bool has = tern_grammar_set_has(set, byte);
        narrow(same, set, has);
        if (has) TERN_TRY(reach(m, op.b, item.frame, err));
    }
    return finish(m, to, err);
}

static tern_status add_edge(tern_grammar_machine *m, uint32_t state, uint8_t byte, uint32_t *edge, tern_error *err)
{
    uint32_t same[8] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u}, to;
    const uint64_t before = m->work;
    TERN_TRY(follow_byte(m, state, byte, same, &to, err));
    TERN_TRY(tern_grow((void **)&m->edges, &m->cap_edges, m->n_edges + 1, sizeof *m->edges, err));
    tern_grammar_place *s = &m->states[state];
    if (!s->next && !(s->next = tern_calloc(256, sizeof *s->next))) return tern_fail_alloc(err, 256 * sizeof *s->next);
    const uint64_t steps = m->work - before + (m->states[to].n ? TABLE_STEPS : 1);
    m->work = before;
    m->edges[m->n_edges] = (tern_grammar_edge){.to = to, .steps = (uint32_t)steps, .counted = m->count - 1};
    *edge = (uint32_t)m->n_edges++;
    for (unsigned b = 0; b < 256; b++)
        if (same[b / 32] >> b % 32 & 1) s->next[b] = *edge;
    return TERN_OK;
}

tern_status tern_grammar_machine__read(tern_grammar_machine *m, uint32_t state, uint8_t byte, uint32_t *next,
                                       tern_error *err)
{
    uint32_t edge = m->states[state].next ? m->states[state].next[byte] : 0;
    m->at = state;
    if (!edge) TERN_TRY(add_edge(m, state, byte, &edge, err));
    tern_grammar_edge *e = &m->edges[edge];
    *next = e->to;
    if (e->counted == m->count) return TERN_OK;
    e->counted = m->count;
    m->work += e->steps;
    return check_work(m, err);
}

tern_status tern_grammar_machine__take(tern_grammar_machine *m, uint32_t state, uint32_t id, uint32_t *next,
                                       tern_error *err)
{
    const tern_grammar_place s = m->states[state];
    m->work += s.n / 8;
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
    TERN_TRY(tern_grow((void **)&m->edges, &m->cap_edges, 64, sizeof *m->edges, err));
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
    m->n_edges = 1; /* none */
    m->at = 0;
    m->n_frames = 2; /* BOTTOM and BASE */
    m->frames[0] = m->frames[1] = (tern_grammar_frame){0};
    m->n_states = 2; /* none, and DEAD, which has no items */
    m->states[0] = m->states[1] = (tern_grammar_place){0};
    put(m, &m->by_state, TERN_GRAMMAR_DEAD);
}

bool tern_grammar_machine__is_full(const tern_grammar_machine *m)
{
    return m->n_states > TERN_GRAMMAR_KEPT_STATES || m->n_frames > KEPT_FRAMES || m->n_items > KEPT_ITEMS ||
           m->n_edges > KEPT_EDGES;
}

void tern_grammar_machine__deinit(tern_grammar_machine *m)
{
    for (size_t i = 0; i < m->n_states; i++) tern_free(m->states[i].next);
    tern_free(m->frames);
    tern_free(m->states);
    tern_free(m->edges);
    tern_free(m->items);
    tern_free(m->seen);
    tern_free(m->by_frame.slots);
    tern_free(m->by_state.slots);
    tern_free(m->by_seen.slots);
    *m = (tern_grammar_machine){0};
}
