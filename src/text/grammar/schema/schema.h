/* A JSON Schema on its way to a grammar's tree; for the files of this folder. Schemas are read in two steps: those that
 * combine others (allOf, anyOf, oneOf, $ref beside other keywords, ...) become a list of plain ones, any of which may
 * hold (flat.c, merge.c); plain ones become nodes, type by type. */
#ifndef TERN_TEXT_GRAMMAR_SCHEMA_SCHEMA_H
#define TERN_TEXT_GRAMMAR_SCHEMA_SCHEMA_H

#include "base/arena.h"
#include "base/map.h"
#include "text/grammar/language.h"

enum {
    TERN_SCHEMA_MAX_PATH = 2048,
    TERN_SCHEMA_MAX_DEPTH = 64,
    TERN_SCHEMA_MAX_MEMBERS = 1000,
    TERN_SCHEMA_MAX_WAYS = 256,     /* plain schemas that one becomes */
    TERN_SCHEMA_MAX_WORK = 1 << 18, /* keywords that are read, merged and compared */
    TERN_SCHEMA_MAX_LISTED = 4096   /* values, and states of lists and counts, that are written out */
};

/* A node of a schema that no value fits. */
#define TERN_SCHEMA_NOTHING UINT32_MAX

/* Types as bits; a number may be an integer. */
enum {
    TERN_SCHEMA_OBJECT = 1,
    TERN_SCHEMA_ARRAY = 2,
    TERN_SCHEMA_STRING = 4,
    TERN_SCHEMA_FRACTION = 8, /* numbers that are not whole */
    TERN_SCHEMA_INTEGER = 16,
    TERN_SCHEMA_BOOLEAN = 32,
    TERN_SCHEMA_NULL = 64,
    TERN_SCHEMA_ANY = 127
};

/* A part of the document that is referred to, and its rule. */
typedef struct tern_schema_target {
    const char *pointer; /* "#/$defs/x" */
    const json_t *schema;
    uint32_t rule;
} tern_schema_target;

/* A schema that was written as a rule of its own, which holds wherever it stands. */
typedef struct tern_schema_shared {
    uint32_t rule;
    bool nothing;
} tern_schema_shared;

typedef struct tern_schema {
    tern_grammar_tree *tree;
    json_t *document;                /* a copy, in which every $ref is a pointer into it */
    char path[TERN_SCHEMA_MAX_PATH]; /* the JSON pointer of what is read */
    size_t n_path;
    unsigned depth;
    char why[256]; /* the first place that no value fits, and the reason */
    tern_arena names;
    tern_map rules;              /* of targets by their pointers, and of parts by what they are */
    tern_schema_target *targets; /* [n_targets] of which the first n_done are read */
    size_t n_targets, n_done, cap_targets;
    tern_schema_shared *shared;
    size_t n_shared, cap_shared;
    json_t *made;      /* schemas that are not in the document */
    const json_t *any; /* {} */
    uint64_t work;     /* so far, of which there are MAX_WORK */
    uint64_t language_work;
    uint32_t space, character, string, number, value; /* rules */
} tern_schema;

/* Plain schemas, which `made` owns; zero-initialised is empty. The caller's to deinit. */
typedef struct tern_schema_ways {
    const json_t **items;
    size_t n, cap;
} tern_schema_ways;

/* One step down, and back: the length of the path before. */
size_t tern_schema__enter(tern_schema *s, const char *key);
size_t tern_schema__enter_item(tern_schema *s, size_t index);
void tern_schema__leave(tern_schema *s, size_t before);
/* "schema: /properties/a/KEY: ...": the status that is given. */
tern_status tern_schema__fail(const tern_schema *s, tern_status code, const char *key, const char *what,
                              tern_error *err);
/* Notes why no value fits; OK. */
tern_status tern_schema__nothing(tern_schema *s, const char *key, const char *what, uint32_t *node);
/* Counts work. Errors: LIMIT. */
tern_status tern_schema__count_work(tern_schema *s, size_t n, tern_error *err);

/* Names a node by the path: "schema: /properties/a". */
tern_status tern_schema__label(tern_schema *s, uint32_t node, tern_error *err);

/* The node of a schema at the path; NOTHING where no value fits. */
tern_status tern_schema__add(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err);
/* Those of plain schemas for one type. */
tern_status tern_schema__object(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err);
tern_status tern_schema__array(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err);
tern_status tern_schema__text(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err);
tern_status tern_schema__number(tern_schema *s, const json_t *plain, bool whole, uint32_t *node, tern_error *err);
/* The values of `enum` that hold. */
tern_status tern_schema__values(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err);
/* n texts, which are put in order: what they share at their beginnings is written once. */
tern_status tern_schema__texts(tern_schema *s, tern_span *texts, size_t n, uint32_t *node, tern_error *err);
/* Any value, member or string: their rules. */
tern_status tern_schema__basics(tern_schema *s, tern_error *err);
tern_status tern_schema__rule(tern_schema *s, const char *name, bool apart, uint32_t node, uint32_t *rule,
                              tern_error *err);
/* ANY of nodes that are not NOTHING; takes the list's. */
tern_status tern_schema__any(tern_schema *s, tern_grammar_list *items, uint32_t *node, tern_error *err);

