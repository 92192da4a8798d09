/* One sequence: its tokens, its KV pages, and the prepared graphs that extend it; what tern/infer.h does not show of it. */
#ifndef TERN_INFER_SESSION_H
#define TERN_INFER_SESSION_H

#include "infer/engine.h"
#include "tern/infer.h"

tern_engine *tern_session_engine(const tern_session *session);
/* The graph of a decode step or of prefill, for `tern inspect`. */
const tern_graph *tern_session_graph(const tern_session *session, bool prefill);

#endif
