/* Torrents for the commands: pulling with a progress bar, and writing one beside a package's manifest. */
#ifndef TERN_APPS_HUB_TORRENT_H
#define TERN_APPS_HUB_TORRENT_H

#include "apps/app.h"
#include "hub/torrent/pull.h"

/* Flags of tern pull that are for torrents alone. */
extern const tern_flag tern_flags_torrent[];

/* Errors: INVALID_ARGUMENT (a flag that is for torrents, and what is pulled is none). */
tern_status tern_app_torrent_check_unused(const tern_options *options, const char *what, tern_error *err);
/* Pulls and reports; with --seed it gives until Ctrl-C, --seed-ratio or --seed-time. Errors: those of
 * tern_torrent_pull. */
tern_status tern_app_torrent_pull(const tern_options *options, const char *what, tern_error *err);

/* The files that were written beside a manifest. */
typedef struct tern_app_torrent {
    tern_hub_path path;
    char name[512], v1[41], v2[65];
    uint32_t piece_bytes;
    char *magnet; /* the caller's to tern_free */
} tern_app_torrent;

enum { TERN_APP_TORRENT_MIN_PIECE = 64 << 10, TERN_APP_TORRENT_MAX_PIECE = 8 << 20, TERN_APP_TORRENT_PIECES = 2048 };

/* Looks at --torrent, --web-seed and --tracker before anything is made. Errors: INVALID_ARGUMENT, UNSUPPORTED. */
tern_status tern_app_torrent_check_flags(const tern_options *options, tern_error *err);
/* Writes package.torrent into a package's folder: hybrid (versions 1 and 2), the folder's name, manifest.json and the
 * shards, --web-seed and --tracker; pieces of the least power of two from 64 KiB on of which there are at most 2048, at
 * most 8 MiB. Packages of the same bytes give torrents of the same bytes. Errors: UNSUPPORTED (no engine), IO,
 * CANCELLED, MALFORMED (a shard of another size than the manifest says). */
tern_status tern_app_torrent_write(const tern_options *options, const char *folder, tern_app_torrent *torrent,
                                   tern_error *err);

#endif
