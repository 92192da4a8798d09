/* The form that a grammar is compiled to: a program that reads bytes, with calls of rules, run by machine.h. */
#ifndef TERN_TEXT_GRAMMAR_PROGRAM_H
#define TERN_TEXT_GRAMMAR_PROGRAM_H

#include "text/grammar/tree.h"

enum { TERN_GRAMMAR_MAX_OPS = 1 << 19 };

typedef enum tern_grammar_code {
    TERN_GRAMMAR_OP_READ,  /* a byte of set a, then go to b */
    TERN_GRAMMAR_OP_TAKE,  /* the token a, then go to b */
    TERN_GRAMMAR_OP_SPLIT, /* go to a, and to b */
    TERN_GRAMMAR_OP_JUMP,  /* go to a */
    TERN_GRAMMAR_OP_CALL,  /* go to a; its RETURN goes to b */
    TERN_GRAMMAR_OP_RETURN,
    TERN_GRAMMAR_OP_FAIL /* nothing goes on from here */
} tern_grammar_code;

typedef struct tern_grammar_op {
    uint32_t code, a, b;
} tern_grammar_op;

/* Bytes: bit b % 32 of bits[b / 32]. */
typedef struct tern_grammar_set {
    uint32_t bits[8];
} tern_grammar_set;

static inline bool tern_grammar_set_has(const tern_grammar_set *set, uint8_t byte)
{
    return set->bits[byte / 32] >> (byte % 32) & 1;
}

/* Calls of one body in a row, for a repetition. Place first + 2 * i: i more may follow; least + i: i + 1 more must.
 * Without an end, any number may follow at `first`, and 2 places lie before `least`. */
typedef struct tern_grammar_run {
    uint32_t first, least, end; /* places [first, end) */
    uint32_t next;              /* where it goes on after the last */
    bool forever;
    bool vain; /* a text can be cut into copies of the body in more than one way */
} tern_grammar_run;

/* The part of the source that ops come from, up to the next origin. */
typedef struct tern_grammar_origin {
    uint32_t first; /* op */
    uint32_t label; /* its name's place in the labels, + 1; 0: none */
} tern_grammar_origin;

/* Zero-initialised is empty. */
typedef struct tern_grammar_program {
    tern_grammar_op *ops;
    tern_grammar_set *sets;
    tern_grammar_run *runs;       /* in the order of their places */
    tern_grammar_origin *origins; /* in the order of their ops */
    size_t n_ops, cap_ops, n_sets, cap_sets, n_runs, cap_runs, n_origins, cap_origins;
    tern_buf labels;
    uint32_t label; /* of ops that are added */
    uint32_t start;
} tern_grammar_program;

/* Compiles a tree whose rules are all defined. Errors: MALFORMED (a rule that calls itself before it has read anything,
 * or that can never end, by its name), LIMIT, OUT_OF_MEMORY. */
tern_status tern_grammar_program__compile(tern_grammar_program *program, const tern_grammar_tree *tree,
                                          tern_error *err);
void tern_grammar_program__deinit(tern_grammar_program *program);
/* The name of the part of the source that an op comes from; NULL: it has none. */
const char *tern_grammar_program__label(const tern_grammar_program *program, uint32_t op);

/* ---- parts of the compiler */

/* Adds an op, at *at. */
tern_status tern_grammar_program__add(tern_grammar_program *program, tern_grammar_op op, uint32_t *at, tern_error *err);
/* Ops that read one character of n normalised ranges, as UTF-8, and then go to `next`: they begin at *at. */
tern_status tern_grammar_program__class(tern_grammar_program *program, const tern_grammar_range *ranges, size_t n,
                                        uint32_t next, uint32_t *at, tern_error *err);
/* A READ of the bytes first to last. */
tern_status tern_grammar_program__read(tern_grammar_program *program, uint8_t first, uint8_t last, uint32_t next,
                                       uint32_t *at, tern_error *err);

/* Facts about each rule before it is compiled. */
typedef struct tern_grammar_facts {
    uint32_t size;   /* ops, about; saturates */
    bool called;     /* by itself, through others: it must be a rule */
    bool may_skip;   /* it reads the empty text */
    bool ends;       /* some text ends it */
    bool broad;      /* it reads one of many characters somewhere */
    uint8_t visited; /* 1: under way, 2: done */
} tern_grammar_facts;

/* Fills facts[n_rules]. Errors: as compile. */
tern_status tern_grammar_facts__find(tern_grammar_facts *facts, const tern_grammar_tree *tree, tern_error *err);
/* About how many ops a node becomes. */
uint32_t tern_grammar_facts__size(const tern_grammar_facts *facts, const tern_grammar_tree *tree, uint32_t node);
/* Whether it reads one of many characters somewhere: more than TERN_GRAMMAR_WIDE. */
bool tern_grammar_facts__broad(const tern_grammar_facts *facts, const tern_grammar_tree *tree, uint32_t node);

enum {
    TERN_GRAMMAR_INLINE = 256, /* ops of a rule that is put in the place of its calls */
    TERN_GRAMMAR_WIDE = 24     /* bytes: a place that reads more kinds has masks of its own */
};

#endif
