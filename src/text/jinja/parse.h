/* From the text of a chat template to its tree: the parser, shared by statements and expressions. */
#ifndef TERN_TEXT_JINJA_PARSE_H
#define TERN_TEXT_JINJA_PARSE_H

#include "text/jinja/ast.h"
#include "text/jinja/lex.h"

/* Nesting of tags and of parentheses that is accepted. */
enum { TERN_JINJA_MAX_DEPTH = 64, TERN_JINJA_MAX_CHAIN = 256 };

typedef struct tern_jinja_parser {
    tern_jinja_pool *pool;
    tern_jinja_lexer lexer;
    tern_jinja_token now, ahead; /* the token to be taken, and the one after it */
    unsigned tags, expressions;  /* open right now */
    unsigned loops;
    int extras;                  /* names of tern_jinja_extra that were read since the macro began */
    const tern_jinja_node *lost; /* the first unknown filter or test outside branches, or NULL */
} tern_jinja_parser;

/* The statements of a whole template, chained through `next` (NULL when there are none). Nodes and their strings live
 * in the pool. Errors: MALFORMED, UNSUPPORTED (with the construct and its line), LIMIT, OUT_OF_MEMORY. */
tern_status tern_jinja__parse(tern_jinja_pool *pool, const char *source, size_t n, tern_jinja_node **statements);

/* Tokens. `at` asks, `accept` takes when it is there, `expect` fails when it is not. */
bool tern_jinja__at(const tern_jinja_parser *p, tern_jinja_token_kind kind, const char *text);
static inline bool tern_jinja__at_op(const tern_jinja_parser *p, const char *text)
{
    return tern_jinja__at(p, TERN_JINJA_OPERATOR, text);
}
static inline bool tern_jinja__at_word(const tern_jinja_parser *p, const char *text)
{
    return tern_jinja__at(p, TERN_JINJA_WORD, text);
}
tern_status tern_jinja__advance(tern_jinja_parser *p);
tern_status tern_jinja__accept(tern_jinja_parser *p, tern_jinja_token_kind kind, const char *text, bool *taken);
tern_status tern_jinja__expect(tern_jinja_parser *p, tern_jinja_token_kind kind, const char *text);
tern_status tern_jinja__take_name(tern_jinja_parser *p, tern_jinja_str *name);
/* MALFORMED: "expected WANTED, found ...". */
tern_status tern_jinja__unexpected(tern_jinja_parser *p, const char *wanted);

tern_status tern_jinja__node(tern_jinja_parser *p, tern_jinja_node_kind kind, tern_jinja_node **out);
/* Puts a node of this kind around *out. Chains are bounded, since rendering goes down them. */
tern_status tern_jinja__wrap(tern_jinja_parser *p, tern_jinja_node_kind kind, tern_jinja_node **out);
/* One level deeper (p->tags or p->expressions) or LIMIT; the caller takes it back with --. */
tern_status tern_jinja__enter(tern_jinja_parser *p, unsigned *level);

/* Expressions. `tuple` also takes "a, b"; without `conditional` an "if" ends it. A target is a name, name.attribute or
 * names. */
tern_status tern_jinja__parse_expression(tern_jinja_parser *p, tern_jinja_node **out);
tern_status tern_jinja__parse_tuple(tern_jinja_parser *p, bool conditional, tern_jinja_node **out);
tern_status tern_jinja__parse_target(tern_jinja_parser *p, bool attributes, tern_jinja_node **out);
/* A name, name.attribute, or names in parentheses. */
tern_status tern_jinja__parse_target_item(tern_jinja_parser *p, bool attributes, tern_jinja_node **out);
/* A literal, name or bracket with its attributes, subscripts and calls. */
tern_status tern_jinja__parse_operand(tern_jinja_parser *p, tern_jinja_node **out);
/* Filters, tests and calls after an operand; they bind tighter than every operator between two operands. */
tern_status tern_jinja__parse_modifiers(tern_jinja_parser *p, tern_jinja_node **out);
/* Filters after *node ("| trim | upper"), put around it. */
tern_status tern_jinja__parse_filters(tern_jinja_parser *p, tern_jinja_node **node);
/* The filters of {% filter upper | trim %}, the cursor being at "filter": the first one has no "|" before it. */
tern_status tern_jinja__parse_first_filter(tern_jinja_parser *p, tern_jinja_node **node);
/* Parenthesised arguments, the cursor being after "(". */
tern_status tern_jinja__parse_arguments(tern_jinja_parser *p, tern_jinja_node **list);

/* The built-in of that name, or NULL. */
const tern_jinja_filter *tern_jinja__find_filter(tern_jinja_str name);
const tern_jinja_test *tern_jinja__find_test(tern_jinja_str name);

#endif
