/* Drafting by a model's own block (multi-token prediction): from the hidden state of a token and the token that follows
 * it, the one after that. */
#ifndef TERN_INFER_DRAFT_MTP_H
#define TERN_INFER_DRAFT_MTP_H

#include "infer/session/runner.h"

/* The block's own sequence beside that of a session: for each token but the last its hidden state and the next token.
 * It may begin later than the session's tokens, whose hidden states a restored session lacks: guesses are worse then,
 * and nothing else. */
typedef struct tern_mtp tern_mtp;

/* Whether the engine has such a block. Errors: UNSUPPORTED (none was read, a device that cannot be waited for). */
tern_status tern_mtp_check(tern_engine *engine, tern_error *err);
/* The parameters of the block's runner beside a session's, or beside those of many sequences, whose pages it has too:
 * a step then takes one row of each sequence besides, whose next token came late. */
tern_runner_params tern_mtp_params(const tern_runner_params *session);
/* For a session with these parameters; all memory is taken here. Errors: UNSUPPORTED (the engine's model has no such
 * block, a device that cannot be waited for), OUT_OF_MEMORY, those of the backend. */
tern_status tern_mtp_open(tern_mtp **mtp, tern_engine *engine, const tern_runner_params *session, tern_error *err);
void tern_mtp_close(tern_mtp *mtp); /* NULL is fine */

/* The session's runner (keep_states) has finished a step: its hidden states are kept until the block needs them.
 * tokens: the session's, up to the step's last one. No allocation. Errors: those of the backend. */
tern_status tern_mtp_take(tern_mtp *mtp, tern_runner *runner, const tern_runner_step *step, const int32_t *tokens,
                          tern_error *err);
/* The session forgets its tokens from n on. */
void tern_mtp_truncate(tern_mtp *mtp, uint32_t n);
/* Up to n tokens that may follow tokens[0 .. n_tokens - 1]: each the likeliest, up to the first that the block thinks
 * less likely than not. The session has evaluated all tokens but the last. *n_out: how many; 0 also where the hidden
 * state of the last evaluated token is not known. No allocation. Errors: those of the backend. */
tern_status tern_mtp_propose(tern_mtp *mtp, const int32_t *tokens, uint32_t n_tokens, int32_t *out, uint32_t n,
                             uint32_t *n_out, tern_error *err);

#endif
