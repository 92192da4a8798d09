/* What a session holds; for the files of this folder. */
#ifndef TERN_INFER_SESSION_STATE_H
#define TERN_INFER_SESSION_STATE_H

#include "infer/runner.h"
#include "infer/session.h"

struct tern_session {
    tern_runner runner;
    int32_t *tokens; /* [n_ctx] */
    uint32_t n_tokens;
    uint32_t n_evaluated; /* n_tokens, or one less: a device that chooses tokens leaves the last one to the next step */
    uint32_t n_wanted;    /* 0: all */
    uint32_t steps;       /* tokens that a generation asks of the device at once; 0: it chooses none */
    float *logits;        /* [max_outputs][n_vocab] */
};

/* As tern_session_append, but the last token is not evaluated: the next step does that. n may be 0 when there are
 * tokens. */
tern_status tern_session__extend(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err);
/* As tern_session_shift, with the last token left to the next step. */
tern_status tern_session__shift(tern_session *session, uint32_t n_keep, tern_error *err);

#endif
