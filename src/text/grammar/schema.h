/* A JSON Schema on its way to a grammar's tree; for grammar_schema*.c. */
#ifndef TERN_TEXT_GRAMMAR_SCHEMA_H
#define TERN_TEXT_GRAMMAR_SCHEMA_H

#include "base/arena.h"
#include "base/map.h"
#include "text/grammar/json.h"

enum { TERN_SCHEMA_MAX_PATH = 2048, TERN_SCHEMA_MAX_DEPTH = 64, TERN_SCHEMA_MAX_MEMBERS = 1000 };

/* A part of the document that is referred to, and its rule. */
typedef struct tern_schema_target {
    const char *pointer; /* "#/$defs/x" */
    const json_t *schema;
    uint32_t rule;
} tern_schema_target;

typedef struct tern_schema {
    tern_grammar_tree *tree;
    const json_t *document;
    char path[TERN_SCHEMA_MAX_PATH]; /* the JSON pointer of what is read */
    size_t n_path;
    unsigned depth;
    tern_arena names;
    tern_map rules;              /* of targets, by their pointers */
    tern_schema_target *targets; /* [n_targets] of which the first n_done are read */
    size_t n_targets, n_done, cap_targets;
    uint32_t space, character, string, number, value; /* rules */
} tern_schema;

/* One step down, and back: the length of the path before. */
size_t tern_schema__enter(tern_schema *s, const char *key);
size_t tern_schema__enter_item(tern_schema *s, size_t index);
void tern_schema__leave(tern_schema *s, size_t before);
/* "schema: /properties/a/KEY: ...": the status that is given. */
tern_status tern_schema__fail(const tern_schema *s, tern_status code, const char *key, const char *what,
                              tern_error *err);

/* Names a node by the path: "schema: /properties/a". */
tern_status tern_schema__label(tern_schema *s, uint32_t node, tern_error *err);

/* The node of a schema at the path. */
tern_status tern_schema__add(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err);
tern_status tern_schema__object(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err);
tern_status tern_schema__array(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err);
tern_status tern_schema__text(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err);
tern_status tern_schema__integer(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err);
/* Any value, member or string: their rules. */
tern_status tern_schema__basics(tern_schema *s, tern_error *err);

/* A count under a key: `missing` where there is none. Errors: MALFORMED. */
tern_status tern_schema__count(const tern_schema *s, const json_t *schema, const char *key, uint32_t missing,
                               uint32_t *out, tern_error *err);
/* Calls of rules, and texts with white space around them: what nearly all parts are made of. */
tern_status tern_schema__spaced(tern_schema *s, const char *before, const char *sign, const char *after, uint32_t *node,
                                tern_error *err);

#endif
