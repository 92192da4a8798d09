/* Masks of grammars, made by threads of their own while steps go on: a mask that takes long holds up its own sequence
 * alone. Tokens do not depend on when a mask is ready. */
#ifndef TERN_INFER_BATCH_MASKER_H
#define TERN_INFER_BATCH_MASKER_H

#include <pthread.h>
#include <stdbool.h>

#include "tern/text.h"

enum { TERN_MASKER_THREADS = 2 };

/* The place of a sequence in its grammar, and the mask of it. Zero-initialised may be ended. */
typedef struct tern_mask {
    tern_grammar *grammar; /* NULL: any text */
    uint32_t *words;       /* [n_words] valid when `ready` */
    tern_error error;      /* of the last of its work; code OK: none */

    /* The masker's. */
    tern_grammar_state *state;
    struct tern_mask *next;
    int32_t id; /* the token to go on by first; -1: none */
    bool queued, running;
    double ms; /* that its last mask took */
} tern_mask;

/* Zero-initialised may be closed. All functions are for one thread, the batch's. */
typedef struct tern_masker {
    size_t n_words;
    uint32_t n_threads;
    pthread_t threads[TERN_MASKER_THREADS];
    pthread_mutex_t lock; /* of the rest, and of all masks */
    pthread_cond_t work, done;
    tern_mask *first, *running[TERN_MASKER_THREADS];
    bool stopping;
} tern_masker;

tern_status tern_masker_init(tern_masker *masker, uint32_t n_vocab, tern_error *err);
/* All masks must have ended. */
void tern_masker_deinit(tern_masker *masker);

/* Begins the mask of a text's first token. The grammar must outlive it. Errors: OUT_OF_MEMORY (also: no thread). */
tern_status tern_mask_open(tern_mask *mask, tern_masker *masker, tern_grammar *grammar, tern_error *err);
/* Begins the mask of what follows a token. The last one is ready. */
void tern_mask_go_on(tern_mask *mask, tern_masker *masker, int32_t id);
/* Whether it is ready, or has failed (mask->error), waiting for at most `ms`. */
bool tern_mask_is_ready(const tern_mask *mask, tern_masker *masker, double ms);
/* Whether a thread works on it. One that only waits for its turn has none from now on. */
bool tern_mask_give_up(tern_mask *mask, tern_masker *masker);
/* Waits until a thread has ended its work, if one is at work, for at most `ms`. */
void tern_masker_wait(tern_masker *masker, double ms);
/* Waits for the work on it. */
void tern_mask_close(tern_mask *mask, tern_masker *masker);

#endif
