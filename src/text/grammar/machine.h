/* Runs a grammar's program: all ways to read a text at once, as states that are made when they are reached and kept. */
#ifndef TERN_TEXT_GRAMMAR_MACHINE_H
#define TERN_TEXT_GRAMMAR_MACHINE_H

#include "text/grammar/program.h"

enum {
    TERN_GRAMMAR_MAX_DEPTH = 512,     /* calls in calls: what nests deeper is not accepted */
    TERN_GRAMMAR_MAX_WAYS = 1 << 16,  /* steps that one byte may lead to */
    TERN_GRAMMAR_MAX_WORK = 1 << 23,  /* steps that one mask, or one text, may take beyond those kept */
    TERN_GRAMMAR_KEPT_STATES = 8192,  /* beyond these, forget is called for */
    TERN_GRAMMAR_MAX_STATES = 1 << 16 /* that one walk over the vocabulary may need */
};

/* A place in the program, and who is returned to. */
typedef struct tern_grammar_item {
    uint32_t pc, frame;
} tern_grammar_item;

/* A frame of the calls under way; equal ones are one. */
typedef struct tern_grammar_frame {
    uint32_t parent, to, depth;
} tern_grammar_frame;

/* The frames that a return finds at the bottom: of the whole text, and of a part that is looked at on its own. */
enum { TERN_GRAMMAR_BOTTOM = 0, TERN_GRAMMAR_BASE = 1 };
/* State 0 is none; this one has no way on and no end. */
enum { TERN_GRAMMAR_DEAD = 1 };

typedef struct tern_grammar_place {
    uint32_t first, n; /* its items, which wait for a byte or a token; ordered */
    uint32_t *next;    /* [256] states, 0 where not known; NULL before the first */
    bool ends;         /* the text may end */
    bool escapes;      /* a return has left BASE */
} tern_grammar_place;

/* A table of numbers by what they stand for; zero-initialised is empty. */
typedef struct tern_grammar_table {
    uint32_t *slots; /* number + 1, or 0 */
    size_t cap, n;
} tern_grammar_table;

typedef struct tern_grammar_machine {
    const tern_grammar_program *program;
    tern_grammar_frame *frames;
    tern_grammar_place *states;
    tern_grammar_item *items; /* of all states */
    tern_grammar_item *seen;  /* scratch: where one byte leads */
    size_t n_frames, cap_frames, n_states, cap_states, n_items, cap_items, n_seen, cap_seen;
    tern_grammar_table by_frame, by_state, by_seen;
    bool ends, escapes; /* scratch: of the state that is being made */
    uint32_t work;      /* steps since the caller made it 0 */
} tern_grammar_machine;

/* Zero-initialised machines may be closed. */
tern_status tern_grammar_machine__init(tern_grammar_machine *machine, const tern_grammar_program *program,
                                       tern_error *err);
void tern_grammar_machine__deinit(tern_grammar_machine *machine);
/* Forgets all states and frames but the first ones. No allocation. */
void tern_grammar_machine__forget(tern_grammar_machine *machine);
/* Whether it has kept more than it should. */
bool tern_grammar_machine__is_full(const tern_grammar_machine *machine);

/* The state that n items lead to before another byte is read; `ends`: the text may end there besides. Errors of all of
 * these: LIMIT (also more than MAX_WORK steps since `work` was 0), OUT_OF_MEMORY. */
tern_status tern_grammar_machine__enter(tern_grammar_machine *machine, const tern_grammar_item *items, size_t n,
                                        bool ends, uint32_t *state, tern_error *err);
tern_status tern_grammar_machine__frame(tern_grammar_machine *machine, tern_grammar_frame frame, uint32_t *out,
                                        tern_error *err);
/* After a byte; *next may be DEAD. */
tern_status tern_grammar_machine__read(tern_grammar_machine *machine, uint32_t state, uint8_t byte, uint32_t *next,
                                       tern_error *err);
/* After the token that is asked for by its id. */
tern_status tern_grammar_machine__take(tern_grammar_machine *machine, uint32_t state, uint32_t id, uint32_t *next,
                                       tern_error *err);

#endif
