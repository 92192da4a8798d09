/* Guesses of a small model for the sequences of a batch, all of them in steps of its own. */
#ifndef TERN_INFER_BATCH_DRAFTER_H
#define TERN_INFER_BATCH_DRAFTER_H

#include "tern/infer.h"

typedef struct tern_drafter tern_drafter;

/* Takes the keys and values of n_slots sequences, of n_ctx positions or what the small model was trained for, and all
 * else that guessing needs. The engine must outlive it. Errors: INVALID_ARGUMENT (another vocabulary than n_vocab
 * tokens), UNSUPPORTED (a device that cannot be waited for), OUT_OF_MEMORY. */
tern_status tern_drafter_open(tern_drafter **drafter, tern_engine *engine, uint32_t n_vocab, uint32_t n_ctx,
                              uint32_t n_slots, tern_error *err);
void tern_drafter_close(tern_drafter *drafter); /* NULL is fine */

/* A request for one sequence, and its result. */
typedef struct tern_draft_request {
    uint32_t slot;         /* of whose tokens those that it had before are not evaluated again */
    const int32_t *tokens; /* [n_tokens], at least 1 */
    uint32_t n_tokens;
    int32_t *out;  /* [most] */
    uint32_t most; /* at least 1 */
    uint32_t n;    /* set: tokens guessed */
    bool active;   /* while they are */
} tern_draft_request;

/* Guesses what follows the tokens of n sequences, each in a slot of its own: the likeliest token after each other, up
 * to the first that the small model thinks less likely than not. One call evaluates a bounded number of tokens, so that
 * a sequence whose text is new gets its first guesses some calls later. *n_rows: tokens evaluated. No allocation.
 * Errors: those of the backend. */
tern_status tern_drafter_propose(tern_drafter *drafter, tern_draft_request *requests, uint32_t n, uint32_t *n_rows,
                                 tern_error *err);

#endif
