/* Finding, listing and removing packages that came by torrent. */
#include "hub/torrent/place.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/show.h"
#include "hub/lock.h"
#include "hub/name.h"

static const char prefix[] = "torrents--", scheme[] = "torrent:";

tern_status tern_torrent_place_make(tern_torrent_place *place, const tern_hub *hub, const char *hash, const char *name,
                                    tern_error *err)
{
    char folder[sizeof prefix + TERN_TORRENT_HASH_DIGITS], file[sizeof place->name + 32];
    *place = (tern_torrent_place){0};
    snprintf(place->hash, sizeof place->hash, "%s", hash);
    snprintf(folder, sizeof folder, "%s%s", prefix, place->hash);
    snprintf(place->name, sizeof place->name, "%s", name);
    TERN_TRY(tern_hub_path_make(&place->folder, err, hub->cache, folder, NULL, NULL));
    TERN_TRY(tern_hub_path_make(&place->package, err, place->folder.text, place->name, NULL, NULL));
    snprintf(file, sizeof file, "%s.torrent", place->name);
    TERN_TRY(tern_hub_path_make(&place->whole, err, place->folder.text, file, NULL, NULL));
    snprintf(file, sizeof file, "%s.torrent.incomplete", place->name);
    return tern_hub_path_make(&place->part, err, place->folder.text, file, NULL, NULL);
}

bool tern_torrent_place_is_whole(const tern_torrent_place *place)
{
    return tern_file_exists(place->whole.text) && tern_file_is_dir(place->package.text);
}

tern_status tern_torrent_place_lock(const tern_torrent_place *place, const tern_hub *hub, int *fd, tern_error *err)
{
    char name[sizeof prefix + TERN_TORRENT_HASH_DIGITS + 8];
    tern_hub_path path;
    snprintf(name, sizeof name, "%s%s.lock", prefix, place->hash);
    TERN_TRY(tern_hub_path_make(&path, err, hub->cache, ".locks", name, NULL));
    return tern_hub_lock_path(path.text, fd, err);
}

/* ---- listing */

static uint64_t walked_bytes;

static int add_bytes(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)path;
    (void)at;
    if (kind == FTW_F)
        walked_bytes += (uint64_t)st->st_blocks * 512 < (uint64_t)st->st_size
                            ? (uint64_t)st->st_blocks * 512 /* parts have holes */
                            : (uint64_t)st->st_size;
    return 0;
}

/* The name of the torrent in a folder, by the file that describes it; false where there is none. */
static bool find_name(const char *folder, char *name, size_t cap)
{
    static const char *const ends[] = {".torrent", ".torrent.incomplete"};
    const struct dirent *e;
    DIR *dir = opendir(folder);
    bool found = false;
    while (dir && !found && (e = readdir(dir)))
        for (size_t i = 0; !found && i < sizeof ends / sizeof *ends; i++) {
            const size_t n = strlen(e->d_name), end = strlen(ends[i]);
            found = tern_path_ends(e->d_name, ends[i]) && n - end < cap;
            if (found) snprintf(name, cap, "%.*s", (int)(n - end), e->d_name);
        }
    if (dir) closedir(dir);
    return found;
}

static bool read_entry(const tern_hub *hub, const char *folder, tern_torrent_entry *entry)
{
    char name[sizeof entry->place.name];
    tern_hub_path path;
    tern_error err;
    *entry = (tern_torrent_entry){0};
    const char *hash = folder + sizeof prefix - 1;
    if (strncmp(folder, prefix, sizeof prefix - 1) != 0 || !tern_hub_is_hex(hash, TERN_TORRENT_HASH_DIGITS))
        return false;
    if (tern_hub_path_make(&path, &err, hub->cache, folder, NULL, NULL) != TERN_OK ||
        !find_name(path.text, name, sizeof name) ||
        tern_torrent_place_make(&entry->place, hub, hash, name, &err) != TERN_OK)
        return false;
    entry->whole = tern_torrent_place_is_whole(&entry->place);
    walked_bytes = 0;
    nftw(entry->place.package.text, add_bytes, 16, FTW_PHYS);
    entry->bytes = walked_bytes;
    snprintf(entry->name, sizeof entry->name, "%s%s", scheme, name);
    return true;
}

