/* Opening a package: its manifest, its shards and their sums; and the model in it. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "base/sha256.h"
#include "base/show.h"
#include "model/package/internal.h"

enum { HEAD_BYTES = 1 << 20 };

/* The part of a package that is opened. */
typedef enum part { ALL, DENSE, ADAPTER } part;

bool tern_package_is(const char *path)
{
    if (!tern_file_is_dir(path)) {
        const size_t n = strlen(path), m = strlen(TERN_MANIFEST_NAME);
        return n >= m && strcmp(path + n - m, TERN_MANIFEST_NAME) == 0 && (n == m || path[n - m - 1] == '/');
    }
    char manifest[4096];
    int n = snprintf(manifest, sizeof manifest, "%s/%s", path, TERN_MANIFEST_NAME);
    return n > 0 && n < (int)sizeof manifest && tern_file_exists(manifest);
}

static tern_status find_manifest(tern_package *p, const char *path, char **manifest, tern_error *err)
{
    const char *slash = strrchr(path, '/');
    const bool folder = tern_file_is_dir(path);
    p->dir = folder ? tern_strdup(path) : slash ? tern_strndup(path, (size_t)(slash - path) + 1) : tern_strdup(".");
    *manifest = p->dir && folder ? tern_path_join(path, TERN_MANIFEST_NAME) : tern_strdup(path);
    return p->dir && *manifest ? TERN_OK : tern_fail_alloc(err, strlen(path) + 32);
}

static tern_status map_shard(tern_package *p, size_t i, tern_error *err)
{
    const tern_manifest_shard *s = &p->manifest.shards[i];
    char *path = tern_path_join(p->dir, s->file);
    if (!path) return tern_fail_alloc(err, strlen(p->dir) + strlen(s->file) + 2);
    tern_status status = tern_file_map_open(&p->shards[i], path, err);
    tern_free(path);
    if (status == TERN_OK && p->shards[i].size != s->bytes)
        status = tern_fail(err, TERN_MALFORMED, "%s: %zu bytes found, %zu expected, as %s says", s->file,
                           p->shards[i].size, s->bytes, TERN_MANIFEST_NAME);
    return status;
}

/* Sums on all cores; progress is told by the thread that called. */
typedef struct checking {
    tern_package *package;
    const tern_model_options *options;
    atomic_size_t done, bad; /* bad: the lowest shard whose sum is wrong */
    atomic_bool cancelled;
    uint32_t last; /* the calling thread */
} checking;

static void check_sum(void *context, uint32_t i, uint32_t thread)
{
    checking *c = context;
    const tern_manifest_shard *s = &c->package->manifest.shards[i];
    const tern_file_map *map = &c->package->shards[i];
    char digits[TERN_SHA256_DIGITS + 1];
    if (atomic_load(&c->cancelled) || !map->data) return;
    if (tern_sha256(map->data, map->size, digits, NULL) != TERN_OK || strcmp(digits, s->sha256) != 0) {
        size_t bad = atomic_load(&c->bad);
        while (i < bad && !atomic_compare_exchange_weak(&c->bad, &bad, i)) {}
    }
    if (map->mapped) tern_file_drop(map->data, map->size);
    size_t done = atomic_fetch_add(&c->done, 1) + 1;
    const tern_model_options *o = c->options;
    if (thread == c->last && o && o->progress &&
        !o->progress(o->progress_context, (float)done / (float)c->package->manifest.n_shards / 2))
        atomic_store(&c->cancelled, true);
}

static tern_status check_sums(tern_package *p, const tern_model_options *options, tern_error *err)
{
    tern_pool *pool;
    const size_t n = p->manifest.n_shards;
    TERN_TRY(tern_pool_open(&pool, 0, false, err));
    checking c = {.package = p, .options = options, .last = tern_pool_threads(pool) - 1};
    atomic_init(&c.bad, n);
    tern_pool_for(pool, (uint32_t)n, check_sum, &c);
    tern_pool_close(pool);
    if (atomic_load(&c.cancelled)) return tern_fail(err, TERN_CANCELLED, "opening the package was cancelled");
    const size_t bad = atomic_load(&c.bad);
    if (bad == n) return TERN_OK;
    char digits[TERN_SHA256_DIGITS + 1];
    TERN_TRY(tern_sha256(p->shards[bad].data, p->shards[bad].size, digits, err));
    return tern_fail(err, TERN_MALFORMED, "%s: SHA-256 sum %.16s... found, %.16s... expected: the file is damaged",
                     p->manifest.shards[bad].file, digits, p->manifest.shards[bad].sha256);
}

