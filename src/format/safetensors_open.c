/* Opening SafeTensors by path: one file, or the shards that an index names. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "format/safetensors_internal.h"

#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME  "model.safetensors.index.json"
enum { MAX_SHARDS = 4096, MAX_INDEX_BYTES = 100000000 };

static tern_status open_file(tern_safetensors *st, const char *path, tern_error *err)
{
    tern_file_map *file = &st->files[st->n_files];
    TERN_TRY(tern_file_map_open(file, path, err));
    st->n_files++;
    tern_error local;
    tern_error *inner = err ? err : &local;
    if (tern_safetensors__add_file(st, file->data, file->size, inner) != TERN_OK)
        return tern_error_prefix(inner, "%s", path);
    return TERN_OK;
}

static tern_status open_in(tern_safetensors *st, const char *dir, const char *name, tern_error *err)
{
    char *path = tern_path_join(dir, name);
    if (!path) return tern_fail_alloc(err, strlen(dir) + strlen(name) + 2);
    tern_status status = open_file(st, path, err);
    tern_free(path);
    return status;
}

static tern_status reserve_files(tern_safetensors *st, size_t n, tern_error *err)
{
    st->files = tern_calloc(n, sizeof *st->files);
    return st->files ? TERN_OK : tern_fail_alloc(err, n * sizeof *st->files);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tern_status check_shard_name(const char *tensor, const json_t *file, tern_error *err)
{
    if (!json_is_string(file))
        return tern_fail(err, TERN_MALFORMED, INDEX_NAME ": %s: %s found, a file name expected",
                         tern_show_z(tensor).text, tern_json_kind(file));
    const char *name = json_string_value(file);
    size_t n = json_string_length(file);
    if (n == 0 || strlen(name) != n || strpbrk(name, "/\\") || !strcmp(name, ".") || !strcmp(name, ".."))
        return tern_fail(err, TERN_MALFORMED, INDEX_NAME ": %s: '%s' found, a file name without a folder expected",
                         tern_show_z(tensor).text, tern_show((tern_span){(const uint8_t *)name, n}).text);
    return TERN_OK;
}

/* The distinct names of weight_map's files, sorted, in names[0..*n); names has room for every member. */
static tern_status shard_names(json_t *weight_map, const char **names, size_t *n, tern_error *err)
{
    const char *tensor;
    json_t *file;
    size_t all = 0;
    json_object_foreach(weight_map, tensor, file)
    {
        TERN_TRY(check_shard_name(tensor, file, err));
        names[all++] = json_string_value(file);
    }
    qsort(names, all, sizeof *names, by_name);
    *n = 0;
    for (size_t i = 0; i < all; i++)
        if (*n == 0 || strcmp(names[*n - 1], names[i]) != 0) names[(*n)++] = names[i];
    if (*n > MAX_SHARDS)
        return tern_fail(err, TERN_LIMIT, INDEX_NAME ": %zu shards, at most %d expected", *n, MAX_SHARDS);
    return TERN_OK;
}

static bool inside(const tern_file_map *file, const uint8_t *p)
{
    return p >= file->data && p <= file->data + file->size;
}

/* Every tensor of the index must lie in the file it names. */
static tern_status check_promises(const tern_safetensors *st, json_t *weight_map, const char **names, tern_error *err)
{
    const char *tensor;
    json_t *file;
    json_object_foreach(weight_map, tensor, file)
    {
        const char *shard = json_string_value(file);
        const char **found = bsearch(&shard, names, st->n_files, sizeof *names, by_name);
        const tern_st_tensor *t = tern_safetensors_find(st, tensor);
        if (!t || !found || !inside(&st->files[found - names], t->data))
            return tern_fail(err, TERN_MALFORMED, INDEX_NAME ": %s: not in %s, where the index says it is",
                             tern_show_z(tensor).text, tern_show_z(shard).text);
    }
    return TERN_OK;
}

static tern_status open_shards(tern_safetensors *st, const char *dir, json_t *weight_map, const char **names,
                               tern_error *err)
{
    size_t n = 0;
    TERN_TRY(shard_names(weight_map, names, &n, err));
    TERN_TRY(reserve_files(st, n, err));
    for (size_t i = 0; i < n; i++) TERN_TRY(open_in(st, dir, names[i], err));
    return check_promises(st, weight_map, names, err);
}

static tern_status open_weight_map(tern_safetensors *st, const char *dir, const json_t *index, tern_error *err)
{
    json_t *weight_map = json_object_get(index, "weight_map");
    if (!json_is_object(weight_map))
        return tern_fail(err, TERN_MALFORMED, INDEX_NAME ": weight_map: %s found, an object expected",
                         tern_json_kind(weight_map));
    size_t n = json_object_size(weight_map);
    const char **names = tern_alloc(n * sizeof *names);
    if (!names) return tern_fail_alloc(err, n * sizeof *names);
    tern_status status = open_shards(st, dir, weight_map, names, err);
    tern_free(names);
    return status;
}

static tern_status open_index(tern_safetensors *st, const char *dir, tern_error *err)
{
    json_t *index = NULL;
    tern_status status = tern_json_read_in(&index, dir, INDEX_NAME, MAX_INDEX_BYTES, err);
    if (status == TERN_NOT_FOUND)
        return tern_fail(err, TERN_NOT_FOUND, "%s: neither " SINGLE_NAME " nor " INDEX_NAME " found", dir);
    if (status == TERN_OK) status = open_weight_map(st, dir, index, err);
    tern_json_free(index);
    return status;
}

static tern_status open_dir(tern_safetensors *st, const char *dir, tern_error *err)
{
    char *single = tern_path_join(dir, SINGLE_NAME);
    if (!single) return tern_fail_alloc(err, strlen(dir) + sizeof SINGLE_NAME);
    bool exists = tern_file_exists(single);
    tern_free(single);
    if (!exists) return open_index(st, dir, err);
    TERN_TRY(reserve_files(st, 1, err));
    return open_in(st, dir, SINGLE_NAME, err);
}

static tern_status open_path(tern_safetensors *st, const char *path, tern_error *err)
{
    if (tern_file_is_dir(path)) return open_dir(st, path, err);
    TERN_TRY(reserve_files(st, 1, err));
    return open_file(st, path, err);
}

tern_status tern_safetensors_open(tern_safetensors **out, const char *path, tern_error *err)
{
    *out = NULL;
    tern_safetensors *st = tern_calloc(1, sizeof *st);
    if (!st) return tern_fail_alloc(err, sizeof *st);
    tern_status status = open_path(st, path, err);
    if (status == TERN_OK) *out = st;
    else tern_safetensors_close(st);
    return status;
}
