/* Opening an adapter: which kind of file it is, and what the names of its tensors mean. */
#include <string.h>

#include "base/alloc.h"
#include "base/form.h"
#include "base/show.h"
#include "model/adapter/internal.h"
#include "model/package/package.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };
static const char config_name[] = "adapter_config.json", weights_name[] = "adapter_model.safetensors";

bool tern_adapter__cut(tern_span *s, const char *end)
{
    size_t n = strlen(end);
    if (s->size < n || memcmp(s->data + s->size - n, end, n) != 0) return false;
    s->size -= n;
    return true;
}

/* The number after the mark; false when there is none. A number that is too large becomes UINT32_MAX. */
static bool layer_of(tern_span s, const char *mark, uint32_t *layer)
{
    size_t at = strlen(mark), first = at;
    if (s.size < at || memcmp(s.data, mark, at) != 0) return false;
    uint64_t n = 0;
    for (; at < s.size && s.data[at] >= '0' && s.data[at] <= '9'; at++)
        if (n < UINT32_MAX) n = n * 10 + (uint64_t)(s.data[at] - '0');
    *layer = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    return at > first;
}

static bool is_module(tern_span s, tern_role role, uint32_t layer, bool hf)
{
    char name[TERN_MODEL__NAME_BYTES];
    const bool experts = tern_role__kind(role) == TERN_KIND_E && !hf; /* in GGUF files all are one tensor */
    if (hf) tern_role__hf_name(NULL, role, layer, 0, name);
    else tern_role__gguf_name(NULL, role, layer, name);
    size_t n = strlen(name) - strlen(".weight");
    return (tern_role__kind(role) == TERN_KIND_L || experts) && s.size == n && memcmp(s.data, name, n) == 0;
}

/* The matrix that has q, k, v and z together, in folders of Qwen3-Next. */
static bool is_mixed(const tern_config *config, tern_span s, uint32_t layer)
{
    char name[TERN_MODEL__NAME_BYTES];
    if (!config->recurrence.joint_rates) return false;
    tern_role__hf_name(config, TERN_ROLE_SSM_QKV, layer, 0, name);
    const size_t n = strlen(name) - strlen(".weight");
    return s.size == n && memcmp(s.data, name, n) == 0;
}

tern_status tern_adapter__parse_module(const tern_config *config, tern_span module, const char *mark, bool hf,
                                       tern_span shown, tern_adapter_half *half, tern_error *err)
{
    half->name = shown;
    half->module = module;
    half->expert = 0;
    half->n_experts = 1;
    bool found = layer_of(module, mark, &half->layer);
    if (found && half->layer >= TERN_MAX_LAYERS)
        return tern_fail(err, TERN_LIMIT, "%s: the layer's number is too large, a layer below %d expected",
                         tern_show(shown).text, TERN_MAX_LAYERS);
    for (int role = 0; found && role < TERN_ROLE_COUNT; role++) {
        if (!is_module(module, (tern_role)role, half->layer, hf)) continue;
        half->role = (tern_role)role;
        return TERN_OK;
    }
    half->role = TERN_ROLE_SSM_QKV;
    half->mixed = found && hf && is_mixed(config, module, half->layer);
    if (half->mixed) return TERN_OK;
    if (found && hf && tern_role__parse_hf_expert(config, module, half->layer, &half->role, &half->expert))
        return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: found, lora_A and lora_B of the layers' matrices expected",
                     tern_show(shown).text);
}

static tern_status read_config(json_t **root, const char *dir, tern_error *err)
{
    const tern_status status = tern_json_read_in(root, dir, config_name, MAX_CONFIG_BYTES, err);
    const char *form = status == TERN_NOT_FOUND ? tern_form_of_folder(dir) : NULL;
    if (!form) return status;
    return tern_fail(err, status, "%s: %s without %s found, an adapter (PEFT) expected", tern_show_z(dir).text, form,
                     config_name);
}

static tern_status open_peft(tern_adapter *adapter, const char *dir, tern_error *err)
{
    json_t *root = NULL;
    tern_safetensors *st = NULL;
    TERN_TRY(read_config(&root, dir, err));
    char *path = tern_path_join(dir, weights_name);
    tern_status status = path ? tern_safetensors_open(&st, path, err) : tern_fail_alloc(err, strlen(dir) + 32);
    if (status == TERN_OK) {
        status = tern_adapter__read_peft(adapter, root, st, err);
        if (status != TERN_OK) tern_error_prefix(err, "%s", tern_show_z(dir).text);
    }
    tern_safetensors_close(st);
    tern_free(path);
    tern_json_free(root);
    return status;
}

