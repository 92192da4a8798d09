/* Facts about each rule that the compiler of grammars needs first: its size, whether it can be empty, whether it
 * ends. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "text/grammar/program.h"

/* MOST_VISITS: a part that stands in several places of the tree is visited in each, and so are those in it. */
enum { MOST_SIZE = 1 << 24, MOST_DEPTH = 4096, MOST_VISITS = 1 << 21, MOST_LOOKS = 1 << 26 };

typedef struct finder {
    const tern_grammar_tree *tree;
    tern_grammar_facts *facts;
    uint32_t *order; /* [n_rules] each rule after those that it calls, except for circles */
    uint32_t n_order, depth, n_visits;
    uint64_t n_looks; /* at nodes, by holds */
} finder;

static uint32_t at_most(uint64_t size)
{
    return size < MOST_SIZE ? (uint32_t)size : MOST_SIZE;
}

static uint32_t rule_size(const tern_grammar_facts *f)
{
    return f->called || f->size > TERN_GRAMMAR_INLINE ? 1 : f->size;
}

uint32_t tern_grammar_facts__size(const tern_grammar_facts *facts, const tern_grammar_tree *tree, uint32_t node)
{
    const tern_grammar_node *n = &tree->nodes[node];
    uint64_t size = 0;
    switch (n->kind) {
    case TERN_GRAMMAR_BYTES: return n->n;
    case TERN_GRAMMAR_CLASS: return at_most(1 + 3 * (uint64_t)n->n);
    case TERN_GRAMMAR_TOKEN: return 1;
    case TERN_GRAMMAR_RULE: return rule_size(&facts[n->at]);
    case TERN_GRAMMAR_REPEAT:
        size = tern_grammar_facts__size(facts, tree, n->at) + 1;
        return at_most(size * (n->most == TERN_GRAMMAR_FOREVER ? n->least + 1 : n->most));
    case TERN_GRAMMAR_ALL:
    case TERN_GRAMMAR_ANY:
        for (uint32_t i = 0; i < n->n; i++)
            size += 1 + tern_grammar_facts__size(facts, tree, tree->children[n->at + i]);
        return at_most(size);
    case TERN_GRAMMAR_AHEAD:
    case TERN_GRAMMAR_AT_END: break;
    }
    return 0;
}

bool tern_grammar_facts__broad(const tern_grammar_facts *facts, const tern_grammar_tree *tree, uint32_t node)
{
    const tern_grammar_node *n = &tree->nodes[node];
    uint32_t characters = 0;
    switch (n->kind) {
    case TERN_GRAMMAR_BYTES:
    case TERN_GRAMMAR_TOKEN: return false;
    case TERN_GRAMMAR_CLASS:
        for (uint32_t i = 0; i < n->n; i++)
            characters += tree->ranges[n->at + i].last - tree->ranges[n->at + i].first + 1;
        return characters > TERN_GRAMMAR_WIDE;
    case TERN_GRAMMAR_RULE: return facts[n->at].broad;
    case TERN_GRAMMAR_REPEAT: return tern_grammar_facts__broad(facts, tree, n->at);
    case TERN_GRAMMAR_ALL:
    case TERN_GRAMMAR_ANY:
        for (uint32_t i = 0; i < n->n; i++)
            if (tern_grammar_facts__broad(facts, tree, tree->children[n->at + i])) return true;
        return false;
    case TERN_GRAMMAR_AHEAD:
    case TERN_GRAMMAR_AT_END: break;
    }
    return false;
}

static tern_status visit_rule(finder *f, uint32_t rule, tern_error *err);

/* Visits the rules that a node calls. */
static tern_status visit(finder *f, uint32_t node, tern_error *err)
{
    const tern_grammar_node *n = &f->tree->nodes[node];
    tern_status status = TERN_OK;
    if (f->depth >= MOST_DEPTH)
        return tern_fail(err, TERN_LIMIT, "the grammar's rules nest deeper than %d parts", MOST_DEPTH);
    if (f->n_visits++ >= MOST_VISITS)
        return tern_fail(err, TERN_LIMIT, "the grammar has more than %d parts, written out", MOST_VISITS);
    f->depth++;
    if (n->kind == TERN_GRAMMAR_RULE) status = visit_rule(f, n->at, err);
    if (n->kind == TERN_GRAMMAR_REPEAT) status = visit(f, n->at, err);
    if (n->kind == TERN_GRAMMAR_ALL || n->kind == TERN_GRAMMAR_ANY)
        for (uint32_t i = 0; i < n->n && status == TERN_OK; i++) status = visit(f, f->tree->children[n->at + i], err);
    f->depth--;
    return status;
}

static tern_status visit_rule(finder *f, uint32_t rule, tern_error *err)
{
    tern_grammar_facts *facts = &f->facts[rule];
    if (facts->visited == 1) facts->called = true;
    if (facts->visited) return TERN_OK;
    facts->visited = 1;
    facts->called = f->tree->rules[rule].apart;
    TERN_TRY(visit(f, f->tree->rules[rule].node, err));
    facts->size = tern_grammar_facts__size(f->facts, f->tree, f->tree->rules[rule].node);
    facts->broad = tern_grammar_facts__broad(f->facts, f->tree, f->tree->rules[rule].node);
    facts->visited = 2;
    f->order[f->n_order++] = rule;
    return TERN_OK;
}

