/* One sequence: its tokens, its KV pages, and the prepared graphs that extend it; what tern/infer.h does not show of
 * it. */
#ifndef TERN_INFER_SESSION_SESSION_H
#define TERN_INFER_SESSION_SESSION_H

#include "infer/engine/kv_types.h"
#include "infer/session/runner.h"
#include "tern/infer.h"

enum { TERN_SESSION_DEFAULT_BATCH = 512 }; /* tokens of a prefill step */

/* The settings that a session of such parameters (NULL: the defaults) runs with; *steps: the tokens that a generation
 * asks of the device at once. Errors: INVALID_ARGUMENT. */
tern_status tern_session_resolve(const tern_engine *engine, const tern_session_params *params, tern_runner_params *out,
                                 uint32_t *steps, tern_error *err);
tern_engine *tern_session_engine(const tern_session *session);
/* The graph of a decode step or of prefill, for `tern inspect`. */
const tern_graph *tern_session_graph(const tern_session *session, bool prefill);

#endif
