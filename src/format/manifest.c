/* Reading a manifest: every field by its table, then the shards. */
#include "format/manifest.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "format/json.h"
#include "format/manifest_fields.h"
#include "format/manifest_internal.h"
#include "tern/bytes.h"

typedef enum kind { TEXT, COUNT, NUMBER, FLAG, OBJECT, LIST, NOTHING } kind;

typedef struct field {
    const char *path;
    kind kind;
    bool nullable;
} field;

#define FIELD_ROW(path, kind, nullable) {path, kind, nullable},
static const field fields[] = {TERN_MANIFEST_FIELDS(FIELD_ROW)};
static const field expert_fields[] = {TERN_MANIFEST_EXPERT_FIELDS(FIELD_ROW)};
static const field yarn_fields[] = {TERN_MANIFEST_YARN_FIELDS(FIELD_ROW)};
static const field adapter_fields[] = {TERN_MANIFEST_ADAPTER_FIELDS(FIELD_ROW)};
#undef FIELD_ROW

enum {
    N_FIELDS = sizeof fields / sizeof *fields,
    N_EXPERT_FIELDS = sizeof expert_fields / sizeof *expert_fields,
    N_YARN_FIELDS = sizeof yarn_fields / sizeof *yarn_fields,
    N_ADAPTER_FIELDS = sizeof adapter_fields / sizeof *adapter_fields
};

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

static tern_status check_field(const json_t *root, const field *f, tern_error *err)
{
    bool off;
    const json_t *v = find(root, f->path, &off);
    const char *or_null = f->nullable && f->kind != NOTHING ? " or null" : "";
    if (off || (v && is_kind(v, f->kind))) return TERN_OK;
    if (!v) return tern_fail(err, TERN_MALFORMED, "%s: missing, %s%s expected", f->path, words[f->kind], or_null);
    if (f->nullable && json_is_null(v)) return TERN_OK;
    return tern_fail(err, f->kind == NOTHING ? TERN_UNSUPPORTED : TERN_MALFORMED, "%s: %s found, %s%s expected",
                     f->path, tern_json_kind(v), words[f->kind], or_null);
}

static bool means_more(const field *f)
{
    for (size_t i = 0; i < N_EXPERT_FIELDS; i++)
        if (strcmp(expert_fields[i].path, f->path) == 0) return true;
    return false;
}

static tern_status check_all(const json_t *root, int64_t version, tern_error *err)
{
    const bool experts = version == TERN_MANIFEST_EXPERTS_VERSION;
    for (size_t i = 0; i < N_FIELDS; i++)
        if (!experts || !means_more(&fields[i])) TERN_TRY(check_field(root, &fields[i], err));
    for (size_t i = 0; experts && i < N_EXPERT_FIELDS; i++) TERN_TRY(check_field(root, &expert_fields[i], err));
    bool off;
    const char *scaling = json_string_value(find(root, "inference.rope.scaling.type", &off));
    for (size_t i = 0; scaling && strcmp(scaling, "yarn") == 0 && i < N_YARN_FIELDS; i++)
        TERN_TRY(check_field(root, &yarn_fields[i], err));
    return TERN_OK;
}

static bool is_member(const char *full, const char *path, const char *key)
{
    const size_t n = strlen(path);
    return strncmp(full, path, n) == 0 && full[n] == '.' && strcmp(full + n + 1, key) == 0;
}

/* Members that only version 2 has stand below an object that version 1 does not have. */
static bool is_known(const char *path, const char *key)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        if (is_member(fields[i].path, path, key)) return true;
    for (size_t i = 0; i < N_EXPERT_FIELDS; i++)
        if (is_member(expert_fields[i].path, path, key)) return true;
    for (size_t i = 0; i < N_YARN_FIELDS; i++)
        if (is_member(yarn_fields[i].path, path, key)) return true;
    return false;
}

