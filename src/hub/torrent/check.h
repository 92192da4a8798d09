/* Whether a torrent is a package: what it may hold, and that its bytes are those of its manifest. All of a torrent is
 * untrusted. */
#ifndef TERN_HUB_TORRENT_CHECK_H
#define TERN_HUB_TORRENT_CHECK_H

#include "format/manifest.h"
#include "hub/files.h"
#include "hub/torrent/engine.h"

/* Looks at what a torrent says that it holds: one folder with a manifest.json and shards, names without folders, each
 * once, no links, sizes that a package may have. `files` gets them, sorted, and is the caller's to deinit; *manifest:
 * which one of info->files it is. Errors: MALFORMED (the name), UNSUPPORTED (it is not a package), LIMIT. */
tern_status tern_torrent_check(const tern_torrent_info *info, tern_hub_files *files, size_t *manifest, tern_error *err);
/* Whether the files are those of the manifest, by names and sizes. Errors: MALFORMED (the file). */
tern_status tern_torrent_check_manifest(const tern_manifest *manifest, const tern_hub_files *files, tern_error *err);
/* Whether the shards in a folder have the manifest's SHA-256 sums. progress: as in hub/sum.h, of all. Errors: MALFORMED
 * (the shard), IO, CANCELLED. */
tern_status tern_torrent_check_sums(const tern_manifest *manifest, const char *folder,
                                    bool (*progress)(void *context, float done), void *context, tern_error *err);

#endif
