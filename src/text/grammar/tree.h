/* The tree that every source of a grammar is read into: rules of sequences, alternatives and repetitions. */
#ifndef TERN_TEXT_GRAMMAR_TREE_H
#define TERN_TEXT_GRAMMAR_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tern/bytes.h"

enum {
    TERN_GRAMMAR_MAX_SOURCE = 1 << 20, /* bytes of a grammar, a schema or an expression */
    TERN_GRAMMAR_MAX_NODES = 1 << 18,  /* of a tree */
    TERN_GRAMMAR_MAX_RULES = 1 << 14,  /* of a grammar */
    TERN_GRAMMAR_MAX_REPEAT = 100000,  /* of one item */
    TERN_GRAMMAR_MAX_NESTING = 64,     /* groups in groups */
    TERN_GRAMMAR_FOREVER = 0x7fffffff, /* a repetition without an end */
    TERN_GRAMMAR_LAST_CODE = 0x10ffff  /* of Unicode */
};

typedef enum tern_grammar_node_kind {
    TERN_GRAMMAR_BYTES,  /* data at `at`, n bytes, in the tree's bytes; 0 of them: the empty text */
    TERN_GRAMMAR_CLASS,  /* one character of n ranges at `at` */
    TERN_GRAMMAR_TOKEN,  /* the token with id `at` */
    TERN_GRAMMAR_ALL,    /* n children at `at`, one after the other */
    TERN_GRAMMAR_ANY,    /* one of n children at `at` */
    TERN_GRAMMAR_REPEAT, /* the child `at`, least to most times */
    TERN_GRAMMAR_RULE,   /* the rule `at` */
    TERN_GRAMMAR_AHEAD,  /* what follows begins with the child `at` (n 1), or does not (n 0); for language.h alone */
    TERN_GRAMMAR_AT_END  /* nothing follows; for language.h alone */
} tern_grammar_node_kind;

typedef struct tern_grammar_node {
    tern_grammar_node_kind kind;
    uint32_t at, n;
    uint32_t least, most;
    uint32_t label; /* of the part of the source, from 1 on; 0: that of what it stands in */
} tern_grammar_node;

/* Code points first to last; neither holds surrogates once normalised. */
typedef struct tern_grammar_range {
    uint32_t first, last;
} tern_grammar_range;

typedef struct tern_grammar_rule {
    uint32_t name_at, n_name; /* in the tree's bytes */
    uint32_t node;
    bool defined;
    bool apart; /* called, never written out in the place of its calls */
    size_t at;  /* where it was named first, in the source */
} tern_grammar_rule;

/* Zero-initialised is empty. */
typedef struct tern_grammar_tree {
    tern_grammar_node *nodes;
    uint32_t *children;
    tern_grammar_range *ranges;
    tern_grammar_rule *rules;
    size_t n_nodes, cap_nodes, n_children, cap_children, n_ranges, cap_ranges, n_rules, cap_rules;
    tern_buf bytes, labels; /* labels: texts that end with NUL */
    const char *within;     /* what labels begin with; NULL: nothing */
    uint32_t root;          /* a rule */
} tern_grammar_tree;

/* Nodes that become the children of one, in order; zero-initialised is empty. The caller's to deinit. */
typedef struct tern_grammar_list {
    uint32_t *nodes;
    size_t n, cap;
} tern_grammar_list;

void tern_grammar_tree__deinit(tern_grammar_tree *tree);
tern_status tern_grammar_list__add(tern_grammar_list *list, uint32_t node, tern_error *err);
void tern_grammar_list__deinit(tern_grammar_list *list);

/* All of these put the number of a new node into *node. Errors: LIMIT, OUT_OF_MEMORY. */
tern_status tern_grammar_tree__bytes(tern_grammar_tree *tree, const void *bytes, size_t n, uint32_t *node,
                                     tern_error *err);
tern_status tern_grammar_tree__text(tern_grammar_tree *tree, const char *text, uint32_t *node, tern_error *err);
/* The ranges in any order, which may overlap; `others`: all characters but these. */
tern_status tern_grammar_tree__class(tern_grammar_tree *tree, const tern_grammar_range *ranges, size_t n, bool others,
                                     uint32_t *node, tern_error *err);
tern_status tern_grammar_tree__token(tern_grammar_tree *tree, uint32_t id, uint32_t *node, tern_error *err);
/* ALL or ANY of a list, which is left empty; of one item the item itself. */
tern_status tern_grammar_tree__join(tern_grammar_tree *tree, tern_grammar_node_kind kind, tern_grammar_list *list,
                                    uint32_t *node, tern_error *err);
/* As above for n items. */
tern_status tern_grammar_tree__join_n(tern_grammar_tree *tree, tern_grammar_node_kind kind, const uint32_t *items,
                                      size_t n, uint32_t *node, tern_error *err);
/* most: TERN_GRAMMAR_FOREVER for no end. Errors: also LIMIT (more than MAX_REPEAT). */
tern_status tern_grammar_tree__repeat(tern_grammar_tree *tree, uint32_t child, uint32_t least, uint32_t most,
                                      uint32_t *node, tern_error *err);
/* An AHEAD. */
tern_status tern_grammar_tree__ahead(tern_grammar_tree *tree, uint32_t child, bool must, uint32_t *node,
                                     tern_error *err);
tern_status tern_grammar_tree__at_end(tern_grammar_tree *tree, uint32_t *node, tern_error *err);
tern_status tern_grammar_tree__call(tern_grammar_tree *tree, uint32_t rule, uint32_t *node, tern_error *err);

/* Names the part of the source that a node was read from, for errors: "rule `x`". After 1 MiB of names a node has none:
 * errors name the part around it. */
tern_status tern_grammar_tree__label(tern_grammar_tree *tree, uint32_t node, const char *name, tern_error *err);

/* A new rule without a body, into *rule. */
tern_status tern_grammar_tree__rule(tern_grammar_tree *tree, const void *name, size_t n, uint32_t *rule,
                                    tern_error *err);
void tern_grammar_tree__define(tern_grammar_tree *tree, uint32_t rule, uint32_t node);

/* Makes ranges ordered, apart and free of surrogates, in place; the number that is left. */
size_t tern_grammar_ranges__normalise(tern_grammar_range *ranges, size_t n);
/* The complement of n normalised ranges in Unicode, into out (room for n + 2); the number of ranges. */
size_t tern_grammar_ranges__others(const tern_grammar_range *ranges, size_t n, tern_grammar_range *out);

#endif
