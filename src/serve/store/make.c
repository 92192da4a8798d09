/* Models that clients fetch, make of others, and copy. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "format/json.h"
#include "serve/server.h"
#include "serve/store/store.h"

static const char *text_in(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* "model", or the older "name". */
static const char *model_in(const json_t *body)
{
    const char *model = text_in(body, "model");
    return model && *model ? model : text_in(body, "name");
}

/* Has a model of the hub fetched: what its manifest is made from. */
static tern_status fetch(tern_job *j, const char *name, json_t **manifest, tern_error *err)
{
    const tern_serve_store *store = &j->exchange->server->options.store;
    tern_serve_pulled *pulled = tern_calloc(1, sizeof *pulled);
    *manifest = NULL;
    if (!pulled) return tern_fail_alloc(err, sizeof *pulled);
    tern_job_say(j, "pulling manifest");
    const tern_status status = store->pull(store->context, name, store->max_bytes, tern_job_progress, j, pulled, err);
    if (status == TERN_OK)
        *manifest = json_pack("{s:{s:s, s:b}}", "from", "hub", pulled->name, "fetched", (int)pulled->fetched);
    tern_free(pulled);
    return status == TERN_OK && !*manifest ? tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory") : status;
}

static tern_status save(tern_job *j, json_t *manifest, const char *name, tern_error *err)
{
    json_object_set_new(manifest, "name", json_string(name));
    tern_job_say(j, "writing manifest");
    return tern_store_save(j->exchange->server, manifest, err);
}

/* A model that was fetched for a client stays one when it is pulled again. */
static void keep_fetched(tern_serve *s, const char *name, json_t *manifest)
{
    json_t *before = tern_store_derive(s, name), *from = json_object_get(manifest, "from");
    const json_t *old = json_object_get(before, "from");
    const char *hub = text_in(old, "hub");
    if (hub && strcmp(hub, text_in(from, "hub")) == 0 && json_is_true(json_object_get(old, "fetched")))
        json_object_set_new(from, "fetched", json_true());
    json_decref(before);
}

tern_status tern_store_pull(tern_job *j, tern_error *err)
{
    char name[256];
    json_t *manifest;
    TERN_TRY(tern_store_name(model_in(j->exchange->document), name, err));
    TERN_TRY(fetch(j, name, &manifest, err));
    keep_fetched(j->exchange->server, name, manifest);
    return save(j, manifest, name, err);
}

/* The only file of an object of names and digests. */
static tern_status only_file(tern_job *j, const json_t *files, const char *what, const char **digest, tern_error *err)
{
    const char *name;
    const json_t *value;
    char path[4096], magic[4] = "";
    *digest = NULL;
    if (json_object_size(files) != 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%s: %zu files found, one GGUF file expected (`tern convert` makes one of a folder)", what,
                         json_object_size(files));
    json_object_foreach((json_t *)(uintptr_t)files, name, value) *digest = json_string_value(value);
    TERN_TRY(tern_store_blob_path(j->exchange->server, *digest, path, err));
    FILE *file = fopen(path, "rbe");
    if (!file) return tern_fail(err, TERN_NOT_FOUND, "%s: the blob %s does not exist", what, *digest);
    const bool read = fread(magic, 1, sizeof magic, file) == sizeof magic && memcmp(magic, "GGUF", sizeof magic) == 0;
    fclose(file);
    if (read) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %s is not a GGUF file, which `tern convert` makes of a folder",
                     what, *digest);
}

/* The source of a model: an uploaded file, a model that is listed, or one of the hub. */
static tern_status begin(tern_job *j, const json_t *body, json_t **manifest, tern_error *err)
{
    const char *from = text_in(body, "from"), *digest;
    const json_t *files = json_object_get(body, "files");
    *manifest = NULL;
    if (!from && json_object_size(files) == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "from and files: neither found, one of them expected");
    if (json_object_size(files)) {
        tern_job_say(j, "parsing GGUF");
        TERN_TRY(only_file(j, files, "files", &digest, err));
        *manifest = json_pack("{s:{s:s}}", "from", "blob", digest);
        return *manifest ? TERN_OK : tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    }
    *manifest = tern_store_derive(j->exchange->server, from);
    if (!*manifest) TERN_TRY(fetch(j, from, manifest, err));
    json_object_set_new(*manifest, "parent", json_string(from));
    return TERN_OK;
}

/* A name of a built-in template, or Jinja. */
static tern_status set_template(json_t *manifest, const char *text, tern_error *err)
{
    const char *builtin = text ? tern_chat_template_builtin(text) : NULL;
    if (!text || !*text) return TERN_OK;
    if (json_object_set_new(manifest, "template", json_string(builtin ? builtin : text)) == 0) return TERN_OK;
    return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
}

