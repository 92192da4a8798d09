/* A file of models with their settings, in the form of llama.cpp's server: [NAME], and lines of KEY = VALUE. */
#ifndef TERN_APPS_SERVE_PRESETS_H
#define TERN_APPS_SERVE_PRESETS_H

#include "serve/serve.h"

/* Zero-initialised is empty. The strings of the models are its own. */
typedef struct tern_presets {
    tern_serve_model *items; /* path NULL: of a model that is given elsewhere */
    size_t n, cap;
    char **texts; /* [n_texts] that were allocated */
    size_t n_texts, cap_texts;
} tern_presets;

/* The section [*] has settings of all that do not set them. Keys: model, lora (PATH or PATH:SCALE; several lines add
 * up), ctx, chat-template, chat-template-kwargs, system, spm-infill, load-on-startup, and the names of sampling flags
 * (temp, top-k, ...). Errors: those of reading; INVALID_ARGUMENT, with the line. */
tern_status tern_presets_read(tern_presets *presets, const char *path, tern_error *err);
void tern_presets_deinit(tern_presets *presets);

#endif
