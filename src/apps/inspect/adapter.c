/* `tern inspect` of a LoRA adapter. */
#include <string.h>

#include "apps/inspect/inspect.h"
#include "apps/model.h"
#include "base/alloc.h"
#include "base/file.h"
#include "format/gguf.h"
#include "model/adapter/adapter.h"
#include "model/package/package.h"

static bool has_file(const char *dir, const char *name)
{
    char *path = tern_path_join(dir, name);
    bool found = path && tern_file_exists(path);
    tern_free(path);
    return found;
}

static bool gguf_says_adapter(const char *path)
{
    tern_file_map map = {0};
    tern_gguf *g = NULL;
    tern_span type = {0};
    bool found = tern_file_map_open(&map, path, NULL) == TERN_OK &&
                 tern_gguf_parse(&g, map.data, map.size, NULL) == TERN_OK &&
                 tern_gguf_get_string(g, "general.type", &type, NULL) == TERN_OK && type.size == 7 &&
                 memcmp(type.data, "adapter", 7) == 0;
    tern_gguf_close(g);
    tern_file_map_close(&map);
    return found;
}

bool tern_app_is_adapter(const char *path)
{
    if (tern_package_is(path)) return tern_package_is_adapter(path);
    if (tern_file_is_dir(path)) return has_file(path, "adapter_config.json") && !has_file(path, "config.json");
    if (tern_path_ends(path, "adapter_config.json") || tern_path_ends(path, "adapter_model.safetensors"))
        return tern_file_exists(path);
    if (tern_path_ends(path, ".json") || tern_path_ends(path, ".safetensors")) return false;
    return gguf_says_adapter(path);
}

/* "q_proj, v_proj": the roles that any layer has a pair of. */
static json_t *targets_of(const tern_adapter *adapter)
{
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    char text[512] = "";
    for (int role = 0; role < TERN_ROLE_COUNT; role++) {
        bool found = false;
        for (uint32_t layer = 0; layer < info->n_layers; layer++)
            found = found || tern_adapter_find(adapter, (tern_role)role, layer);
        size_t n = strlen(text);
        if (found) snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", tern_adapter_target((tern_role)role));
    }
    return json_string(text);
}

static json_t *text_of(const char *s)
{
    return *s ? tern_app_json_text(s, strlen(s)) : json_null();
}

static json_t *format_of(const tern_adapter_info *info, bool package)
{
    const bool peft = strcmp(info->format, "PEFT") == 0;
    if (package) return json_sprintf("package of a LoRA adapter (%s), sums right", info->format);
    return json_string(peft ? "LoRA adapter, PEFT folder" : "LoRA adapter, GGUF");
}

static void describe(const tern_adapter *adapter, bool package, bool checked, json_t *out)
{
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    json_object_set_new(out, "format", format_of(info, package));
    json_object_set_new(out, "adapter",
                        json_pack("{s:i, s:f, s:f, s:b, s:f, s:o, s:i, s:i, s:I, s:o, s:o, s:b}", "rank",
                                  (int)info->rank, "alpha", (double)info->alpha, "scale", (double)info->scale, "rslora",
                                  (int)info->rslora, "dropout", (double)info->dropout, "targets", targets_of(adapter),
                                  "layers", (int)info->n_layers, "pairs", (int)info->n_pairs, "parameters",
                                  (json_int_t)info->parameters, "base", text_of(info->base), "architecture",
                                  text_of(info->architecture), "fits_model", (int)checked));
    if (!checked) json_object_del(json_object_get(out, "adapter"), "fits_model");
}

tern_status tern_app_describe_adapter(const char *path, const char *model_path, json_t *out, tern_error *err)
{
    tern_model *model = NULL;
    tern_adapter *adapter = NULL;
    tern_options input = {.model = model_path};
    if (model_path) TERN_TRY(tern_app_open_model(&model, &input, false, err));
    tern_status status = tern_adapter_open(&adapter, path, model, err);
    if (status == TERN_OK) describe(adapter, tern_package_is(path), model != NULL, out);
    tern_adapter_close(adapter);
    tern_model_close(model);
    return status;
}
