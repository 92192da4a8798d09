/* Inside packages: what their files share. */
#ifndef TERN_MODEL_PACKAGE_INTERNAL_H
#define TERN_MODEL_PACKAGE_INTERNAL_H

#include "format/gguf.h"
#include "model/model_internal.h"
#include "model/package/package.h"

enum { TERN_PACKAGE_MAX_PARTS = 6 }; /* matrices and biases of an expert */

struct tern_package {
    tern_manifest manifest;
    char *dir;
    tern_file_map *shards;          /* [manifest.n_shards]; those of experts may be closed */
    struct tern_package_seen *seen; /* [manifest.n_shards]: files whose sums were found right */
    tern_package_bring bring;       /* of a package that is elsewhere; else NULL */
    void *bring_context;
    uint8_t *brought; /* the shard that was asked for last: [brought_bytes], those of the largest expert */
    size_t brought_bytes;
};

/* Whether a package may be written to `dir`: what base/output.h says, and what is there is none or an old one. Errors:
 * INVALID_ARGUMENT. */
tern_status tern_package__check_target(const char *source, const char *dir, bool overwrite, tern_error *err);
/* Makes the folder, under another name until `write` has filled it. Errors: those of `write`, IO. */
typedef tern_status (*tern_package__write_fn)(void *context, const char *folder, tern_error *err);
tern_status tern_package__write_folder(const char *dir, tern_package__write_fn write, void *context, tern_error *err);
/* One shard of n bytes; *shard: what the manifest says of it, the caller's. */
tern_status tern_package__write_shard(const char *folder, const char *name, const void *bytes, size_t n, json_t **shard,
                                      tern_error *err);
tern_status tern_package__write_manifest(const char *folder, const json_t *manifest, tern_error *err);

/* Opens the package of an adapter: its manifest and all of its files, whose sums are right. */
tern_status tern_package__open_files(tern_package **package, const char *path, tern_error *err);

/* Whether all experts can be told apart in the file, so that each has a shard. */
bool tern_package__by_expert(const tern_model *model, const tern_gguf *gguf);
/* Where one expert is in the file: gate, up, down, then their biases, those that the model has. Returns how many. */
uint32_t tern_package__expert_ranges(const tern_model *model, const tern_gguf *gguf, uint32_t layer, uint32_t expert,
                                     tern_manifest_range ranges[TERN_PACKAGE_MAX_PARTS]);
/* Cuts a file of m->bytes into shards: m->shards without names and sums, m->ranges in the order of the shards. The
 * caller's to tern_manifest_deinit, also when this fails. Errors: LIMIT, OUT_OF_MEMORY. */
tern_status tern_package__cut(tern_manifest *m, const tern_model *model, const tern_gguf *gguf, tern_error *err);
/* MALFORMED: the manifest says that an expert is elsewhere than the file's header does. */
tern_status tern_package__match_experts(const tern_manifest *manifest, const tern_model *model, const tern_gguf *gguf,
                                        tern_error *err);

#endif
