/* Where packages that came by torrent lie, in the folder of the hub's models:
 *
 *   torrents--HASH/NAME/                       manifest.json and the shards
 *   torrents--HASH/NAME.torrent                the torrent; NAME.torrent.incomplete until all bytes are there and
 * checked .locks/torrents--HASH.lock                 held (flock) by who fetches
 *
 * HASH is the info-hash of version 1, of a torrent without one the first 40 digits of that of version 2. */
#ifndef TERN_HUB_TORRENT_PLACE_H
#define TERN_HUB_TORRENT_PLACE_H

#include "hub/hub.h"

enum { TERN_TORRENT_HASH_DIGITS = 40, TERN_TORRENT_SHOWN_DIGITS = 8 };

typedef struct tern_torrent_place {
    char name[512]; /* NAME */
    char hash[TERN_TORRENT_HASH_DIGITS + 1];
    tern_hub_path folder, package, whole, part; /* torrents--HASH; in it NAME, NAME.torrent, NAME.torrent.incomplete */
} tern_torrent_place;

/* Errors: LIMIT. */
tern_status tern_torrent_place_make(tern_torrent_place *place, const tern_hub *hub, const char *hash, const char *name,
                                    tern_error *err);
bool tern_torrent_place_is_whole(const tern_torrent_place *place);
/* Takes its lock: *fd as in hub/lock.h. */
tern_status tern_torrent_place_lock(const tern_torrent_place *place, const tern_hub *hub, int *fd, tern_error *err);

typedef struct tern_torrent_entry {
    tern_torrent_place place;
    char name[600]; /* "torrent:NAME"; "torrent:NAME@HASH", with 8 digits, where several have that name */
    uint64_t bytes; /* on the disk */
    bool whole;
} tern_torrent_entry;

/* Calls `take` for each, in the order of their hashes. */
tern_status tern_torrent_list(const tern_hub *hub,
                              tern_status (*take)(void *, const tern_torrent_entry *, tern_error *), void *context,
                              tern_error *err);

/* Whether the text begins with "torrent:". */
bool tern_torrent_name_is(const char *text);
/* The one of a name, or of a hash "@HASH" (whole, or its first digits). Errors: NOT_FOUND, INVALID_ARGUMENT
 * (several). */
tern_status tern_torrent_find(const tern_hub *hub, const char *text, tern_torrent_entry *found, tern_error *err);
/* Removes it. Errors: INVALID_ARGUMENT (it is being pulled), IO. */
tern_status tern_torrent_remove(const tern_hub *hub, const tern_torrent_entry *entry, tern_error *err);

#endif
