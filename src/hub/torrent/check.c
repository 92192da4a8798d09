/* Judging torrents by what they say and by what came. */
#include "hub/torrent/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/show.h"
#include "hub/sum.h"

/* A name of a file or folder, and no path. */
static bool is_plain(const char *name)
{
    return tern_hub_path_is_safe(name) && !strchr(name, '/') && name[0] != '.' && name[0] != ' ';
}

static tern_status check_file(const tern_torrent_file *file, tern_error *err)
{
    const bool manifest = strcmp(file->path, TERN_MANIFEST_NAME) == 0;
    const uint64_t most = manifest ? TERN_MANIFEST_MAX_BYTES : TERN_MANIFEST_EXPERT_BYTES;
    if (!is_plain(file->path))
        return tern_fail(err, TERN_MALFORMED, "it holds \"%s\": a name without a folder expected",
                         tern_show_z(file->path).text);
    if (file->link)
        return tern_fail(err, TERN_MALFORMED, "%s is a link: a file expected", tern_show_z(file->path).text);
    if (file->bytes > most)
        return tern_fail(err, TERN_LIMIT, "%s has %llu bytes: at most %llu expected", tern_show_z(file->path).text,
                         (unsigned long long)file->bytes, (unsigned long long)most);
    if (manifest && !file->bytes) return tern_fail(err, TERN_MALFORMED, "%s is empty", TERN_MANIFEST_NAME);
    return TERN_OK;
}

static tern_status check_names(const tern_torrent_info *info, tern_error *err)
{
    if (!is_plain(info->name))
        return tern_fail(err, TERN_MALFORMED, "its folder is \"%s\": a name without a folder expected",
                         tern_show_z(info->name).text);
    if (info->single)
        return tern_fail(err, TERN_UNSUPPORTED, "one file found: a package, a folder with %s and shards, expected",
                         TERN_MANIFEST_NAME);
    if (info->n_files > TERN_MANIFEST_MAX_SHARDS + 1)
        return tern_fail(err, TERN_LIMIT, "%zu files: at most %d expected", info->n_files,
                         TERN_MANIFEST_MAX_SHARDS + 1);
    for (size_t i = 0; i < info->n_files; i++) TERN_TRY(check_file(&info->files[i], err));
    return TERN_OK;
}

/* Sorted, so that two of one name are neighbours. */
static tern_status check_twice(const tern_hub_files *files, tern_error *err)
{
    for (size_t i = 1; i < files->n; i++)
        if (strcmp(files->items[i - 1].path, files->items[i].path) == 0)
            return tern_fail(err, TERN_MALFORMED, "it holds two files with the name %s",
                             tern_show_z(files->items[i].path).text);
    return TERN_OK;
}

static tern_status find_manifest(const tern_torrent_info *info, size_t *manifest, tern_error *err)
{
    for (*manifest = 0; *manifest < info->n_files; ++*manifest)
        if (strcmp(info->files[*manifest].path, TERN_MANIFEST_NAME) == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%zu file%s and no %s: a package expected (tern package --torrent)",
                     info->n_files, info->n_files == 1 ? "" : "s", TERN_MANIFEST_NAME);
}

tern_status tern_torrent_check(const tern_torrent_info *info, tern_hub_files *files, size_t *manifest, tern_error *err)
{
    *files = (tern_hub_files){0};
    *manifest = 0;
    TERN_TRY(check_names(info, err));
    tern_status status = TERN_OK;
    for (size_t i = 0; status == TERN_OK && i < info->n_files; i++)
        status = tern_hub_files_add(files, info->files[i].path, info->files[i].bytes, NULL, err);
    tern_hub_files_sort(files);
    if (status == TERN_OK) status = check_twice(files, err);
    if (status == TERN_OK && info->alter)
        status =
            tern_fail(err, TERN_MALFORMED, "it holds \"%s\", which is not a file name", tern_show_z(info->alter).text);
    if (status == TERN_OK) status = find_manifest(info, manifest, err);
    if (status != TERN_OK) tern_hub_files_deinit(files);
    return status;
}

static int by_name(const void *name, const void *file)
{
    return strcmp(name, ((const tern_hub_file *)file)->path);
}

tern_status tern_torrent_check_manifest(const tern_manifest *manifest, const tern_hub_files *files, tern_error *err)
{
    if (files->n != manifest->n_shards + 1)
        return tern_fail(err, TERN_MALFORMED, "%s and %zu other files found, the manifest has %zu shards",
                         TERN_MANIFEST_NAME, files->n - 1, manifest->n_shards);
    for (size_t i = 0; i < manifest->n_shards; i++) {
        const tern_manifest_shard *shard = &manifest->shards[i];
        const tern_hub_file *file = bsearch(shard->file, files->items, files->n, sizeof *files->items, by_name);
        if (!file)
            return tern_fail(err, TERN_MALFORMED, "the manifest has a shard %s that the torrent lacks",
                             tern_show_z(shard->file).text);
        if (file->bytes != shard->bytes)
            return tern_fail(err, TERN_MALFORMED, "%s has %llu bytes, the manifest says %zu",
                             tern_show_z(shard->file).text, (unsigned long long)file->bytes, shard->bytes);
    }
    return TERN_OK;
}

/* Where one shard's sum is in that of all. */
typedef struct summing {
    bool (*progress)(void *context, float done);
    void *context;
    double before, bytes, all;
} summing;

static bool on_summed(void *context, float done)
{
    const summing *s = context;
    return !s->progress || s->progress(s->context, (float)((s->before + s->bytes * (double)done) / s->all));
}

static tern_status check_sum(const tern_manifest_shard *shard, const char *folder, summing *s, tern_error *err)
{
    char sum[TERN_HUB_SHA256_DIGITS + 1];
    tern_hub_path path;
    TERN_TRY(tern_hub_path_make(&path, err, folder, shard->file, NULL, NULL));
    const int fd = open(path.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(path.text).text, strerror(errno));
    s->bytes = (double)shard->bytes;
    const tern_status status = tern_hub_sum(fd, shard->bytes, shard->sha256, sum, on_summed, s, err);
    close(fd);
    s->before += s->bytes;
    if (status != TERN_OK) return status;
    if (strcmp(sum, shard->sha256) == 0) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: its sum is %s, the manifest says %s", tern_show_z(shard->file).text, sum,
                     shard->sha256);
}

tern_status tern_torrent_check_sums(const tern_manifest *manifest, const char *folder,
                                    bool (*progress)(void *context, float done), void *context, tern_error *err)
{
    summing s = {.progress = progress, .context = context};
    for (size_t i = 0; i < manifest->n_shards; i++) s.all += (double)manifest->shards[i].bytes;
    for (size_t i = 0; i < manifest->n_shards; i++) TERN_TRY(check_sum(&manifest->shards[i], folder, &s, err));
    return TERN_OK;
}
