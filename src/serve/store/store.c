/* Manifests: reading, writing, copying and removing them. */
#include "serve/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "format/json.h"
#include "serve/server.h"

enum { MAX_MANIFEST_BYTES = 16 << 20, MAX_ADAPTERS = 16 };

static bool is_part(const char *text, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return n > 0 && n <= 80 && text[0] != '.' && text[0] != '-' && strspn(text, letters) >= n;
}

tern_status tern_store_name(const char *name, char out[256], tern_error *err)
{
    size_t n = name ? strlen(name) : 0;
    bool good = n > 0 && n < 256;
    if (n > 7 && strcmp(name + n - 7, ":latest") == 0) n -= 7;
    for (size_t at = 0; good; at++) {
        const size_t part = strcspn(name + at, "/:") < n - at ? strcspn(name + at, "/:") : n - at;
        good = is_part(name + at, part);
        at += part;
        if (at >= n) break;
        if (name[at] == ':') good = good && is_part(name + at + 1, n - at - 1) && !strpbrk(name + at + 1, "/");
        if (name[at] == ':') break;
    }
    if (good) snprintf(out, 256, "%.*s", (int)n, name);
    return good ? TERN_OK
                : tern_fail(err, TERN_INVALID_ARGUMENT, "\"%s\" found, a name as NAME or ORG/NAME:TAG expected",
                            tern_show_z(name ? name : "").text);
}

static tern_status manifest_path(const tern_serve *s, const char *name, char path[4096], tern_error *err)
{
    char file[800];
    size_t k = 0;
    for (const char *c = name; *c && k + 4 < sizeof file; c++)
        k += (size_t)snprintf(file + k, sizeof file - k, *c == '/' || *c == ':' ? "%%%02X" : "%c", (unsigned)*c);
    if (snprintf(path, 4096, "%s/manifests/%s.json", s->options.store.folder, file) < 4096) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "%s: a path too long", tern_show_z(s->options.store.folder).text);
}

static const char *text_in(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static const tern_serve_model *find_given(const tern_serve *s, const char *name)
{
    for (uint32_t i = 0; i < s->options.n_models; i++)
        if (tern_host_is_name(s->options.models[i].name, name)) return &s->options.models[i];
    return NULL;
}

/* The file or folder that a manifest names. */
static tern_status find_from(tern_serve *s, const json_t *manifest, char path[4096], tern_error *err)
{
    const json_t *from = json_object_get(manifest, "from");
    const char *hub = text_in(from, "hub"), *blob = text_in(from, "blob"), *given = text_in(from, "given");
    const tern_serve_model *model = given ? find_given(s, given) : NULL;
    if (hub) return s->options.store.find(s->options.store.context, hub, path, err);
    if (blob) {
        TERN_TRY(tern_store_blob_path(s, blob, path, err));
        if (tern_file_exists(path)) return TERN_OK;
        return tern_fail(err, TERN_NOT_FOUND, "the blob %s does not exist", blob);
    }
    if (model && snprintf(path, 4096, "%s", model->path) < 4096) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND, "from: the model %s is not served here",
                     tern_show_z(given ? given : "").text);
}

static tern_status check_template(const char *source, tern_error *err)
{
    tern_chat_template *template = NULL;
    tern_error why = {0};
    if (!source) return TERN_OK;
    const tern_status status = tern_chat_template_parse(&template, source, strlen(source), &why);
    tern_chat_template_close(template);
    if (status == TERN_OK) return status;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "template: %s; Jinja or one of " TERN_CHAT_TEMPLATES " expected, Go's templates are not read",
                     why.message);
}

/* Lists the model of a manifest, which it takes. */
static tern_status list(tern_serve *s, json_t *manifest, tern_error *err)
{
    char path[4096], adapters[MAX_ADAPTERS][4096];
    tern_serve_adapter all[MAX_ADAPTERS];
    const json_t *digests = json_object_get(manifest, "adapters");
    int64_t n_ctx = 0;
    tern_status status;
    TERN_GOTO(check_template(text_in(manifest, "template"), err));
    TERN_GOTO(find_from(s, manifest, path, err));
    if (json_array_size(digests) > MAX_ADAPTERS)
        TERN_GOTO(tern_fail(err, TERN_LIMIT, "adapters: %zu found, at most %d expected", json_array_size(digests),
                            MAX_ADAPTERS));
    for (size_t i = 0; i < json_array_size(digests); i++) {
        TERN_GOTO(tern_store_blob_path(s, json_string_value(json_array_get(digests, i)), adapters[i], err));
        if (!tern_file_exists(adapters[i]))
            TERN_GOTO(tern_fail(err, TERN_NOT_FOUND, "the adapter %s does not exist",
                                json_string_value(json_array_get(digests, i))));
        all[i] = (tern_serve_adapter){adapters[i], 1};
    }
    if (tern_json_has(manifest, "n_ctx")) (void)tern_json_int(json_object_get(manifest, "n_ctx"), &n_ctx);
    const tern_serve_model model = {.name = text_in(manifest, "name"),
                                    .path = path,
                                    .adapters = all,
                                    .n_adapters = (uint32_t)json_array_size(digests),
                                    .template_source = text_in(manifest, "template"),
                                    .system = text_in(manifest, "system"),
                                    .n_ctx = n_ctx > 0 && n_ctx <= 1 << 24 ? (uint32_t)n_ctx : 0};
    return tern_hosts_add(s, &model, manifest, err);
fail:
    json_decref(manifest);
    return status;
}

static tern_status write_manifest(const tern_serve *s, const json_t *manifest, tern_error *err)
{
    char path[4096];
    TERN_TRY(manifest_path(s, text_in(manifest, "name"), path, err));
    char *text = json_dumps(manifest, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!text) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    const tern_status status = tern_file_write(path, text, strlen(text), err);
    tern_free(text);
    return status;
}

