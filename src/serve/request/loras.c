/* Lists of adapters by their numbers, as llama.cpp's server has them. */
#include "base/alloc.h"
#include "format/json.h"
#include "serve/request/request.h"

static tern_status read_id(uint32_t *out, const json_t *value, tern_error *err)
{
    int64_t id;
    if (!tern_json_int(value, &id) || id < 0 || id > UINT32_MAX)
        return tern_fields_fail("id", value, "the number of an adapter", err);
    *out = (uint32_t)id;
    return TERN_OK;
}

static tern_status read_item_id(void *into, const json_t *value, tern_error *err)
{
    return read_id(&((tern_lora_scale *)into)->id, value, err);
}

static const tern_field item[] = {
    {"id", TERN_FIELD_READ, .read = read_item_id},
    {"scale", TERN_FIELD_F32, offsetof(tern_lora_scale, scale), -100, 100},
    {0},
};

static tern_status read_item(tern_api_request *request, const json_t *value, tern_error *err)
{
    tern_lora_scale *to = &request->lora_scales[request->n_lora_scales];
    TERN_TRY(tern_fields_read((const tern_field *const[]){item, NULL}, value, to, err));
    if (!json_object_get(value, "id") || !json_object_get(value, "scale"))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "an object with id and scale expected");
    for (uint32_t i = 0; i < request->n_lora_scales; i++)
        if (request->lora_scales[i].id == to->id)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "id: %u found twice, each adapter once expected", to->id);
    request->n_lora_scales++;
    return TERN_OK;
}

tern_status tern_api_request_read_loras(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    const size_t n = json_array_size(value);
    if (!json_is_array(value) || n > TERN_SERVE_MAX_LORAS)
        return tern_fields_fail("lora", value, "a list of at most 64 adapters", err);
    request->lora_scales = tern_calloc(n + 1, sizeof *request->lora_scales);
    if (!request->lora_scales) return tern_fail_alloc(err, n * sizeof *request->lora_scales);
    for (size_t i = 0; i < n; i++)
        if (read_item(request, json_array_get(value, i), err) != TERN_OK)
            return tern_error_prefix(err, "lora, item %zu", i);
    return TERN_OK;
}