static tern_status open_gguf(tern_adapter *adapter, const char *path, tern_error *err)
{
    tern_file_map map = {0};
    TERN_TRY(tern_file_map_open(&map, path, err));
    tern_status status = tern_adapter__read_gguf(adapter, map.data, map.size, err);
    if (status != TERN_OK) tern_error_prefix(err, "%s", tern_show_z(path).text);
    tern_file_map_close(&map);
    return status;
}

static tern_status open_folder_of(tern_adapter *adapter, const char *path, tern_error *err)
{
    const char *slash = strrchr(path, '/');
    if (!tern_file_exists(path)) return tern_fail(err, TERN_NOT_FOUND, "%s: no such file", tern_show_z(path).text);
    char *dir = slash ? tern_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : tern_strdup(".");
    if (!dir) return tern_fail_alloc(err, strlen(path) + 1);
    tern_status status = open_peft(adapter, dir, err);
    tern_free(dir);
    return status;
}

static tern_status open_any(tern_adapter *adapter, const char *path, tern_error *err)
{
    tern_span name = {(const uint8_t *)path, strlen(path)};
    if (tern_file_is_dir(path)) return open_peft(adapter, path, err);
    if (tern_adapter__cut(&name, ".safetensors") || tern_adapter__cut(&name, ".json"))
        return open_folder_of(adapter, path, err);
    return open_gguf(adapter, path, err);
}

static const tern_adapter_file *find_file(const tern_adapter_file *files, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        const char *slash = strrchr(files[i].name, '/');
        if (strcmp(slash ? slash + 1 : files[i].name, name) == 0) return &files[i];
    }
    return NULL;
}

static tern_status read_peft(tern_adapter *adapter, const tern_adapter_file *config, const tern_adapter_file *weights,
                             tern_error *err)
{
    json_t *root = NULL;
    tern_safetensors *st = NULL;
    if (config->bytes > MAX_CONFIG_BYTES)
        return tern_fail(err, TERN_LIMIT, "%s: %zu bytes, at most %d expected", config_name, config->bytes,
                         MAX_CONFIG_BYTES);
    TERN_TRY(tern_json_parse(&root, config->data, config->bytes, config_name, err));
    tern_status status = tern_safetensors_parse(&st, weights->data, weights->bytes, err);
    if (status != TERN_OK) tern_error_prefix(err, "%s", weights_name);
    else status = tern_adapter__read_peft(adapter, root, st, err);
    tern_safetensors_close(st);
    tern_json_free(root);
    return status;
}

static tern_status fail_files(uint32_t n, tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%u files found: one GGUF file, or %s and %s expected", n, config_name,
                     weights_name);
}

static tern_status open_files(tern_adapter *adapter, const tern_adapter_file *files, uint32_t n, tern_error *err)
{
    const tern_adapter_file *config = find_file(files, n, config_name), *weights = find_file(files, n, weights_name);
    if (n == 2 && config && weights) return read_peft(adapter, config, weights, err);
    if (n != 1 || config || weights) return fail_files(n, err);
    if (tern_adapter__read_gguf(adapter, files->data, files->bytes, err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "%s", tern_show_z(files->name).text);
}

/* Closes half an adapter, or hands out a whole one. A missing optional key is not an error: its message in err is
 * cleared.
 */
static tern_status end(tern_adapter *made, tern_status status, tern_adapter **adapter, tern_error *err)
{
    if (status != TERN_OK) {
        tern_adapter_close(made);
        return status;
    }
    *err = (tern_error){0};
    *adapter = made;
    return TERN_OK;
}

tern_status tern_adapter_open_memory(tern_adapter **adapter, const tern_adapter_file *files, uint32_t n_files,
                                     const tern_model *model, tern_error *err)
{
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    tern_adapter *a = NULL;
    *adapter = NULL;
    TERN_NEED(files, e);
    if (n_files < 1 || n_files > 2) return fail_files(n_files, e);
    for (uint32_t i = 0; i < n_files; i++) {
        TERN_NEED(files[i].name, e);
        TERN_NEED(files[i].data, e);
    }
    TERN_TRY(tern_adapter__create(&a, model ? tern_model_config(model) : NULL, e));
    return end(a, open_files(a, files, n_files, e), adapter, e);
}

tern_status tern_adapter_open(tern_adapter **adapter, const char *path, const tern_model *model, tern_error *err)
{
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    TERN_NEED(adapter, e);
    *adapter = NULL;
    TERN_NEED(path, e);
    tern_adapter *a = NULL;
    if (tern_package_is(path)) return tern_package_open_adapter(adapter, path, model, e);
    TERN_TRY(tern_adapter__create(&a, model ? tern_model_config(model) : NULL, e));
    return end(a, open_any(a, path, e), adapter, e);
}
