/* Fetching a blob: its lock, its part, its sum, its name. */
#include "hub/net/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "hub/lock.h"
#include "hub/net/http.h"
#include "hub/sum.h"

enum { MAX_FRUITLESS = 4, WAIT_MS = 200, MAX_TOKEN = 1000 };

/* A fetch that is going on. */
typedef struct fetch {
    const tern_hub_source *source;
    const tern_hub_file *file;
    tern_hub_path blob, part;
    int fd, lock;
    uint64_t at, start; /* bytes in the part, and where this request began */
} fetch;

tern_status tern_hub_blob_path(const tern_hub_source *source, const tern_hub_file *file, tern_hub_path *path,
                               tern_error *err)
{
    return tern_hub_path_make(path, err, source->folder, "blobs", file->sum, NULL);
}

static bool is_there(const char *path, uint64_t bytes)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
}

static tern_status part_path(const tern_hub_path *blob, tern_hub_path *part, tern_error *err)
{
    const int n = snprintf(part->text, sizeof part->text, "%s.incomplete", blob->text);
    return n < (int)sizeof part->text ? TERN_OK : tern_fail(err, TERN_LIMIT, "%s: too long", blob->text);
}

uint64_t tern_hub_blob_missing(const tern_hub_source *source, const tern_hub_file *file)
{
    tern_hub_path blob, part;
    struct stat st;
    tern_error err;
    if (tern_hub_blob_path(source, file, &blob, &err) != TERN_OK || is_there(blob.text, file->bytes)) return 0;
    if (part_path(&blob, &part, &err) != TERN_OK || stat(part.text, &st) != 0) return file->bytes;
    return (uint64_t)st.st_size < file->bytes ? file->bytes - (uint64_t)st.st_size : 0;
}

static bool tell(const fetch *f, bool checking, float done)
{
    const tern_hub_events *e = f->source->events;
    return !e->progress || e->progress(e->context, f->file, checking, done);
}

static void note(const fetch *f, const char *words)
{
    const tern_hub_events *e = f->source->events;
    if (e->note) e->note(e->context, words);
}

static float share(const fetch *f, uint64_t bytes)
{
    return f->file->bytes ? (float)((double)bytes / (double)f->file->bytes) : 1.0f;
}

static bool on_fetched(void *context, uint64_t fetched)
{
    const fetch *f = context;
    return tell(f, false, share(f, f->start + fetched));
}

static bool on_summed(void *context, float done)
{
    return tell(context, true, done);
}

/* False when the person does not want to wait any more. */
static bool pause_for(const fetch *f, long ms)
{
    for (; ms > 0; ms -= WAIT_MS) {
        const struct timespec t = {.tv_nsec = (ms < WAIT_MS ? ms : WAIT_MS) * 1000000L};
        nanosleep(&t, NULL);
        if (!tell(f, false, share(f, f->at))) return false;
    }
    return true;
}

static tern_status take_lock(fetch *f, tern_error *err)
{
    for (bool said = false;; said = true) {
        TERN_TRY(tern_hub_lock(f->source->hub, f->source->repository, f->file->sum, &f->lock, err));
        if (f->lock >= 0) return TERN_OK;
        if (!said) note(f, "another program is fetching this file: waiting for it");
        if (!pause_for(f, WAIT_MS)) return tern_fail(err, TERN_CANCELLED, "interrupted");
    }
}

static tern_status fail_part(const fetch *f, tern_error *err)
{
    return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(f->part.text).text, strerror(errno));
}

static tern_status open_part(fetch *f, tern_error *err)
{
    struct stat st;
    f->fd = open(f->part.text, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (f->fd < 0 || fstat(f->fd, &st) != 0) return fail_part(f, err);
    f->at = (uint64_t)st.st_size;
    if (f->at <= f->file->bytes) return TERN_OK;
    f->at = 0;
    return ftruncate(f->fd, 0) == 0 ? TERN_OK : fail_part(f, err);
}

/* "ENDPOINT/ORG/NAME/resolve/COMMIT/FILE", whose path is percent-encoded. */
static tern_status make_url(const fetch *f, char *url, size_t cap, tern_error *err)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/";
    const tern_hub_source *s = f->source;
    size_t n = (size_t)snprintf(url, cap, "%s/%s/resolve/%s/", s->hub->endpoint, s->repository, s->commit);
    for (const char *at = f->file->path; *at && n + 4 < cap; at++)
        n += (size_t)snprintf(url + n, cap - n, strchr(plain, *at) ? "%c" : "%%%02X", (unsigned char)*at);
    if (n + 4 < cap) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "%s: an address of more than %zu bytes", s->hub->endpoint, cap);
}

