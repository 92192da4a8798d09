/* Packages: a folder with manifest.json and the shards that a GGUF file is cut into, for loading over a network; or
 * with the files of an adapter. docs/reference/formats/package.md. */
#ifndef TERN_MODEL_PACKAGE_PACKAGE_H
#define TERN_MODEL_PACKAGE_PACKAGE_H

#include "base/file.h"
#include "format/manifest.h"
#include "model/adapter/adapter.h"
#include "model/model.h"

typedef struct tern_gguf tern_gguf; /* format/gguf.h */

/* The manifest of this version, of a file and shards of so many bytes, about the model of a GGUF file, without its
 * shards. `json` is the caller's to json_decref. Errors: MALFORMED (a chat template that is not UTF-8), OUT_OF_MEMORY.
 */
tern_status tern_package_describe(const tern_model *model, const tern_gguf *gguf, const tern_manifest *sizes,
                                  json_t **json, tern_error *err);
/* Whether the manifest says the same of the model as its file; how to sample is the manifest's own. Errors: MALFORMED
 * (the field, what was found and what is expected). */
tern_status tern_package_match(const tern_manifest *manifest, const tern_model *model, const tern_gguf *gguf,
                               tern_error *err);

typedef struct tern_package_options {
    uint32_t shard_bytes;                        /* 0: TERN_MANIFEST_SHARD_BYTES, which is the most */
    bool overwrite;                              /* a package that is there is replaced */
    bool (*progress)(void *context, float done); /* false: CANCELLED; may be NULL */
    void *progress_context;
} tern_package_options;

/* Cuts a GGUF file into a new folder `dir`, by expert where it has experts (version 2 of the manifest), which appears
 * whole or not at all. Equal files give equal bytes. Errors: INVALID_ARGUMENT (shard_bytes; what base/output.h refuses;
 * a folder that is not a package, also to overwrite), those of tern_model_open, IO, CANCELLED. */
tern_status tern_package_write(const char *gguf_path, const char *dir, const tern_package_options *options,
                               tern_error *err);

/* Writes the files of an adapter as they are into a new folder `dir`, with a manifest: what tern_adapter_open takes,
 * but no package. Only overwrite of `options` counts. Errors: as above, those of tern_adapter_open, LIMIT (a file of
 * more than TERN_MANIFEST_EXPERT_BYTES). */
tern_status tern_package_write_adapter(const char *path, const char *dir, const tern_package_options *options,
                                       tern_error *err);

/* An opened package: its manifest, and shards whose sums are right. */
typedef struct tern_package tern_package;

/* Whether the path is a package's folder or manifest. */
bool tern_package_is(const char *path);
/* Whether it is that of an adapter; false where its manifest cannot be read. */
bool tern_package_is_adapter(const char *path);
/* Reads the manifest and all shards once, on all cores. progress as in tern_model_options. On failure *package is
 * NULL. Errors: those of tern_manifest_read, UNSUPPORTED (an adapter's), NOT_FOUND (a shard), MALFORMED (the shard, its
 * size or sum, and those of the manifest), IO, CANCELLED, OUT_OF_MEMORY. */
tern_status tern_package_open(tern_package **package, const char *path, const tern_model_options *options,
                              tern_error *err);
/* As above for a package by expert without its experts' shards, which need not be there: tern_package_load_expert
 * brings them one by one. For another package: all of it. */
tern_status tern_package_open_dense(tern_package **package, const char *path, const tern_model_options *options,
                                    tern_error *err);
/* Brings the shard of an expert that lies elsewhere than in a file (a browser): all of into[bytes], whose sum has been
 * found right. On the thread that asks. Errors: its own; the next time it is asked again. */
typedef tern_status (*tern_package_bring)(void *context, size_t shard, uint8_t *into, size_t bytes, tern_error *err);
/* A package of which only the manifest is here, n bytes of JSON, which may go: it is good for its manifest and for
 * tern_package_load_expert, to which `bring` gives the shards. On failure *package is NULL. Errors: those of
 * tern_manifest_parse, UNSUPPORTED (a package that is not by expert), OUT_OF_MEMORY. */
tern_status tern_package_open_elsewhere(tern_package **package, const void *json, size_t n, tern_package_bring bring,
                                        void *context, tern_error *err);
/* NULL is fine. */
void tern_package_close(tern_package *package);
const tern_manifest *tern_package_manifest(const tern_package *package);
/* n bytes of the GGUF file from `offset` on; both must lie in it. Zeros where shards were not opened. */
void tern_package_read(const tern_package *package, uint64_t offset, size_t n, void *out);

/* Calls `take` with more and more of the file's first bytes until it gives something other than PENDING, which it then
 * returns. */
typedef tern_status (*tern_package_take_fn)(void *context, const void *bytes, size_t n, uint64_t *wanted,
                                            tern_error *err);
tern_status tern_package_head(const tern_package *package, tern_package_take_fn take, void *context, tern_error *err);
/* One expert by itself: the bytes of its shard. Zeroed is closed. */
typedef struct tern_package_expert {
    tern_file_map file;      /* closed where the shard was brought: the package has the bytes, until the next one */
    const uint8_t *parts[6]; /* [n_parts] its rows in each weight: gate, up, down, then biases, those that there are */
    size_t bytes[6];
    uint32_t n_parts;
} tern_package_expert;

/* Opens an expert's shard, whose size and sum are checked, the sum when the file is another one than when it was found
 * right; of a package that is elsewhere, brings it. Not thread-safe on one package. On failure *out is zeroed. Errors:
 * NOT_FOUND (no such expert, or its shard is missing), MALFORMED (its size or sum), IO, OUT_OF_MEMORY, those of
 * `bring`; the message names the shard. */
tern_status tern_package_load_expert(tern_package *package, uint32_t layer, uint32_t expert, tern_package_expert *out,
                                     tern_error *err);
void tern_package_close_expert(tern_package_expert *expert);

/* The adapter in a package, whose sums and manifest are checked; tern_adapter_open calls it. Errors: those of
 * tern_package_open and tern_adapter_open, UNSUPPORTED (it is a model's). */
tern_status tern_package_open_adapter(tern_adapter **adapter, const char *path, const tern_model *model,
                                      tern_error *err);

/* The model in a package, whole in memory; tern_model_open calls it. */
tern_status tern_package_open_model(tern_model **model, const char *path, const tern_model_options *options,
                                    tern_error *err);
/* As above from a package that is open, without its experts: their weights have no data. Errors: also UNSUPPORTED (a
 * package that is not by expert; ternary experts, whose scales are known only once all was read). */
tern_status tern_package_model_without_experts(tern_model **model, const tern_package *package,
                                               const tern_model_options *options, tern_error *err);

#endif
