/* Terms as nodes of a grammar's tree: as they are where they are plain, else as an automaton of rules, one for each
 * derivative. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "text/grammar/language.h"

enum { MOST_EDGES = 1 << 20 };

/* States are terms; pieces are the ranges of characters that no class cuts. */
typedef struct automaton {
    tern_language *l;
    tern_grammar_tree *tree;
    tern_grammar_ranges pieces;
    uint32_t *terms;    /* [n] of the states */
    uint32_t *edges;    /* [n][pieces.n] states */
    uint32_t *rules;    /* [n] */
    uint32_t *state_of; /* [n_state_of] of a term, + 1; 0: none */
    bool *live;         /* [n] a text ends from here */
    size_t n, cap, cap_edges, n_state_of;
} automaton;

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Cuts all characters where a class begins or ends. */
static tern_status cut(automaton *x, tern_error *err)
{
    static const uint32_t fixed[] = {0, 0xd800, 0xe000, TERN_GRAMMAR_LAST_CODE + 1};
    const tern_grammar_ranges *r = &x->l->ranges;
    const size_t n = 2 * r->n + 4;
    tern_status status = TERN_OK;
    uint32_t *cuts = tern_alloc(n * sizeof *cuts);
    if (!cuts) return tern_fail_alloc(err, n * sizeof *cuts);
    memcpy(cuts, fixed, sizeof fixed);
    for (size_t i = 0; i < r->n; i++) {
        cuts[4 + 2 * i] = r->items[i].first;
        cuts[5 + 2 * i] = r->items[i].last + 1;
    }
    qsort(cuts, n, sizeof *cuts, by_number);
    for (size_t i = 0; i + 1 < n; i++)
        if (cuts[i] < cuts[i + 1] && cuts[i] != 0xd800)
            TERN_GOTO(tern_grammar_ranges__add(&x->pieces, cuts[i], cuts[i + 1] - 1, err));
fail:
    tern_free(cuts);
    return status;
}

/* The state of a term, which is added when it is not there. */
static tern_status find_state(automaton *x, uint32_t term, uint32_t *state, tern_error *err)
{
    const size_t before = x->n_state_of;
    if (term >= before) {
        size_t cap = before;
        TERN_TRY(tern_grow((void **)&x->state_of, &cap, term + (size_t)1, sizeof *x->state_of, err));
        memset(x->state_of + before, 0, (cap - before) * sizeof *x->state_of);
        x->n_state_of = cap;
    }
    *state = x->state_of[term] - 1;
    if (x->state_of[term]) return TERN_OK;
    if (x->n >= TERN_LANGUAGE_STATES || (x->n + 1) * x->pieces.n > MOST_EDGES)
        return tern_fail(err, TERN_LIMIT, "a text's pattern, format and lengths together have more than %d states",
                         TERN_LANGUAGE_STATES);
    TERN_TRY(tern_grow((void **)&x->terms, &x->cap, x->n + 1, sizeof *x->terms, err));
    TERN_TRY(tern_grow((void **)&x->edges, &x->cap_edges, (x->n + 1) * x->pieces.n, sizeof *x->edges, err));
    x->terms[x->n] = term;
    *state = (uint32_t)x->n++;
    x->state_of[term] = *state + 1;
    return TERN_OK;
}

static tern_status explore(automaton *x, uint32_t start, tern_error *err)
{
    uint32_t state;
    TERN_TRY(find_state(x, start, &state, err));
    for (uint32_t i = 0; i < x->n; i++) {
        for (size_t k = 0; k < x->pieces.n; k++) {
            uint32_t term;
            TERN_TRY(tern_language__derive(x->l, x->terms[i], x->pieces.items[k].first, &term, err));
            TERN_TRY(find_state(x, term, &state, err));
            x->edges[i * x->pieces.n + k] = state;
        }
    }
    return TERN_OK;
}

