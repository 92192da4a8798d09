/* The interface of a BitTorrent engine: a table of functions, filled by a module that is opened at run time. Plain C,
 * which the module's C++ reads too. Nothing here knows of packages; what a torrent may hold, hub/torrent/check.h
 * says. */
#ifndef TERN_HUB_TORRENT_ENGINE_H
#define TERN_HUB_TORRENT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A file of a torrent as its author has written it: untrusted, and unchanged by the engine. */
typedef struct tern_torrent_file {
    const char *path; /* parts with "/" between them; "\xNN" for what no text has */
    uint64_t bytes;
    bool link; /* to another file */
} tern_torrent_file;

/* The facts that a torrent states. Everything is the engine's, until the call in which it is given returns. */
typedef struct tern_torrent_info {
    const char *name;  /* of the folder that holds the files, as its author has written it */
    const char *alter; /* a path that the engine would write otherwise than the author has it; NULL: none */
    char v1[41];       /* info-hash of version 1, 40 digits; "": it has none */
    char v2[65];       /* of version 2, 64 digits; "": it has none */
    uint32_t piece_bytes;
    bool single;                    /* one file and no folder */
    const tern_torrent_file *files; /* [n_files] without those that only fill up pieces */
    size_t n_files;
    const void *metainfo; /* [metainfo_bytes] a .torrent file that says as much */
    size_t metainfo_bytes;
} tern_torrent_info;

/* A torrent to be made of a folder's files. */
typedef struct tern_torrent_recipe {
    const char *parent, *name; /* the folder is parent/name; name is the torrent's as well */
    const char *const *files;  /* [n_files] names in the folder */
    const uint64_t *bytes;     /* [n_files] */
    size_t n_files;
    uint32_t piece_bytes;         /* a power of two of at least 16 KiB */
    const char *const *web_seeds; /* [n_web_seeds] addresses of folders that hold one of the torrent's name */
    size_t n_web_seeds;
    const char *const *trackers; /* [n_trackers] in the order in which they are asked */
    size_t n_trackers;
    bool (*progress)(void *context, float done); /* false: CANCELLED */
    void *context;
} tern_torrent_recipe;

typedef struct tern_torrent_state {
    bool checking; /* of what is on the disk already */
    float done;    /* of what is wanted now */
    uint32_t peers;
    uint64_t fetched, sent;   /* bytes of this call */
    uint64_t rate, sent_rate; /* bytes a second */
} tern_torrent_state;

/* A torrent to be fetched, and given to others. Functions are called on the thread of the call. */
typedef struct tern_torrent_order {
    const char *magnet;   /* a link, or */
    const void *metainfo; /* [metainfo_bytes] what a .torrent file holds; with a link too: what is known of it */
    size_t metainfo_bytes;
    const char *const *peers; /* [n_peers] "ADDRESS:PORT" to ask besides */
    size_t n_peers;
    const char *listen;    /* "ADDRESS:PORT"; NULL: all addresses, port 6881 or one behind it */
    bool discovery;        /* the DHT, and the local network; while it seeds, the router forwards a port */
    bool here;             /* all files are on the disk already, and nothing is fetched */
    bool seed;             /* goes on giving when all is here */
    uint64_t upload_limit; /* bytes a second; 0: none */
    void *context;
    /* The contents of the torrent, before anything of it is fetched. `folder`: where its folder is put, ended by 0, cap
     * bytes. `first`: the number of the file that is fetched before all others. */
    tern_status (*accept)(void *context, const tern_torrent_info *info, char *folder, size_t cap, size_t *first,
                          tern_error *err);
    /* The first file is whole. */
    tern_status (*on_first)(void *context, tern_error *err);
    /* All files are whole. */
    tern_status (*on_whole)(void *context, tern_error *err);
    /* A few times a second. Not OK ends the call with it: after on_whole as a success. */
    tern_status (*progress)(void *context, const tern_torrent_state *state, tern_error *err);
    void (*note)(void *context, const char *words); /* a line for people */
} tern_torrent_order;

typedef struct tern_torrent_engine {
    /* Writes the torrent (info->metainfo) and a magnet link; the same files give the same bytes. `take` is called once.
     * Errors: IO, INVALID_ARGUMENT, CANCELLED, OUT_OF_MEMORY. */
    tern_status (*make)(const tern_torrent_recipe *recipe,
                        tern_status (*take)(void *, const tern_torrent_info *, const char *magnet, tern_error *),
                        void *context, tern_error *err);
    /* The info-hashes of a magnet link, as in tern_torrent_info. Errors: INVALID_ARGUMENT. */
    tern_status (*identify)(const char *magnet, char v1[41], char v2[65], tern_error *err);
    /* Errors: MALFORMED (no torrent; `here`, and they are not), IO (the disk), INVALID_ARGUMENT (the link, a peer,
     * where to listen), those of the functions of the order. */
    tern_status (*fetch)(const tern_torrent_order *order, tern_error *err);
} tern_torrent_engine;

/* The one function of a module. */
#define TERN_TORRENT_MODULE_OPEN "tern_torrent_module_open"
typedef const tern_torrent_engine *(*tern_torrent_module_open_fn)(void);

/* Opens the module, once for the process. Errors: UNSUPPORTED (what is missing). */
tern_status tern_torrent_open(const tern_torrent_engine **engine, tern_error *err);

#endif
