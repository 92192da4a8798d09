/* The contents of the cache. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "hub/cache.h"

typedef struct listing {
    const tern_hub *hub;
    tern_status (*take)(void *, const tern_hub_entry *, tern_error *);
    void *context;
} listing;

/* The names in a folder, sorted; both are freed by free_names. A folder that is not there has none. */
static int read_names(const char *folder, struct dirent ***names)
{
    *names = NULL;
    const int n = scandir(folder, names, NULL, alphasort);
    return n < 0 ? 0 : n;
}

static void free_names(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
}

/* "models--ORG--NAME" as "ORG/NAME"; false for other folders. */
static bool repository_of(const char *folder, tern_hub_name *name)
{
    char text[256], back[256];
    const char *middle = strncmp(folder, "models--", 8) == 0 ? strstr(folder + 8, "--") : NULL;
    tern_error err;
    if (!middle || strlen(folder) >= sizeof text) return false;
    snprintf(text, sizeof text, "%.*s/%s", (int)(middle - folder - 8), folder + 8, middle + 2);
    if (tern_hub_name_parse(name, text, &err) != TERN_OK || name->file[0] || name->tag[0]) return false;
    tern_hub_folder(name->repository, back);
    return strcmp(back, folder) == 0;
}

static uint64_t incomplete_bytes(const char *repository)
{
    tern_hub_path blobs, blob;
    tern_error err;
    struct dirent **names;
    struct stat st;
    uint64_t bytes = 0;
    if (tern_hub_path_make(&blobs, &err, repository, "blobs", NULL, NULL) != TERN_OK) return 0;
    const int n = read_names(blobs.text, &names);
    for (int i = 0; i < n; i++)
        if (tern_path_ends(names[i]->d_name, ".incomplete") &&
            tern_hub_path_make(&blob, &err, blobs.text, names[i]->d_name, NULL, NULL) == TERN_OK &&
            lstat(blob.text, &st) == 0 && S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_size;
    free_names(names, n);
    return bytes;
}

static tern_status give(const listing *l, const tern_hub_name *name, const char *file, const char *path, uint64_t bytes,
                        uint64_t coming, tern_error *err)
{
    const bool main = strcmp(name->revision, "main") == 0;
    tern_hub_entry entry = {.parsed = *name, .bytes = bytes, .coming = coming};
    snprintf(entry.parsed.file, sizeof entry.parsed.file, "%s", file);
    snprintf(entry.name, sizeof entry.name, "hf:%s%s%s%s%s", name->repository, file[0] ? "/" : "", file,
             main ? "" : "@", main ? "" : name->revision);
    snprintf(entry.path.text, sizeof entry.path.text, "%s", path);
    return l->take(l->context, &entry, err);
}

static tern_status list_gguf(const listing *l, const tern_hub_name *name, const char *folder, tern_hub_files *files,
                             size_t i, uint64_t coming, tern_error *err)
{
    tern_hub_name one = *name;
    tern_hub_choice choice;
    tern_hub_path path;
    tern_error why;
    snprintf(one.file, sizeof one.file, "%s", files->items[i].path);
    if (tern_hub_choose(files, &one, &choice, &why) != TERN_OK) return TERN_OK; /* parts are missing */
    TERN_TRY(tern_hub_path_make(&path, err, folder, one.file, NULL, NULL));
    return give(l, name, one.file, path.text, choice.bytes, coming, err);
}

/* The models of one snapshot; *n: how many. */
static tern_status list_snapshot(const listing *l, const tern_hub_name *name, uint64_t coming, size_t *n,
                                 tern_error *err)
{
    tern_hub_path folder;
    tern_hub_files files = {0};
    tern_hub_found found;
    tern_error why;
    tern_status status;
    if (tern_hub_cache_snapshot(l->hub, name, &folder, &why) != TERN_OK) return TERN_OK;
    TERN_GOTO(tern_hub_cache_files(folder.text, &files, err));
    for (size_t i = 0; i < files.n; i++)
        if (tern_hub_is_model(files.items[i].path)) {
            TERN_GOTO(list_gguf(l, name, folder.text, &files, i, coming, err));
            ++*n;
        }
    if (*n == 0 && tern_hub_cache_find(l->hub, name, &found, &why) == TERN_OK) {
        TERN_GOTO(give(l, name, "", found.path.text, found.choice.bytes, coming, err));
        ++*n;
    }
fail:
    tern_hub_files_deinit(&files);
    return status;
}

/* The branches and tags of a repository: refs/NAME, one folder deep at most ("refs/pr/1" are changes that somebody
 * proposes). */
static tern_status list_repository(const listing *l, tern_hub_name *name, tern_error *err)
{
    char below[256];
    tern_hub_path repository, refs;
    struct dirent **names;
    tern_status status = TERN_OK;
    size_t found = 0;
    tern_hub_folder(name->repository, below);
    TERN_TRY(tern_hub_path_make(&repository, err, l->hub->cache, below, NULL, NULL));
    TERN_TRY(tern_hub_path_make(&refs, err, repository.text, "refs", NULL, NULL));
    const uint64_t coming = incomplete_bytes(repository.text);
    const int n = read_names(refs.text, &names);
    for (int i = 0; i < n && status == TERN_OK; i++) {
        size_t here = 0;
        if (names[i]->d_name[0] == '.' || strlen(names[i]->d_name) >= sizeof name->revision) continue;
        snprintf(name->revision, sizeof name->revision, "%s", names[i]->d_name);
        status = list_snapshot(l, name, coming, &here, err);
        found += here;
    }
    free_names(names, n);
    snprintf(name->revision, sizeof name->revision, "main");
    if (status == TERN_OK && !found && coming) status = give(l, name, "", "", 0, coming, err);
    return status;
}

tern_status tern_hub_cache_list(const tern_hub *hub, tern_status (*take)(void *, const tern_hub_entry *, tern_error *),
                                void *context, tern_error *err)
{
    const listing l = {hub, take, context};
    struct dirent **names;
    tern_status status = TERN_OK;
    tern_hub_name name;
    const int n = read_names(hub->cache, &names);
    for (int i = 0; i < n && status == TERN_OK; i++)
        if (repository_of(names[i]->d_name, &name)) status = list_repository(&l, &name, err);
    free_names(names, n);
    return status;
}
