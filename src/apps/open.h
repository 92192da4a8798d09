/* From flags to an engine and a session, by the public API alone; what looks inside a model is in apps/model.h. */
#ifndef TERN_APPS_OPEN_H
#define TERN_APPS_OPEN_H

#include "apps/app.h"

typedef struct tern_app_path {
    char text[4096];
} tern_app_path;

/* The model of -m, or the bundled one, into path; a name of the hub becomes its path in the cache (apps/hub/hub.h).
 * Errors: NOT_FOUND. */
tern_status tern_app_find_model(const tern_options *options, tern_app_path *path, tern_error *err);
/* Whether the flags of the device go together: INVALID_ARGUMENT (a GPU's flag without the --backend of one). */
tern_status tern_app_check_device(const tern_options *options, tern_error *err);
/* The file of tern tune's choices, where the flags let it count and it holds here; else NULL. A file that does not hold
 * is named on standard error, once. */
const char *tern_app_tune_file(const tern_options *options);
/* With a progress bar. Without `tokenizer` the model's is not read. */
tern_status tern_app_open_engine(tern_engine **engine, const tern_options *options, bool tokenizer, tern_error *err);
/* As above, for a command that reads text. Errors: also UNSUPPORTED, with the file's name, where the model has no
 * tokenizer; *engine is to be closed then too. */
tern_status tern_app_open_reader(tern_engine **engine, const tern_options *options, tern_error *err);
/* As above, with this number of threads instead of --threads. */
tern_status tern_app_open_engine_with(tern_engine **engine, const tern_options *options, bool tokenizer,
                                      uint32_t n_threads, tern_error *err);
/* tern_engine_info.activations. */
const char *tern_app_activations(const tern_engine *engine);
/* The backend of --backend. Errors: INVALID_ARGUMENT. */
tern_status tern_app_backend(const tern_options *options, tern_backend_kind *backend, tern_error *err);
/* The types of --kv, --cache-type-k and --cache-type-v. */
tern_kv_types tern_app_kv(const tern_options *options);
/* Positions by --ctx: what the model was trained for with 0; 0 where it was not given. */
uint32_t tern_app_ctx(const tern_options *options, const tern_engine *engine);
/* --draft mtp: the model's own block guesses. */
bool tern_app_drafts_by_mtp(const tern_options *options);
/* Errors: INVALID_ARGUMENT (a draft model as well). */
tern_status tern_app_check_drafts(const tern_options *options, tern_error *err);
/* A session by --ctx, --batch and --kv, over what `params` says beside. */
tern_status tern_app_open_session(tern_session **session, tern_engine *engine, const tern_options *options,
                                  tern_session_params params, tern_error *err);

#endif