tern_status tern_store_save(tern_serve *s, json_t *manifest, tern_error *err)
{
    pthread_mutex_lock(&s->store_lock);
    json_t *kept = json_incref(manifest), *before = tern_store_derive(s, text_in(manifest, "name"));
    const bool same = before && json_equal(before, manifest); /* it stays open */
    json_decref(before);
    if (same) json_decref(manifest);
    tern_status status = same ? TERN_OK : list(s, manifest, err);
    if (status == TERN_OK && !same) {
        status = write_manifest(s, kept, err);
        if (status != TERN_OK) (void)tern_hosts_remove(s, text_in(kept, "name"), NULL);
    }
    json_decref(kept);
    pthread_mutex_unlock(&s->store_lock);
    return status;
}

json_t *tern_store_derive(tern_serve *s, const char *name)
{
    tern_host *h = tern_hosts_find(s, name);
    if (!h) return NULL;
    json_t *made = h->manifest ? json_deep_copy(h->manifest) : json_pack("{s:{s:s}}", "from", "given", h->name);
    tern_hosts_drop(h);
    return made;
}

/* Whether a model that is listed is made of this, a blob or a name of the hub, by whatever member. */
typedef struct use {
    const char *what;
    bool found;
} use;

static void look_for_use(void *context, tern_host *h)
{
    use *u = context;
    const json_t *from = json_object_get(h->manifest, "from"), *adapters = json_object_get(h->manifest, "adapters");
    const char *hub = text_in(from, "hub"), *blob = text_in(from, "blob");
    u->found |= (hub && strcmp(hub, u->what) == 0) || (blob && strcmp(blob, u->what) == 0);
    for (size_t i = 0; i < json_array_size(adapters); i++)
        u->found |= strcmp(json_string_value(json_array_get(adapters, i)), u->what) == 0;
}

static bool is_used(tern_serve *s, const char *what)
{
    use u = {.what = what};
    tern_hosts_each(s, look_for_use, &u);
    return u.found;
}

static tern_status remove_blob(tern_serve *s, const char *digest, tern_error *err)
{
    char path[4096];
    if (!digest || is_used(s, digest)) return TERN_OK;
    TERN_TRY(tern_store_blob_path(s, digest, path, err));
    if (unlink(path) == 0 || errno == ENOENT) return TERN_OK;
    return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(path).text, strerror(errno));
}

/* The files of a model that is not listed any more. */
static tern_status remove_files(tern_serve *s, const json_t *manifest, tern_error *err)
{
    const json_t *from = json_object_get(manifest, "from"), *adapters = json_object_get(manifest, "adapters");
    const char *hub = text_in(from, "hub");
    TERN_TRY(remove_blob(s, text_in(from, "blob"), err));
    for (size_t i = 0; i < json_array_size(adapters); i++)
        TERN_TRY(remove_blob(s, json_string_value(json_array_get(adapters, i)), err));
    if (!hub || !json_is_true(json_object_get(from, "fetched")) || is_used(s, hub)) return TERN_OK;
    return s->options.store.remove(s->options.store.context, hub, err);
}

/* With the store's lock. */
static tern_status remove_model(tern_serve *s, const char *name, json_t *manifest, tern_error *err)
{
    char path[4096];
    TERN_TRY(tern_hosts_remove(s, name, err));
    TERN_TRY(manifest_path(s, text_in(manifest, "name"), path, err));
    if (unlink(path) != 0 && errno != ENOENT)
        return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(path).text, strerror(errno));
    return remove_files(s, manifest, err);
}

tern_status tern_store_remove(tern_serve *s, const char *name, tern_error *err)
{
    pthread_mutex_lock(&s->store_lock);
    json_t *manifest = tern_store_derive(s, name);
    const tern_status status = remove_model(s, name, manifest, err);
    json_decref(manifest);
    pthread_mutex_unlock(&s->store_lock);
    return status;
}

/* A manifest of the folder, whose name fits its file. */
static tern_status take(tern_serve *s, const char *path, tern_error *err)
{
    char name[256], expected[4096];
    json_t *manifest = NULL;
    tern_status status;
    TERN_TRY(tern_json_read(&manifest, path, MAX_MANIFEST_BYTES, err));
    TERN_GOTO(tern_store_name(text_in(manifest, "name"), name, err));
    TERN_GOTO(manifest_path(s, name, expected, err));
    if (strcmp(path, expected) != 0)
        TERN_GOTO(tern_fail(err, TERN_MALFORMED, "the name %s found, that of the file expected", name));
    return list(s, manifest, err);
fail:
    json_decref(manifest);
    return status;
}

tern_status tern_store_open(tern_serve *s, tern_error *err)
{
    char path[4096];
    struct dirent **names = NULL;
    tern_error why = {0};
    TERN_TRY(
        tern_store_blob_path(s, "sha256:0000000000000000000000000000000000000000000000000000000000000000", path, err));
    tern_folders_make(path);
    TERN_TRY(manifest_path(s, "x", path, err));
    tern_folders_make(path);
    *strrchr(path, '/') = 0;
    const size_t folder = strlen(path);
    const int n = scandir(path, &names, NULL, alphasort);
    if (n < 0) return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(path).text, strerror(errno));
    for (int i = 0; i < n; i++) {
        snprintf(path + folder, sizeof path - folder, "/%s", names[i]->d_name);
        if (tern_path_ends(path, ".json") && take(s, path, &why) != TERN_OK)
            fprintf(stderr, "tern: %s is left out: %s\n", tern_show_z(path).text, why.message);
        free(names[i]);
    }
    free(names);
    return TERN_OK;
}
