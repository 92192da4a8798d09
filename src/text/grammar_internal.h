/* A compiled grammar and the states on it; for grammar.c and grammar_mask.c. */
#ifndef TERN_TEXT_GRAMMAR_INTERNAL_H
#define TERN_TEXT_GRAMMAR_INTERNAL_H

#include <pthread.h>

#include "text/grammar_machine.h"
#include "text/grammar_vocab.h"

enum {
    TERN_GRAMMAR_MASKS = 64,  /* of states, kept */
    TERN_GRAMMAR_PARTS = 128, /* of places in the program, kept */
    TERN_GRAMMAR_WIDE = 24    /* bytes: a place that reads more kinds gets a part of its own */
};

/* The mask of a state. */
typedef struct tern_grammar_mask {
    uint32_t state; /* 0: none */
    uint64_t used;  /* when */
    uint32_t *words;
} tern_grammar_mask;

/* What a place in the program allows, whoever called its rule: tokens that stay within the rule, and tokens that leave
 * it on their way, which only the callers can judge. */
typedef struct tern_grammar_part {
    uint32_t pc;
    bool filled;
    bool vain; /* too many leave */
    uint64_t used;
    uint32_t *words;
    int32_t *leaving;
    size_t n_leaving, cap_leaving;
} tern_grammar_part;

struct tern_grammar_state {
    tern_grammar *grammar;
    tern_grammar_state *before, *after; /* of the same grammar */
    uint32_t at;
    bool ended; /* by an end token */
};

struct tern_grammar {
    tern_grammar_program program;
    const tern_grammar_vocab *vocab;
    pthread_mutex_t lock; /* of all that follows */
    tern_grammar_machine machine;
    tern_grammar_state *states;
    uint64_t clock;
    tern_grammar_mask masks[TERN_GRAMMAR_MASKS];
    tern_grammar_part parts[TERN_GRAMMAR_PARTS];
    tern_grammar_item *waiting; /* scratch: the items of a state */
    size_t cap_waiting;
};

/* Takes the tree. Errors: as tern_grammar_open. */
tern_status tern_grammar__make(tern_grammar **grammar, const tern_grammar_vocab *vocab, const tern_grammar_tree *tree,
                               tern_error *err);
/* Under the lock: the mask of a state, borrowed until the next call. Errors: LIMIT, OUT_OF_MEMORY. */
tern_status tern_grammar__mask(tern_grammar *grammar, uint32_t state, const uint32_t **words, tern_error *err);
void tern_grammar__masks_forget(tern_grammar *grammar);
void tern_grammar__masks_deinit(tern_grammar *grammar);
/* Under the lock: after n bytes; *state may become DEAD. */
tern_status tern_grammar__read(tern_grammar *grammar, const uint8_t *bytes, size_t n, uint32_t *state, tern_error *err);
/* Before a text or a mask: forgets states that nobody is in, when there are many. */
tern_status tern_grammar__trim(tern_grammar *grammar, tern_error *err);

/* ---- the sources: each fills an empty tree */

tern_status tern_grammar__parse_gbnf(tern_grammar_tree *tree, const tern_grammar_vocab *vocab, tern_span source,
                                     tern_error *err);
tern_status tern_grammar__parse_schema(tern_grammar_tree *tree, tern_span source, tern_error *err);
tern_status tern_grammar__parse_regex(tern_grammar_tree *tree, tern_span source, tern_error *err);

#endif
