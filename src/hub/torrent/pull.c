/* Pulling a torrent: its description judged, its place, its bytes, their sums. */
#include "hub/torrent/pull.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "hub/lock.h"
#include "hub/torrent/check.h"
#include "tern/bytes.h"

enum { MAX_TORRENT_BYTES = 64 << 20 };

/* A pull that is going on. */
typedef struct pulling {
    const tern_torrent_wish *wish;
    tern_torrent_order order;
    tern_torrent_place place;
    tern_torrent_pulled *pulled;
    tern_hub_files files;
    tern_manifest manifest;
    int lock;
    bool beside;  /* the .torrent file lies in its package, which is given from there */
    bool known;   /* the description is there and good */
    bool at_once; /* all is here, and nothing more is to be done */
    bool seeding;
    bool bad;                 /* what came is not what the manifest says */
    tern_torrent_state state; /* the last one */
} pulling;

bool tern_torrent_is(const char *what)
{
    return strncmp(what, "magnet:", 7) == 0 || tern_path_ends(what, ".torrent");
}

static bool is_magnet(const char *what)
{
    return strncmp(what, "magnet:", 7) == 0;
}

/* The folder that a .torrent file lies in, when that is its package; links are followed. */
static bool find_beside(const char *path, const char *name, tern_hub_path *package)
{
    tern_hub_path manifest;
    tern_error err;
    char *real = realpath(path, NULL);
    char *slash = real ? strrchr(real, '/') : NULL;
    bool found = false;
    if (slash && slash != real) {
        *slash = 0;
        const char *last = strrchr(real, '/');
        found = last && strcmp(last + 1, name) == 0 &&
                tern_hub_path_make(package, &err, real, NULL, NULL, NULL) == TERN_OK &&
                tern_hub_path_make(&manifest, &err, real, TERN_MANIFEST_NAME, NULL, NULL) == TERN_OK &&
                tern_file_exists(manifest.text);
    }
    free(real);
    return found;
}

static uint64_t all_bytes(const tern_hub_files *files)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < files->n; i++) bytes += files->items[i].bytes; /* each at most 1 GiB, at most 65,537 */
    return bytes;
}

static tern_status check_space(const pulling *p, uint64_t bytes, tern_error *err)
{
    tern_torrent_entry entry = {0};
    char name[TERN_TORRENT_HASH_DIGITS + 2];
    struct statvfs fs;
    snprintf(name, sizeof name, "@%s", p->place.hash);
    if (tern_torrent_find(p->wish->hub, name, &entry, err) != TERN_OK) entry.bytes = 0;
    if (statvfs(p->wish->hub->cache, &fs) != 0) return TERN_OK;
    const uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize, missing = bytes > entry.bytes ? bytes - entry.bytes : 0;
    if (missing <= room) return TERN_OK;
    return tern_fail(err, TERN_IO, "%s: %llu bytes are still missing, %llu are free on that disk",
                     tern_show_z(p->wish->hub->cache).text, (unsigned long long)missing, (unsigned long long)room);
}

/* Takes the place's lock and writes the description there. */
static tern_status take_place(pulling *p, const tern_torrent_info *info, tern_error *err)
{
    const tern_torrent_place *place = &p->place;
    TERN_TRY(tern_torrent_place_lock(place, p->wish->hub, &p->lock, err));
    if (p->lock < 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "another program is pulling or seeding it");
    if (tern_torrent_place_is_whole(place)) return TERN_OK;
    TERN_TRY(check_space(p, all_bytes(&p->files), err)); /* the lock has made the cache's folder */
    tern_folders_make(place->part.text);
    return tern_file_write(place->part.text, info->metainfo, info->metainfo_bytes, err);
}

static void tell_begin(pulling *p, bool here)
{
    const tern_torrent_wish *w = p->wish;
    if (w->begin) w->begin(w->context, p->pulled->name, p->files.n, p->pulled->bytes, here);
}

