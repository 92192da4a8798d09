/* Opening an engine by its model's path. */
#ifndef TERN_INFER_OPEN_H
#define TERN_INFER_OPEN_H

#include "infer/engine.h"

/* A GGUF file, a Hugging Face folder or a package, which goes to a backend with memory of its own piece by piece. The
 * progress of `options` is that of the whole, `params` has none. Errors: those of tern_model_open and tern_engine_open.
 */
tern_status tern_engine_open_path(tern_engine **engine, const char *path, const tern_model_options *options,
                                  const tern_engine_params *params, tern_error *err);

#endif
