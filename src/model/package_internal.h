/* Inside packages: what their files share. */
#ifndef TERN_MODEL_PACKAGE_INTERNAL_H
#define TERN_MODEL_PACKAGE_INTERNAL_H

#include "format/gguf.h"
#include "model/model_internal.h"
#include "model/package.h"

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
