/* Requests of the OpenAI API: what is read of them. */
#include <string.h>

#include "base/show.h"
#include "format/json.h"
#include "serve/openai/openai.h"

#define AT(member) offsetof(tern_api_request, member)

/* {"type": "text" | "json_object"}, or {"type": "json_schema", "json_schema": {"schema": ...}}. In responses the schema
 * stands beside the type. */
tern_status tern_openai__read_format(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *inner = json_object_get(value, "json_schema");
    if (type && strcmp(type, "text") == 0) return TERN_OK;
    if (type && strcmp(type, "json_schema") == 0)
        return tern_api_request_read_schema(request, json_object_get(inner ? inner : value, "schema"), err);
    if (!type || strcmp(type, "json_object") != 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "response_format: the type \"%s\" found, text, json_object or json_schema expected",
                         type ? tern_show_z(type).text : "");
    return tern_api_request_constrain(request, TERN_GRAMMAR_JSON, err);
}

static tern_status read_modalities(void *request, const json_t *value, tern_error *err)
{
    const char *word = json_string_value(json_array_get(value, 0));
    (void)request;
    if (json_array_size(value) == 1 && word && strcmp(word, "text") == 0) return TERN_OK;
    return tern_fields_fail("modalities", value, "[\"text\"]", err);
}

static const tern_field stream_options[] = {
    {"include_usage", TERN_FIELD_BOOL, AT(stream_usage)},
    {"include_obfuscation", TERN_FIELD_IGNORED},
    {0},
};

const tern_field tern_openai__shared[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"temperature", TERN_FIELD_F32, AT(sampler.temperature), 0, 100},
    {"top_p", TERN_FIELD_F32, AT(sampler.top_p), 0, 1},
    {"top_k", TERN_FIELD_READ, .read = tern_api_request_read_top_k},
    {"min_p", TERN_FIELD_F32, AT(sampler.min_p), 0, 1},
    {"typical_p", TERN_FIELD_F32, AT(sampler.typical_p), 0, 1},
    {"repetition_penalty", TERN_FIELD_F32, AT(sampler.repetition_penalty), 0.01, 100},
    {"presence_penalty", TERN_FIELD_F32, AT(sampler.presence_penalty), -100, 100},
    {"frequency_penalty", TERN_FIELD_F32, AT(sampler.frequency_penalty), -100, 100},
    {"seed", TERN_FIELD_READ, .read = tern_api_request_read_seed},
    {"stop", TERN_FIELD_READ, .read = tern_api_request_read_stop},
    {"logit_bias", TERN_FIELD_READ, .read = tern_api_request_read_bias},
    {"max_tokens", TERN_FIELD_READ, .read = tern_api_request_read_max_tokens},
    {"n", TERN_FIELD_U32, AT(n), 1, TERN_API_MAX_COMPLETIONS},
    {"ignore_eos", TERN_FIELD_BOOL, AT(ignore_eos)},
    {"stream", TERN_FIELD_BOOL, AT(stream)},
    {"stream_options", TERN_FIELD_OBJECT, .inner = stream_options},
    {"user", TERN_FIELD_IGNORED},
    {"metadata", TERN_FIELD_IGNORED},
    {"store", TERN_FIELD_IGNORED},
    {"service_tier", TERN_FIELD_IGNORED},
    {"safety_identifier", TERN_FIELD_IGNORED},
    {"prompt_cache_key", TERN_FIELD_IGNORED},
    {"prompt_cache_retention", TERN_FIELD_IGNORED},
    {0},
};

static const tern_field chat[] = {
    {"messages", TERN_FIELD_READ, .read = tern_api_request_read_messages},
    {"max_completion_tokens", TERN_FIELD_READ, .read = tern_api_request_read_max_tokens},
    {"logprobs", TERN_FIELD_BOOL, AT(logprobs)},
    {"top_logprobs", TERN_FIELD_U32, AT(n_top_logprobs), 0, TERN_BATCH_MAX_TOP_LOGPROBS},
    {"response_format", TERN_FIELD_READ, .read = tern_openai__read_format},
    {"tools", TERN_FIELD_READ, .read = tern_api_request_read_tools},
    {"tool_choice", TERN_FIELD_READ, .read = tern_api_request_read_tool_choice},
    {"parallel_tool_calls", TERN_FIELD_READ, .read = tern_api_request_read_parallel},
    {"functions", TERN_FIELD_READ, .read = tern_api_request_read_functions},
    {"function_call", TERN_FIELD_READ, .read = tern_api_request_read_function_call},
    {"verbosity", TERN_FIELD_READ, .read = tern_api_request_read_verbosity},
    {"echo", TERN_FIELD_REFUSED},
    {"modalities", TERN_FIELD_READ, .read = read_modalities},
    {"audio", TERN_FIELD_REFUSED},
    {"web_search_options", TERN_FIELD_REFUSED},
    {"prediction", TERN_FIELD_IGNORED},
    {"grammar", TERN_FIELD_READ, .read = tern_api_request_read_grammar},
    {0},
};

tern_status tern_openai__read_chat(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(tern_fields_read((const tern_field *const[]){tern_openai__shared, chat, tern_api_thinking,
                                                          tern_api_samplers, tern_api_mirostat, NULL},
                              body, request, err));
    if (!request->n_messages)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "messages: none found, at least one expected");
    if (request->n_top_logprobs && !request->logprobs)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "top_logprobs: \"logprobs\": true expected beside it");
    return TERN_OK;
}

/* A number: so many of the highest, beside the token's own. */
static tern_status read_logprobs(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    int64_t n;
    if (!tern_json_int(value, &n) || n < 0 || n > TERN_BATCH_MAX_TOP_LOGPROBS)
        return tern_fields_fail("logprobs", value, "a whole number from 0 to 20", err);
    request->logprobs = true;
    request->n_top_logprobs = (uint32_t)n;
    return TERN_OK;
}

/* 0: only the prompt counts, with "echo" and its log-probabilities. Chats have at least 1. -1: until the context is
 * full. */
static tern_status read_max_tokens(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    int64_t n;
    if (!tern_json_int(value, &n) || n < -1 || n > 1 << 24)
        return tern_fields_fail("max_tokens", value, "a whole number from 0 to 16777216, or -1", err);
    request->max_tokens = n < 0 ? 0 : (uint32_t)n;
    request->no_tokens = n == 0;
    return TERN_OK;
}

static const tern_field completion[] = {
    {"max_tokens", TERN_FIELD_READ, .read = read_max_tokens},
    {"prompt", TERN_FIELD_READ, .read = tern_api_request_read_prompts},
    {"echo", TERN_FIELD_BOOL, AT(echo)},
    {"best_of", TERN_FIELD_U32, AT(best_of), 1, TERN_API_MAX_COMPLETIONS},
    {"logprobs", TERN_FIELD_READ, .read = read_logprobs},
    {"suffix", TERN_FIELD_READ, .read = tern_api_request_read_suffix},
    {"response_format", TERN_FIELD_READ, .read = tern_openai__read_format},
    {"grammar", TERN_FIELD_READ, .read = tern_api_request_read_grammar},
    {0},
};

tern_status tern_openai__read_completion(tern_api_request *request, const json_t *body, tern_error *err)
{
    if (!request->max_tokens) request->max_tokens = 16; /* where neither API nor model says anything else */
    return tern_fields_read(
        (const tern_field *const[]){completion, tern_openai__shared, tern_api_samplers, tern_api_mirostat, NULL}, body,
        request, err);
}
