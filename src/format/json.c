/* JSON documents as jansson values: limits, error messages, typed getters. */
#include "format/json.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/show.h"
#include "format/json_internal.h"

enum { MAX_DEPTH = 64 };
static const size_t MAX_BYTES = (size_t)1 << 30;
static const double MAX_WHOLE = 9007199254740992.0; /* 2^53 */

/* Jansson 2.14 reports some failed allocations as syntax errors, and others (of its token buffer) not at all, giving a
 * shortened string: this tells. */
static _Thread_local bool out_of_memory;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *json_alloc(size_t bytes)
{
    void *p = tern_alloc(bytes);
    if (!p) out_of_memory = true;
    return p;
}

static void set_allocator(void)
{
    json_set_alloc_funcs(json_alloc, tern_free);
}

void tern_json_use_allocator(void)
{
    pthread_once(&once, set_allocator);
}

/* The cost of a document as a tree, and its depth: counted over its punctuation, so valid only if it parses.
 */
typedef struct shape {
    size_t bytes;
    size_t depth, deepest;
} shape;

/* Jansson 2.14 with 16-byte malloc granules: an object costs about 240 bytes, an array 130, a member 96 and its key, a
 * string 64 and its text, a number 32; each item one pointer, doubled while its array grows. */
static void count_byte(shape *s, uint8_t byte)
{
    switch (byte) {
    case '{':
        s->bytes += 240;
        s->depth++;
        break;
    case '[':
        s->bytes += 130;
        s->depth++;
        break;
    case '}':
    case ']':
        if (s->depth) s->depth--;
        break;
    case ',': s->bytes += 56; break;
    case ':': s->bytes += 96; break;
    default: return;
    }
    if (s->depth > s->deepest) s->deepest = s->depth;
}

static shape measure(const uint8_t *data, size_t size)
{
    shape s = {.bytes = size};
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '"') {
            i = tern_json__end_of_string(data, size, i);
            s.bytes += 64;
        } else {
            count_byte(&s, data[i]);
        }
    }
    return s;
}

static tern_status check_limits(const void *data, size_t size, const char *what, tern_error *err)
{
    if (size > MAX_BYTES)
        return tern_fail(err, TERN_LIMIT, "%s: %zu bytes of JSON, at most %zu expected", what, size, MAX_BYTES);
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL; /* jansson 2.14 overlooks one after a number */
    if (nul)
        return tern_fail(err, TERN_MALFORMED, "%s: JSON has no NUL byte, one is at %td", what,
                         nul - (const uint8_t *)data);
    shape s = measure(data, size);
    if (s.deepest > MAX_DEPTH)
        return tern_fail(err, TERN_LIMIT, "%s: JSON nested %zu deep, at most %d expected", what, s.deepest, MAX_DEPTH);
    size_t most = 24 * size + ((size_t)64 << 20);
    if (s.bytes > most)
        return tern_fail(err, TERN_LIMIT, "%s: this JSON would take %zu bytes of memory, at most %zu expected", what,
                         s.bytes, most);
    return TERN_OK;
}

static tern_status parse(json_t **root, const void *data, size_t size, size_t flags, const char *what, tern_error *err)
{
    *root = NULL;
    tern_json_use_allocator();
    TERN_TRY(check_limits(data, size, what, err));
    json_error_t error = {0};
    out_of_memory = false;
    *root =
        json_loadb(size ? data : "", size, flags | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &error);
    if (out_of_memory) {
        json_decref(*root);
        *root = NULL;
        return tern_fail(err, TERN_OUT_OF_MEMORY, "%s: out of memory while parsing JSON", what);
    }
    if (*root) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: line %d, column %d: %s", what, error.line, error.column,
                     tern_show_z(error.text).text);
}

tern_status tern_json_parse(json_t **root, const void *data, size_t size, const char *what, tern_error *err)
{
    return parse(root, data, size, JSON_REJECT_DUPLICATES, what, err);
}

tern_status tern_json_parse_last(json_t **root, const void *data, size_t size, const char *what, tern_error *err)
{
    return parse(root, data, size, 0, what, err);
}

static tern_status read_file(json_t **root, const char *path, size_t max_bytes, size_t flags, tern_error *err)
{
    *root = NULL;
    tern_file_map map;
    TERN_TRY(tern_file_map_open(&map, path, err));
    tern_status status;
    if (map.size > max_bytes)
        status = tern_fail(err, TERN_LIMIT, "%s: %zu bytes, at most %zu expected", path, map.size, max_bytes);
    else status = parse(root, map.data, map.size, flags, path, err);
    tern_file_map_close(&map);
    return status;
}

tern_status tern_json_read(json_t **root, const char *path, size_t max_bytes, tern_error *err)
{
    return read_file(root, path, max_bytes, JSON_REJECT_DUPLICATES, err);
}

static tern_status read_in(json_t **root, const char *dir, const char *name, size_t max_bytes, size_t flags,
                           tern_error *err)
{
    *root = NULL;
    char *path = tern_path_join(dir, name);
    if (!path) return tern_fail_alloc(err, strlen(dir) + strlen(name) + 2);
    tern_status status = read_file(root, path, max_bytes, flags, err);
    tern_free(path);
    return status;
}

tern_status tern_json_read_in(json_t **root, const char *dir, const char *name, size_t max_bytes, tern_error *err)
{
    return read_in(root, dir, name, max_bytes, JSON_REJECT_DUPLICATES, err);
}

