/* Reading a manifest: every field by its table, then the shards. */
#include "format/manifest.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "format/json.h"
#include "format/manifest_fields.h"

typedef enum kind { TEXT, COUNT, NUMBER, FLAG, OBJECT, LIST, NOTHING } kind;

static const struct {
    const char *path;
    kind kind;
    bool nullable;
} fields[] = {
#define FIELD_ROW(path, kind, nullable) {path, kind, nullable},
    TERN_MANIFEST_FIELDS(FIELD_ROW)
#undef FIELD_ROW
};

enum { N_FIELDS = sizeof fields / sizeof *fields };

static const char *const words[] = {
    [TEXT] = "a text",      [COUNT] = "a whole number", [NUMBER] = "a number", [FLAG] = "true or false",
    [OBJECT] = "an object", [LIST] = "a list",          [NOTHING] = "null",
};

static bool is_kind(const json_t *v, kind k)
{
    int64_t n;
    switch (k) {
    case TEXT: return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v);
    case COUNT: return tern_json_int(v, &n) && n >= 0;
    case NUMBER: return json_is_number(v) && isfinite((float)json_number_value(v));
    case FLAG: return json_is_boolean(v);
    case OBJECT: return json_is_object(v);
    case LIST: return json_is_array(v);
    case NOTHING: break;
    }
    return false;
}

/* The member at a path; NULL when it is missing. *off: an object on the way is null, so that nothing is expected. */
static const json_t *find(const json_t *root, const char *path, bool *off)
{
    char key[64];
    const json_t *at = root;
    *off = false;
    while (at) {
        size_t n = strcspn(path, ".");
        memcpy(key, path, n);
        key[n] = 0;
        at = json_object_get(at, key);
        if (!path[n]) break;
        path += n + 1;
        if (json_is_null(at)) {
            *off = true;
            return NULL;
        }
    }
    return at;
}

static tern_status check_field(const json_t *root, size_t i, tern_error *err)
{
    bool off;
    const json_t *v = find(root, fields[i].path, &off);
    const char *or_null = fields[i].nullable && fields[i].kind != NOTHING ? " or null" : "";
    if (off || (v && is_kind(v, fields[i].kind))) return TERN_OK;
    if (!v)
        return tern_fail(err, TERN_MALFORMED, "%s: missing, %s%s expected", fields[i].path, words[fields[i].kind],
                         or_null);
    if (fields[i].nullable && json_is_null(v)) return TERN_OK;
    return tern_fail(err, fields[i].kind == NOTHING ? TERN_UNSUPPORTED : TERN_MALFORMED, "%s: %s found, %s%s expected",
                     fields[i].path, tern_json_kind(v), words[fields[i].kind], or_null);
}

static bool is_known(const char *path, const char *key)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < N_FIELDS; i++) {
        const char *p = fields[i].path;
        if (strncmp(p, path, n) == 0 && p[n] == '.' && strcmp(p + n + 1, key) == 0) return true;
    }
    return false;
}

/* What is not known must not be passed over: it would change what the model computes. */
static tern_status refuse_unknown(const json_t *root, const char *path, tern_error *err)
{
    bool off;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)find(root, path, &off), key, v) if (!is_known(path, key)) return tern_fail(
        err, TERN_UNSUPPORTED, "%s.%s: found, a field that is known expected", path, tern_show_z(key).text);
    return TERN_OK;
}

static tern_status check_fields(const json_t *root, tern_error *err)
{
    int64_t version = 0;
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!json_is_object(root))
        return tern_fail(err, TERN_MALFORMED, "%s found, an object expected", tern_json_kind(root));
    if (!format || strcmp(format, TERN_MANIFEST_FORMAT) != 0)
        return tern_fail(err, TERN_MALFORMED, "format: \"%s\" found, \"%s\" expected",
                         format ? tern_show_z(format).text : tern_json_kind(json_object_get(root, "format")),
                         TERN_MANIFEST_FORMAT);
    if (tern_json_int(json_object_get(root, "version"), &version) && version != TERN_MANIFEST_VERSION)
        return tern_fail(err, TERN_UNSUPPORTED, "version: %lld found, %d expected", (long long)version,
                         TERN_MANIFEST_VERSION);
    for (size_t i = 0; i < N_FIELDS; i++) TERN_TRY(check_field(root, i, err));
    static const char *const strict[] = {"inference", "inference.rope", "inference.rope.scaling", "inference.sampling"};
    for (size_t i = 0; i < sizeof strict / sizeof *strict; i++) TERN_TRY(refuse_unknown(root, strict[i], err));
    return TERN_OK;
}

/* Names stay in the package's folder, on every system: letters, digits, '_', '-', and '.' but not first. */
static bool is_name(const char *s)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    size_t n = strlen(s);
    return n > 0 && n <= 200 && s[0] != '.' && strspn(s, letters) == n;
}

