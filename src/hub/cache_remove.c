/* Removing models from the cache. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "hub/cache.h"
#include "hub/lock.h"

static tern_status fail_path(const char *path, tern_error *err)
{
    return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(path).text, strerror(errno));
}

static uint64_t walked_bytes;

static int add_bytes(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)path;
    (void)at;
    if (kind == FTW_F) walked_bytes += (uint64_t)st->st_size;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)at;
    return kind == FTW_DP ? rmdir(path) : unlink(path);
}

/* Whether another program writes the blob that is named in blobs/. */
static tern_status check_free(const tern_hub *hub, const char *repository, const char *blob, tern_error *err)
{
    char sum[TERN_HUB_SHA256_DIGITS + 1];
    const size_t n = strcspn(blob, ".");
    int fd;
    if (n >= sizeof sum) return TERN_OK;
    snprintf(sum, sizeof sum, "%.*s", (int)n, blob);
    TERN_TRY(tern_hub_lock(hub, repository, sum, &fd, err));
    if (fd < 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is being pulled by another program", repository);
    tern_hub_unlock(fd);
    return TERN_OK;
}

static tern_status check_all_free(const tern_hub *hub, const char *repository, const char *folder, tern_error *err)
{
    tern_hub_path blobs;
    const struct dirent *entry;
    tern_status status = TERN_OK;
    TERN_TRY(tern_hub_path_make(&blobs, err, folder, "blobs", NULL, NULL));
    DIR *dir = opendir(blobs.text);
    while (dir && status == TERN_OK && (entry = readdir(dir)))
        if (tern_path_ends(entry->d_name, ".incomplete")) status = check_free(hub, repository, entry->d_name, err);
    if (dir) closedir(dir);
    return status;
}

static tern_status remove_repository(const tern_hub *hub, const tern_hub_name *name, bool look, uint64_t *bytes,
                                     tern_error *err)
{
    enum { MAX_OPEN = 16 };
    char below[256];
    tern_hub_path folder, locks;
    struct stat st;
    tern_hub_folder(name->repository, below);
    TERN_TRY(tern_hub_path_make(&folder, err, hub->cache, below, NULL, NULL));
    TERN_TRY(tern_hub_path_make(&locks, err, hub->cache, ".locks", below, NULL));
    if (lstat(folder.text, &st) != 0 || !S_ISDIR(st.st_mode))
        return tern_fail(err, TERN_NOT_FOUND, "hf:%s is not in %s", name->repository, tern_show_z(hub->cache).text);
    walked_bytes = 0;
    if (nftw(folder.text, add_bytes, MAX_OPEN, FTW_PHYS) != 0) return fail_path(folder.text, err);
    *bytes = walked_bytes;
    if (look) return TERN_OK;
    TERN_TRY(check_all_free(hub, name->repository, folder.text, err));
    if (nftw(folder.text, remove_one, MAX_OPEN, FTW_PHYS | FTW_DEPTH) != 0) return fail_path(folder.text, err);
    nftw(locks.text, remove_one, MAX_OPEN, FTW_PHYS | FTW_DEPTH);
    return TERN_OK;
}

/* Looks for a link to a blob in any snapshot; nftw gives its functions no context. */
static dev_t blob_device;
static ino_t blob_number;

static int is_link_to_blob(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    struct stat target;
    (void)st;
    (void)at;
    return kind == FTW_SL && stat(path, &target) == 0 && target.st_ino == blob_number && target.st_dev == blob_device;
}

/* One file of a snapshot, with its blob unless another link leads there. */
static tern_status remove_file(const char *repository, const char *folder, const char *file, tern_error *err)
{
    enum { MAX_OPEN = 16 };
    tern_hub_path path, snapshots;
    struct stat blob, link;
    TERN_TRY(tern_hub_path_make(&path, err, folder, file, NULL, NULL));
    TERN_TRY(tern_hub_path_make(&snapshots, err, repository, "snapshots", NULL, NULL));
    if (lstat(path.text, &link) != 0 || stat(path.text, &blob) != 0) return fail_path(path.text, err);
    char *target = S_ISLNK(link.st_mode) ? realpath(path.text, NULL) : NULL;
    char *root = realpath(repository, NULL);
    tern_status status = unlink(path.text) == 0 ? TERN_OK : fail_path(path.text, err);
    blob_device = blob.st_dev;
    blob_number = blob.st_ino;
    const bool ours =
        target && root && strncmp(target, root, strlen(root)) == 0 && strncmp(target + strlen(root), "/blobs/", 7) == 0;
    if (status == TERN_OK && ours && nftw(snapshots.text, is_link_to_blob, MAX_OPEN, FTW_PHYS) == 0 &&
        unlink(target) != 0)
        status = fail_path(target, err);
    free(target);
    free(root);
    return status;
}

tern_status tern_hub_cache_remove(const tern_hub *hub, const tern_hub_name *name, bool look, uint64_t *bytes,
                                  tern_error *err)
{
    char below[256];
    tern_hub_path repository, folder;
    tern_hub_files files = {0};
    tern_hub_choice choice;
    tern_status status;
    *bytes = 0;
    if (!name->file[0] && !name->tag[0]) return remove_repository(hub, name, look, bytes, err);
    tern_hub_folder(name->repository, below);
    TERN_TRY(tern_hub_path_make(&repository, err, hub->cache, below, NULL, NULL));
    TERN_TRY(tern_hub_cache_snapshot(hub, name, &folder, err));
    TERN_GOTO(tern_hub_cache_files(folder.text, &files, err));
    TERN_GOTO(tern_hub_choose(&files, name, &choice, err));
    *bytes = choice.bytes;
    for (size_t i = 0; !look && i < files.n; i++)
        if (files.items[i].wanted) TERN_GOTO(remove_file(repository.text, folder.text, files.items[i].path, err));
fail:
    tern_hub_files_deinit(&files);
    return status;
}
