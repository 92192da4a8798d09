/* Packages: a folder with manifest.json and the shards that a GGUF file is cut into, for loading over a network.
 * docs/formats/package.md. */
#ifndef TERN_MODEL_PACKAGE_H
#define TERN_MODEL_PACKAGE_H

#include "format/manifest.h"
#include "model/model.h"

/* What a manifest says of the model of a GGUF file, without its shards. `json` is the caller's to json_decref. Errors:
 * MALFORMED (a chat template that is not UTF-8), OUT_OF_MEMORY. */
tern_status tern_package_describe(const tern_model *model, const tern_gguf *gguf, uint64_t file_bytes,
                                  uint64_t shard_bytes, json_t **json, tern_error *err);
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

/* Cuts a GGUF file into a new folder `dir`, which appears whole or not at all. The same file gives the same bytes.
 * Errors: INVALID_ARGUMENT (shard_bytes; what base/output.h refuses; a folder that is no package, also to overwrite),
 * those of tern_model_open, IO, CANCELLED. */
tern_status tern_package_write(const char *gguf_path, const char *dir, const tern_package_options *options,
                               tern_error *err);

/* An opened package: its manifest, and shards whose sums are right. */
typedef struct tern_package tern_package;

/* Whether the path is a package's folder or manifest. */
bool tern_package_is(const char *path);
/* Reads the manifest and all shards once, on all cores. progress as in tern_model_options. On failure *package is
 * NULL. Errors: those of tern_manifest_read, NOT_FOUND (a shard), MALFORMED (the shard, its size or sum, and those of
 * the manifest), IO, CANCELLED, OUT_OF_MEMORY. */
tern_status tern_package_open(tern_package **package, const char *path, const tern_model_options *options,
                              tern_error *err);
/* NULL is fine. */
void tern_package_close(tern_package *package);
const tern_manifest *tern_package_manifest(const tern_package *package);
/* n bytes of the GGUF file from `offset` on; both must lie in it. */
void tern_package_read(const tern_package *package, uint64_t offset, size_t n, void *out);

/* Calls `take` with more and more of the file's first bytes until it gives something other than PENDING, which it then
 * returns. */
typedef tern_status (*tern_package_take_fn)(void *context, const void *bytes, size_t n, uint64_t *wanted,
                                            tern_error *err);
tern_status tern_package_head(const tern_package *package, tern_package_take_fn take, void *context, tern_error *err);
/* The model in a package, whole in memory; tern_model_open calls it. */
tern_status tern_package_open_model(tern_model **model, const char *path, const tern_model_options *options,
                                    tern_error *err);

#endif