tern_status tern_json_read_last_in(json_t **root, const char *dir, const char *name, size_t max_bytes, tern_error *err)
{
    return read_in(root, dir, name, max_bytes, 0, err);
}

void tern_json_free(json_t *root)
{
    json_decref(root);
}

const char *tern_json_kind(const json_t *value)
{
    if (!value) return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "object";
    case JSON_ARRAY: return "array";
    case JSON_STRING: return "string";
    case JSON_INTEGER:
    case JSON_REAL: return "number";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    }
    return "nothing";
}

bool tern_json_int(const json_t *value, int64_t *out)
{
    if (!json_is_number(value)) return false;
    double v = json_number_value(value);
    if (!(fabs(v) <= MAX_WHOLE) || v != floor(v)) return false;
    *out = (int64_t)v;
    return true;
}

bool tern_json_has(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

static tern_status fail_kind(const json_t *value, const char *key, const char *expected, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "%s: %s found, %s expected", key, tern_json_kind(value), expected);
}

static tern_status find(const json_t *object, const char *key, const json_t **value, tern_error *err)
{
    if (!json_is_object(object))
        return tern_fail(err, TERN_MALFORMED, "%s: looked up in %s, an object expected", key, tern_json_kind(object));
    *value = json_object_get(object, key);
    if (!*value || json_is_null(*value)) return tern_fail(err, TERN_NOT_FOUND, "%s: missing", key);
    return TERN_OK;
}

tern_status tern_json_get_i64(const json_t *object, const char *key, int64_t *out, tern_error *err)
{
    const json_t *value = NULL;
    TERN_TRY(find(object, key, &value, err));
    if (!json_is_number(value)) return fail_kind(value, key, "a whole number", err);
    if (tern_json_int(value, out)) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: %.17g found, a whole number of at most 2^53 in size expected", key,
                     json_number_value(value));
}

tern_status tern_json_get_u32(const json_t *object, const char *key, uint32_t *out, tern_error *err)
{
    int64_t v = 0;
    TERN_TRY(tern_json_get_i64(object, key, &v, err));
    if (v < 0 || v > UINT32_MAX)
        return tern_fail(err, TERN_MALFORMED, "%s: %lld found, 0 to %u expected", key, (long long)v, UINT32_MAX);
    *out = (uint32_t)v;
    return TERN_OK;
}

tern_status tern_json_get_f64(const json_t *object, const char *key, double *out, tern_error *err)
{
    const json_t *value = NULL;
    TERN_TRY(find(object, key, &value, err));
    if (!json_is_number(value)) return fail_kind(value, key, "a number", err);
    *out = json_number_value(value);
    return TERN_OK;
}

tern_status tern_json_get_f32(const json_t *object, const char *key, float *out, tern_error *err)
{
    double v = 0;
    TERN_TRY(tern_json_get_f64(object, key, &v, err));
    if (!isfinite((float)v)) return tern_fail(err, TERN_MALFORMED, "%s: %.17g found, a 32-bit float expected", key, v);
    *out = (float)v;
    return TERN_OK;
}

tern_status tern_json_get_bool(const json_t *object, const char *key, bool *out, tern_error *err)
{
    const json_t *value = NULL;
    TERN_TRY(find(object, key, &value, err));
    if (!json_is_boolean(value)) return fail_kind(value, key, "true or false", err);
    *out = json_is_true(value);
    return TERN_OK;
}

tern_status tern_json_get_string(const json_t *object, const char *key, tern_span *out, tern_error *err)
{
    const json_t *value = NULL;
    TERN_TRY(find(object, key, &value, err));
    if (!json_is_string(value)) return fail_kind(value, key, "a string", err);
    *out = (tern_span){(const uint8_t *)json_string_value(value), json_string_length(value)};
    return TERN_OK;
}

tern_status tern_json_get_array(const json_t *object, const char *key, const json_t **out, tern_error *err)
{
    const json_t *value = NULL;
    TERN_TRY(find(object, key, &value, err));
    if (!json_is_array(value)) return fail_kind(value, key, "an array", err);
    *out = value;
    return TERN_OK;
}

tern_status tern_json_get_object(const json_t *object, const char *key, const json_t **out, tern_error *err)
{
    const json_t *value = NULL;
    TERN_TRY(find(object, key, &value, err));
    if (!json_is_object(value)) return fail_kind(value, key, "an object", err);
    *out = value;
    return TERN_OK;
}

static bool is_utf8(const uint8_t *s, size_t n)
{
    json_t *value = json_stringn((const char *)s, n);
    json_decref(value);
    return value != NULL;
}

static tern_status add_char(tern_buf *buf, uint8_t c, tern_error *err)
{
    if (c == '"' || c == '\\') TERN_TRY(tern_buf_add(buf, "\\", 1, err));
    if (c < 0x20) return tern_buf_addf(buf, err, "\\u%04x", c);
    return tern_buf_add(buf, &c, 1, err);
}

tern_status tern_json_add_string(tern_buf *buf, const void *s, size_t n, tern_error *err)
{
    const uint8_t *bytes = s;
    tern_json_use_allocator();
    out_of_memory = false;
    bool valid = is_utf8(bytes, n);
    if (out_of_memory) return tern_fail_alloc(err, n);
    if (!valid) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: not UTF-8", tern_show((tern_span){bytes, n}).text);
    TERN_TRY(tern_buf_add(buf, "\"", 1, err));
    for (size_t i = 0; i < n; i++) TERN_TRY(add_char(buf, bytes[i], err));
    return tern_buf_add(buf, "\"", 1, err);
}
