/* Drafting by a small model: what it would write next, greedily. */
#ifndef TERN_INFER_DRAFT_MODEL_H
#define TERN_INFER_DRAFT_MODEL_H

#include "tern/infer.h"

/* Whether the session can guess for another one. Errors: INVALID_ARGUMENT (the same session, vocabularies of different
 * sizes), UNSUPPORTED (a device that cannot be waited for). */
tern_status tern_draft_model_check(const tern_session *draft, const tern_session *session, tern_error *err);

/* Up to n tokens that the model thinks follow tokens[0 .. n_tokens - 1], n_tokens at least 1: the likeliest after each
 * other, up to the first that it thinks less likely than not. The draft session holds the tokens then, and what it has
 * of them already is not evaluated again. *n_out: how many; 0 also where they do not fit its context. No allocation.
 * Errors: those of tern_session_append. */
tern_status tern_draft_model_propose(tern_session *draft, const int32_t *tokens, uint32_t n_tokens, int32_t *out,
                                     uint32_t n, uint32_t *n_out, tern_error *err);

/* The likeliest token, the first of several. *share: its probability. Logits that an exact head left out are -infinity.
 */
int32_t tern_draft_model__likeliest(const float *logits, uint32_t n_vocab, double *share);

#endif
