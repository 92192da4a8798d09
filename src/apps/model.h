/* From flags to a model and its encodings, for the commands that look inside one or make one: inspect, package, data,
 * export-lora, synth, tune. Commands that run a model use the public API (apps/open.h). */
#ifndef TERN_APPS_MODEL_H
#define TERN_APPS_MODEL_H

#include "apps/open.h"
#include "model/cut.h"
#include "quant/mix.h"

/* Opens it with a progress bar. */
tern_status tern_app_open_model(tern_model **model, const tern_options *options, bool tokenizer, tern_error *err);
/* As above, for the rank and the stage of `place`; nothing else of it counts. */
tern_status tern_app_open_model_of(tern_model **model, const tern_options *options, bool tokenizer,
                                   const tern_model_options *place, tern_error *err);
/* The encoding that a flag names; NULL for NULL. */
tern_status tern_app_encoding(const char *flag, const char *name, const tern_encoding **encoding, tern_error *err);
/* The encoding that --type names; NULL, NULL for NULL. */
tern_status tern_app_type(const char *name, const tern_encoding **encoding, const tern_mix **mix, tern_error *err);
/* To standard error: which tensors of the file have another type than asked for. */
void tern_app_say_fallbacks(const char *path, const tern_export_report *report);

#endif
