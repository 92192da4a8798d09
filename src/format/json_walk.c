/* The members of a JSON object one by one, without a tree; documents to files. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/show.h"
#include "format/json.h"
#include "format/json_internal.h"

size_t tern_json__end_of_string(const uint8_t *data, size_t size, size_t at)
{
    for (at++; at < size && data[at] != '"'; at++)
        if (data[at] == '\\') at++;
    return at < size ? at : size;
}

static void skip_space(tern_json_walk *w)
{
    while (w->at < w->size && memchr(" \t\r\n", w->data[w->at], 4)) w->at++;
}

static tern_status fail_walk(const tern_json_walk *w, const char *expected, tern_error *err)
{
    if (w->at >= w->size)
        return tern_fail(err, TERN_MALFORMED, "JSON ends at byte %zu, %s expected", w->size, expected);
    return tern_fail(err, TERN_MALFORMED, "'%s' at byte %zu of the JSON, %s expected",
                     tern_show((tern_span){w->data + w->at, 1}).text, w->at, expected);
}

static bool take(tern_json_walk *w, uint8_t byte)
{
    skip_space(w);
    if (w->at >= w->size || w->data[w->at] != byte) return false;
    w->at++;
    return true;
}

static tern_status walk_string(tern_json_walk *w, tern_span *out, tern_error *err)
{
    skip_space(w);
    if (w->at >= w->size || w->data[w->at] != '"') return fail_walk(w, "a string", err);
    size_t end = tern_json__end_of_string(w->data, w->size, w->at);
    *out = (tern_span){w->data + w->at, end - w->at + 1};
    w->at = end;
    if (end >= w->size) return fail_walk(w, "the end of a string", err);
    w->at++;
    return TERN_OK;
}

/* Up to the comma or bracket that ends the value. */
static tern_status walk_value(tern_json_walk *w, tern_span *out, tern_error *err)
{
    skip_space(w);
    size_t start = w->at, depth = 0;
    for (; w->at < w->size; w->at++) {
        uint8_t byte = w->data[w->at];
        if (byte == '"') w->at = tern_json__end_of_string(w->data, w->size, w->at);
        else if (byte == '{' || byte == '[') depth++;
        else if (depth == 0 && (byte == ',' || byte == '}' || byte == ']')) break;
        else if (byte == '}' || byte == ']') depth--;
    }
    if (w->at >= w->size) {
        w->at = w->size;
        return fail_walk(w, "a value and '}'", err);
    }
    *out = (tern_span){w->data + start, w->at - start};
    return TERN_OK;
}

static tern_status walk_end(tern_json_walk *w, bool *more, tern_error *err)
{
    *more = false;
    skip_space(w);
    return w->at == w->size ? TERN_OK : fail_walk(w, "the end", err);
}

tern_status tern_json_walk_next(tern_json_walk *w, bool *more, tern_span *key, tern_span *value, tern_error *err)
{
    bool first = !w->started;
    w->started = true;
    if (first && !take(w, '{')) return fail_walk(w, "'{'", err);
    if (take(w, '}')) return walk_end(w, more, err);
    if (!first && !take(w, ',')) return fail_walk(w, "',' or '}'", err);
    TERN_TRY(walk_string(w, key, err));
    if (!take(w, ':')) return fail_walk(w, "':'", err);
    *more = true;
    return walk_value(w, value, err);
}

tern_status tern_json_write(json_t *document, const char *path, size_t flags, tern_error *err)
{
    tern_file_writer file;
    char *text = document ? json_dumps(document, flags) : NULL;
    json_decref(document);
    tern_status status = text ? tern_file_writer_open(&file, path, err) : tern_fail_alloc(err, sizeof *document);
    if (status == TERN_OK) {
        tern_file_writer_add(&file, text, strlen(text));
        tern_file_writer_add(&file, "\n", 1);
        status = tern_file_writer_commit(&file, err);
    }
    tern_free(text);
    return status;
}

tern_status tern_json_write_in(json_t *document, const char *dir, const char *name, size_t flags, tern_error *err)
{
    char *path = tern_path_join(dir, name);
    if (!path) {
        json_decref(document);
        return tern_fail_alloc(err, strlen(dir) + strlen(name) + 2);
    }
    tern_status status = tern_json_write(document, path, flags, err);
    tern_free(path);
    return status;
}
