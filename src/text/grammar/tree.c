/* Building the tree of a grammar, under limits. */
#include "text/grammar/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"

enum { MOST_LABELS = 1 << 20 };

void tern_grammar_tree__deinit(tern_grammar_tree *tree)
{
    tern_free(tree->nodes);
    tern_free(tree->children);
    tern_free(tree->ranges);
    tern_free(tree->rules);
    tern_buf_deinit(&tree->bytes);
    tern_buf_deinit(&tree->labels);
    *tree = (tern_grammar_tree){0};
}

tern_status tern_grammar_list__add(tern_grammar_list *list, uint32_t node, tern_error *err)
{
    TERN_TRY(tern_grow((void **)&list->nodes, &list->cap, list->n + 1, sizeof *list->nodes, err));
    list->nodes[list->n++] = node;
    return TERN_OK;
}

void tern_grammar_list__deinit(tern_grammar_list *list)
{
    tern_free(list->nodes);
    *list = (tern_grammar_list){0};
}

static tern_status add(tern_grammar_tree *t, tern_grammar_node node, uint32_t *out, tern_error *err)
{
    if (t->n_nodes >= TERN_GRAMMAR_MAX_NODES)
        return tern_fail(err, TERN_LIMIT, "the grammar has more than %d parts", TERN_GRAMMAR_MAX_NODES);
    TERN_TRY(tern_grow((void **)&t->nodes, &t->cap_nodes, t->n_nodes + 1, sizeof *t->nodes, err));
    *out = (uint32_t)t->n_nodes;
    t->nodes[t->n_nodes++] = node;
    return TERN_OK;
}

/* Bytes into the tree, at *at. */
static tern_status keep(tern_grammar_tree *t, const void *bytes, size_t n, uint32_t *at, tern_error *err)
{
    if (t->bytes.size + n > (size_t)16 << 20)
        return tern_fail(err, TERN_LIMIT, "the grammar has more than 16 MiB of text");
    *at = (uint32_t)t->bytes.size;
    return tern_buf_add(&t->bytes, bytes, n, err);
}

tern_status tern_grammar_tree__bytes(tern_grammar_tree *tree, const void *bytes, size_t n, uint32_t *node,
                                     tern_error *err)
{
    uint32_t at = 0;
    TERN_TRY(keep(tree, bytes, n, &at, err));
    return add(tree, (tern_grammar_node){TERN_GRAMMAR_BYTES, at, (uint32_t)n, 0, 0, 0}, node, err);
}

tern_status tern_grammar_tree__text(tern_grammar_tree *tree, const char *text, uint32_t *node, tern_error *err)
{
    return tern_grammar_tree__bytes(tree, text, strlen(text), node, err);
}

static int compare(const void *a, const void *b)
{
    const tern_grammar_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Takes the surrogates out of one range: 0 to 2 are left. */
static size_t without_surrogates(tern_grammar_range r, tern_grammar_range out[2])
{
    size_t n = 0;
    if (r.last > TERN_GRAMMAR_LAST_CODE) r.last = TERN_GRAMMAR_LAST_CODE;
    if (r.first > r.last) return 0;
    if (r.first < 0xd800) out[n++] = (tern_grammar_range){r.first, r.last < 0xd7ff ? r.last : 0xd7ff};
    if (r.last > 0xdfff) out[n++] = (tern_grammar_range){r.first > 0xe000 ? r.first : 0xe000, r.last};
    return n;
}

size_t tern_grammar_ranges__normalise(tern_grammar_range *ranges, size_t n)
{
    size_t kept = 0;
    qsort(ranges, n, sizeof *ranges, compare);
    for (size_t i = 0; i < n; i++) {
        tern_grammar_range r = ranges[i];
        if (kept && r.first <= ranges[kept - 1].last + 1) {
            if (r.last > ranges[kept - 1].last) ranges[kept - 1].last = r.last;
        } else {
            ranges[kept++] = r;
        }
    }
    return kept;
}

size_t tern_grammar_ranges__others(const tern_grammar_range *ranges, size_t n, tern_grammar_range *out)
{
    size_t found = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].first > next) out[found++] = (tern_grammar_range){next, ranges[i].first - 1};
        next = ranges[i].last + 1;
    }
    if (next <= TERN_GRAMMAR_LAST_CODE) out[found++] = (tern_grammar_range){next, TERN_GRAMMAR_LAST_CODE};
    return found;
}

/* Normalised ranges into the tree, without surrogates. */
static tern_status keep_ranges(tern_grammar_tree *t, const tern_grammar_range *ranges, size_t n, uint32_t *node,
                               tern_error *err)
{
    const uint32_t at = (uint32_t)t->n_ranges;
    if (t->n_ranges + 2 * n > TERN_GRAMMAR_MAX_NODES * (size_t)4)
        return tern_fail(err, TERN_LIMIT, "the grammar has more than %d ranges of characters",
                         TERN_GRAMMAR_MAX_NODES * 4);
    TERN_TRY(tern_grow((void **)&t->ranges, &t->cap_ranges, t->n_ranges + 2 * n + 1, sizeof *t->ranges, err));
    for (size_t i = 0; i < n; i++) t->n_ranges += without_surrogates(ranges[i], t->ranges + t->n_ranges);
    return add(t, (tern_grammar_node){TERN_GRAMMAR_CLASS, at, (uint32_t)(t->n_ranges - at), 0, 0, 0}, node, err);
}

