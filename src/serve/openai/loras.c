/* Adapters that come and go while the server runs, as vLLM's server has it. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/show.h"
#include "serve/openai/openai.h"
#include "serve/server.h"

enum { MAX_NAME_BYTES = 63, MAX_DEPTH = 4 };

#define AT(member) offsetof(tern_api_request, member)

static const tern_field load[] = {
    {"lora_name", TERN_FIELD_TEXT, AT(lora_name)},
    {"lora_path", TERN_FIELD_TEXT, AT(lora_path)},
    {"load_inplace", TERN_FIELD_BOOL, AT(lora_replaces)},
    {"base_model_name", TERN_FIELD_TEXT, AT(model)},
    {0},
};

static const tern_field unload[] = {
    {"lora_name", TERN_FIELD_TEXT, AT(lora_name)},
    {"lora_int_id", TERN_FIELD_IGNORED},
    {0},
};

static tern_status check_name(const char *name, tern_error *err)
{
    bool good = name && *name && strlen(name) <= MAX_NAME_BYTES;
    for (const char *c = name; good && *c; c++) good = (unsigned char)*c >= ' ' && *c != '"' && *c != '\\' && *c != 127;
    if (good) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "lora_name: a name of 1 to %d bytes without quotes expected",
                     MAX_NAME_BYTES);
}

tern_status tern_openai__read_load(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(tern_fields_read((const tern_field *const[]){load, NULL}, body, request, err));
    TERN_TRY(check_name(request->lora_name, err));
    if (request->lora_path && *request->lora_path) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "lora_path: none found, a path below the server's --lora-dir expected");
}

tern_status tern_openai__read_unload(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(tern_fields_read((const tern_field *const[]){unload, NULL}, body, request, err));
    return check_name(request->lora_name, err);
}

static tern_status check_allowed(const tern_host *host, tern_error *err)
{
    if (!host->server->options.lora_folder)
        return tern_fail(err, TERN_UNSUPPORTED, "this server cannot load adapters: start it with --lora-dir DIR");
    if (host->at == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "the model %s: adapters are those of the first model, %s", host->name,
                     tern_hosts_first(host->server)->name);
}

/* Whether a path, links followed, lies below a folder, which may be "/". */
static bool is_below(const char *path, const char *folder)
{
    const size_t n = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/' && path[n + 1];
}

/* Whether no link in the folder, at any depth, leads out of `root`. */
static bool stays_below(const char *folder, const char *root, unsigned depth)
{
    DIR *entries = opendir(folder);
    bool stays = entries != NULL && depth > 0;
    for (const struct dirent *e; stays && (e = readdir(entries));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        char *path = tern_path_join(folder, e->d_name), *real = path ? realpath(path, NULL) : NULL;
        stays = real && is_below(real, root) && lstat(path, &st) == 0 &&
                (!S_ISDIR(st.st_mode) || stays_below(path, root, depth - 1));
        free(real);
        tern_free(path);
    }
    if (entries) closedir(entries);
    return stays;
}

/* The path that a client names, in full, in *out. A path outside the folder is reported as not found. */
static tern_status find_file(const char *folder, const char *name, tern_buf *out, tern_error *err)
{
    tern_buf joined = {0};
    TERN_TRY(tern_buf_addf(&joined, err, "%s%s%s", *name == '/' ? "" : folder, *name == '/' ? "" : "/", name));
    char *root = realpath(folder, NULL), *path = realpath(joined.data, NULL);
    tern_status status = TERN_NOT_FOUND;
    if (root && path && is_below(path, root) && (!tern_file_is_dir(path) || stays_below(path, root, MAX_DEPTH)))
        status = tern_buf_addf(out, err, "%s", path);
    else tern_fail(err, status, "lora_path: %s: no such file below --lora-dir", tern_show_z(name).text);
    free(root);
    free(path);
    tern_buf_deinit(&joined);
    return status;
}

/* The name must mean nothing else. */
static tern_status check_free(const tern_host *host, const char *name, tern_error *err)
{
    tern_host *found = tern_hosts_find(host->server, name);
    if (!found) return TERN_OK;
    tern_hosts_drop(found);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "lora_name: %s is a model", tern_show_z(name).text);
}

static tern_status say(tern_answer *a, const char *what)
{
    char text[160];
    const int n =
        snprintf(text, sizeof text, "Success: LoRA adapter '%s' %s successfully.", a->request.lora_name, what);
    tern_exchange_send_text(a->exchange, 200, "text/plain", text, (size_t)n);
    return TERN_OK;
}

/* Finds the file, and takes the adapter that it will be. */
static tern_status bring(tern_answer *a, const tern_host *host, tern_error *err)
{
    tern_served_lora *lora;
    tern_buf path = {0};
    tern_status status;
    TERN_TRY(check_allowed(host, err));
    TERN_TRY(check_free(host, a->request.lora_name, err));
    TERN_GOTO(find_file(host->server->options.lora_folder, a->request.lora_path, &path, err));
    TERN_GOTO(
        tern_loras_add(&host->server->loras, a->request.lora_name, path.data, a->request.lora_replaces, &lora, err));
    tern_answer_take_lora(a, lora);
fail:
    tern_buf_deinit(&path);
    return status;
}

tern_status tern_openai__load(tern_answer *a, tern_host *host, tern_error *err)
{
    if (!a->loading) TERN_TRY(bring(a, host, err));
    if (!tern_answer_has_loras(a)) return TERN_OK;
    TERN_TRY(tern_loras_publish(&host->server->loras, a->loading, a->request.lora_replaces, err));
    return say(a, "added");
}

tern_status tern_openai__unload(tern_answer *a, tern_host *host, tern_error *err)
{
    TERN_TRY(check_allowed(host, err));
    TERN_TRY(tern_loras_remove(&host->server->loras, a->request.lora_name, err));
    return say(a, "removed");
}
