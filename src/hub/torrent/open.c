/* Opening the module that knows libtorrent, so that a command without it loses nothing else. */
#include <dlfcn.h>
#include <string.h>

#include "base/program.h"
#include "hub/torrent/engine.h"

static tern_status open_module(const char *path, tern_torrent_module_open_fn *open, tern_error *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* for ever: its threads may outlive a call */
    void *function = library ? dlsym(library, TERN_TORRENT_MODULE_OPEN) : NULL;
    if (!function) {
        const char *why = dlerror();
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: %s; torrents need libtorrent-rasterbar (Debian: libtorrent-rasterbar2.0)", path,
                         why ? why : "no module for torrents");
    }
    memcpy(open, &function, sizeof *open); /* ISO C has no cast for this */
    return TERN_OK;
}

tern_status tern_torrent_open(const tern_torrent_engine **engine, tern_error *err)
{
    static const tern_torrent_engine *opened;
    char path[4200];
    tern_torrent_module_open_fn open = NULL;
    *engine = NULL;
    if (!opened) {
        if (!tern_program_module("tern-torrent.so", path, sizeof path))
            return tern_fail(err, TERN_UNSUPPORTED,
                             "torrents: no tern-torrent.so beside the program or in ../lib/tern; a build with "
                             "libtorrent (Debian: libtorrent-rasterbar-dev, or the package tern-torrent) expected");
        TERN_TRY(open_module(path, &open, err));
        opened = open();
    }
    *engine = opened;
    return TERN_OK;
}
