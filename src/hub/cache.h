/* The folder that models of the hub are kept in, laid out as huggingface_hub does, so that files are shared with every
 * program that uses it (https://huggingface.co/docs/hub/local-cache):
 *
 *   models--ORG--NAME/blobs/SUM               the bytes; SUM.incomplete while they come
 *   models--ORG--NAME/refs/REVISION           the commit that a branch or tag was at, 40 digits
 *   models--ORG--NAME/snapshots/COMMIT/FILE   links to blobs, in the folders of the repository
 *   .locks/models--ORG--NAME/SUM.lock         held (flock) by who writes the blob
 */
#ifndef TERN_HUB_CACHE_H
#define TERN_HUB_CACHE_H

#include "hub/choose.h"

/* A model that is here. */
typedef struct tern_hub_found {
    tern_hub_path path;     /* what -m opens: a GGUF file, or the folder of a snapshot */
    tern_hub_choice choice; /* its files */
} tern_hub_found;

/* Looks for the model of a name, by the rule of hub/choose.h over the files that are here. Errors: NOT_FOUND (not
 * here), LIMIT, OUT_OF_MEMORY. */
tern_status tern_hub_cache_find(const tern_hub *hub, const tern_hub_name *name, tern_hub_found *found, tern_error *err);

/* The folder of the snapshot of a revision, and its commit. Errors: NOT_FOUND (the revision is not here), LIMIT. */
tern_status tern_hub_cache_snapshot(const tern_hub *hub, const tern_hub_name *name, tern_hub_path *folder,
                                    tern_error *err);
/* The files of a snapshot that are whole, sorted; links that lead nowhere are passed over. */
tern_status tern_hub_cache_files(const char *folder, tern_hub_files *files, tern_error *err);

/* One model of the cache: a GGUF file (all parts), or a folder of SafeTensors. */
typedef struct tern_hub_entry {
    char name[sizeof(tern_hub_name) + 8]; /* "hf:ORG/NAME/FILE[@REVISION]"; a folder: without FILE */
    tern_hub_name parsed;
    tern_hub_path path;
    uint64_t bytes;
    uint64_t coming; /* bytes of blobs of the repository that are not whole yet; its model then may be none: path "" */
} tern_hub_entry;

/* Calls `take` for each model in the order of their names, the revisions of a repository in theirs. A folder that is
 * not a model (datasets, others) is passed over. A folder that is not there is an empty one. */
tern_status tern_hub_cache_list(const tern_hub *hub, tern_status (*take)(void *, const tern_hub_entry *, tern_error *),
                                void *context, tern_error *err);

/* The size that tern_hub_cache_remove would free; removes it unless `look`: for a name without FILE and TAG the whole
 * repository, else the chosen files in the name's snapshot and their blobs, unless another snapshot has them. Nothing
 * outside the repository's folder is touched, and no link is followed. Errors: NOT_FOUND, IO, INVALID_ARGUMENT (it is
 * being pulled). */
tern_status tern_hub_cache_remove(const tern_hub *hub, const tern_hub_name *name, bool look, uint64_t *bytes,
                                  tern_error *err);

#endif
