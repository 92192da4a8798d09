/* What a session holds; for the files of this folder. */
#ifndef TERN_INFER_SESSION_STATE_H
#define TERN_INFER_SESSION_STATE_H

#include "infer/runner.h"
#include "infer/session.h"

struct tern_session {
    tern_runner runner;
    int32_t *tokens; /* [n_ctx] */
    uint32_t n_tokens;
    uint32_t n_wanted; /* 0: all */
    float *logits; /* [max_outputs][n_vocab] */
};

#endif