/* Everything is here already: no peer is contacted. */
static tern_status stop_here(pulling *p, tern_error *err)
{
    tell_begin(p, true);
    p->at_once = true;
    p->pulled->package = p->place.package;
    return tern_fail(err, TERN_CANCELLED, "all is here");
}

static tern_status accept(void *context, const tern_torrent_info *info, char *folder, size_t cap, size_t *first,
                          tern_error *err)
{
    pulling *p = context;
    TERN_TRY(tern_torrent_check(info, &p->files, first, err));
    snprintf(p->pulled->name, sizeof p->pulled->name, "%s", info->name);
    memcpy(p->pulled->v1, info->v1, sizeof info->v1);
    memcpy(p->pulled->v2, info->v2, sizeof info->v2);
    p->pulled->bytes = all_bytes(&p->files);
    TERN_TRY(tern_torrent_place_make(&p->place, p->wish->hub, info->v1[0] ? info->v1 : info->v2, info->name, err));
    p->beside = p->wish->seed && !is_magnet(p->wish->what) && find_beside(p->wish->what, info->name, &p->place.package);
    const bool whole = !p->beside && tern_torrent_place_is_whole(&p->place);
    if (whole && !p->wish->seed) return stop_here(p, err);
    if (p->wish->hub->offline)
        return tern_fail(err, TERN_UNSUPPORTED, "HF_HUB_OFFLINE is set, so nothing is fetched or seeded");
    p->order.here = p->beside;
    if (!p->beside) TERN_TRY(take_place(p, info, err));
    tell_begin(p, whole || p->beside);
    p->known = true;
    p->pulled->package = p->place.package;
    const size_t n = strlen(p->place.package.text) - strlen(info->name) - 1; /* the folder that it lies in */
    if (n >= cap) return tern_fail(err, TERN_LIMIT, "a path of more than %zu bytes", cap);
    snprintf(folder, cap, "%.*s", n ? (int)n : 1, n ? p->place.package.text : "/");
    return TERN_OK;
}

/* Remembers that the torrent itself is invalid: more of it does not help. */
static tern_status judge(pulling *p, tern_status status)
{
    p->bad = status == TERN_MALFORMED || status == TERN_UNSUPPORTED || status == TERN_LIMIT;
    return status;
}

static tern_status on_first(void *context, tern_error *err)
{
    pulling *p = context;
    tern_hub_path path;
    TERN_TRY(tern_hub_path_make(&path, err, p->pulled->package.text, TERN_MANIFEST_NAME, NULL, NULL));
    TERN_TRY(judge(p, tern_manifest_read(&p->manifest, path.text, err)));
    return judge(p, tern_torrent_check_manifest(&p->manifest, &p->files, err));
}

static bool on_summed(void *context, float done)
{
    const pulling *p = context;
    const tern_torrent_wish *w = p->wish;
    return !w->progress || w->progress(w->context, TERN_TORRENT_SUMMING, done, &p->state, NULL) == TERN_OK;
}

static tern_status on_whole(void *context, tern_error *err)
{
    pulling *p = context;
    const tern_torrent_wish *w = p->wish;
    TERN_TRY(judge(p, tern_torrent_check_sums(&p->manifest, p->pulled->package.text, on_summed, p, err)));
    if (!p->beside && !tern_torrent_place_is_whole(&p->place) && rename(p->place.part.text, p->place.whole.text) != 0)
        return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(p->place.whole.text).text, strerror(errno));
    p->seeding = true;
    if (w->whole) w->whole(w->context, p->pulled->package.text);
    return TERN_OK;
}

static tern_status on_progress(void *context, const tern_torrent_state *state, tern_error *err)
{
    pulling *p = context;
    const tern_torrent_wish *w = p->wish;
    const tern_torrent_stage stage = !p->known         ? TERN_TORRENT_ASKING
                                     : p->seeding      ? TERN_TORRENT_SEEDING
                                     : state->checking ? TERN_TORRENT_CHECKING
                                                       : TERN_TORRENT_FETCHING;
    p->state = *state;
    return w->progress ? w->progress(w->context, stage, state->done, state, err) : TERN_OK;
}

