/* Pulling a model: the list of its files, each blob, the links to them. */
#include "hub/net/pull.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "hub/net/blob.h"
#include "hub/net/http.h"

enum { MAX_LIST_BYTES = 64 << 20 };

/* A pull that is going on. */
typedef struct pulling {
    const tern_hub_name *name;
    tern_hub_source source;
    tern_hub_path folder;
    tern_hub_files files;
    tern_hub_choice choice;
} pulling;

static bool still_wanted(void *context, uint64_t fetched)
{
    const tern_hub_events *e = context;
    (void)fetched;
    return !e->progress || e->progress(e->context, NULL, false, 0);
}

static tern_status read_list(pulling *p, tern_error *err)
{
    char url[2048];
    tern_buf body = {0};
    tern_status status;
    const tern_hub *hub = p->source.hub;
    const tern_http_request request = {hub, url, p->name->repository, still_wanted, (void *)p->source.events};
    const int n = snprintf(url, sizeof url, "%s/api/models/%s/revision/%s?blobs=true", hub->endpoint,
                           p->name->repository, p->name->revision);
    if (n >= (int)sizeof url) return tern_fail(err, TERN_LIMIT, "%s: an address too long", hub->endpoint);
    TERN_GOTO(tern_http_get(&request, MAX_LIST_BYTES, &body, err));
    TERN_GOTO(tern_hub_files_parse(&p->files, body.data, body.size, err));
    p->source.commit = p->files.commit;
    TERN_GOTO(tern_hub_choose(&p->files, p->name, &p->choice, err));
fail:
    tern_buf_deinit(&body);
    return status;
}

/* Says what is wanted, and refuses what the disk has no room for. */
static tern_status check_space(const pulling *p, tern_error *err)
{
    struct statvfs fs;
    uint64_t missing = 0;
    for (size_t i = 0; i < p->files.n; i++) {
        const uint64_t bytes = p->files.items[i].wanted ? tern_hub_blob_missing(&p->source, &p->files.items[i]) : 0;
        if (__builtin_add_overflow(missing, bytes, &missing)) missing = UINT64_MAX;
    }
    const tern_hub_events *e = p->source.events;
    if (e->begin) e->begin(e->context, &p->files, &p->choice, missing);
    if (!missing || statvfs(p->folder.text, &fs) != 0) return TERN_OK;
    const uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (missing <= room) return TERN_OK;
    return tern_fail(err, TERN_IO, "%s: %llu bytes are still missing, %llu are free on that disk",
                     tern_show_z(p->folder.text).text, (unsigned long long)missing, (unsigned long long)room);
}

/* "../../blobs/SUM", with one more ".." for each folder that the file lies in. */
static void link_target(const tern_hub_file *file, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "../../");
    for (const char *at = strchr(file->path, '/'); at && n + 3 < cap; at = strchr(at + 1, '/'))
        n += (size_t)snprintf(out + n, cap - n, "../");
    snprintf(out + n, cap - n, "blobs/%s", file->sum);
}

/* The link of a file in the snapshot; where the file system has no links, the blob itself moves there. */
static tern_status link_file(const pulling *p, const tern_hub_file *file, tern_error *err)
{
    char target[2048];
    tern_hub_path path, beside, blob;
    struct stat st, there;
    TERN_TRY(tern_hub_path_make(&path, err, p->folder.text, "snapshots", p->files.commit, file->path));
    TERN_TRY(tern_hub_blob_path(&p->source, file, &blob, err));
    tern_folders_make(path.text);
    if (stat(blob.text, &st) == 0 && stat(path.text, &there) == 0 && st.st_ino == there.st_ino) return TERN_OK;
    link_target(file, target, sizeof target);
    if (snprintf(beside.text, sizeof beside.text, "%s.tmp-%ld", path.text, (long)getpid()) >= (int)sizeof beside.text)
        return tern_fail(err, TERN_LIMIT, "%s: too long", tern_show_z(path.text).text);
    if (symlink(target, beside.text) == 0 && rename(beside.text, path.text) == 0) return TERN_OK;
    const int why = errno;
    if ((why == EPERM || why == EOPNOTSUPP || why == ENOSYS) && rename(blob.text, path.text) == 0) return TERN_OK;
    return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(path.text).text, strerror(why));
}

static bool is_linked(const pulling *p, const tern_hub_file *file)
{
    tern_hub_path path;
    struct stat st;
    tern_error err;
    return tern_hub_path_make(&path, &err, p->folder.text, "snapshots", p->files.commit, file->path) == TERN_OK &&
           lstat(path.text, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == file->bytes;
}

/* Files that describe come before weights, and the index of several weight files last: a snapshot that has it is
 * whole. */
static int turn_of(const char *path)
{
    if (tern_path_ends(path, ".index.json")) return 2;
    return tern_path_ends(path, ".safetensors") || tern_path_ends(path, ".gguf");
}

static tern_status fetch_files(const pulling *p, tern_error *err)
{
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < p->files.n; i++) {
            const tern_hub_file *file = &p->files.items[i];
            if (!file->wanted || turn_of(file->path) != turn || is_linked(p, file)) continue;
            TERN_TRY(tern_hub_blob_fetch(&p->source, file, err));
            TERN_TRY(link_file(p, file, err));
        }
    return TERN_OK;
}

/* Where the branch is now; a commit has no name of that kind. */
static tern_status write_ref(const pulling *p, tern_error *err)
{
    tern_hub_path path;
    if (tern_hub_is_hex(p->name->revision, TERN_HUB_COMMIT_DIGITS)) return TERN_OK;
    TERN_TRY(tern_hub_path_make(&path, err, p->folder.text, "refs", p->name->revision, NULL));
    tern_folders_make(path.text);
    return tern_file_write(path.text, p->files.commit, TERN_HUB_COMMIT_DIGITS, err);
}

tern_status tern_hub_pull(const tern_hub *hub, const tern_hub_name *name, const tern_hub_events *events,
                          tern_hub_found *found, tern_error *err)
{
    char below[256];
    pulling p = {.name = name};
    tern_hub_path first;
    tern_status status;
    if (hub->offline)
        return tern_fail(err, TERN_UNSUPPORTED, "hf:%s: HF_HUB_OFFLINE is set, so nothing is fetched",
                         name->repository);
    tern_hub_folder(name->repository, below);
    TERN_TRY(tern_hub_path_make(&p.folder, err, hub->cache, below, NULL, NULL));
    p.source = (tern_hub_source){hub, name->repository, NULL, p.folder.text, events};
    TERN_GOTO(read_list(&p, err));
    TERN_GOTO(tern_hub_path_make(&first, err, p.folder.text, "blobs", "first", NULL));
    tern_folders_make(first.text);
    TERN_GOTO(check_space(&p, err));
    TERN_GOTO(fetch_files(&p, err));
    TERN_GOTO(write_ref(&p, err));
    found->choice = p.choice;
    status = tern_hub_path_make(&found->path, err, p.folder.text, "snapshots", p.files.commit,
                                p.choice.folder ? NULL : p.files.items[p.choice.model].path);
fail:
    tern_hub_files_deinit(&p.files);
    return status;
}