/* Requests until the part is as long as the file: on and on while they bring something, MAX_FRUITLESS that do not. */
static tern_status fill(fetch *f, tern_error *err)
{
    char url[4096];
    tern_http_request request = {f->source->hub, url, f->source->repository, on_fetched, f};
    TERN_TRY(make_url(f, url, sizeof url, err));
    for (int fruitless = 0; f->at < f->file->bytes;) {
        bool again;
        const uint64_t before = f->start = f->at;
        tern_error why = {0};
        const tern_status status = tern_http_fetch(&request, f->fd, before, f->file->bytes, &f->at, &again, &why);
        fruitless = f->at > before ? 0 : fruitless + 1;
        if (status == TERN_OK) again = !fruitless; /* a server may give a file in pieces, but then it gives some */
        if (f->at == f->file->bytes) break;
        if (!again || fruitless >= MAX_FRUITLESS) {
            if (err) *err = why;
            return status != TERN_OK ? status
                                     : tern_fail(err, TERN_IO, "%llu of %llu bytes received", (unsigned long long)f->at,
                                                 (unsigned long long)f->file->bytes);
        }
        if (fruitless == 1) note(f, "the connection was cut: trying again");
        if (!pause_for(f, fruitless > 1 ? 125L << fruitless : 0)) return tern_fail(err, TERN_CANCELLED, "interrupted");
    }
    return TERN_OK;
}

static tern_status check(fetch *f, bool resumed, bool *restart, tern_error *err)
{
    char sum[TERN_HUB_SHA256_DIGITS + 1];
    *restart = false;
    TERN_TRY(tern_hub_sum(f->fd, f->file->bytes, f->file->sum, sum, on_summed, f, err));
    if (strcmp(sum, f->file->sum) == 0) return TERN_OK;
    f->at = 0;
    if (ftruncate(f->fd, 0) != 0) return fail_part(f, err);
    *restart = resumed;
    if (resumed) return TERN_OK;
    unlink(f->part.text);
    return tern_fail(err, TERN_MALFORMED, "its sum is %s, the hub says %s; the received bytes were removed", sum,
                     f->file->sum);
}

static tern_status fetch_part(fetch *f, tern_error *err)
{
    bool restart = true;
    TERN_TRY(open_part(f, err));
    for (bool resumed = f->at > 0; restart; resumed = false) {
        TERN_TRY(fill(f, err));
        TERN_TRY(check(f, resumed, &restart, err));
        if (restart) note(f, "what was there from before was not this file: beginning again");
    }
    if (fsync(f->fd) != 0 || rename(f->part.text, f->blob.text) != 0) return fail_part(f, err);
    return TERN_OK;
}

tern_status tern_hub_blob_fetch(const tern_hub_source *source, const tern_hub_file *file, tern_error *err)
{
    fetch f = {.source = source, .file = file, .fd = -1, .lock = -1};
    tern_status status;
    TERN_GOTO(tern_hub_blob_path(source, file, &f.blob, err));
    TERN_GOTO(part_path(&f.blob, &f.part, err));
    if (is_there(f.blob.text, file->bytes)) return TERN_OK;
    tern_folders_make(f.blob.text);
    TERN_GOTO(take_lock(&f, err));
    if (!is_there(f.blob.text, file->bytes)) status = fetch_part(&f, err);
fail:
    if (f.fd >= 0) close(f.fd);
    tern_hub_unlock(f.lock);
    if (source->events->end) source->events->end(source->events->context, file);
    return status == TERN_OK ? status : tern_error_prefix(err, "%s", tern_show_z(file->path).text);
}
