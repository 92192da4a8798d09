/* Loading one expert of a package by itself. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "model/package/internal.h"

/* A file whose sum was found right. */
typedef struct tern_package_seen {
    dev_t device;
    ino_t node;
    off_t size;
    struct timespec changed, written;
    bool right;
} tern_package_seen;

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Whether it is the file that was found right. */
static bool is_seen(const tern_package_seen *seen, const struct stat *now)
{
    return seen->right && seen->device == now->st_dev && seen->node == now->st_ino && seen->size == now->st_size &&
           same_time(seen->changed, now->st_ctim) && same_time(seen->written, now->st_mtim);
}

static tern_status check(tern_package_seen *seen, const tern_manifest_shard *s, const tern_file_map *file,
                         const struct stat *now, tern_error *err)
{
    char digits[TERN_SHA256_DIGITS + 1];
    if (file->size != s->bytes)
        return tern_fail(err, TERN_MALFORMED, "%s: %zu bytes found, %zu expected", s->file, file->size, s->bytes);
    if (is_seen(seen, now)) return TERN_OK;
    TERN_TRY(tern_sha256(file->data, file->size, digits, err));
    if (strcmp(digits, s->sha256) != 0)
        return tern_fail(err, TERN_MALFORMED, "%s: SHA-256 sum %.16s... found, %.16s... expected: the file is damaged",
                         s->file, digits, s->sha256);
    *seen = (tern_package_seen){.device = now->st_dev,
                                .node = now->st_ino,
                                .size = now->st_size,
                                .changed = now->st_ctim,
                                .written = now->st_mtim,
                                .right = true};
    return TERN_OK;
}

static tern_status open_shard(tern_package *p, const tern_manifest_shard *s, tern_package_expert *out, tern_error *err)
{
    struct stat now = {0};
    char *path = tern_path_join(p->dir, s->file);
    if (!path) return tern_fail_alloc(err, strlen(p->dir) + strlen(s->file) + 2);
    const bool there = stat(path, &now) == 0; /* before it is opened: a file that is exchanged is looked at again */
    tern_status status = there ? tern_file_map_open(&out->file, path, err)
                               : tern_fail(err, errno == ENOENT ? TERN_NOT_FOUND : TERN_IO, "%s: %s", s->file,
                                           errno == ENOENT ? "not there" : strerror(errno));
    tern_free(path);
    if (status == TERN_OK) status = check(&p->seen[s - p->manifest.shards], s, &out->file, &now, err);
    return status;
}

static void find_parts(const tern_manifest *m, const tern_manifest_shard *s, const uint8_t *data,
                       tern_package_expert *out)
{
    const size_t shard = (size_t)(s - m->shards);
    for (size_t at = 0; at < s->bytes && out->n_parts < TERN_PACKAGE_MAX_PARTS;) {
        const tern_manifest_range *r = NULL;
        for (size_t i = 0; i < m->n_ranges && !r; i++)
            if (m->ranges[i].shard == shard && m->ranges[i].at == at) r = &m->ranges[i];
        if (!r) return;
        out->parts[out->n_parts] = data + at;
        out->bytes[out->n_parts++] = r->bytes;
        at += r->bytes;
    }
}

/* Room for the largest of them, once. */
static tern_status make_room(tern_package *p, tern_error *err)
{
    size_t most = 0;
    if (p->brought) return TERN_OK;
    for (size_t i = 0; i < p->manifest.n_shards; i++) {
        const tern_manifest_shard *s = &p->manifest.shards[i];
        if (s->layer != TERN_MANIFEST_DENSE && s->bytes > most) most = s->bytes;
    }
    p->brought = tern_alloc_aligned(most, 64);
    if (!p->brought) return tern_fail_alloc(err, most);
    p->brought_bytes = most;
    return TERN_OK;
}

static tern_status bring_shard(tern_package *p, const tern_manifest_shard *s, tern_package_expert *out, tern_error *err)
{
    TERN_TRY(make_room(p, err));
    const tern_status status = p->bring(p->bring_context, (size_t)(s - p->manifest.shards), p->brought, s->bytes, err);
    if (status != TERN_OK) return tern_error_prefix(err, "%s", s->file);
    find_parts(&p->manifest, s, p->brought, out);
    return TERN_OK;
}

tern_status tern_package_load_expert(tern_package *p, uint32_t layer, uint32_t expert, tern_package_expert *out,
                                     tern_error *err)
{
    const tern_manifest_shard *s = tern_manifest_expert(&p->manifest, layer, expert);
    *out = (tern_package_expert){0};
    if (!s) return tern_fail(err, TERN_NOT_FOUND, "the package has no shard of expert %u of layer %u", expert, layer);
    if (p->bring) return bring_shard(p, s, out, err);
    if (!p->seen) p->seen = tern_calloc(p->manifest.n_shards, sizeof *p->seen);
    if (!p->seen) return tern_fail_alloc(err, p->manifest.n_shards * sizeof *p->seen);
    const tern_status status = open_shard(p, s, out, err);
    if (status == TERN_OK) find_parts(&p->manifest, s, out->file.data, out);
    else tern_package_close_expert(out);
    return status;
}

void tern_package_close_expert(tern_package_expert *expert)
{
    tern_file_map_close(&expert->file);
    *expert = (tern_package_expert){0};
}
