/* Writing a package: shards, their sums, and the manifest, in a folder that appears when it is complete. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/output.h"
#include "base/sha256.h"
#include "base/show.h"
#include "format/gguf.h"
#include "format/json.h"
#include "model/model_internal.h"
#include "model/package.h"

typedef struct writing {
    const tern_package_options *options;
    uint64_t shard_bytes;
    tern_file_map map;
    tern_gguf *gguf;
    tern_model *model;
    tern_temp temp; /* the folder until it is complete */
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

static tern_status write_shard(writing *w, json_t *list, size_t i, tern_error *err)
{
    char name[32], digits[TERN_SHA256_DIGITS + 1];
    const uint64_t offset = i * w->shard_bytes, left = w->map.size - offset;
    const size_t n = (size_t)(left < w->shard_bytes ? left : w->shard_bytes);
    const uint8_t *bytes = w->map.data + offset;
    shard_name(name, i);
    TERN_TRY(tern_sha256(bytes, n, digits, err));
    TERN_TRY(write_file(w->temp.path, name, bytes, n, err));
    if (w->map.mapped) tern_file_drop(bytes, n);
    json_t *shard = json_pack("{s:s, s:I, s:s}", "file", name, "bytes", (json_int_t)n, "sha256", digits);
    if (json_array_append_new(list, shard) != 0) return tern_fail_alloc(err, 256);
    const tern_package_options *o = w->options;
    if (!o->progress || o->progress(o->progress_context, (float)((double)(offset + n) / (double)w->map.size)))
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
    const size_t n = (size_t)((w->map.size + w->shard_bytes - 1) / w->shard_bytes);
    json_t *list = json_array();
    if (json_object_set_new(w->manifest, "shards", list) != 0) return tern_fail_alloc(err, 256);
    for (size_t i = 0; i < n; i++) TERN_TRY(write_shard(w, list, i, err));
    return write_manifest(w, err);
}

static bool is_part(const char *name)
{
    const size_t n = strlen(name);
    const bool shard = n > 10 && strncmp(name, "shard_", 6) == 0 && strcmp(name + n - 4, ".bin") == 0 &&
                       strspn(name + 6, "0123456789") == n - 10;
    return shard || strcmp(name, TERN_MANIFEST_NAME) == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
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
    const uint64_t n = (w->map.size + w->shard_bytes - 1) / w->shard_bytes;
    if (n > TERN_MANIFEST_MAX_SHARDS)
        return tern_fail(err, TERN_LIMIT, "%llu shards of %llu bytes: at most %d expected", (unsigned long long)n,
                         (unsigned long long)w->shard_bytes, TERN_MANIFEST_MAX_SHARDS);
    if (tern_model_config(w->model)->window)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: a window of %u: packages hold models without one",
                         tern_show_z(path).text, tern_model_config(w->model)->window);
    return tern_package_describe(w->model, w->gguf, w->map.size, w->shard_bytes, &w->manifest, err);
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
    tern_gguf_close(w.gguf);
    tern_file_map_close(&w.map);
    tern_model_close(w.model);
    return status;
}