static tern_status open_shards(tern_package *p, part what, const tern_model_options *options, tern_error *err)
{
    const size_t n = p->manifest.n_shards;
    p->shards = tern_calloc(n, sizeof *p->shards);
    if (!p->shards) return tern_fail_alloc(err, n * sizeof *p->shards);
    for (size_t i = 0; i < n; i++)
        if (what != DENSE || p->manifest.shards[i].layer == TERN_MANIFEST_DENSE) TERN_TRY(map_shard(p, i, err));
    return check_sums(p, options, err);
}

static tern_status open_package(tern_package **package, const char *path, part what, const tern_model_options *options,
                                tern_error *err)
{
    char *manifest = NULL;
    tern_status status;
    *package = NULL;
    tern_package *p = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    TERN_GOTO(find_manifest(p, path, &manifest, err));
    TERN_GOTO(tern_manifest_read(&p->manifest, manifest, err));
    TERN_GOTO(tern_manifest_need(&p->manifest, what == ADAPTER, err));
    TERN_GOTO(open_shards(p, what, options, err));
    tern_free(manifest);
    *package = p;
    return TERN_OK;
fail:
    tern_free(manifest);
    tern_package_close(p);
    return status;
}

tern_status tern_package_open(tern_package **package, const char *path, const tern_model_options *options,
                              tern_error *err)
{
    return open_package(package, path, ALL, options, err);
}

tern_status tern_package_open_dense(tern_package **package, const char *path, const tern_model_options *options,
                                    tern_error *err)
{
    return open_package(package, path, DENSE, options, err);
}

tern_status tern_package__open_files(tern_package **package, const char *path, tern_error *err)
{
    return open_package(package, path, ADAPTER, NULL, err);
}

bool tern_package_is_adapter(const char *path)
{
    tern_package p = {0};
    tern_error err;
    char *manifest = NULL;
    const bool is = tern_package_is(path) && find_manifest(&p, path, &manifest, &err) == TERN_OK &&
                    tern_manifest_read(&p.manifest, manifest, &err) == TERN_OK && p.manifest.adapter;
    tern_manifest_deinit(&p.manifest);
    tern_free(p.dir);
    tern_free(manifest);
    return is;
}

tern_status tern_package_open_elsewhere(tern_package **package, const void *json, size_t n, tern_package_bring bring,
                                        void *context, tern_error *err)
{
    tern_status status;
    *package = NULL;
    tern_package *p = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    p->bring = bring;
    p->bring_context = context;
    TERN_GOTO(tern_manifest_parse(&p->manifest, json, n, err));
    if (!p->manifest.n_experts)
        TERN_GOTO(tern_fail(err, TERN_UNSUPPORTED,
                            "package of version %u found, one with a shard for each expert expected",
                            p->manifest.version));
    *package = p;
    return TERN_OK;
fail:
    tern_package_close(p);
    return status;
}

void tern_package_close(tern_package *p)
{
    if (!p) return;
    tern_free(p->seen);
    tern_free_aligned(p->brought);
    for (size_t i = 0; p->shards && i < p->manifest.n_shards; i++) tern_file_map_close(&p->shards[i]);
    tern_free(p->shards);
    tern_free(p->dir);
    tern_manifest_deinit(&p->manifest);
    tern_free(p);
}

const tern_manifest *tern_package_manifest(const tern_package *p)
{
    return &p->manifest;
}

void tern_package_read(const tern_package *p, uint64_t offset, size_t n, void *out)
{
    uint8_t *to = out;
    while (n) {
        const tern_manifest_range *r = tern_manifest_range_at(&p->manifest, offset);
        const tern_file_map *map = &p->shards[r->shard];
        const size_t before = (size_t)(offset - r->offset), left = r->bytes - before, now = n < left ? n : left;
        if (map->data) memcpy(to, map->data + r->at + before, now);
        else memset(to, 0, now);
        if (map->mapped) tern_file_drop(map->data + r->at + before, now);
        to += now;
        offset += now;
        n -= now;
    }
}

tern_status tern_package_head(const tern_package *p, tern_package_take_fn take, void *context, tern_error *err)
{
    tern_status status = TERN_PENDING;
    uint64_t wanted = p->manifest.bytes < HEAD_BYTES ? p->manifest.bytes : HEAD_BYTES;
    while (status == TERN_PENDING) {
        const size_t n = (size_t)wanted;
        uint8_t *head = tern_alloc(n);
        if (!head) return tern_fail_alloc(err, n);
        tern_package_read(p, 0, n, head);
        status = take(context, head, n, &wanted, err);
        tern_free(head);
    }
    return status;
}
