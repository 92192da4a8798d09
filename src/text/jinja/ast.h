/* The tree that a chat template is parsed to. Nodes live in the template's arena and never change. */
#ifndef TERN_TEXT_JINJA_AST_H
#define TERN_TEXT_JINJA_AST_H

#include "text/jinja/value.h"

/* The use of the fields is written beside each kind; `list` chains through `next`. */
typedef enum tern_jinja_node_kind {
    /* Expressions. */
    TERN_JINJA_CONST,   /* value */
    TERN_JINJA_NAME,    /* name */
    TERN_JINJA_ITEMS,   /* list; op: TERN_JINJA_LIST or TERN_JINJA_TUPLE */
    TERN_JINJA_MAP,     /* list: key, value, key, value, ... */
    TERN_JINJA_ATTR,    /* a.name */
    TERN_JINJA_INDEX,   /* a[b] */
    TERN_JINJA_SLICE,   /* a[b:c:d], each may be NULL */
    TERN_JINJA_CALL,    /* a(list): arguments, KEYWORD last */
    TERN_JINJA_FILTER,  /* a | filter(list); a NULL: the text of a block. filter NULL: an unknown name */
    TERN_JINJA_TEST,    /* a is test(list); test NULL: an unknown name */
    TERN_JINJA_KEYWORD, /* name=a, among arguments and macro parameters (a NULL: no default) */
    TERN_JINJA_STAR,    /* *a, among arguments */
    TERN_JINJA_STARS,   /* **a, among arguments */
    TERN_JINJA_UNARY,   /* op a: '-', '+', '!' */
    TERN_JINJA_BINARY,  /* a op b: + - * / % ~, 'F' for //, 'P' for **, '&' and '|' for and, or */
    TERN_JINJA_COMPARE, /* a, then list of COMPARE nodes (op, a): = ! < > 'l' for <=, 'g' for >=, 'i' for in, 'n' for
                           not in */
    TERN_JINJA_COND,    /* b if a else c (c may be NULL) */
    /* Statements. */
    TERN_JINJA_TEXT,       /* value */
    TERN_JINJA_PRINT,      /* a */
    TERN_JINJA_IF,         /* list of BRANCH */
    TERN_JINJA_BRANCH,     /* a (NULL: else), list: body */
    TERN_JINJA_FOR,        /* a: target, b: iterable, c: filter or NULL, list: body, other: else body; op: recursive */
    TERN_JINJA_SET,        /* a: target, b: value */
    TERN_JINJA_SET_BLOCK,  /* a: target, b: filters or NULL, list: body */
    TERN_JINJA_MACRO_DEF,  /* name, a: chain of KEYWORD, list: body; op: a sum of tern_jinja_extra */
    TERN_JINJA_CALL_BLOCK, /* a: MACRO_DEF of the body, b: CALL */
    TERN_JINJA_FILTER_BLOCK, /* b: filters, list: body */
    TERN_JINJA_WITH,         /* a: chain of SET, list: body */
    TERN_JINJA_BLOCK,        /* list: body in the same scope */
    TERN_JINJA_BREAK,
    TERN_JINJA_CONTINUE
} tern_jinja_node_kind;

/* Names that a macro's body reads without having set them. */
typedef enum tern_jinja_extra {
    TERN_JINJA_VARARGS = 1, /* arguments beyond the parameters */
    TERN_JINJA_KWARGS = 2,  /* named ones without a parameter */
    TERN_JINJA_CALLER = 4   /* the body of a {% call %} block */
} tern_jinja_extra;

typedef struct tern_jinja_filter tern_jinja_filter;
typedef struct tern_jinja_test tern_jinja_test;

typedef struct tern_jinja_node tern_jinja_node;
struct tern_jinja_node {
    tern_jinja_node_kind kind;
    int op;
    uint32_t line;
    uint32_t depth; /* of the expression below */
    tern_jinja_str name;
    tern_jinja_value value;
    tern_jinja_node *a, *b, *c, *d;
    tern_jinja_node *list, *other, *next;
    const tern_jinja_filter *filter;
    const tern_jinja_test *test;
};

#endif
