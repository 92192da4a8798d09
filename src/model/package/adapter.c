/* Packages of adapters: the files of an adapter as they are, and a manifest with their sums and what they hold. */
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/json.h"
#include "model/package/internal.h"

enum { MAX_FILES = 2 };

/* The files of an adapter, under the names that they have in a package. */
typedef struct listed {
    tern_file_map maps[MAX_FILES];
    tern_adapter_file files[MAX_FILES];
    uint32_t n;
} listed;

static void close_files(listed *l)
{
    for (uint32_t i = 0; i < l->n; i++) tern_file_map_close(&l->maps[i]);
}

static tern_status add(listed *l, const char *name, const char *path, tern_error *err)
{
    tern_file_map *map = &l->maps[l->n];
    TERN_TRY(tern_file_map_open(map, path, err));
    l->files[l->n++] = (tern_adapter_file){.name = name, .data = map->data, .bytes = map->size};
    if (map->size <= TERN_MANIFEST_EXPERT_BYTES) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "%s: %zu bytes found, at most %d expected", tern_show_z(path).text, map->size,
                     TERN_MANIFEST_EXPERT_BYTES);
}

static tern_status add_in(listed *l, const char *dir, const char *name, tern_error *err)
{
    char *path = tern_path_join(dir, name);
    const tern_status status = path ? add(l, name, path, err) : tern_fail_alloc(err, strlen(dir) + strlen(name) + 2);
    tern_free(path);
    return status;
}

/* Both files of PEFT's, of which `path` may be one, or one of GGUF. */
static tern_status find_files(listed *l, const char *path, tern_error *err)
{
    const bool folder = tern_file_is_dir(path);
    const char *slash = strrchr(path, '/');
    if (!folder && !tern_path_ends(path, ".json") && !tern_path_ends(path, ".safetensors"))
        return add(l, TERN_MANIFEST_ADAPTER_GGUF, path, err);
    char *dir = folder ? tern_strdup(path) : slash ? tern_strndup(path, (size_t)(slash - path) + 1) : tern_strdup(".");
    if (!dir) return tern_fail_alloc(err, strlen(path) + 1);
    tern_status status = add_in(l, dir, TERN_MANIFEST_ADAPTER_CONFIG, err);
    if (status == TERN_OK) status = add_in(l, dir, TERN_MANIFEST_ADAPTER_WEIGHTS, err);
    tern_free(dir);
    return status;
}

/* The manifest's facts about it, without its files. NULL: out of memory. */
static json_t *describe(const tern_adapter *adapter)
{
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    tern_json_use_allocator();
    json_t *base = *info->base ? json_string(info->base) : json_null();
    return json_pack("{s:s, s:i, s:s, s:{s:s, s:I, s:f, s:I, s:o}}", "format", TERN_MANIFEST_FORMAT, "version",
                     TERN_MANIFEST_VERSION, "kind", TERN_MANIFEST_ADAPTER, "adapter", "format", info->format, "rank",
                     (json_int_t)info->rank, "alpha", (double)info->alpha, "parameters", (json_int_t)info->parameters,
                     "base", base ? base : json_string(tern_show_z(info->base).text));
}

/* ---- writing */

typedef struct writing {
    listed files;
    json_t *manifest;
} writing;

static tern_status write_files(void *context, const char *folder, tern_error *err)
{
    const writing *w = context;
    json_t *list = json_array(), *shard;
    uint64_t bytes = 0;
    if (json_object_set_new(w->manifest, "shards", list) != 0) return tern_fail_alloc(err, 256);
    for (uint32_t i = 0; i < w->files.n; i++) {
        const tern_adapter_file *f = &w->files.files[i];
        TERN_TRY(tern_package__write_shard(folder, f->name, f->data, f->bytes, &shard, err));
        if (json_array_append_new(list, shard) != 0) return tern_fail_alloc(err, 256);
        bytes += f->bytes;
    }
    if (json_object_set_new(w->manifest, "bytes", json_integer((json_int_t)bytes)) != 0)
        return tern_fail_alloc(err, 256);
    return tern_package__write_manifest(folder, w->manifest, err);
}

/* A folder that is not an adapter is not packaged. */
static tern_status read_adapter(writing *w, const char *path, tern_error *err)
{
    tern_adapter *adapter;
    if (tern_package_is(path))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: a package found, an adapter's own files expected",
                         tern_show_z(path).text);
    TERN_TRY(find_files(&w->files, path, err));
    if (tern_adapter_open_memory(&adapter, w->files.files, w->files.n, NULL, err) != TERN_OK)
        return tern_error_prefix(err, "%s", tern_show_z(path).text);
    w->manifest = describe(adapter);
    tern_adapter_close(adapter);
    return w->manifest ? TERN_OK : tern_fail_alloc(err, 1024);
}

tern_status tern_package_write_adapter(const char *path, const char *dir, const tern_package_options *options,
                                       tern_error *err)
{
    tern_error local = {0}, *e = err ? err : &local;
    writing w = {0};
    tern_status status;
    TERN_GOTO(tern_package__check_target(path, dir, options && options->overwrite, e));
    TERN_GOTO(read_adapter(&w, path, e));
    TERN_GOTO(tern_package__write_folder(dir, write_files, &w, e));
fail:
    json_decref(w.manifest);
    close_files(&w.files);
    return status;
}

/* ---- opening */

static tern_status match(const tern_manifest *manifest, const tern_adapter *adapter, tern_error *err)
{
    json_t *expected = describe(adapter);
    if (!expected) return tern_fail_alloc(err, 1024);
    const tern_status status = tern_manifest_compare(manifest->root, expected, "", err);
    json_decref(expected);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "manifest");
}

static tern_status open_files(tern_adapter **adapter, const tern_package *p, const tern_model *model, tern_error *err)
{
    tern_adapter_file files[MAX_FILES] = {{0}};
    const tern_manifest *m = &p->manifest;
    for (size_t i = 0; i < m->n_shards && i < MAX_FILES; i++)
        files[i] = (tern_adapter_file){m->shards[i].file, p->shards[i].data, p->shards[i].size};
    TERN_TRY(tern_adapter_open_memory(adapter, files, (uint32_t)m->n_shards, model, err));
    const tern_status status = match(m, *adapter, err);
    if (status == TERN_OK) return TERN_OK;
    tern_adapter_close(*adapter);
    *adapter = NULL;
    return status;
}

tern_status tern_package_open_adapter(tern_adapter **adapter, const char *path, const tern_model *model,
                                      tern_error *err)
{
    tern_error local = {0}, *e = err ? err : &local;
    tern_package *p;
    *adapter = NULL;
    tern_status status = tern_package__open_files(&p, path, e);
    if (status == TERN_OK) status = open_files(adapter, p, model, e);
    tern_package_close(p);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(e, "%s", tern_show_z(path).text);
}