tern_status tern_grammar_tree__class(tern_grammar_tree *tree, const tern_grammar_range *ranges, size_t n, bool others,
                                     uint32_t *node, tern_error *err)
{
    tern_grammar_range *sorted = tern_alloc((2 * n + 2) * sizeof *sorted);
    if (!sorted) return tern_fail_alloc(err, (2 * n + 2) * sizeof *sorted);
    if (n) memcpy(sorted, ranges, n * sizeof *sorted);
    n = tern_grammar_ranges__normalise(sorted, n);
    tern_grammar_range *kept = sorted;
    if (others) {
        kept = sorted + n;
        n = tern_grammar_ranges__others(sorted, n, kept);
    }
    tern_status status = keep_ranges(tree, kept, n, node, err);
    tern_free(sorted);
    return status;
}

tern_status tern_grammar_tree__token(tern_grammar_tree *tree, uint32_t id, uint32_t *node, tern_error *err)
{
    return add(tree, (tern_grammar_node){TERN_GRAMMAR_TOKEN, id, 0, 0, 0, 0}, node, err);
}

tern_status tern_grammar_tree__join_n(tern_grammar_tree *tree, tern_grammar_node_kind kind, const uint32_t *items,
                                      size_t n, uint32_t *node, tern_error *err)
{
    if (n == 1) {
        *node = items[0];
        return TERN_OK;
    }
    const uint32_t at = (uint32_t)tree->n_children;
    if (tree->n_children + n > TERN_GRAMMAR_MAX_NODES * (size_t)4)
        return tern_fail(err, TERN_LIMIT, "the grammar has more than %d parts", TERN_GRAMMAR_MAX_NODES * 4);
    TERN_TRY(tern_grow((void **)&tree->children, &tree->cap_children, tree->n_children + n + 1, sizeof *tree->children,
                       err));
    if (n) memcpy(tree->children + at, items, n * sizeof *items);
    tree->n_children += n;
    return add(tree, (tern_grammar_node){kind, at, (uint32_t)n, 0, 0, 0}, node, err);
}

tern_status tern_grammar_tree__join(tern_grammar_tree *tree, tern_grammar_node_kind kind, tern_grammar_list *list,
                                    uint32_t *node, tern_error *err)
{
    TERN_TRY(tern_grammar_tree__join_n(tree, kind, list->nodes, list->n, node, err));
    list->n = 0;
    return TERN_OK;
}

tern_status tern_grammar_tree__repeat(tern_grammar_tree *tree, uint32_t child, uint32_t least, uint32_t most,
                                      uint32_t *node, tern_error *err)
{
    const uint32_t count = most == TERN_GRAMMAR_FOREVER ? least : most;
    if (count > TERN_GRAMMAR_MAX_REPEAT)
        return tern_fail(err, TERN_LIMIT, "%u repetitions: at most %d expected", count, TERN_GRAMMAR_MAX_REPEAT);
    if (most == 0) return tern_grammar_tree__bytes(tree, "", 0, node, err); /* nobody walks what is never there */
    return add(tree, (tern_grammar_node){TERN_GRAMMAR_REPEAT, child, 1, least, most, 0}, node, err);
}

tern_status tern_grammar_tree__ahead(tern_grammar_tree *tree, uint32_t child, bool must, uint32_t *node,
                                     tern_error *err)
{
    return add(tree, (tern_grammar_node){TERN_GRAMMAR_AHEAD, child, must, 0, 0, 0}, node, err);
}

tern_status tern_grammar_tree__at_end(tern_grammar_tree *tree, uint32_t *node, tern_error *err)
{
    return add(tree, (tern_grammar_node){TERN_GRAMMAR_AT_END, 0, 0, 0, 0, 0}, node, err);
}

tern_status tern_grammar_tree__call(tern_grammar_tree *tree, uint32_t rule, uint32_t *node, tern_error *err)
{
    return add(tree, (tern_grammar_node){TERN_GRAMMAR_RULE, rule, 0, 0, 0, 0}, node, err);
}

tern_status tern_grammar_tree__label(tern_grammar_tree *tree, uint32_t node, const char *name, tern_error *err)
{
    const size_t at = tree->labels.size;
    if (at > MOST_LABELS) return TERN_OK;
    TERN_TRY(tern_buf_addf(&tree->labels, err, "%s%s", tree->within ? tree->within : "", name));
    TERN_TRY(tern_buf_add(&tree->labels, "", 1, err));
    tree->nodes[node].label = (uint32_t)at + 1;
    return TERN_OK;
}

tern_status tern_grammar_tree__rule(tern_grammar_tree *tree, const void *name, size_t n, uint32_t *rule,
                                    tern_error *err)
{
    tern_grammar_rule r = {.n_name = (uint32_t)n};
    if (tree->n_rules >= TERN_GRAMMAR_MAX_RULES)
        return tern_fail(err, TERN_LIMIT, "the grammar has more than %d rules", TERN_GRAMMAR_MAX_RULES);
    TERN_TRY(tern_grow((void **)&tree->rules, &tree->cap_rules, tree->n_rules + 1, sizeof *tree->rules, err));
    TERN_TRY(keep(tree, name, n, &r.name_at, err));
    *rule = (uint32_t)tree->n_rules;
    tree->rules[tree->n_rules++] = r;
    return TERN_OK;
}

void tern_grammar_tree__define(tern_grammar_tree *tree, uint32_t rule, uint32_t node)
{
    tree->rules[rule].node = node;
    tree->rules[rule].defined = true;
}
