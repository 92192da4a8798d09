/* Writing the torrent of a package. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/hub/torrent.h"
#include "apps/progress.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "format/manifest.h"

/* The files of a package. */
typedef struct listed {
    tern_manifest manifest;
    const char **names;
    uint64_t *bytes;
    size_t n;
    uint64_t all;
} listed;

static tern_status measure(const char *folder, const char *name, uint64_t *bytes, tern_error *err)
{
    tern_hub_path path;
    struct stat st;
    TERN_TRY(tern_hub_path_make(&path, err, folder, name, NULL, NULL));
    if (stat(path.text, &st) != 0 || !S_ISREG(st.st_mode))
        return tern_fail(err, TERN_NOT_FOUND, "%s: no such file", tern_show_z(path.text).text);
    *bytes = (uint64_t)st.st_size;
    return TERN_OK;
}

static tern_status add(listed *l, const char *folder, const char *name, tern_error *err)
{
    l->names[l->n] = name;
    TERN_TRY(measure(folder, name, &l->bytes[l->n], err));
    l->all += l->bytes[l->n++];
    return TERN_OK;
}

static tern_status read_files(listed *l, const char *folder, tern_error *err)
{
    tern_hub_path path;
    TERN_TRY(tern_hub_path_make(&path, err, folder, TERN_MANIFEST_NAME, NULL, NULL));
    TERN_TRY(tern_manifest_read(&l->manifest, path.text, err));
    const size_t n = l->manifest.n_shards + 1;
    l->names = tern_alloc(n * sizeof *l->names);
    l->bytes = tern_alloc(n * sizeof *l->bytes);
    if (!l->names || !l->bytes) return tern_fail_alloc(err, n * sizeof *l->bytes);
    TERN_TRY(add(l, folder, TERN_MANIFEST_NAME, err));
    for (size_t i = 0; i < l->manifest.n_shards; i++) {
        const tern_manifest_shard *shard = &l->manifest.shards[i];
        TERN_TRY(add(l, folder, shard->file, err));
        if (l->bytes[l->n - 1] != shard->bytes)
            return tern_fail(err, TERN_MALFORMED, "%s: %llu bytes found, %zu expected", tern_show_z(shard->file).text,
                             (unsigned long long)l->bytes[l->n - 1], shard->bytes);
    }
    return TERN_OK;
}

static void free_files(listed *l)
{
    tern_manifest_deinit(&l->manifest);
    tern_free(l->names);
    tern_free(l->bytes);
}

/* Version 2 and a hybrid's version 1 begin a piece with each file, so that this counts what a shard rounds up. */
static uint32_t choose_piece(const listed *l)
{
    uint32_t piece = TERN_APP_TORRENT_MIN_PIECE;
    for (; piece < TERN_APP_TORRENT_MAX_PIECE; piece *= 2) {
        uint64_t n = 0;
        for (size_t i = 0; i < l->n; i++) n += (l->bytes[i] + piece - 1) / piece;
        if (n <= TERN_APP_TORRENT_PIECES) break;
    }
    return piece;
}

static tern_status take(void *context, const tern_torrent_info *info, const char *magnet, tern_error *err)
{
    tern_app_torrent *t = context;
    snprintf(t->name, sizeof t->name, "%s", info->name);
    memcpy(t->v1, info->v1, sizeof t->v1);
    memcpy(t->v2, info->v2, sizeof t->v2);
    t->piece_bytes = info->piece_bytes;
    TERN_TRY(tern_file_write(t->path.text, info->metainfo, info->metainfo_bytes, err));
    t->magnet = tern_strdup(magnet);
    return t->magnet ? TERN_OK : tern_fail_alloc(err, strlen(magnet) + 1);
}

/* `folder`: its real path, of which the last part is the torrent's name. */
static tern_status make(const tern_options *o, char *folder, const listed *l, tern_app_torrent *torrent,
                        tern_error *err)
{
    const tern_torrent_engine *engine;
    tern_progress progress = {.label = "Hashing"};
    char *slash = strrchr(folder, '/');
    if (!slash || !slash[1])
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: a folder with a name expected", tern_show_z(folder).text);
    TERN_TRY(tern_torrent_open(&engine, err));
    TERN_TRY(tern_hub_path_make(&torrent->path, err, folder, TERN_MANIFEST_TORRENT, NULL, NULL));
    *slash = 0;
    const tern_torrent_recipe recipe = {.parent = slash == folder ? "/" : folder,
                                        .name = slash + 1,
                                        .files = l->names,
                                        .bytes = l->bytes,
                                        .n_files = l->n,
                                        .piece_bytes = choose_piece(l),
                                        .web_seeds = o->web_seeds.items,
                                        .n_web_seeds = o->web_seeds.n,
                                        .trackers = o->trackers.items,
                                        .n_trackers = o->trackers.n,
                                        .progress = tern_progress_update,
                                        .context = &progress};
    const tern_status status = engine->make(&recipe, take, torrent, err);
    tern_progress_end(&progress);
    return status;
}

static tern_status check_addresses(const char *flag, const tern_texts *texts, const char *const *schemes,
                                   const char *expected, tern_error *err)
{
    for (size_t i = 0; i < texts->n; i++) {
        bool good = false;
        for (size_t k = 0; schemes[k]; k++)
            good = good || strncmp(texts->items[i], schemes[k], strlen(schemes[k])) == 0;
        if (!good)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s %s: an address as %s expected", flag,
                             tern_show_z(texts->items[i]).text, expected);
    }
    return TERN_OK;
}

tern_status tern_app_torrent_check_flags(const tern_options *o, tern_error *err)
{
    static const char *const web[] = {"https://", "http://", NULL};
    static const char *const trackers[] = {"https://", "http://", "udp://", "wss://", "ws://", NULL};
    const tern_torrent_engine *engine;
    if (!o->torrent && (o->web_seeds.n || o->trackers.n))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--web-seed and --tracker need --torrent, which was not given");
    TERN_TRY(check_addresses("web-seed", &o->web_seeds, web, "https://example.org/models/", err));
    TERN_TRY(check_addresses("tracker", &o->trackers, trackers, "udp://example.org:6969/announce", err));
    return o->torrent ? tern_torrent_open(&engine, err) : TERN_OK;
}

tern_status tern_app_torrent_write(const tern_options *options, const char *folder, tern_app_torrent *torrent,
                                   tern_error *err)
{
    listed l = {0};
    char *real = realpath(folder, NULL);
    *torrent = (tern_app_torrent){0};
    tern_status status =
        real ? TERN_OK : tern_fail(err, TERN_NOT_FOUND, "%s: no such folder", tern_show_z(folder).text);
    if (status == TERN_OK) status = read_files(&l, folder, err);
    if (status == TERN_OK) status = make(options, real, &l, torrent, err);
    free_files(&l);
    free(real);
    return status == TERN_OK ? status : tern_error_prefix(err, "--torrent");
}
