/* The parts of a session; for the files of this folder. */
#ifndef TERN_INFER_SESSION_INTERNAL_H
#define TERN_INFER_SESSION_INTERNAL_H

#include "infer/draft/mtp.h"
#include "infer/sample/wanted.h"
#include "infer/session/nonfinite.h"
#include "infer/session/session.h"

/* An evaluation under way, of what lies in `tokens`, batch by batch. */
typedef struct tern_session_evaluation {
    bool active;
    bool begun;                     /* the first batch was looked for */
    bool running;                   /* the device works on the next batch, or has done so */
    uint32_t n_evaluated, n_tokens; /* of the session in the end */
    uint32_t n_outputs;             /* logits of the last tokens evaluated */
} tern_session_evaluation;

typedef struct tern_embedding tern_embedding;

struct tern_session {
    tern_runner runner;
    int32_t *tokens; /* [n_ctx] */
    uint32_t n_tokens;
    uint32_t n_evaluated; /* n_tokens, or one less: a device that chooses tokens leaves the last one to the next step;
                           * or fewer, after a failure to evaluate again what layers with a window had lost */
    tern_logits_needed needed;
    tern_wanted wanted; /* of the step under way */
    uint32_t steps;     /* tokens that a generation asks of the device at once; 0: it chooses none */
    bool steps_chosen;  /* by the caller; else a generation may find a better number */
    float *logits;      /* [max_outputs][n_vocab] */
    tern_mtp *mtp;      /* guesses by the model's own block; NULL: none does */
    tern_session_evaluation evaluation;
    tern_embedding *embedding; /* under way, between calls that were PENDING; NULL: none is */
    tern_nonfinite *search;    /* under way after logits that are not finite: the evaluation is about nothing else */
};

/* Starts an append: n tokens are put after those that are there, to be evaluated with the logits of the last n_outputs.
 * n may be 0 if the last token is not evaluated yet. */
tern_status tern_session__begin(tern_session *session, const int32_t *ids, uint32_t n, uint32_t n_outputs,
                                tern_error *err);
/* As above with the last token left to the next step. n may be 0 when there are tokens: the last one is evaluated again
 * then. */
tern_status tern_session__begin_extend(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err);
/* The start of a shift; extend: with the last token left to the next step. */
tern_status tern_session__begin_shift(tern_session *session, uint32_t n_keep, bool extend, tern_error *err);
/* Sees to it that the caches hold what the last token sees, on a backend that waits; logits stay as they are. */
tern_status tern_session__evaluate_last(tern_session *session, tern_error *err);
/* The next batch of the evaluation under way, if any; it is no longer active in the end. PENDING: call again. After a
 * failure there is none, and the session has the tokens that were evaluated. */
tern_status tern_session__advance(tern_session *session, tern_error *err);
/* The step's logits are not finite: from now on the evaluation under way looks for the op that they come from, and ends
 * with NOT_FINITE. The step's tokens lie in `tokens`. Errors: NOT_FINITE, where it cannot be looked for. */
tern_status tern_session__search_nonfinite(tern_session *session, const tern_runner_step *step, tern_error *err);
/* Gives up the evaluation under way and what the device may be doing. */
void tern_session__abandon(tern_session *session);
void tern_session__drop_embedding(tern_session *session);
/* Tells models apart, not who made them: a few bytes of every weight. */
uint64_t tern_session__fingerprint(const tern_runner *runner);
/* The bytes of tern_session_save's file, appended to *out, on a backend that waits. */
tern_status tern_session__save_bytes(tern_session *session, tern_buf *out, tern_error *err);
/* The part of tern_session_restore that takes the bytes of a file, on a backend that waits. After a failure the session
 * is empty and can be used. */
tern_status tern_session__restore_bytes(tern_session *session, const void *bytes, size_t n, tern_error *err);

#endif