/* A copy of a document in which every $ref is a pointer, if what it refers to is there: to an $id, an $anchor or
 * another pointer. The caller releases it. */
tern_status tern_schema__resolve_ids(const json_t *document, json_t **copy, tern_error *err);
/* The target of a pointer like "#/$defs/a~1b"; NULL where there is nothing. */
json_t *tern_schema__resolve(json_t *at, const char *pointer);

/* The plain schemas of one, into an empty list. Errors: also UNSUPPORTED. */
tern_status tern_schema__flatten(tern_schema *s, const json_t *schema, tern_schema_ways *ways, tern_error *err);
tern_status tern_schema__add_way(tern_schema *s, tern_schema_ways *ways, const json_t *plain, tern_error *err);
/* A new schema, which `made` takes. */
tern_status tern_schema__keep(tern_schema *s, json_t *fresh, tern_error *err);
/* The plain keywords of a schema alone; NULL where no value fits. */
tern_status tern_schema__plain(tern_schema *s, const json_t *schema, const json_t **plain, tern_error *err);
/* Both of two plain schemas; NULL where they contradict each other. */
tern_status tern_schema__merge(tern_schema *s, const json_t *a, const json_t *b, const json_t **both, tern_error *err);
/* Both of any two schemas, as one that is not plain; either may be NULL: nothing is asked. */
tern_status tern_schema__both(tern_schema *s, const json_t *a, const json_t *b, const json_t **both, tern_error *err);
/* The types of a plain schema. */
unsigned tern_schema__types(const json_t *plain);
/* Those that are written: where no type is given, the one that its other keywords speak of, else any. */
unsigned tern_schema__written_types(const json_t *plain);
/* Whether all that is written for plain schema a (see object.c: it writes no members that are not named) is
 * invalid by b. Where members of other names would do, *without (unless NULL) gets a with one member less, else NULL.
 */
tern_status tern_schema__is_apart(tern_schema *s, const json_t *a, const json_t *b, bool *apart, const json_t **without,
                                  tern_error *err);

/* Whether a value is valid by a schema, or by a plain one. */
tern_status tern_schema__holds(tern_schema *s, const json_t *schema, const json_t *value, bool *holds, tern_error *err);
tern_status tern_schema__plain_holds(tern_schema *s, const json_t *plain, const json_t *value, bool *holds,
                                     tern_error *err);
bool tern_schema__same(const json_t *a, const json_t *b);

/* A count under a key: `missing` where there is none; at most TERN_GRAMMAR_MAX_REPEAT. */
uint32_t tern_schema__count(const json_t *plain, const char *key, uint32_t missing);
/* The texts of a plain schema's strings. `l` is ready. */
tern_status tern_schema__language(tern_schema *s, const json_t *plain, tern_language *l, uint32_t *term,
                                  tern_error *err);
/* A language that goes on counting where the last one ended, and the end of it. */
tern_status tern_schema__begin_language(tern_schema *s, tern_language *l, tern_error *err);
void tern_schema__end_language(tern_schema *s, tern_language *l);
/* Whether a pattern of patternProperties is found in a name. */
tern_status tern_schema__matches(tern_schema *s, const char *pattern, const char *name, bool *matches, tern_error *err);
/* Names in quotes: those of `names` (NULL: any) in which all `with` patterns are found and none of `without`, and that
 * are none of n `taken`. NOTHING: there are none. */
typedef struct tern_schema_names {
    const json_t *names;         /* a schema, of propertyNames */
    const char *const *patterns; /* [n_patterns] */
    const bool *with;            /* [n_patterns] found, or not found */
    size_t n_patterns;
    const char *const *taken; /* [n_taken] */
    size_t n_taken;
} tern_schema_names;
tern_status tern_schema__names(tern_schema *s, const tern_schema_names *names, uint32_t *node, tern_error *err);

/* A decimal number: sign, digits * 10^exponent. */
typedef struct tern_schema_decimal {
    bool negative;
    uint64_t digits; /* 0, or without zeros at its end */
    int exponent;
} tern_schema_decimal;
/* The shortest that reads as the value. */
tern_schema_decimal tern_schema__decimal(double value);
/* Whether value is a whole multiple of the step. */
bool tern_schema__is_multiple(double value, double step);
/* Whole numbers n * 10^-places: the values of a plain schema's number. `forever`: no such bound. */
typedef struct tern_schema_range {
    int64_t least, most;
    bool low, high; /* there is such a bound */
    uint64_t step;  /* n is a multiple of it */
    uint32_t places;
} tern_schema_range;
/* *none: no number fits. Errors: UNSUPPORTED. */
tern_status tern_schema__range(tern_schema *s, const json_t *plain, bool whole, tern_schema_range *range, bool *none,
                               tern_error *err);
tern_status tern_schema__digits(tern_schema *s, const tern_schema_range *range, uint32_t *node, tern_error *err);

/* Different items of an array whose items have few values. */
tern_status tern_schema__unique(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err);

/* Calls of rules, and texts with white space around them: what nearly all parts are made of. */
tern_status tern_schema__spaced(tern_schema *s, const char *before, const char *sign, const char *after, uint32_t *node,
                                tern_error *err);

#endif