/* Whether the node can read the empty text (`skip`), or can be read to its end at all, as far as is known. */
static bool holds(finder *f, uint32_t node, bool skip)
{
    f->n_looks++;
    const tern_grammar_node *n = &f->tree->nodes[node];
    const uint32_t *children = f->tree->children;
    switch (n->kind) {
    case TERN_GRAMMAR_BYTES: return !skip || n->n == 0;
    case TERN_GRAMMAR_CLASS: return !skip && n->n > 0;
    case TERN_GRAMMAR_TOKEN: return !skip;
    case TERN_GRAMMAR_RULE: return skip ? f->facts[n->at].may_skip : f->facts[n->at].ends;
    case TERN_GRAMMAR_REPEAT: return n->least == 0 || holds(f, n->at, skip);
    case TERN_GRAMMAR_ALL:
        for (uint32_t i = 0; i < n->n; i++)
            if (!holds(f, children[n->at + i], skip)) return false;
        return true;
    case TERN_GRAMMAR_ANY:
        for (uint32_t i = 0; i < n->n; i++)
            if (holds(f, children[n->at + i], skip)) return true;
        return false;
    case TERN_GRAMMAR_AHEAD:
    case TERN_GRAMMAR_AT_END: break;
    }
    return false;
}

static tern_status fail_looks(tern_error *err)
{
    return tern_fail(err, TERN_LIMIT, "the grammar takes more than %d steps to compile", MOST_LOOKS);
}

static tern_status find_holding(finder *f, tern_error *err)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < f->n_order; i++) {
            if (f->n_looks > MOST_LOOKS) return fail_looks(err);
            const uint32_t rule = f->order[i], node = f->tree->rules[rule].node;
            tern_grammar_facts *facts = &f->facts[rule];
            const bool skip = facts->may_skip || holds(f, node, true), ends = facts->ends || holds(f, node, false);
            changed = changed || skip != facts->may_skip || ends != facts->ends;
            facts->may_skip = skip;
            facts->ends = ends;
        }
    }
    return TERN_OK;
}

static tern_status fail_rule(const finder *f, uint32_t rule, const char *what, tern_error *err)
{
    const tern_grammar_rule *r = &f->tree->rules[rule];
    const tern_span name = {(const uint8_t *)f->tree->bytes.data + r->name_at, r->n_name};
    return tern_fail(err, TERN_MALFORMED, "rule `%s` %s", tern_show(name).text, what);
}

static tern_status first_rule(finder *f, uint32_t rule, tern_error *err);

/* Follows what the node reads first: *skips says whether what comes after it is also first. */
static tern_status first(finder *f, uint32_t node, bool *skips, tern_error *err)
{
    const tern_grammar_node *n = &f->tree->nodes[node];
    bool inner = true;
    *skips = holds(f, node, true);
    if (f->n_looks > MOST_LOOKS) return fail_looks(err);
    if (n->kind == TERN_GRAMMAR_RULE) return first_rule(f, n->at, err);
    if (n->kind == TERN_GRAMMAR_REPEAT) return n->most ? first(f, n->at, &inner, err) : TERN_OK;
    if (n->kind != TERN_GRAMMAR_ALL && n->kind != TERN_GRAMMAR_ANY) return TERN_OK;
    for (uint32_t i = 0; i < n->n && (inner || n->kind == TERN_GRAMMAR_ANY); i++)
        TERN_TRY(first(f, f->tree->children[n->at + i], &inner, err));
    return TERN_OK;
}

static tern_status first_rule(finder *f, uint32_t rule, tern_error *err)
{
    tern_grammar_facts *facts = &f->facts[rule];
    bool skips;
    if (facts->visited == 1)
        return fail_rule(f, rule, "calls itself before it reads a character (left recursion)", err);
    if (facts->visited == 3) return TERN_OK;
    facts->visited = 1;
    TERN_TRY(first(f, f->tree->rules[rule].node, &skips, err));
    facts->visited = 3;
    return TERN_OK;
}

static tern_status find(finder *f, tern_error *err)
{
    TERN_TRY(visit_rule(f, f->tree->root, err));
    TERN_TRY(find_holding(f, err));
    for (uint32_t i = 0; i < f->n_order; i++) {
        TERN_TRY(first_rule(f, f->order[i], err));
        if (!f->facts[f->order[i]].ends) return fail_rule(f, f->order[i], "can never end", err);
    }
    return TERN_OK;
}

tern_status tern_grammar_facts__find(tern_grammar_facts *facts, const tern_grammar_tree *tree, tern_error *err)
{
    finder f = {.tree = tree, .facts = facts};
    memset(facts, 0, tree->n_rules * sizeof *facts);
    f.order = tern_calloc(tree->n_rules, sizeof *f.order);
    if (!f.order) return tern_fail_alloc(err, tree->n_rules * sizeof *f.order);
    tern_status status = find(&f, err);
    tern_free(f.order);
    return status;
}
