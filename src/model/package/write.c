/* Writing the package of a model: its shards and the manifest. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/gguf_parts.h"
#include "format/json.h"
#include "model/package/internal.h"

typedef struct writing {
    const tern_package_options *options;
    uint64_t shard_bytes;
    tern_file_map map;
    tern_gguf *gguf;
    tern_model *model;
    const char *folder; /* until it is complete */
    tern_manifest plan; /* its shards and ranges */
    uint64_t written;
    json_t *manifest;
} writing;

static void shard_name(char name[32], size_t i)
{
    snprintf(name, 32, "shard_%03zu.bin", i);
}

static json_t *ranges_json(const writing *w, size_t first, size_t n)
{
    json_t *list = json_array();
    for (size_t i = first; i < first + n; i++)
        json_array_append_new(
            list, json_pack("[I, I]", (json_int_t)w->plan.ranges[i].offset, (json_int_t)w->plan.ranges[i].bytes));
    return list;
}

/* Its owner and its contents; of an expert the map says which shard it is as well. */
static int describe_shard(const writing *w, json_t *shard, size_t i, size_t first, size_t n)
{
    const tern_manifest_shard *s = &w->plan.shards[i];
    const bool dense = s->layer == TERN_MANIFEST_DENSE;
    char key[24];
    if (w->plan.version != TERN_MANIFEST_EXPERTS_VERSION) return 0;
    int failed = json_object_set_new(shard, "type", json_string(dense ? "dense" : "expert"));
    failed |= json_object_set_new(shard, "ranges", ranges_json(w, first, n));
    if (dense) return failed;
    snprintf(key, sizeof key, "%u_%u", s->layer, s->expert);
    json_t *map = json_object_get(json_object_get(w->manifest, "moeConfig"), "expertShardMap");
    return failed | json_object_set_new(shard, "expertKey", json_string(key)) |
           json_object_set_new(map, key, json_integer((json_int_t)i));
}

/* The bytes of a shard: where they lie in the file, or put together in memory that *own gets. */
static const uint8_t *bytes_of_shard(const writing *w, size_t i, size_t first, size_t n, uint8_t **own)
{
    const tern_manifest_range *r = &w->plan.ranges[first];
    if (n == 1) return w->map.data + r->offset;
    *own = tern_alloc(w->plan.shards[i].bytes);
    for (size_t k = 0; *own && k < n; k++) memcpy(*own + r[k].at, w->map.data + r[k].offset, r[k].bytes);
    return *own;
}

static tern_status write_bytes(writing *w, json_t *list, size_t i, const uint8_t *bytes, size_t first, size_t n,
                               tern_error *err)
{
    char name[32];
    json_t *shard;
    shard_name(name, i);
    TERN_TRY(tern_package__write_shard(w->folder, name, bytes, w->plan.shards[i].bytes, &shard, err));
    if (describe_shard(w, shard, i, first, n) != 0 || json_array_append_new(list, shard) != 0)
        return tern_fail_alloc(err, 256 * n);
    return TERN_OK;
}

/* Shard i, whose n ranges begin at `first`. */
static tern_status write_shard(writing *w, json_t *list, size_t i, size_t first, size_t n, tern_error *err)
{
    uint8_t *own = NULL;
    const uint8_t *bytes = bytes_of_shard(w, i, first, n, &own);
    const tern_status status =
        bytes ? write_bytes(w, list, i, bytes, first, n, err) : tern_fail_alloc(err, w->plan.shards[i].bytes);
    tern_free(own);
    TERN_TRY(status);
    for (size_t k = first; w->map.mapped && k < first + n; k++)
        tern_file_drop(w->map.data + w->plan.ranges[k].offset, w->plan.ranges[k].bytes);
    w->written += w->plan.shards[i].bytes;
    const tern_package_options *o = w->options;
    if (!o->progress || o->progress(o->progress_context, (float)((double)w->written / (double)w->map.size)))
        return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "writing the package was cancelled");
}

static tern_status write_files(void *context, const char *folder, tern_error *err)
{
    writing *w = context;
    w->folder = folder;
    json_t *list = json_array(), *moe = json_object_get(w->manifest, "moeConfig");
    if (json_object_set_new(w->manifest, "shards", list) != 0) return tern_fail_alloc(err, 256);
    if (moe && json_object_set_new(moe, "expertShardMap", json_object()) != 0) return tern_fail_alloc(err, 256);
    for (size_t i = 0, first = 0, n; i < w->plan.n_shards; i++, first += n) {
        for (n = 0; first + n < w->plan.n_ranges && w->plan.ranges[first + n].shard == i;) n++;
        TERN_TRY(write_shard(w, list, i, first, n, err));
    }
    return tern_package__write_manifest(w->folder, w->manifest, err);
}

static tern_status open_file(writing *w, const char *path, tern_error *err)
{
    TERN_TRY(tern_model_open(&w->model, path, NULL, err));
    TERN_TRY(tern_file_map_open(&w->map, path, err));
    if (tern_gguf_parse(&w->gguf, w->map.data, w->map.size, err) != TERN_OK)
        return tern_error_prefix(err, "%s", tern_show_z(path).text);
    tern_gguf_place place;
    TERN_TRY(tern_gguf_place_of(w->gguf, &place, err));
    if (place.count > 1)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: a GGUF file in %u parts found, one file expected: `tern convert` makes one of them",
                         tern_show_z(path).text, place.count);
    const bool experts = tern_package__by_expert(w->model, w->gguf);
    w->plan = (tern_manifest){.version = experts ? TERN_MANIFEST_EXPERTS_VERSION : TERN_MANIFEST_VERSION,
                              .bytes = w->map.size,
                              .shard_bytes = w->shard_bytes};
    TERN_TRY(tern_package__cut(&w->plan, w->model, w->gguf, err));
    return tern_package_describe(w->model, w->gguf, &w->plan, &w->manifest, err);
}

tern_status tern_package_write(const char *gguf_path, const char *dir, const tern_package_options *options,
                               tern_error *err)
{
    static const tern_package_options none;
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    writing w = {.options = options ? options : &none};
    w.shard_bytes = w.options->shard_bytes ? w.options->shard_bytes : TERN_MANIFEST_SHARD_BYTES;
    if (w.shard_bytes > TERN_MANIFEST_SHARD_BYTES)
        return tern_fail(e, TERN_INVALID_ARGUMENT, "shards of %llu bytes: at most %d expected",
                         (unsigned long long)w.shard_bytes, TERN_MANIFEST_SHARD_BYTES);
    tern_status status;
    TERN_GOTO(tern_package__check_target(gguf_path, dir, w.options->overwrite, e));
    TERN_GOTO(open_file(&w, gguf_path, e));
    TERN_GOTO(tern_package__write_folder(dir, write_files, &w, e));
fail:
    json_decref(w.manifest);
    tern_manifest_deinit(&w.plan);
    tern_gguf_close(w.gguf);
    tern_file_map_close(&w.map);
    tern_model_close(w.model);
    return status;
}
