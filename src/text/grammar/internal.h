/* A compiled grammar and the states on it; for grammar.c and mask.c. */
#ifndef TERN_TEXT_GRAMMAR_INTERNAL_H
#define TERN_TEXT_GRAMMAR_INTERNAL_H

#include <pthread.h>

#include "text/grammar/machine.h"
#include "text/grammar/vocab.h"

enum {
    TERN_GRAMMAR_MASKS = 64,   /* of states, kept */
    TERN_GRAMMAR_PARTS = 128,  /* of places in the program, kept */
    TERN_GRAMMAR_TALLIES = 32, /* of places in runs, kept */
    /* Steps that the masks and tokens of a text may take: so many, and so many more for each token. */
    TERN_GRAMMAR_TEXT_STEPS = 1 << 24,
    TERN_GRAMMAR_MEAN_STEPS = 1 << 17
};

/* The mask of a state. */
typedef struct tern_grammar_mask {
    uint32_t state; /* 0: none */
    uint64_t steps; /* that it took */
    uint64_t used;  /* when */
    uint32_t *words;
} tern_grammar_mask;

/* The tokens that a place in the program allows, whoever called its rule: those that stay within the rule, and those
 * that leave it on their way, which only the callers can judge. */
typedef struct tern_grammar_part {
    uint32_t pc;
    bool filled;
    bool vain;      /* too many leave */
    uint64_t steps; /* that it took */
    uint64_t used;
    uint32_t *words;
    int32_t *leaving;
    size_t n_leaving, cap_leaving;
} tern_grammar_part;

/* Tokens that begin with the bytes above a twig, which are whole copies, and go on with what begins no copy. */
typedef struct tern_grammar_exit {
    uint32_t twig, n; /* copies after the one that was begun */
} tern_grammar_exit;

/* The tokens that are read from within a copy of a run, by the number of copies that they begin after it. */
typedef struct tern_grammar_tally {
    uint32_t start, body; /* states on their own, at the token's begin and at a copy's; 0: none */
    bool vain;            /* a text can be cut into copies in more than one way: nothing is known */
    uint64_t steps;       /* that it took */
    uint64_t used;
    int32_t *ids;                              /* tokens that end within the run, those that need fewest copies first */
    uint32_t ends[TERN_GRAMMAR_MAX_TOKEN + 1]; /* how many of them need that many copies at most */
    uint32_t *sets;                            /* masks of the first STEP tokens, 2 * STEP, ... */
    tern_grammar_exit *exits;
    size_t n_exits, cap_exits;
} tern_grammar_tally;

struct tern_grammar_state {
    tern_grammar *grammar;
    tern_grammar_state *before, *after; /* of the same grammar */
    uint32_t at;
    bool ended;                 /* by an end token */
    bool masked;                /* the steps of the mask at this place are counted */
    uint64_t spent, n_accepted; /* steps of the text so far, and its tokens */
};

struct tern_grammar {
    tern_grammar_program program;
    const tern_grammar_vocab *vocab;
    pthread_mutex_t lock; /* of all that follows */
    tern_grammar_machine machine;
    tern_grammar_state *states;
    uint64_t clock;
    uint64_t walked; /* twigs */
    tern_grammar_mask masks[TERN_GRAMMAR_MASKS];
    tern_grammar_part parts[TERN_GRAMMAR_PARTS];
    tern_grammar_tally tallies[TERN_GRAMMAR_TALLIES];
    tern_grammar_item *waiting; /* scratch: the items of a state */
    size_t cap_waiting;
};

static inline size_t tern_grammar__n_words(const tern_grammar *grammar)
{
    return ((size_t)grammar->vocab->n + 31) / 32;
}

static inline void tern_grammar__allow(uint32_t *words, int32_t id)
{
    words[(uint32_t)id / 32] |= (uint32_t)1 << (uint32_t)id % 32;
}

/* Takes the tree. Errors: as tern_grammar_open. */
tern_status tern_grammar__make(tern_grammar **grammar, const tern_grammar_vocab *vocab, const tern_grammar_tree *tree,
                               tern_error *err);
/* Under the lock: the mask of a state, borrowed until the next call. Errors: LIMIT, OUT_OF_MEMORY. */
tern_status tern_grammar__mask(tern_grammar *grammar, uint32_t state, const uint32_t **words, tern_error *err);
/* Allows in words what can be read from a state by the twigs [from, to), which lie below one parent; those that escape
 * (BASE) go to `part`, if there is one. */
tern_status tern_grammar__walk(tern_grammar *grammar, uint32_t state, uint32_t from, uint32_t to, uint32_t *words,
                               tern_grammar_part *part, tern_error *err);
/* Allows what items within runs read, and takes those items out of the n in `waiting`; *left remain. */
tern_status tern_grammar__add_runs(tern_grammar *grammar, size_t n, uint32_t *words, size_t *left, tern_error *err);
/* The tally of a run's body, before anybody asks for it. */
tern_status tern_grammar__prepare_run(tern_grammar *grammar, tern_grammar_run *run, tern_error *err);
/* Whether a tally holds for what begins at a place. */
bool tern_grammar__is_tallied(const tern_grammar *grammar, uint32_t pc);
void tern_grammar__tallies_forget(tern_grammar *grammar);
void tern_grammar__tallies_deinit(tern_grammar *grammar);
/* Prepares what masks will be made of, within bounds. */
void tern_grammar__prepare(tern_grammar *grammar);
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