/* Finds the states that a text can end from. */
static tern_status find_live(automaton *x, tern_error *err)
{
    x->live = tern_calloc(x->n, sizeof *x->live);
    if (!x->live) return tern_fail_alloc(err, x->n);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = x->n; i--;) {
            bool live = x->live[i] || x->l->terms[x->terms[i]].skips;
            for (size_t k = 0; k < x->pieces.n && !live; k++) live = x->live[x->edges[i * x->pieces.n + k]];
            changed = changed || live != x->live[i];
            x->live[i] = live;
            x->l->work += x->pieces.n / 8;
        }
    }
    return TERN_OK;
}

/* The characters that lead from one state to another, then the rule of that one. */
static tern_status write_edge(automaton *x, uint32_t from, uint32_t to, tern_grammar_ranges *ranges,
                              tern_grammar_list *items, tern_error *err)
{
    uint32_t parts[2], node;
    ranges->n = 0;
    for (size_t k = 0; k < x->pieces.n; k++) {
        const tern_grammar_range piece = x->pieces.items[k];
        if (x->edges[from * x->pieces.n + k] == to)
            TERN_TRY(tern_grammar_ranges__add(ranges, piece.first, piece.last, err));
    }
    TERN_TRY(tern_grammar_json__class(x->tree, ranges->items, ranges->n, false, &parts[0], err));
    TERN_TRY(tern_grammar_tree__call(x->tree, x->rules[to], &parts[1], err));
    TERN_TRY(tern_grammar_tree__join_n(x->tree, TERN_GRAMMAR_ALL, parts, 2, &node, err));
    return tern_grammar_list__add(items, node, err);
}

/* Whether an edge is the first that leads from its state to where it leads. */
static bool is_first(const automaton *x, uint32_t from, size_t k)
{
    const uint32_t *edges = x->edges + from * x->pieces.n;
    for (size_t i = 0; i < k; i++)
        if (edges[i] == edges[k]) return false;
    return true;
}

static tern_status write_state(automaton *x, uint32_t state, tern_error *err)
{
    tern_grammar_ranges ranges = {0};
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    uint32_t node;
    for (size_t k = 0; k < x->pieces.n; k++) {
        const uint32_t to = x->edges[state * x->pieces.n + k];
        if (x->live[to] && is_first(x, state, k)) TERN_GOTO(write_edge(x, state, to, &ranges, &items, err));
    }
    if (x->l->terms[x->terms[state]].skips) {
        TERN_GOTO(tern_grammar_tree__bytes(x->tree, "", 0, &node, err));
        TERN_GOTO(tern_grammar_list__add(&items, node, err));
    }
    TERN_GOTO(tern_grammar_tree__join(x->tree, TERN_GRAMMAR_ANY, &items, &node, err));
    tern_grammar_tree__define(x->tree, x->rules[state], node);
fail:
    tern_free(ranges.items);
    tern_grammar_list__deinit(&items);
    return status;
}

static tern_status write_states(automaton *x, uint32_t *node, tern_error *err)
{
    x->rules = tern_calloc(x->n, sizeof *x->rules);
    if (!x->rules) return tern_fail_alloc(err, x->n * sizeof *x->rules);
    for (uint32_t i = 0; i < x->n; i++) {
        if (!x->live[i]) continue;
        TERN_TRY(tern_grammar_tree__rule(x->tree, "text", 4, &x->rules[i], err));
        x->tree->rules[x->rules[i]].apart = true;
    }
    for (uint32_t i = 0; i < x->n; i++)
        if (x->live[i]) TERN_TRY(write_state(x, i, err));
    return tern_grammar_tree__call(x->tree, x->rules[0], node, err);
}

static void deinit(automaton *x)
{
    tern_free(x->pieces.items);
    tern_free(x->terms);
    tern_free(x->edges);
    tern_free(x->rules);
    tern_free(x->state_of);
    tern_free(x->live);
}

