/* `tern inspect` of a package. */
#include <stdio.h>
#include <string.h>

#include "apps/inspect/inspect.h"
#include "format/json.h"
#include "model/package/package.h"

/* A copy whose whole numbers are integers: parsing makes all of them reals. */
static json_t *with_integers(const json_t *v)
{
    const char *key;
    json_t *item, *out;
    int64_t n;
    size_t i;
    if (tern_json_int(v, &n)) return json_integer((json_int_t)n);
    if (!json_is_object(v) && !json_is_array(v)) return json_deep_copy(v);
    out = json_is_object(v) ? json_object() : json_array();
    if (json_is_object(v))
        json_object_foreach((json_t *)(uintptr_t)v, key, item) json_object_set_new(out, key, with_integers(item));
    else json_array_foreach(v, i, item) json_array_append_new(out, with_integers(item));
    return out;
}

/* The members of the inference block that people look for, with sampling and RoPE beside the rest; templates are
 * long. */
static json_t *shown_inference(const json_t *inference)
{
    const char *key, *inner;
    json_t *v, *w, *out = json_object();
    json_object_foreach((json_t *)(uintptr_t)inference, key, v)
    {
        if (json_is_object(v)) json_object_foreach(v, inner, w) if (!json_is_object(w)) json_object_set(out, inner, w);
        if (json_is_object(v) || json_is_array(v)) continue;
        if (json_is_string(v) && strlen(json_string_value(v)) > 60) json_object_set_new(out, key, json_true());
        else json_object_set(out, key, v);
    }
    return out;
}

tern_status tern_app_describe_package(const char *path, bool full, json_t *out, tern_error *err)
{
    tern_package *p;
    tern_model *model;
    char format[64];
    TERN_TRY(tern_package_open(&p, path, NULL, err));
    const tern_manifest *m = tern_package_manifest(p);
    snprintf(format, sizeof format, "package of %zu shard%s, sums right", m->n_shards, m->n_shards == 1 ? "" : "s");
    json_object_set_new(out, "format", json_string(format));
    json_object_set_new(out, "file_bytes", json_integer((json_int_t)m->bytes));
    json_t *root = with_integers(m->root);
    json_object_set(out, "architecture", json_object_get(root, "architecture"));
    json_object_set(out, "name", json_object_get(root, "name"));
    if (!full) json_object_set_new(out, "config", shown_inference(json_object_get(root, "inference")));
    if (!full) json_object_set(out, "tensors", json_object_get(root, "tensors"));
    if (full) json_object_set(out, "manifest", root);
    json_decref(root);
    tern_package_close(p);
    tern_model_options how = {.no_check = true};
    tern_error problem = {0};
    if (tern_model_open(&model, path, &how, &problem) != TERN_OK) {
        json_object_set_new(out, "problem", json_string(problem.message));
        return TERN_OK;
    }
    const uint64_t parameters = tern_model_parameters(model), bytes = tern_model_bytes(model);
    json_object_set_new(out, "parameters", json_integer((json_int_t)parameters));
    json_object_set_new(out, "weight_bytes", json_integer((json_int_t)bytes));
    json_object_set_new(out, "bits_per_weight", json_real((double)bytes * 8 / (double)parameters));
    tern_model_close(model);
    return TERN_OK;
}
