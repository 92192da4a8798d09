/* manifest.json of a package: what a model is, and which shards its GGUF file is cut into; or what an adapter is, whose
 * files are the shards.
 * docs/reference/formats/package.md. */
#ifndef TERN_FORMAT_MANIFEST_H
#define TERN_FORMAT_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define TERN_MANIFEST_FORMAT "tern-package"
#define TERN_MANIFEST_NAME   "manifest.json"
/* The torrent of a package, which may lie in its folder as well. */
#define TERN_MANIFEST_TORRENT "package.torrent"
/* "kind" of an adapter's, and what its shards are called: the first two together, or the last. */
#define TERN_MANIFEST_ADAPTER         "adapter"
#define TERN_MANIFEST_ADAPTER_CONFIG  "adapter_config.json"
#define TERN_MANIFEST_ADAPTER_WEIGHTS "adapter_model.safetensors"
#define TERN_MANIFEST_ADAPTER_GGUF    "adapter.gguf"

enum {
    TERN_MANIFEST_VERSION = 1,
    TERN_MANIFEST_EXPERTS_VERSION = 2, /* shards by expert */
    TERN_MANIFEST_MAX_BYTES = 32 << 20,
    TERN_MANIFEST_SHARD_BYTES = 64 << 20, /* of a shard, at most */
    TERN_MANIFEST_EXPERT_BYTES = 1 << 30, /* of the shard of an expert, and of a file of an adapter */
    TERN_MANIFEST_MAX_EXPERTS = 1024,     /* of a layer */
    TERN_MANIFEST_MAX_SHARDS = 1 << 16
};

/* Layer of a shard that is not of an expert. */
#define TERN_MANIFEST_DENSE UINT32_MAX

/* Strings are the manifest's. */
typedef struct tern_manifest_shard {
    const char *file; /* a name without a folder */
    uint64_t offset;  /* of its first byte in the GGUF file */
    size_t bytes;
    const char *sha256;     /* 64 lower-case hexadecimal digits */
    uint32_t layer, expert; /* whose it is; layer DENSE: no expert's */
} tern_manifest_shard;

/* Bytes of the GGUF file that lie together in a shard. */
typedef struct tern_manifest_range {
    uint64_t offset; /* in the file */
    size_t bytes;
    size_t shard, at; /* which, and from which byte of it on */
} tern_manifest_range;

typedef struct tern_manifest {
    json_t *root;
    const char *name; /* of a model */
    uint64_t bytes;   /* of the GGUF file, or of all files of an adapter */
    uint32_t version;
    bool adapter;         /* it is an adapter's */
    uint64_t shard_bytes; /* of every shard but the last, which may be shorter; of version 2, of those of no expert; of
                             an adapter's 0 */
    tern_manifest_shard *shards;
    size_t n_shards;
    tern_manifest_range *ranges; /* [n_ranges] in the order of the file, which they cover */
    size_t n_ranges;
    uint32_t n_experts; /* of a layer; 0: version 1 */
} tern_manifest;

/* Reads `n` bytes of JSON and checks that every field is there and of its kind: a missing one is an error that names
 * it, as is one of `inference` that is not known; null stands only where it switches something off. The fields about
 * the model are checked when there is one (model/package/package.h). On failure *manifest is zeroed.
 *
 * Errors: MALFORMED (the field, what was found and what is expected), UNSUPPORTED (another version, a feature that is
 * not there), LIMIT, OUT_OF_MEMORY. */
tern_status tern_manifest_parse(tern_manifest *manifest, const void *json, size_t n, tern_error *err);
/* As above, from a file. Errors: also NOT_FOUND, IO. */
tern_status tern_manifest_read(tern_manifest *manifest, const char *path, tern_error *err);
/* UNSUPPORTED where it is not that of an adapter, or not that of a model; the message says which. */
tern_status tern_manifest_need(const tern_manifest *manifest, bool adapter, tern_error *err);
/* The range that a byte of the file is in. */
const tern_manifest_range *tern_manifest_range_at(const tern_manifest *manifest, uint64_t offset);
/* The shard of an expert, or NULL. */
const tern_manifest_shard *tern_manifest_expert(const tern_manifest *manifest, uint32_t layer, uint32_t expert);
/* Zeroed is fine. */
void tern_manifest_deinit(tern_manifest *manifest);

/* Whether `found` says what `expected` says: every member and every item of it, numbers as floats. Errors: MALFORMED
 * (the place below `path`, what was found and what is expected). */
tern_status tern_manifest_compare(const json_t *found, const json_t *expected, const char *path, tern_error *err);

#endif
