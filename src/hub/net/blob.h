/* One blob of the cache, from the hub. */
#ifndef TERN_HUB_NET_BLOB_H
#define TERN_HUB_NET_BLOB_H

#include "hub/net/pull.h"

typedef struct tern_hub_source {
    const tern_hub *hub;
    const char *repository, *commit;
    const char *folder; /* of the repository in the cache */
    const tern_hub_events *events;
} tern_hub_source;

/* Where the blob of a file is, or will be. */
tern_status tern_hub_blob_path(const tern_hub_source *source, const tern_hub_file *file, tern_hub_path *path,
                               tern_error *err);
/* How many bytes of it are missing, by what is on the disk. */
uint64_t tern_hub_blob_missing(const tern_hub_source *source, const tern_hub_file *file);
/* Makes it be there. */
tern_status tern_hub_blob_fetch(const tern_hub_source *source, const tern_hub_file *file, tern_error *err);

#endif
