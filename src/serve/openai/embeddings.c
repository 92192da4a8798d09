/* Embeddings of the OpenAI API. */
#include <string.h>

#include "base/show.h"
#include "serve/openai/openai.h"

#define AT(member) offsetof(tern_api_request, member)

static tern_status read_form(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    const char *form = json_string_value(value);
    request->base64 = form && strcmp(form, "base64") == 0;
    if (request->base64 || (form && strcmp(form, "float") == 0)) return TERN_OK;
    return tern_fields_fail("encoding_format", value, "\"float\" or \"base64\"", err);
}

static tern_status read_pooling(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    uint32_t pooling;
    if (!json_is_string(value) ||
        tern_choice_parse(TERN_CHOICE_POOLING, json_string_value(value), &pooling, NULL) != TERN_OK)
        return tern_fields_fail("pooling", value, "\"last\", \"mean\" or \"cls\"", err);
    request->pooling = (tern_pooling)pooling;
    request->own_pooling = false;
    return TERN_OK;
}

static const tern_field fields[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"input", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"dimensions", TERN_FIELD_U32, AT(dimensions), 1, 1 << 24},
    {"encoding_format", TERN_FIELD_READ, .read = read_form},
    {"pooling", TERN_FIELD_READ, .read = read_pooling},
    {"user", TERN_FIELD_IGNORED},
    {0},
};

tern_status tern_openai__read_embeddings(tern_api_request *request, const json_t *body, tern_error *err)
{
    request->embeds = request->own_pooling = request->normalize = true;
    return tern_fields_read((const tern_field *const[]){fields, NULL}, body, request, err);
}

static json_t *whole(tern_answer *a)
{
    json_t *data = json_array(), *vector;
    size_t i;
    json_array_foreach(a->vectors, i, vector)
    {
        json_array_append_new(
            data, json_pack("{s:s, s:I, s:O}", "object", "embedding", "index", (json_int_t)i, "embedding", vector));
    }
    return json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list", "data", data, "model", a->exchange->model,
                     "usage", "prompt_tokens", (json_int_t)a->n_prompt, "total_tokens", (json_int_t)a->n_prompt);
}

const tern_dialect tern_openai__embeddings = {.whole = whole};
