/* Embeddings of llama.cpp's server. */
#include "format/json.h"
#include "serve/native/native.h"

#define AT(member) offsetof(tern_api_request, member)

/* 2: of length 1; -1: as they are. */
static tern_status read_norm(void *into, const json_t *value, tern_error *err)
{
    int64_t norm;
    if (!tern_json_int(value, &norm) || (norm != 2 && norm != -1))
        return tern_fields_fail("embd_normalize", value, "2 (length 1) or -1 (none)", err);
    ((tern_api_request *)into)->normalize = norm == 2;
    return TERN_OK;
}

static const tern_field fields[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"content", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"input", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"embd_normalize", TERN_FIELD_READ, .read = read_norm},
    {"encoding_format", TERN_FIELD_REFUSED, .neutral = "float"},
    {0},
};

tern_status tern_native__read_embedding(tern_api_request *request, const json_t *body, tern_error *err)
{
    request->embeds = request->own_pooling = request->normalize = true;
    return tern_fields_read((const tern_field *const[]){fields, NULL}, body, request, err);
}

/* A list of the vectors of each text, of which there is one. */
static json_t *whole(tern_answer *a)
{
    json_t *list = json_array(), *vector;
    size_t i;
    json_array_foreach(a->vectors, i, vector)
        json_array_append_new(list, json_pack("{s:I, s:[O]}", "index", (json_int_t)i, "embedding", vector));
    return list;
}

const tern_dialect tern_native__embedding = {.whole = whole};
