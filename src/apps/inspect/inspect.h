/* Describing a model as a JSON document, and printing that document for people. */
#ifndef TERN_APPS_INSPECT_INSPECT_H
#define TERN_APPS_INSPECT_INSPECT_H

#include <jansson.h>

#include "apps/options.h"
#include "graph/graph.h"
#include "model/model.h"

/* Adds "format", "metadata" and "tensors" of a GGUF file, which need not be a model that Tern can run. */
tern_status tern_app_describe_gguf(const char *path, json_t *out, tern_error *err);
/* Adds "architecture", "config", "parameters", "weight_bytes", "bits_per_weight" and "tensors" of a model. */
void tern_app_describe_model(const tern_model *model, json_t *out);
/* As above, of a package whose sums are checked; with "manifest" where all of it is wanted. */
tern_status tern_app_describe_package(const char *path, bool full, json_t *out, tern_error *err);
/* Whether the path holds a LoRA adapter: a PEFT folder or a file of it, or a GGUF file that says so. */
bool tern_app_is_adapter(const char *path);
/* Adds "format" and "adapter", checked against the model at model_path unless that is NULL. */
tern_status tern_app_describe_adapter(const char *path, const char *model_path, json_t *out, tern_error *err);
/* The graph of a step of n_tokens, fused and planned as a session does it: on the CPU, or on a backend of a GPU's
 * fusions. */
tern_status tern_app_build_graph(tern_graph *graph, const tern_model *model, const tern_options *o, uint32_t n_tokens,
                                 tern_backend *gpu, tern_error *err);
/* Where weights, experts, keys and values lie with --experts, --kv-memory and --kv-disk: device, host or disk. Errors:
 * INVALID_ARGUMENT (the words of these). */
tern_status tern_app_print_tiers(const tern_model *model, const tern_graph *graph, const tern_options *o,
                                 tern_error *err);
/* Bytes as members of a JSON object. */
tern_status tern_app_tiers_json(const tern_model *model, const tern_graph *graph, const tern_options *o, json_t *out,
                                tern_error *err);
/* The GPU's kernels of a token and of a batch (--batch, or a session's own), by op and encoding, as rows of text. */
tern_status tern_app_print_kernels(const tern_model *model, const tern_options *o, tern_error *err);
/* Adds the part of one of several processes, as the model was opened: "rank" of "ranks", "stage" of "stages", "layers"
 * (the first, how many), "weight_bytes" and "tensors". A tensor that is cut has "originalShape", "sliceDim", "sliceIdx"
 * of "sliceCount", and "slice" (the first row of the dimension, how many; for each expert). */
void tern_app_plan(const tern_model *model, json_t *out);
/* As above, as text: only the first of the layers. Nothing of a whole model. */
void tern_app_print_plan(const tern_model *model);
/* Prints what these made. */
void tern_app_print_description(const json_t *description);

#endif
