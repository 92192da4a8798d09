/* Sets of texts as expressions of their characters, which can be intersected and complemented: what the keywords of a
 * JSON Schema's string say together. Written into a grammar's tree at the end. */
#ifndef TERN_TEXT_GRAMMAR_LANGUAGE_H
#define TERN_TEXT_GRAMMAR_LANGUAGE_H

#include "text/grammar/json.h"
#include "text/grammar/reader.h"

typedef enum tern_language_kind {
    TERN_LANGUAGE_NONE,  /* no text */
    TERN_LANGUAGE_EMPTY, /* the empty text */
    TERN_LANGUAGE_CLASS, /* one character of the class a */
    TERN_LANGUAGE_ALL,   /* a, then b; a is not an ALL */
    TERN_LANGUAGE_ANY,   /* a or b; a is not an ANY, and terms go down along the chain of b */
    TERN_LANGUAGE_BOTH,  /* a and b; in the order of ANY */
    TERN_LANGUAGE_NOT,   /* any text that is not in a */
    TERN_LANGUAGE_REPEAT /* a, least to most times */
} tern_language_kind;

/* Equal terms are one. Lengths are counted in characters; `most` texts: TERN_GRAMMAR_FOREVER for no end. */
typedef struct tern_language_term {
    tern_language_kind kind;
    uint32_t a, b, least, most;
    uint32_t shortest, longest; /* lengths of its texts, at the least and at the most */
    uint32_t depth;             /* terms in terms */
    bool skips;                 /* it has the empty text */
    bool plain;                 /* no BOTH in it, and no NOT but EVERYTHING */
} tern_language_term;

typedef struct tern_language_class {
    uint32_t first, n; /* ranges, normalised */
} tern_language_class;

typedef struct tern_language_derived {
    uint32_t term, code, to;
} tern_language_derived;

/* Zero-initialised is empty; init makes the first terms. */
typedef struct tern_language {
    tern_language_term *terms;
    tern_language_class *classes;
    tern_grammar_ranges ranges;
    uint32_t *slots, *derived_slots; /* hash tables: number + 1, or 0 */
    tern_language_derived *derived;
    size_t n_terms, cap_terms, n_classes, cap_classes, n_slots, n_derived, cap_derived, n_derived_slots;
    uint64_t work; /* steps so far, of which there are TERN_LANGUAGE_STEPS */
} tern_language;

enum {
    TERN_LANGUAGE_NOTHING = 0,    /* the term NONE */
    TERN_LANGUAGE_BLANK = 1,      /* the term EMPTY */
    TERN_LANGUAGE_EVERYTHING = 2, /* any text */
    TERN_LANGUAGE_STEPS = 1 << 23,
    TERN_LANGUAGE_STATES = 4096 /* of one automaton */
};

/* Errors of all of these: LIMIT, OUT_OF_MEMORY. */
tern_status tern_language__init(tern_language *l, tern_error *err);
void tern_language__deinit(tern_language *l);

tern_status tern_language__class(tern_language *l, const tern_grammar_range *ranges, size_t n, uint32_t *out,
                                 tern_error *err);
tern_status tern_language__all(tern_language *l, uint32_t a, uint32_t b, uint32_t *out, tern_error *err);
tern_status tern_language__any(tern_language *l, uint32_t a, uint32_t b, uint32_t *out, tern_error *err);
tern_status tern_language__both(tern_language *l, uint32_t a, uint32_t b, uint32_t *out, tern_error *err);
tern_status tern_language__not(tern_language *l, uint32_t a, uint32_t *out, tern_error *err);
tern_status tern_language__repeat(tern_language *l, uint32_t a, uint32_t least, uint32_t most, uint32_t *out,
                                  tern_error *err);
/* n bytes of UTF-8. */
tern_status tern_language__text(tern_language *l, const char *text, size_t n, uint32_t *out, tern_error *err);
/* The texts of a that have least to most characters. */
tern_status tern_language__restrict(tern_language *l, uint32_t a, uint32_t least, uint32_t most, uint32_t *out,
                                    tern_error *err);
/* A regular expression of JSON Schema: any text may stand around it where it has no ^ and $. `what` is its name in
 * messages. Errors: also MALFORMED. */
tern_status tern_language__pattern(tern_language *l, const char *text, size_t n, const char *what, uint32_t *out,
                                   tern_error *err);

/* The language that may follow one character of a text of the term. */
tern_status tern_language__derive(tern_language *l, uint32_t term, uint32_t code, uint32_t *out, tern_error *err);
/* Whether the term has a text. */
tern_status tern_language__has(tern_language *l, uint32_t term, const char *text, size_t n, bool *has, tern_error *err);
/* Whether the term has no text at all. */
tern_status tern_language__is_nothing(tern_language *l, uint32_t term, bool *nothing, tern_error *err);
/* The node of a term's texts as they stand in a JSON string, without its quotes; *none: it has no text, and there is no
 * node. */
tern_status tern_language__write(tern_language *l, uint32_t term, tern_grammar_tree *tree, uint32_t *node, bool *none,
                                 tern_error *err);

#endif
