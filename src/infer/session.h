/* One sequence: its tokens, its KV pages, and the prepared graphs that extend it. One thread at a time. */
#ifndef TERN_INFER_SESSION_H
#define TERN_INFER_SESSION_H

#include "infer/engine.h"

typedef struct tern_session tern_session;

typedef struct tern_session_params {
    uint32_t n_ctx;       /* positions; 0: the model's, at most 2048 */
    uint32_t n_batch;     /* tokens of a prefill step; 0: 512 */
    uint32_t max_outputs; /* logits rows that one step can give (speculation, perplexity); 0: 1 */
    bool kv_f32;
    bool keep_hidden;
} tern_session_params;

/* The engine must outlive the session. Errors: INVALID_ARGUMENT (n_ctx above the model's limit), OUT_OF_MEMORY. */
tern_status tern_session_open(tern_session **session, tern_engine *engine, const tern_session_params *params, tern_error *err);
void tern_session_close(tern_session *session);

tern_engine *tern_session_engine(const tern_session *session);
uint32_t tern_session_n_ctx(const tern_session *session);
/* How many logits rows one append_all can give. */
uint32_t tern_session_max_outputs(const tern_session *session);
/* Tokens evaluated so far, and how many. Borrowed until the next call that changes the session. */
const int32_t *tern_session_tokens(const tern_session *session);
uint32_t tern_session_n_tokens(const tern_session *session);

/* Extends the sequence by n tokens and leaves the logits of the last one in tern_session_logits. No allocation.
 * Errors: INVALID_ARGUMENT (id outside the vocabulary, with its place), CONTEXT_FULL (nothing is evaluated then). */
tern_status tern_session_append(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err);
/* The same with the logits of all n tokens: at most max_outputs of them. */
tern_status tern_session_append_all(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err);
/* From now on only the n highest logits are needed (0: all, as at first): with `head_exact` the others may be -INFINITY. */
void tern_session_want(tern_session *session, uint32_t n);
/* Row i of the last append: append has one row, append_all n. f32 [n_vocab], valid until the next append. */
float *tern_session_logits(const tern_session *session, uint32_t row);
/* The hidden states of the last append_all (keep_hidden sessions): state `index` (0: embedding, then each layer; the last after the
 * final norm), [n][n_embd] f32 into out. */
tern_status tern_session_hidden(const tern_session *session, uint32_t index, uint32_t n, float *out, tern_error *err);

/* Forgets all tokens from position n on. */
void tern_session_truncate(tern_session *session, uint32_t n);
/* Makes room: forgets the tokens between n_keep and the newer half of the rest and evaluates the newer half again at its new
 * positions, exactly as if the text had been that from the start. Leaves the logits of the last token. No allocation.
 * Errors: INVALID_ARGUMENT (fewer than two tokens after n_keep). */
tern_status tern_session_shift(tern_session *session, uint32_t n_keep, tern_error *err);

/* The graph of a decode step, for `tern inspect`. */
const tern_graph *tern_session_graph(const tern_session *session, bool prefill);

/* Saves tokens and KV, and restores them into a session of the same model and context type. Written to a temporary name and
 * renamed. Errors: MALFORMED (what does not match), IO. On a failed restore the session is empty. */
tern_status tern_session_save(const tern_session *session, const char *path, tern_error *err);
tern_status tern_session_restore(tern_session *session, const char *path, tern_error *err);

#endif