/* An unknown member must not be passed over: it would change what the model computes. */
static tern_status refuse_unknown(const json_t *root, const char *path, tern_error *err)
{
    bool off;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)find(root, path, &off), key, v) if (!is_known(path, key)) return tern_fail(
        err, TERN_UNSUPPORTED, "%s.%s: found, a field that is known expected", path, tern_show_z(key).text);
    return TERN_OK;
}

/* "adapter"; without the field it is a model's. */
static tern_status read_kind(const json_t *root, int64_t version, bool *adapter, tern_error *err)
{
    const json_t *v = json_object_get(root, "kind");
    const char *word = json_string_value(v);
    *adapter = v != NULL;
    if (!v) return TERN_OK;
    if (!word || strcmp(word, TERN_MANIFEST_ADAPTER) != 0)
        return tern_fail(err, TERN_UNSUPPORTED, "kind: %s found, \"" TERN_MANIFEST_ADAPTER "\" or none expected",
                         word ? tern_show_z(word).text : tern_json_kind(v));
    if (version == TERN_MANIFEST_VERSION) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "version: %lld found, %d expected of an adapter", (long long)version,
                     TERN_MANIFEST_VERSION);
}

static tern_status check_model(const json_t *root, int64_t version, tern_error *err)
{
    static const char *const strict[] = {"inference", "inference.rope", "inference.rope.scaling", "inference.sampling",
                                         "inference.experts"};
    TERN_TRY(check_all(root, version, err));
    for (size_t i = 0; i < sizeof strict / sizeof *strict; i++) TERN_TRY(refuse_unknown(root, strict[i], err));
    return TERN_OK;
}

static tern_status check_fields(const json_t *root, bool *adapter, tern_error *err)
{
    int64_t version = 0;
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!json_is_object(root))
        return tern_fail(err, TERN_MALFORMED, "%s found, an object expected", tern_json_kind(root));
    if (!format || strcmp(format, TERN_MANIFEST_FORMAT) != 0)
        return tern_fail(err, TERN_MALFORMED, "format: \"%s\" found, \"%s\" expected",
                         format ? tern_show_z(format).text : tern_json_kind(json_object_get(root, "format")),
                         TERN_MANIFEST_FORMAT);
    if (tern_json_int(json_object_get(root, "version"), &version) && version != TERN_MANIFEST_VERSION &&
        version != TERN_MANIFEST_EXPERTS_VERSION)
        return tern_fail(err, TERN_UNSUPPORTED, "version: %lld found, %d or %d expected", (long long)version,
                         TERN_MANIFEST_VERSION, TERN_MANIFEST_EXPERTS_VERSION);
    TERN_TRY(read_kind(root, version, adapter, err));
    if (!*adapter) return check_model(root, version, err);
    for (size_t i = 0; i < N_ADAPTER_FIELDS; i++) TERN_TRY(check_field(root, &adapter_fields[i], err));
    return TERN_OK;
}

static tern_status read_manifest(tern_manifest *m, tern_error *err)
{
    int64_t bytes = 0, shard_bytes = 0, version = 0;
    TERN_TRY(check_fields(m->root, &m->adapter, err));
    (void)tern_json_int(json_object_get(m->root, "version"), &version);
    m->version = (uint32_t)version;
    m->name = json_string_value(json_object_get(m->root, "name"));
    (void)tern_json_int(json_object_get(m->root, "bytes"), &bytes);
    (void)tern_json_int(json_object_get(m->root, "shard_bytes"), &shard_bytes);
    m->bytes = (uint64_t)bytes;
    m->shard_bytes = (uint64_t)shard_bytes;
    return tern_manifest__read_shards(m, err);
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

tern_status tern_manifest_need(const tern_manifest *manifest, bool adapter, tern_error *err)
{
    if (manifest->adapter == adapter) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "the package of %s found, that of %s expected",
                     adapter ? "a model" : "an adapter (LoRA)", adapter ? "an adapter (LoRA)" : "a model");
}

void tern_manifest_deinit(tern_manifest *manifest)
{
    tern_json_free(manifest->root);
    tern_free(manifest->shards);
    tern_free(manifest->ranges);
    *manifest = (tern_manifest){0};
}
