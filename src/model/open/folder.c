/* A folder that is not a Hugging Face model: one that holds a single GGUF file stands for it. */
#include <dirent.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/parts.h"
#include "base/show.h"
#include "model/model_internal.h"

/* Whether the folder has a file of this name. */
static tern_status look(const char *dir, const char *name, bool *found, tern_error *err)
{
    char *path = tern_path_join(dir, name);
    if (!path) return tern_fail_alloc(err, strlen(dir) + strlen(name) + 2);
    *found = tern_file_exists(path);
    tern_free(path);
    return TERN_OK;
}

/* The first part of a file in parts stands for all. */
static bool is_model(const char *name)
{
    uint32_t part;
    return tern_path_ends(name, ".gguf") && (!tern_parts_of_name(name, &part) || part == 1);
}

/* The only GGUF file, in *name; *n: how many there are. */
static tern_status list(const char *dir, char **name, size_t *n, tern_error *err)
{
    tern_status status = TERN_OK;
    DIR *names = opendir(dir);
    for (const struct dirent *e; status == TERN_OK && names && (e = readdir(names));) {
        if (!is_model(e->d_name) || (*n)++) continue;
        *name = tern_strdup(e->d_name);
        if (!*name) status = tern_fail_alloc(err, strlen(e->d_name) + 1);
    }
    if (names) closedir(names);
    return status;
}

tern_status tern_model__refuse_adapter(const char *dir, tern_error *err)
{
    bool config = false, adapter = false;
    TERN_TRY(look(dir, "config.json", &config, err));
    TERN_TRY(look(dir, "adapter_config.json", &adapter, err));
    if (config || !adapter) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %s", tern_show_z(dir).text, TERN_MODEL__IS_ADAPTER);
}

static tern_status find(const char *dir, char **path, char **name, tern_error *err)
{
    size_t n = 0;
    TERN_TRY(tern_model__refuse_adapter(dir, err));
    TERN_TRY(list(dir, name, &n, err));
    if (n == 0)
        return tern_fail(err, TERN_NOT_FOUND, "%s: neither config.json nor a GGUF file found in this folder",
                         tern_show_z(dir).text);
    if (n > 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %zu GGUF files found, %s among them; one of them expected",
                         tern_show_z(dir).text, n, tern_show_z(*name).text);
    *path = tern_path_join(dir, *name);
    return *path ? TERN_OK : tern_fail_alloc(err, strlen(dir) + strlen(*name) + 2);
}

tern_status tern_model__gguf_in(const char *dir, char **path, tern_error *err)
{
    bool config = false;
    char *name = NULL;
    *path = NULL;
    TERN_TRY(look(dir, "config.json", &config, err));
    if (config) return TERN_OK;
    const tern_status status = find(dir, path, &name, err);
    tern_free(name);
    return status;
}