/* How many of the folders have a torrent of this name. */
static int count_name(const tern_hub *hub, struct dirent **names, int n, const char *name)
{
    char other[sizeof((tern_torrent_place *)0)->name];
    tern_hub_path path;
    tern_error err;
    int count = 0;
    for (int i = 0; i < n; i++)
        count += strncmp(names[i]->d_name, prefix, sizeof prefix - 1) == 0 &&
                 tern_hub_path_make(&path, &err, hub->cache, names[i]->d_name, NULL, NULL) == TERN_OK &&
                 find_name(path.text, other, sizeof other) && strcmp(other, name) == 0;
    return count;
}

tern_status tern_torrent_list(const tern_hub *hub,
                              tern_status (*take)(void *, const tern_torrent_entry *, tern_error *), void *context,
                              tern_error *err)
{
    struct dirent **names = NULL;
    tern_torrent_entry entry;
    tern_status status = TERN_OK;
    const int found = scandir(hub->cache, &names, NULL, alphasort), n = found < 0 ? 0 : found;
    for (int i = 0; i < n && status == TERN_OK; i++) {
        if (!read_entry(hub, names[i]->d_name, &entry)) continue;
        const size_t end = strlen(entry.name);
        if (count_name(hub, names, n, entry.place.name) > 1)
            snprintf(entry.name + end, sizeof entry.name - end, "@%.*s", TERN_TORRENT_SHOWN_DIGITS, entry.place.hash);
        status = take(context, &entry, err);
    }
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
    return status;
}

/* ---- finding one */

bool tern_torrent_name_is(const char *text)
{
    return strncmp(text, scheme, sizeof scheme - 1) == 0;
}

typedef struct finding {
    const char *name, *hash; /* what it begins with; the name's length, 0: any */
    size_t name_length;
    tern_torrent_entry *found;
    size_t n;
} finding;

static tern_status compare(void *context, const tern_torrent_entry *entry, tern_error *err)
{
    finding *f = context;
    (void)err;
    if (f->name_length &&
        (strncmp(entry->place.name, f->name, f->name_length) != 0 || entry->place.name[f->name_length]))
        return TERN_OK;
    if (strncmp(entry->place.hash, f->hash, strlen(f->hash)) != 0) return TERN_OK;
    if (!f->n++) *f->found = *entry;
    return TERN_OK;
}

tern_status tern_torrent_find(const tern_hub *hub, const char *text, tern_torrent_entry *found, tern_error *err)
{
    const char *name = tern_torrent_name_is(text) ? text + sizeof scheme - 1 : text, *at = strrchr(name, '@');
    const size_t length = at ? (size_t)(at - name) : strlen(name);
    finding f = {.name = name, .name_length = length, .hash = at ? at + 1 : "", .found = found};
    *found = (tern_torrent_entry){0};
    if (!length && !*f.hash)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: torrent:NAME[@HASH] expected", tern_show_z(text).text);
    TERN_TRY(tern_torrent_list(hub, compare, &f, err));
    if (f.n == 1) return TERN_OK;
    *found = (tern_torrent_entry){0};
    if (f.n)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%s: %zu torrents have that name: torrent:%.*s@HASH expected "
                         "(tern list)",
                         tern_show_z(text).text, f.n, (int)length, name);
    return tern_fail(err, TERN_NOT_FOUND, "%s is not in %s", tern_show_z(text).text, tern_show_z(hub->cache).text);
}

/* ---- removing */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)at;
    return kind == FTW_DP ? rmdir(path) : unlink(path);
}

tern_status tern_torrent_remove(const tern_hub *hub, const tern_torrent_entry *entry, tern_error *err)
{
    int fd;
    TERN_TRY(tern_torrent_place_lock(&entry->place, hub, &fd, err));
    if (fd < 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is being pulled or seeded by another program", entry->name);
    const bool removed = nftw(entry->place.folder.text, remove_one, 16, FTW_PHYS | FTW_DEPTH) == 0;
    const int why = errno;
    tern_hub_unlock(fd);
    return removed ? TERN_OK
                   : tern_fail(err, TERN_IO, "%s: %s", tern_show_z(entry->place.folder.text).text, strerror(why));
}
