/* GGUF files on disk, mapped, with all their parts. */
#include "base/alloc.h"
#include "base/parts.h"
#include "base/show.h"
#include "format/gguf_parts.h"

static tern_status open_map(tern_file_map *map, const char *path, uint32_t part, uint32_t count, tern_error *err)
{
    const tern_status status = tern_file_map_open(map, path, err);
    if (status != TERN_NOT_FOUND) return status;
    return tern_fail(err, TERN_NOT_FOUND, "%s: no such file found, part %u of the model's %u expected",
                     tern_show_z(path).text, part, count);
}

/* The part's map and what is in it, beside the file at `path`. */
static tern_status open_part(const char *path, uint32_t part, uint32_t count, tern_file_map *map, tern_gguf **gguf,
                             tern_error *err)
{
    char *name = tern_parts_path(path, part);
    if (!name) return tern_fail_alloc(err, 4096);
    tern_status status = open_map(map, name, part, count, err);
    if (status == TERN_OK && (status = tern_gguf_parse(gguf, map->data, map->size, err)) != TERN_OK)
        tern_error_prefix(err, "%s", tern_show_z(name).text);
    tern_free(name);
    return status;
}

static tern_status join(tern_gguf_file *file, tern_gguf **parts, const char *path, tern_error *err)
{
    for (uint32_t i = 0; i < file->n; i++)
        TERN_TRY(open_part(path, i + 1, (uint32_t)file->n, &file->maps[i], &parts[i], err));
    if (tern_gguf_join(parts, file->n, err) != TERN_OK) return tern_error_prefix(err, "%s", tern_show_z(path).text);
    file->gguf = parts[0];
    parts[0] = NULL;
    return TERN_OK;
}

static tern_status open_parts(tern_gguf_file *file, const char *path, uint32_t count, tern_error *err)
{
    tern_gguf **parts = tern_calloc(count, sizeof *parts);
    file->maps = tern_calloc(count, sizeof *file->maps);
    tern_status status = TERN_OK;
    if (!parts || !file->maps) status = tern_fail_alloc(err, count * sizeof *file->maps);
    else {
        file->n = count;
        status = join(file, parts, path, err);
        for (uint32_t i = 0; i < count; i++) tern_gguf_close(parts[i]);
    }
    tern_free(parts);
    return status;
}

/* How many parts the file says it has, and that its name says the same. */
static tern_status check_name(const tern_gguf *g, const char *path, uint32_t *count, tern_error *err)
{
    tern_gguf_place place;
    uint32_t part;
    if (tern_gguf_place_of(g, &place, err) != TERN_OK) return tern_error_prefix(err, "%s", tern_show_z(path).text);
    *count = place.count;
    if (place.count == 1) return TERN_OK;
    const uint32_t named = tern_parts_of_name(path, &part);
    if (!named)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%s: part %u of %u: a name that ends in -%05u-of-%05u.gguf expected, by which the others are "
                         "found",
                         tern_show_z(path).text, place.index + 1, place.count, place.index + 1, place.count);
    if (named != place.count || part != place.index + 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: part %u of %u by its name, part %u of %u by its metadata",
                         tern_show_z(path).text, part, named, place.index + 1, place.count);
    return TERN_OK;
}

static tern_status open_first(tern_gguf_file *file, const char *path, uint32_t *count, tern_error *err)
{
    file->maps = tern_calloc(1, sizeof *file->maps);
    if (!file->maps) return tern_fail_alloc(err, sizeof *file->maps);
    file->n = 1;
    TERN_TRY(tern_file_map_open(file->maps, path, err));
    if (tern_gguf_parse(&file->gguf, file->maps->data, file->maps->size, err) != TERN_OK)
        return tern_error_prefix(err, "%s", tern_show_z(path).text);
    return check_name(file->gguf, path, count, err);
}

tern_status tern_gguf_file_open(tern_gguf_file *file, const char *path, tern_error *err)
{
    tern_error local;
    tern_error *e = err ? err : &local;
    uint32_t count = 0;
    *file = (tern_gguf_file){0};
    tern_status status;
    TERN_GOTO(open_first(file, path, &count, e));
    if (count > 1) {
        tern_gguf_file_close(file);
        TERN_GOTO(open_parts(file, path, count, e));
    }
    file->bytes = tern_gguf_bytes(file->gguf);
    return TERN_OK;
fail:
    tern_gguf_file_close(file);
    return status;
}

void tern_gguf_file_close(tern_gguf_file *file)
{
    tern_gguf_close(file->gguf);
    for (size_t i = 0; i < file->n; i++) tern_file_map_close(&file->maps[i]);
    tern_free(file->maps);
    *file = (tern_gguf_file){0};
}

bool tern_gguf_file_holds(const tern_gguf_file *file, const void *at)
{
    for (size_t i = 0; i < file->n; i++)
        if ((const uint8_t *)at >= file->maps[i].data && (const uint8_t *)at < file->maps[i].data + file->maps[i].size)
            return true;
    return false;
}
