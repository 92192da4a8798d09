/* Lists of files, and the hub's answer that has one. */
#include "hub/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/json.h"

tern_status tern_hub_files_add(tern_hub_files *files, const char *path, uint64_t bytes, const char *sum,
                               tern_error *err)
{
    void *items = files->items;
    if (files->n >= TERN_HUB_MAX_FILES)
        return tern_fail(err, TERN_LIMIT, "a repository of more than %d files", TERN_HUB_MAX_FILES);
    TERN_TRY(tern_grow(&items, &files->cap, files->n + 1, sizeof *files->items, err));
    files->items = items;
    tern_hub_file *file = &files->items[files->n];
    *file = (tern_hub_file){.path = tern_strdup(path), .bytes = bytes};
    if (!file->path) return tern_fail_alloc(err, strlen(path) + 1);
    snprintf(file->sum, sizeof file->sum, "%s", sum ? sum : "");
    files->n++;
    return TERN_OK;
}

void tern_hub_files_deinit(tern_hub_files *files)
{
    for (size_t i = 0; i < files->n; i++) tern_free(files->items[i].path);
    tern_free(files->items);
    *files = (tern_hub_files){0};
}

static int by_path(const void *a, const void *b)
{
    const tern_hub_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

void tern_hub_files_sort(tern_hub_files *files)
{
    if (files->n) qsort(files->items, files->n, sizeof *files->items, by_path);
}

/* A string of the answer without NUL bytes, of at most cap - 1; else "". */
static void copy_text(const json_t *object, const char *key, char *out, size_t cap)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    const size_t n = json_string_length(value);
    out[0] = 0;
    if (text && n < cap && strlen(text) == n) memcpy(out, text, n + 1);
}

static tern_status read_file(tern_hub_files *files, const json_t *row, tern_error *err)
{
    char path[sizeof((tern_hub_name *)0)->file], sum[TERN_HUB_SHA256_DIGITS + 1];
    const json_t *lfs = json_object_get(row, "lfs");
    int64_t bytes = -1;
    copy_text(row, "rfilename", path, sizeof path);
    if (!tern_hub_path_is_safe(path)) {
        const char *found = json_string_value(json_object_get(row, "rfilename"));
        return tern_fail(err, TERN_MALFORMED, "the hub's list has a file \"%s\": a path inside the repository expected",
                         found ? tern_show_z(found).text : "");
    }
    const bool large = json_is_object(lfs);
    copy_text(large ? lfs : row, large ? "sha256" : "blobId", sum, sizeof sum);
    if (!tern_json_int(json_object_get(large ? lfs : row, "size"), &bytes) || bytes < 0)
        return tern_fail(err, TERN_MALFORMED, "%s: the hub's list has no size for it", tern_show_z(path).text);
    if (!tern_hub_is_hex(sum, large ? TERN_HUB_SHA256_DIGITS : TERN_HUB_COMMIT_DIGITS))
        return tern_fail(err, TERN_MALFORMED, "%s: \"%s\" found as its sum in the hub's list, %d hexadecimal digits %s",
                         tern_show_z(path).text, tern_show_z(sum).text,
                         large ? TERN_HUB_SHA256_DIGITS : TERN_HUB_COMMIT_DIGITS, "expected");
    return tern_hub_files_add(files, path, (uint64_t)bytes, sum, err);
}

static tern_status read_list(tern_hub_files *files, const json_t *root, tern_error *err)
{
    const json_t *rows = json_object_get(root, "siblings");
    copy_text(root, "sha", files->commit, sizeof files->commit);
    if (!tern_hub_is_hex(files->commit, TERN_HUB_COMMIT_DIGITS))
        return tern_fail(err, TERN_MALFORMED, "the hub's list: sha: \"%s\" found, a commit of %d digits expected",
                         tern_show_z(files->commit).text, TERN_HUB_COMMIT_DIGITS);
    if (!json_is_array(rows))
        return tern_fail(err, TERN_MALFORMED, "the hub's list: siblings: %s found, an array expected",
                         tern_json_kind(rows));
    for (size_t i = 0; i < json_array_size(rows); i++) TERN_TRY(read_file(files, json_array_get(rows, i), err));
    tern_hub_files_sort(files);
    for (size_t i = 1; i < files->n; i++)
        if (strcmp(files->items[i - 1].path, files->items[i].path) == 0)
            return tern_fail(err, TERN_MALFORMED, "the hub's list has %s twice",
                             tern_show_z(files->items[i].path).text);
    return TERN_OK;
}

tern_status tern_hub_files_parse(tern_hub_files *files, const void *body, size_t size, tern_error *err)
{
    json_t *root = NULL;
    *files = (tern_hub_files){0};
    tern_status status = tern_json_parse(&root, body, size, "the hub's list", err);
    if (status == TERN_OK) status = read_list(files, root, err);
    tern_json_free(root);
    if (status != TERN_OK) tern_hub_files_deinit(files);
    return status;
}
