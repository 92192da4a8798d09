/* Opening the module that knows libtorrent, so that a command without it loses nothing else. */
#include "base/module.h"
#include "hub/torrent/engine.h"

static const tern_module module = {
    .file = "tern-torrent.so",
    .function = TERN_TORRENT_MODULE_OPEN,
    .use = "torrents",
    .get = "a build with libtorrent (Debian: libtorrent-rasterbar-dev) and the package tern-torrent have it",
    .library = "need libtorrent-rasterbar (Debian: libtorrent-rasterbar2.0)",
};

tern_status tern_torrent_open(const tern_torrent_engine **engine, tern_error *err)
{
    static const tern_torrent_engine *opened;
    tern_torrent_module_open_fn open = NULL;
    *engine = NULL;
    if (!opened) {
        TERN_TRY(tern_module_open(&module, &open, err)); /* for ever: its threads may outlive a call */
        opened = open();
    }
    *engine = opened;
    return TERN_OK;
}
