/* Declarations that the exports of an engine share. */
#ifndef TERN_WEB_WEB_ENGINE_H
#define TERN_WEB_WEB_ENGINE_H

#include "infer/engine/engine.h"
#include "web/web.h"

/* ModelInfo of web/lib/index.d.ts. NULL: out of memory. */
json_t *tern_web__describe(const tern_model *model);
/* MemoryPlan of web/lib/index.d.ts for a session of n_ctx positions (0: the default) with a cache of type kv
 * (tern_kv_type); of experts those that the backend holds at once. Errors: those of a session's parameters. */
tern_status tern_web__plan(const tern_model *model, const tern_backend *backend, uint32_t n_ctx, uint32_t kv,
                           json_t **plan, tern_error *err);

#endif
