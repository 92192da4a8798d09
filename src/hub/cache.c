/* Finding models in the cache. */
#include "hub/cache.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "tern/bytes.h"

enum { MAX_DEPTH = 8 };

static tern_status fail_absent(const tern_hub *hub, const tern_hub_name *name, tern_error *err)
{
    return tern_fail(err, TERN_NOT_FOUND, "hf:%s%s%s%s%s is not in %s", name->repository, name->file[0] ? "/" : "",
                     tern_show_z(name->file).text, name->tag[0] ? ":" : "", name->tag, tern_show_z(hub->cache).text);
}

/* The commit that a branch was at when it was last pulled. */
static bool read_ref(const char *repository, const char *revision, char commit[TERN_HUB_COMMIT_DIGITS + 1])
{
    tern_hub_path path;
    tern_buf text = {0};
    tern_error err;
    bool read = tern_hub_path_make(&path, &err, repository, "refs", revision, NULL) == TERN_OK &&
                tern_file_read(&text, path.text, 4096, &err) == TERN_OK && text.size >= TERN_HUB_COMMIT_DIGITS;
    if (read) {
        memcpy(commit, text.data, TERN_HUB_COMMIT_DIGITS);
        commit[TERN_HUB_COMMIT_DIGITS] = 0;
        read = tern_hub_is_hex(commit, TERN_HUB_COMMIT_DIGITS);
    }
    tern_buf_deinit(&text);
    return read;
}

tern_status tern_hub_cache_snapshot(const tern_hub *hub, const tern_hub_name *name, tern_hub_path *folder,
                                    tern_error *err)
{
    char below[256], commit[TERN_HUB_COMMIT_DIGITS + 1];
    tern_hub_path repository;
    tern_hub_folder(name->repository, below);
    TERN_TRY(tern_hub_path_make(&repository, err, hub->cache, below, NULL, NULL));
    if (tern_hub_is_hex(name->revision, TERN_HUB_COMMIT_DIGITS)) memcpy(commit, name->revision, sizeof commit);
    else if (!read_ref(repository.text, name->revision, commit)) return fail_absent(hub, name, err);
    TERN_TRY(tern_hub_path_make(folder, err, repository.text, "snapshots", commit, NULL));
    return tern_file_is_dir(folder->text) ? TERN_OK : fail_absent(hub, name, err);
}

/* Adds the files of folder/below, whose paths begin with `below`. */
static tern_status walk(const char *folder, const char *below, int depth, tern_hub_files *files, tern_error *err)
{
    tern_hub_path path, inner;
    struct stat st;
    const struct dirent *entry;
    TERN_TRY(tern_hub_path_make(&path, err, folder, below[0] ? below : NULL, NULL, NULL));
    DIR *dir = depth < MAX_DEPTH ? opendir(path.text) : NULL;
    tern_status status = TERN_OK;
    while (dir && status == TERN_OK && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (name[0] == '.' && (name[1] == 0 || strcmp(name, "..") == 0)) continue;
        TERN_GOTO(below[0] ? tern_hub_path_make(&inner, err, below, name, NULL, NULL)
                           : tern_hub_path_make(&inner, err, name, NULL, NULL, NULL));
        TERN_GOTO(tern_hub_path_make(&path, err, folder, inner.text, NULL, NULL));
        if (!tern_hub_path_is_safe(inner.text) || lstat(path.text, &st) != 0) continue;
        if (S_ISDIR(st.st_mode)) status = walk(folder, inner.text, depth + 1, files, err);
        else if (stat(path.text, &st) == 0 && S_ISREG(st.st_mode))
            status = tern_hub_files_add(files, inner.text, (uint64_t)st.st_size, NULL, err);
    }
fail:
    if (dir) closedir(dir);
    return status;
}

tern_status tern_hub_cache_files(const char *folder, tern_hub_files *files, tern_error *err)
{
    *files = (tern_hub_files){0};
    const tern_status status = walk(folder, "", 0, files, err);
    if (status != TERN_OK) tern_hub_files_deinit(files);
    else tern_hub_files_sort(files);
    return status;
}

/* A folder of SafeTensors without its config, or of several files without their index, is one that is still coming. */
static bool is_whole(const tern_hub_files *files, const tern_hub_choice *choice)
{
    size_t n_weights = 0;
    bool config = false, index = false;
    if (!choice->folder) return true;
    for (size_t i = 0; i < files->n; i++) {
        const char *path = files->items[i].path;
        if (!files->items[i].wanted) continue;
        n_weights += tern_path_ends(path, ".safetensors");
        config = config || strcmp(path, "config.json") == 0 || strcmp(path, "adapter_config.json") == 0;
        index = index || tern_path_ends(path, ".index.json");
    }
    return config && (n_weights == 1 || index);
}

tern_status tern_hub_cache_find(const tern_hub *hub, const tern_hub_name *name, tern_hub_found *found, tern_error *err)
{
    tern_hub_path folder;
    tern_hub_files files = {0};
    tern_status status;
    tern_error why = {0};
    *found = (tern_hub_found){0};
    TERN_TRY(tern_hub_cache_snapshot(hub, name, &folder, err));
    TERN_GOTO(tern_hub_cache_files(folder.text, &files, err));
    status = tern_hub_choose(&files, name, &found->choice, &why);
    if (status == TERN_NOT_FOUND || (status == TERN_OK && !is_whole(&files, &found->choice)))
        TERN_GOTO(fail_absent(hub, name, err));
    if (status != TERN_OK && err) *err = why;
    if (status != TERN_OK) goto fail;
    status = tern_hub_path_make(&found->path, err, folder.text,
                                found->choice.folder ? NULL : files.items[found->choice.model].path, NULL, NULL);
fail:
    tern_hub_files_deinit(&files);
    return status;
}
