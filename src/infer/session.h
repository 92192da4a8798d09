/* One sequence: its tokens, its KV pages, and the prepared graphs that extend it; what tern/infer.h does not show of
 * it. */
#ifndef TERN_INFER_SESSION_H
#define TERN_INFER_SESSION_H

#include "infer/engine.h"
#include "tern/infer.h"

/* Whether the cache of such a session is f32. */
bool tern_kv_is_f32(tern_kv_type kv, const tern_config *config, uint32_t n_ctx);
tern_engine *tern_session_engine(const tern_session *session);
/* The graph of a decode step or of prefill, for `tern inspect`. */
const tern_graph *tern_session_graph(const tern_session *session, bool prefill);

#endif