static tern_status write_automaton(tern_language *l, uint32_t term, tern_grammar_tree *tree, uint32_t *node, bool *none,
                                   tern_error *err)
{
    automaton x = {.l = l, .tree = tree};
    tern_status status;
    TERN_GOTO(cut(&x, err));
    TERN_GOTO(explore(&x, term, err));
    TERN_GOTO(find_live(&x, err));
    *none = !x.live[0];
    if (!*none) status = write_states(&x, node, err);
fail:
    deinit(&x);
    return status;
}

tern_status tern_language__is_nothing(tern_language *l, uint32_t term, bool *nothing, tern_error *err)
{
    automaton x = {.l = l};
    tern_status status;
    TERN_GOTO(cut(&x, err));
    TERN_GOTO(explore(&x, term, err));
    TERN_GOTO(find_live(&x, err));
    *nothing = !x.live[0];
fail:
    deinit(&x);
    return status;
}

/* The terms of a chain, joined. All terms of a sequence must have a text, and one of alternatives. */
static tern_status write_chain(tern_language *l, uint32_t term, tern_grammar_tree *tree, uint32_t *node, bool *none,
                               tern_error *err)
{
    const tern_language_kind kind = l->terms[term].kind;
    const bool all = kind == TERN_LANGUAGE_ALL;
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    bool missing = false, found = false;
    for (bool more = true; more;) {
        const tern_language_term t = l->terms[term];
        bool nothing = false;
        more = t.kind == kind;
        TERN_GOTO(tern_language__write(l, more ? t.a : term, tree, node, &nothing, err));
        if (!nothing) TERN_GOTO(tern_grammar_list__add(&items, *node, err));
        missing = missing || nothing;
        found = found || !nothing;
        term = t.b;
    }
    *none = all ? missing : !found;
    status = tern_grammar_tree__join(tree, all ? TERN_GRAMMAR_ALL : TERN_GRAMMAR_ANY, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

static tern_status write_repeat(tern_language *l, tern_language_term t, tern_grammar_tree *tree, uint32_t *node,
                                bool *none, tern_error *err)
{
    TERN_TRY(tern_language__write(l, t.a, tree, node, none, err));
    if (*none && t.least) return TERN_OK;
    if (*none) t.most = 0;
    *none = false;
    return tern_grammar_tree__repeat(tree, *node, t.least, t.most, node, err);
}

static tern_status write_anything(tern_grammar_tree *tree, uint32_t *node, tern_error *err)
{
    TERN_TRY(tern_grammar_json__class(tree, NULL, 0, true, node, err));
    return tern_grammar_tree__repeat(tree, *node, 0, TERN_GRAMMAR_FOREVER, node, err);
}

tern_status tern_language__write(tern_language *l, uint32_t term, tern_grammar_tree *tree, uint32_t *node, bool *none,
                                 tern_error *err)
{
    const tern_language_term t = l->terms[term];
    *none = false;
    if (term == TERN_LANGUAGE_EVERYTHING) return write_anything(tree, node, err);
    switch (t.kind) {
    case TERN_LANGUAGE_NONE: *none = true; return TERN_OK;
    case TERN_LANGUAGE_EMPTY: return tern_grammar_tree__bytes(tree, "", 0, node, err);
    case TERN_LANGUAGE_CLASS: {
        const tern_language_class c = l->classes[t.a];
        return tern_grammar_json__class(tree, l->ranges.items + c.first, c.n, false, node, err);
    }
    case TERN_LANGUAGE_ALL:
    case TERN_LANGUAGE_ANY: return write_chain(l, term, tree, node, none, err);
    case TERN_LANGUAGE_REPEAT: return write_repeat(l, t, tree, node, none, err);
    case TERN_LANGUAGE_BOTH:
    case TERN_LANGUAGE_NOT: return write_automaton(l, term, tree, node, none, err);
    }
    return TERN_OK;
}