static tern_status read_shard(const json_t *v, size_t i, tern_manifest_shard *out, tern_error *err)
{
    int64_t bytes = 0;
    const json_t *file = json_object_get(v, "file"), *sum = json_object_get(v, "sha256"),
                 *size = json_object_get(v, "bytes");
    if (!is_kind(file, TEXT) || !is_name(json_string_value(file)))
        return tern_fail(err, TERN_MALFORMED,
                         "shards[%zu].file: %s found, the name of a file beside the manifest expected", i,
                         is_kind(file, TEXT) ? tern_show_z(json_string_value(file)).text : tern_json_kind(file));
    if (!tern_json_int(size, &bytes) || bytes < 1 || bytes > TERN_MANIFEST_SHARD_BYTES)
        return tern_fail(err, TERN_MALFORMED, "shards[%zu].bytes: %lld found, 1 to %d expected", i, (long long)bytes,
                         TERN_MANIFEST_SHARD_BYTES);
    if (!is_kind(sum, TEXT) || json_string_length(sum) != 64 ||
        strspn(json_string_value(sum), "0123456789abcdef") != 64)
        return tern_fail(err, TERN_MALFORMED, "shards[%zu].sha256: %s found, 64 hexadecimal digits expected", i,
                         is_kind(sum, TEXT) ? tern_show_z(json_string_value(sum)).text : tern_json_kind(sum));
    out->file = json_string_value(file);
    out->bytes = (size_t)bytes;
    out->sha256 = json_string_value(sum);
    return TERN_OK;
}

static tern_status read_shards(tern_manifest *m, tern_error *err)
{
    const json_t *list = json_object_get(m->root, "shards");
    const size_t n = json_array_size(list);
    if (n < 1 || n > TERN_MANIFEST_MAX_SHARDS)
        return tern_fail(err, TERN_MALFORMED, "shards: %zu found, 1 to %d expected", n, TERN_MANIFEST_MAX_SHARDS);
    m->shards = tern_calloc(n, sizeof *m->shards);
    if (!m->shards) return tern_fail_alloc(err, n * sizeof *m->shards);
    m->n_shards = n;
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        tern_manifest_shard *s = &m->shards[i];
        TERN_TRY(read_shard(json_array_get(list, i), i, s, err));
        s->offset = at;
        at += s->bytes;
        if (i + 1 < n ? s->bytes != m->shard_bytes : s->bytes > m->shard_bytes)
            return tern_fail(err, TERN_MALFORMED, "shards[%zu].bytes: %zu found, %llu (shard_bytes) expected", i,
                             s->bytes, (unsigned long long)m->shard_bytes);
    }
    if (at == m->bytes) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "bytes: %llu found, the %llu of all shards expected",
                     (unsigned long long)m->bytes, (unsigned long long)at);
}

static tern_status read_manifest(tern_manifest *m, tern_error *err)
{
    int64_t bytes = 0, shard_bytes = 0;
    TERN_TRY(check_fields(m->root, err));
    m->name = json_string_value(json_object_get(m->root, "name"));
    (void)tern_json_int(json_object_get(m->root, "bytes"), &bytes);
    (void)tern_json_int(json_object_get(m->root, "shard_bytes"), &shard_bytes);
    m->bytes = (uint64_t)bytes;
    m->shard_bytes = (uint64_t)shard_bytes;
    return read_shards(m, err);
}

tern_status tern_manifest_parse(tern_manifest *manifest, const void *json, size_t n, tern_error *err)
{
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    *manifest = (tern_manifest){0};
    if (n > TERN_MANIFEST_MAX_BYTES)
        return tern_fail(e, TERN_LIMIT, "manifest: %zu bytes, at most %d expected", n, TERN_MANIFEST_MAX_BYTES);
    TERN_TRY(tern_json_parse(&manifest->root, json, n, "manifest", e));
    if (read_manifest(manifest, e) == TERN_OK) return TERN_OK;
    tern_manifest_deinit(manifest);
    return tern_error_prefix(e, "manifest");
}

tern_status tern_manifest_read(tern_manifest *manifest, const char *path, tern_error *err)
{
    tern_buf text = {0};
    *manifest = (tern_manifest){0};
    TERN_TRY(tern_file_read(&text, path, TERN_MANIFEST_MAX_BYTES, err));
    tern_status status = tern_manifest_parse(manifest, text.data ? text.data : "", text.size, err);
    tern_buf_deinit(&text);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "%s", tern_show_z(path).text);
}

void tern_manifest_deinit(tern_manifest *manifest)
{
    tern_json_free(manifest->root);
    tern_free(manifest->shards);
    *manifest = (tern_manifest){0};
}