static void on_note(void *context, const char *words)
{
    const tern_torrent_wish *w = ((const pulling *)context)->wish;
    if (w->note) w->note(w->context, words);
}

/* The facts about a link's torrent from an earlier pull; nothing is as well. */
static tern_status read_known(const pulling *p, const tern_torrent_engine *engine, tern_buf *metainfo, tern_error *err)
{
    char v1[41], v2[65], name[TERN_TORRENT_HASH_DIGITS + 2];
    tern_torrent_entry entry;
    TERN_TRY(engine->identify(p->wish->what, v1, v2, err));
    snprintf(name, sizeof name, "@%.*s", TERN_TORRENT_HASH_DIGITS, v1[0] ? v1 : v2);
    if (tern_torrent_find(p->wish->hub, name, &entry, err) != TERN_OK) return TERN_OK;
    const char *path = entry.whole ? entry.place.whole.text : entry.place.part.text;
    if (tern_file_read(metainfo, path, MAX_TORRENT_BYTES, err) != TERN_OK) tern_buf_deinit(metainfo);
    return TERN_OK;
}

static tern_status read_description(const pulling *p, const tern_torrent_engine *engine, tern_buf *metainfo,
                                    tern_error *err)
{
    const tern_torrent_wish *w = p->wish;
    if (!is_magnet(w->what)) return tern_file_read(metainfo, w->what, MAX_TORRENT_BYTES, err);
    TERN_TRY(read_known(p, engine, metainfo, err));
    if (metainfo->size || !w->hub->offline) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "HF_HUB_OFFLINE is set, so nothing is fetched or seeded");
}

static tern_status fetch(pulling *p, tern_error *err)
{
    const tern_torrent_wish *w = p->wish;
    const tern_torrent_engine *engine;
    tern_buf metainfo = {0};
    tern_status status;
    TERN_TRY(tern_torrent_open(&engine, err));
    TERN_GOTO(read_description(p, engine, &metainfo, err));
    p->order = (tern_torrent_order){.magnet = is_magnet(w->what) ? w->what : NULL,
                                    .metainfo = metainfo.size ? metainfo.data : NULL,
                                    .metainfo_bytes = metainfo.size,
                                    .peers = w->peers,
                                    .n_peers = w->n_peers,
                                    .listen = w->listen,
                                    .discovery = !w->no_discovery,
                                    .seed = w->seed,
                                    .upload_limit = w->upload_limit,
                                    .context = p,
                                    .accept = accept,
                                    .on_first = on_first,
                                    .on_whole = on_whole,
                                    .progress = on_progress,
                                    .note = on_note};
    status = engine->fetch(&p->order, err);
    if (p->at_once) status = TERN_OK;
fail:
    tern_buf_deinit(&metainfo);
    return status;
}

/* A torrent whose bytes are not its manifest's is not kept. */
static void remove_bad(pulling *p)
{
    tern_torrent_entry entry = {.place = p->place};
    tern_error err;
    if (!p->bad || p->beside || tern_torrent_place_is_whole(&p->place)) return;
    tern_hub_unlock(p->lock);
    p->lock = -1;
    tern_torrent_remove(p->wish->hub, &entry, &err);
}

tern_status tern_torrent_pull(const tern_torrent_wish *wish, tern_torrent_pulled *pulled, tern_error *err)
{
    *pulled = (tern_torrent_pulled){0};
    pulling p = {.wish = wish, .pulled = pulled, .lock = -1};
    const tern_status status = fetch(&p, err);
    remove_bad(&p);
    tern_manifest_deinit(&p.manifest);
    tern_hub_files_deinit(&p.files);
    tern_hub_unlock(p.lock);
    if (status == TERN_OK) return status;
    const char *name = pulled->name[0] ? pulled->name : is_magnet(wish->what) ? "the torrent" : wish->what;
    return tern_error_prefix(err, "%s", tern_show_z(name).text);
}
