/* Speculation by a small model. Source: Leviathan, Kalman and Matias, "Fast inference from transformers via speculative
 * decoding", 2023; here guesses are greedy, and a guess counts when the sampler of the large model chooses the same. */
#include "infer/draft/model.h"

#include <math.h>

#include "infer/engine/engine.h"
#include "infer/session/session.h"

tern_status tern_draft_model_check(const tern_session *draft, const tern_session *session, tern_error *err)
{
    const uint32_t n = tern_engine_config(tern_session_engine(draft))->n_vocab,
                   n_wanted = tern_engine_config(tern_session_engine(session))->n_vocab;
    if (draft == session) return tern_fail(err, TERN_INVALID_ARGUMENT, "draft session: another session expected");
    if (n != n_wanted)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "draft model with a vocabulary of %u tokens: %u expected", n,
                         n_wanted);
    return tern_engine__needs_waiting(tern_session_engine(draft), "drafting by a model", err);
}

int32_t tern_draft_model__likeliest(const float *logits, uint32_t n_vocab, double *share)
{
    uint32_t best = 0;
    double sum = 0;
    for (uint32_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    for (uint32_t i = 0; i < n_vocab; i++) sum += (double)expf(logits[i] - logits[best]);
    *share = 1 / sum;
    return (int32_t)best;
}

/* Sees to it that the session holds these tokens, with the logits of the last one. */
static tern_status evaluate_text(tern_session *draft, const int32_t *tokens, uint32_t n, tern_error *err)
{
    const int32_t *held = tern_session_tokens(draft);
    uint32_t same = 0, most = tern_session_n_tokens(draft);
    if (most > n - 1) most = n - 1;
    while (same < most && held[same] == tokens[same]) same++;
    tern_session_truncate(draft, same);
    return tern_session_append(draft, tokens + same, n - same, err);
}

tern_status tern_draft_model_propose(tern_session *draft, const int32_t *tokens, uint32_t n_tokens, int32_t *out,
                                     uint32_t n, uint32_t *n_out, tern_error *err)
{
    const uint32_t n_vocab = tern_engine_config(tern_session_engine(draft))->n_vocab, n_ctx = tern_session_n_ctx(draft);
    *n_out = 0;
    if (n == 0 || n_tokens >= n_ctx) return TERN_OK;
    if (n > n_ctx - n_tokens) n = n_ctx - n_tokens;
    TERN_TRY(evaluate_text(draft, tokens, n_tokens, err));
    for (uint32_t i = 0; i < n; i++) {
        float *logits;
        double share;
        TERN_TRY(tern_session_logits(draft, 0, &logits, err));
        out[i] = tern_draft_model__likeliest(logits, n_vocab, &share);
        if (!(share >= 0.5)) return TERN_OK;
        *n_out = i + 1;
        if (i + 1 < n) TERN_TRY(tern_session_append(draft, out + i, 1, err));
    }
    return TERN_OK;
}
