/* Requests of the Ollama API: what is read of them. */
#include <string.h>

#include "format/json.h"
#include "serve/ollama/ollama.h"

#define AT(member) offsetof(tern_api_request, member)

/* Tokens to generate; up to 0: until the context is full. */
static tern_status read_predict(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    int64_t n;
    if (!tern_json_int(value, &n) || n > 1 << 24)
        return tern_fields_fail("num_predict", value, "a whole number of at most 16777216", err);
    request->max_tokens = n < 0 ? 0 : (uint32_t)n;
    return TERN_OK;
}

static const tern_field options[] = {
    {"num_predict", TERN_FIELD_READ, .read = read_predict},
    {"temperature", TERN_FIELD_F32, AT(sampler.temperature), 0, 100},
    {"top_k", TERN_FIELD_READ, .read = tern_api_request_read_top_k},
    {"top_p", TERN_FIELD_F32, AT(sampler.top_p), 0, 1},
    {"min_p", TERN_FIELD_F32, AT(sampler.min_p), 0, 1},
    {"typical_p", TERN_FIELD_F32, AT(sampler.typical_p), 0, 1},
    {"repeat_penalty", TERN_FIELD_F32, AT(sampler.repetition_penalty), 0.01, 100},
    {"repeat_last_n", TERN_FIELD_READ, .read = tern_api_request_read_last_n},
    {"presence_penalty", TERN_FIELD_F32, AT(sampler.presence_penalty), -100, 100},
    {"frequency_penalty", TERN_FIELD_F32, AT(sampler.frequency_penalty), -100, 100},
    {"seed", TERN_FIELD_READ, .read = tern_api_request_read_seed},
    {"stop", TERN_FIELD_READ, .read = tern_api_request_read_stop},
    {"ignore_eos", TERN_FIELD_BOOL, AT(ignore_eos)}, /* Tern's */
    {"num_ctx", TERN_FIELD_U32, AT(n_ctx), 1, 1 << 30},
    {"num_keep", TERN_FIELD_IGNORED},
    {"num_batch", TERN_FIELD_IGNORED}, /* how it runs is the server's: --batch and others */
    {"num_gpu", TERN_FIELD_IGNORED},
    {"main_gpu", TERN_FIELD_IGNORED},
    {"num_thread", TERN_FIELD_IGNORED},
    {"use_mmap", TERN_FIELD_IGNORED},
    {"use_mlock", TERN_FIELD_IGNORED},
    {"low_vram", TERN_FIELD_IGNORED},
    {"numa", TERN_FIELD_IGNORED},
    {0},
};

static bool is_known(const char *name)
{
    const tern_field *const tables[] = {options, tern_api_mirostat, NULL};
    return tern_fields_find(tables, name) != NULL;
}

/* Options that are not known are left out, and told of in the answer and the log. */
static tern_status read_options(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    const char *name;
    const json_t *option;
    if (!json_is_object(value)) return tern_fields_fail("options", value, "an object", err);
    json_object_foreach((json_t *)(uintptr_t)value, name, option)
    {
        if (is_known(name)) continue;
        if (!request->ignored) request->ignored = json_array();
        if (json_array_append_new(request->ignored, json_string(name)) != 0) return tern_fail_alloc(err, strlen(name));
    }
    json_t *known = json_copy((json_t *)(uintptr_t)value);
    for (size_t i = 0; i < json_array_size(request->ignored); i++)
        json_object_del(known, json_string_value(json_array_get(request->ignored, i)));
    const tern_status status =
        tern_fields_read((const tern_field *const[]){options, tern_api_mirostat, NULL}, known, request, err);
    json_decref(known);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "options");
}

/* "json", or a schema. */
static tern_status read_format(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_string(value)) return tern_api_request_read_schema(request, value, err);
    if (json_string_length(value) == 0) return TERN_OK;
    if (strcmp(json_string_value(value), "json") != 0)
        return tern_fields_fail("format", value, "\"json\" or a schema", err);
    return tern_api_request_constrain(request, TERN_GRAMMAR_JSON, err);
}

