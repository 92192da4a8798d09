/* Writing a package: shards, their sums, and the manifest, in a folder that appears when it is complete. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/output.h"
#include "base/sha256.h"
#include "base/show.h"
#include "format/gguf_parts.h"
#include "format/json.h"
#include "model/package_internal.h"

typedef struct writing {
    const tern_package_options *options;
    uint64_t shard_bytes;
    tern_file_map map;
    tern_gguf *gguf;
    tern_model *model;
    tern_temp temp;     /* the folder until it is complete */
    tern_manifest plan; /* its shards and ranges */
    uint64_t written;
    json_t *manifest;
} writing;

static tern_status write_file(const char *dir, const char *name, const void *bytes, size_t n, tern_error *err)
{
    char *path = tern_path_join(dir, name);
    if (!path) return tern_fail_alloc(err, strlen(dir) + strlen(name) + 2);
    tern_status status = tern_file_write(path, bytes, n, err);
    tern_free(path);
    return status;
}

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

/* Whose it is, and what it holds; of an expert the map says which shard it is as well. */
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
    char name[32], digits[TERN_SHA256_DIGITS + 1];
    const size_t size = w->plan.shards[i].bytes;
    shard_name(name, i);
    TERN_TRY(tern_sha256(bytes, size, digits, err));
    TERN_TRY(write_file(w->temp.path, name, bytes, size, err));
    json_t *shard = json_pack("{s:s, s:I, s:s}", "file", name, "bytes", (json_int_t)size, "sha256", digits);
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

static tern_status write_manifest(writing *w, tern_error *err)
{
    char *text = json_dumps(w->manifest, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (!text) return tern_fail_alloc(err, 1 << 20);
    tern_status status = write_file(w->temp.path, TERN_MANIFEST_NAME, text, strlen(text), err);
    tern_free(text);
    return status;
}

static tern_status write_files(writing *w, tern_error *err)
{
    json_t *list = json_array(), *moe = json_object_get(w->manifest, "moeConfig");
    if (json_object_set_new(w->manifest, "shards", list) != 0) return tern_fail_alloc(err, 256);
    if (moe && json_object_set_new(moe, "expertShardMap", json_object()) != 0) return tern_fail_alloc(err, 256);
    for (size_t i = 0, first = 0, n; i < w->plan.n_shards; i++, first += n) {
        for (n = 0; first + n < w->plan.n_ranges && w->plan.ranges[first + n].shard == i;) n++;
        TERN_TRY(write_shard(w, list, i, first, n, err));
    }
    return write_manifest(w, err);
}

static bool is_part(const char *name)
{
    const size_t n = strlen(name);
    const bool shard = n > 10 && strncmp(name, "shard_", 6) == 0 && strcmp(name + n - 4, ".bin") == 0 &&
                       strspn(name + 6, "0123456789") == n - 10;
    return shard || strcmp(name, TERN_MANIFEST_NAME) == 0 || strcmp(name, TERN_MANIFEST_TORRENT) == 0 ||
           strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* An empty folder may be there already, and to overwrite a package; what is no part of one is not removed. */
static tern_status check_target(const writing *w, const char *gguf, const char *dir, tern_error *err)
{
    const tern_output output = {.path = dir, .folder = true, .model = gguf, .overwrite = w->options->overwrite};
    tern_status status = tern_output_check(&output, err);
    DIR *names = opendir(dir);
    for (const struct dirent *e; status == TERN_OK && names && (e = readdir(names));)
        if (!is_part(e->d_name))
            status = tern_fail(err, TERN_INVALID_ARGUMENT,
                               "%s holds %s, which is no part of a package: a new folder "
                               "expected",
                               tern_show_z(dir).text, tern_show_z(e->d_name).text);
    if (names) closedir(names);
    return status;
}

static tern_status write_folder(writing *w, const char *dir, tern_error *err)
{
    TERN_TRY(tern_temp_folder(&w->temp, dir, err));
    tern_status status = write_files(w, err);
    if (status == TERN_OK)
        return tern_file_exists(dir) ? tern_temp_replace(&w->temp, dir, err) : tern_temp_commit(&w->temp, dir, err);
    tern_temp_abort(&w->temp);
    return status;
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
    TERN_GOTO(check_target(&w, gguf_path, dir, e));
    TERN_GOTO(open_file(&w, gguf_path, e));
    TERN_GOTO(write_folder(&w, dir, e));
fail:
    json_decref(w.manifest);
    tern_manifest_deinit(&w.plan);
    tern_gguf_close(w.gguf);
    tern_file_map_close(&w.map);
    tern_model_close(w.model);
    return status;
}