/* Options over those of the parent; num_ctx is of the whole model. */
static tern_status set_parameters(json_t *manifest, const json_t *given, tern_error *err)
{
    tern_api_request request;
    if (!given || json_is_null(given)) return TERN_OK;
    if (!json_is_object(given)) return tern_fields_fail("parameters", given, "an object", err);
    tern_api_request_init(&request);
    const tern_status status = tern_api_request_apply(&request, given, err);
    tern_api_request_deinit(&request);
    if (status != TERN_OK) return tern_error_prefix(err, "parameters");
    json_t *all = json_object_get(manifest, "parameters"), *n_ctx = json_object_get(given, "num_ctx");
    if (!all) json_object_set_new(manifest, "parameters", all = json_object());
    json_object_update(all, (json_t *)(uintptr_t)given);
    if (n_ctx) json_object_set(manifest, "n_ctx", n_ctx);
    json_object_del(all, "num_ctx");
    return TERN_OK;
}

static tern_status check_messages(const json_t *messages, tern_error *err)
{
    tern_api_request request;
    if (json_array_size(messages) == 0) return TERN_OK;
    tern_api_request_init(&request);
    const tern_status status = tern_api_request_read_messages(&request, messages, err);
    tern_api_request_deinit(&request);
    return status;
}

static tern_status refuse_others(const json_t *body, tern_error *err)
{
    static const char convert[] = "none (`tern convert --type` converts models)",
                      draft[] = "none (`tern serve --draft-model` drafts with a small model)",
                      template[] = "none (`template` says how calls and thoughts are written)";
    static const char *const refused[][2] = {
        {"quantize", convert},
        {"quantization", convert},
        {"draft_files", draft},
        {"draft_quantize", convert},
        {"renderer", template},
        {"parser", template},
        {"remote_host", "none (`from` names a model of this server or of the hub)"},
        {"modelfile", "none (its commands as members: from, system, template, parameters, messages)"},
        {"path", "none (`from` names a model, `files` an uploaded file)"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *value = json_object_get(body, refused[i][0]);
        if (!value || json_is_null(value) || (json_is_string(value) && !json_string_length(value))) continue;
        if (json_is_object(value) && !json_object_size(value)) continue;
        return tern_fields_fail(refused[i][0], value, refused[i][1], err);
    }
    return TERN_OK;
}

static tern_status fill(tern_job *j, json_t *manifest, const json_t *body, tern_error *err)
{
    const json_t *adapters = json_object_get(body, "adapters"), *messages = json_object_get(body, "messages");
    const char *system = text_in(body, "system"), *digest;
    json_t *license = json_object_get(body, "license");
    TERN_TRY(set_template(manifest, text_in(body, "template"), err));
    TERN_TRY(set_parameters(manifest, json_object_get(body, "parameters"), err));
    TERN_TRY(check_messages(messages, err));
    if (system && *system) json_object_set_new(manifest, "system", json_string(system));
    if (json_array_size(messages)) json_object_set(manifest, "messages", (json_t *)(uintptr_t)messages);
    if (license && !json_is_null(license)) json_object_set(manifest, "license", license);
    if (json_object_size(adapters) == 0) return TERN_OK;
    TERN_TRY(only_file(j, adapters, "adapters", &digest, err));
    json_object_set_new(manifest, "adapters", json_pack("[s]", digest));
    return TERN_OK;
}

tern_status tern_store_create(tern_job *j, tern_error *err)
{
    const json_t *body = j->exchange->document;
    char name[256];
    json_t *manifest = NULL;
    tern_status status;
    TERN_TRY(tern_store_name(model_in(body), name, err));
    TERN_TRY(refuse_others(body, err));
    tern_job_say(j, "reading model metadata");
    TERN_GOTO(begin(j, body, &manifest, err));
    TERN_GOTO(fill(j, manifest, body, err));
    return save(j, manifest, name, err);
fail:
    json_decref(manifest);
    return status;
}

tern_status tern_store_copy(tern_serve *s, const char *source, const char *destination, tern_error *err)
{
    char name[256];
    if (!source || !*source) return tern_fail(err, TERN_INVALID_ARGUMENT, "source: none found, a model expected");
    TERN_TRY(tern_store_name(destination, name, err));
    json_t *manifest = tern_store_derive(s, source);
    if (!manifest) return tern_fail(err, TERN_NOT_FOUND, "model '%s' not found", tern_show_z(source).text);
    json_object_set_new(manifest, "name", json_string(name));
    return tern_store_save(s, manifest, err);
}