static const tern_field shared[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"stream", TERN_FIELD_BOOL, AT(stream)},
    {"options", TERN_FIELD_READ, .read = read_options},
    {"keep_alive", TERN_FIELD_IGNORED},
    {"format", TERN_FIELD_READ, .read = read_format},
    {"think", TERN_FIELD_READ, .read = tern_api_request_read_think},
    {"logprobs", TERN_FIELD_REFUSED},
    {"top_logprobs", TERN_FIELD_REFUSED},
    {"truncate", TERN_FIELD_IGNORED}, /* a prompt that is too long is an error */
    {"shift", TERN_FIELD_IGNORED},
    {0},
};

static const tern_field chat[] = {
    {"messages", TERN_FIELD_READ, .read = tern_api_request_read_messages},
    {"tools", TERN_FIELD_READ, .read = tern_api_request_read_tools},
    {"tool_choice", TERN_FIELD_READ, .read = tern_api_request_read_tool_choice}, /* Tern's, as OpenAI's */
    {"parallel_tool_calls", TERN_FIELD_READ, .read = tern_api_request_read_parallel},
    {0},
};

static const tern_field generate[] = {
    {"prompt", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"system", TERN_FIELD_TEXT, AT(system)},
    {"raw", TERN_FIELD_BOOL, AT(raw)},
    {"suffix", TERN_FIELD_READ, .read = tern_api_request_read_suffix},
    {"images", TERN_FIELD_REFUSED},
    {"template", TERN_FIELD_REFUSED, .why = "the server's --template counts"},
    {"context", TERN_FIELD_REFUSED, .why = "send the conversation to /api/chat"},
    {0},
};

/* Defaults of Ollama's own models. */
static void set_defaults(tern_api_request *request)
{
    request->sampler = (tern_sampler_params)TERN_SAMPLER_DEFAULTS;
    request->sampler.top_p = 0.9f;
    request->sampler.min_p = 0;
    request->stream = true;
}

tern_status tern_ollama__read_chat(tern_api_request *request, const json_t *body, tern_error *err)
{
    set_defaults(request);
    TERN_TRY(tern_fields_read((const tern_field *const[]){shared, chat, NULL}, body, request, err));
    if (request->n_messages) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "messages: none found, at least one expected");
}

tern_status tern_ollama__read_generate(tern_api_request *request, const json_t *body, tern_error *err)
{
    set_defaults(request);
    TERN_TRY(tern_fields_read((const tern_field *const[]){shared, generate, NULL}, body, request, err));
    const json_t *prompt = json_object_get(body, "prompt");
    if (!json_is_string(prompt)) return tern_fields_fail("prompt", prompt, "a text", err);
    if (request->raw) return TERN_OK;
    if (request->gap.wanted && request->system)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "system: not supported with suffix");
    if (request->gap.wanted) return TERN_OK;
    if (request->system)
        TERN_TRY(tern_api_request_add_message(request, "system", json_object_get(body, "system"), "system", err));
    return tern_api_request_add_message(request, "user", prompt, "prompt", err);
}

static const tern_field embed[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"input", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"dimensions", TERN_FIELD_U32, AT(dimensions), 1, 1 << 24},
    {"options", TERN_FIELD_IGNORED},
    {"truncate", TERN_FIELD_IGNORED},
    {"keep_alive", TERN_FIELD_IGNORED},
    {0},
};

tern_status tern_ollama__read_embed(tern_api_request *request, const json_t *body, tern_error *err)
{
    request->embeds = request->own_pooling = request->normalize = true;
    return tern_fields_read((const tern_field *const[]){embed, NULL}, body, request, err);
}

static const tern_field embeddings[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"prompt", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"options", TERN_FIELD_IGNORED},
    {"keep_alive", TERN_FIELD_IGNORED},
    {0},
};

tern_status tern_ollama__read_embeddings(tern_api_request *request, const json_t *body, tern_error *err)
{
    const json_t *prompt = json_object_get(body, "prompt");
    request->embeds = request->own_pooling = true;
    if (!json_is_string(prompt)) return tern_fields_fail("prompt", prompt, "a text", err);
    return tern_fields_read((const tern_field *const[]){embeddings, NULL}, body, request, err);
}

static const tern_field show[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"name", TERN_FIELD_TEXT, AT(model)},
    {"verbose", TERN_FIELD_IGNORED},
    {0},
};

tern_status tern_ollama__read_show(tern_api_request *request, const json_t *body, tern_error *err)
{
    return tern_fields_read((const tern_field *const[]){show, NULL}, body, request, err);
}
