/* Describing a model as a JSON document, and printing that document for people. */
#ifndef TERN_APPS_INSPECT_H
#define TERN_APPS_INSPECT_H

#include <jansson.h>

#include "model/model.h"

/* Adds "format", "metadata" and "tensors" of a GGUF file, which need not be a model that Tern can run. */
tern_status tern_app_describe_gguf(const char *path, json_t *out, tern_error *err);
/* Adds "architecture", "config", "parameters", "weight_bytes", "bits_per_weight" and "tensors" of a model. */
void tern_app_describe_model(const tern_model *model, json_t *out);
/* Prints what the two made. */
void tern_app_print_description(const json_t *description);

#endif
