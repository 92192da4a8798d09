/* Runs a grammar's program: all ways to read a text at once, as states that are made when they are reached and kept. */
#ifndef TERN_TEXT_GRAMMAR_MACHINE_H
#define TERN_TEXT_GRAMMAR_MACHINE_H

#include "text/grammar/program.h"

enum {
    TERN_GRAMMAR_MAX_DEPTH = 512,       /* calls in calls: what nests deeper is not accepted */
    TERN_GRAMMAR_MAX_WAYS = 1 << 16,    /* steps that one byte may lead to */
    TERN_GRAMMAR_TOKEN_STEPS = 1 << 19, /* that one mask, or one token, may take */
    TERN_GRAMMAR_BYTE_STEPS = 64,       /* more for each byte of a text that is accepted at once */
    TERN_GRAMMAR_KEPT_STATES = 8192,    /* beyond these, forget is called for */
    TERN_GRAMMAR_MAX_STATES = 1 << 19   /* no token has steps for more */
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

/* Where bytes lead from a state: all that the same items read. */
typedef struct tern_grammar_edge {
    uint32_t to;
    uint32_t steps;   /* that it took to find it */
    uint32_t counted; /* the count that has its steps */
} tern_grammar_edge;

typedef struct tern_grammar_place {
    uint32_t first, n; /* its items, which wait for a byte or a token; ordered */
    uint32_t *next;    /* [256] edges, 0 where not known; NULL before the first */
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
    tern_grammar_edge *edges; /* of all states; the first is none */
    tern_grammar_item *items; /* of all states */
    tern_grammar_item *seen;  /* scratch: where one byte leads */
    size_t n_frames, cap_frames, n_states, cap_states, n_edges, cap_edges, n_items, cap_items, n_seen, cap_seen;
    tern_grammar_table by_frame, by_state, by_seen;
    bool ends, escapes;  /* scratch: of the state that is being made */
    uint64_t work, most; /* steps since tern_grammar_machine__begin, and how many there may be */
    uint32_t count;      /* each edge is counted once in it */
    uint32_t at;         /* the state that was read from last */
} tern_grammar_machine;

/* Zero-initialised machines may be closed. */
tern_status tern_grammar_machine__init(tern_grammar_machine *machine, const tern_grammar_program *program,
                                       tern_error *err);
void tern_grammar_machine__deinit(tern_grammar_machine *machine);
/* Forgets all states and frames but the first ones. No allocation. */
void tern_grammar_machine__forget(tern_grammar_machine *machine);
/* Whether it has kept more than it should. */
bool tern_grammar_machine__is_full(const tern_grammar_machine *machine);

/* Begins to count steps, of which there may be `most`. A step is counted whether or not its result was kept from
 * before, so that the count depends on the grammar and the text alone. */
void tern_grammar_machine__begin(tern_grammar_machine *machine, uint64_t most);
/* Counts steps whose result was kept elsewhere; edges are counted anew after them. Errors: LIMIT. */
tern_status tern_grammar_machine__count(tern_grammar_machine *machine, uint64_t steps, tern_error *err);

/* The name of the part of the source that most items of a state stand in. */
const char *tern_grammar_machine__label(const tern_grammar_machine *machine, uint32_t state);

/* The state that n items lead to before another byte is read; `ends`: the text may end there besides. Errors of all of
 * these: LIMIT (also more steps than there may be: names the part of the source), OUT_OF_MEMORY. */
tern_status tern_grammar_machine__enter(tern_grammar_machine *machine, const tern_grammar_item *items, size_t n,
                                        bool ends, uint32_t *state, tern_error *err);
tern_status tern_grammar_machine__frame(tern_grammar_machine *machine, tern_grammar_frame frame, uint32_t *out,
                                        tern_error *err);
/* After a byte; *next may be DEAD. */
tern_status tern_grammar_machine__read(tern_grammar_machine *machine, uint32_t state, uint8_t byte, uint32_t *next,
                                       tern_error *err);
/* The state after the token with that id. */
tern_status tern_grammar_machine__take(tern_grammar_machine *machine, uint32_t state, uint32_t id, uint32_t *next,
                                       tern_error *err);

#endif
