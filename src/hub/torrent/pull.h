/* Fetching a package by BitTorrent, and giving it to others. */
#ifndef TERN_HUB_TORRENT_PULL_H
#define TERN_HUB_TORRENT_PULL_H

#include "hub/torrent/engine.h"
#include "hub/torrent/place.h"

typedef enum tern_torrent_stage {
    TERN_TORRENT_ASKING,   /* for the description of a link's torrent */
    TERN_TORRENT_CHECKING, /* pieces that are on the disk */
    TERN_TORRENT_FETCHING,
    TERN_TORRENT_SUMMING, /* the manifest's sums */
    TERN_TORRENT_SEEDING
} tern_torrent_stage;

/* Zero-initialised except for the first two and the functions. */
typedef struct tern_torrent_wish {
    const tern_hub *hub;
    const char *what;         /* "magnet:?...", or the path of a .torrent file */
    const char *const *peers; /* [n_peers] "ADDRESS:PORT" */
    size_t n_peers;
    const char *listen;      /* "ADDRESS:PORT" or NULL */
    bool no_discovery, seed; /* as in tern_torrent_order */
    uint64_t upload_limit;
    void *context;
    /* Called once with what is fetched; `here`: all of it is here. */
    void (*begin)(void *context, const char *name, size_t n_files, uint64_t bytes, bool here);
    /* A few times a second; `done` from 0 to 1. Not OK ends it, while seeding as a success. */
    tern_status (*progress)(void *context, tern_torrent_stage stage, float done, const tern_torrent_state *state,
                            tern_error *err);
    void (*whole)(void *context, const char *package); /* all is here and checked; it may be seeded after that */
    void (*note)(void *context, const char *words);
} tern_torrent_wish;

typedef struct tern_torrent_pulled {
    tern_hub_path package;
    char name[512], v1[41], v2[65]; /* the torrent's; hashes as in tern_torrent_info */
    uint64_t bytes;
} tern_torrent_pulled;

/* Whether a word is a magnet link or the name of a .torrent file. */
bool tern_torrent_is(const char *what);

/* Makes the package of a torrent be in the cache (hub/torrent/place.h), all of its bytes checked with the torrent's
 * hashes and with the manifest's SHA-256. Received bytes stay, and a later call goes on from there. With `seed` a
 * .torrent file that lies in its package's folder, beside the manifest, is given from there. Errors: those of
 * hub/torrent/check.h and of the engine, UNSUPPORTED (no engine; offline), INVALID_ARGUMENT (it is being pulled), IO
 * (no space: bytes needed and free). */
tern_status tern_torrent_pull(const tern_torrent_wish *wish, tern_torrent_pulled *pulled, tern_error *err);

#endif
