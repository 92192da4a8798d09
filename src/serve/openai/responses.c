/* Requests to the responses of the OpenAI API: messages, calls of tools and their results. */
#include <string.h>

#include "base/show.h"
#include "format/json.h"
#include "serve/openai/openai.h"

#define AT(member) offsetof(tern_api_request, member)

static bool is(const char *word, const char *other)
{
    return word && strcmp(word, other) == 0;
}

static tern_status read_output(tern_api_request *request, const json_t *item, tern_error *err)
{
    const json_t *id = json_object_get(item, "call_id");
    if (!json_is_string(id)) return tern_fields_fail("input: call_id", id, "a text", err);
    TERN_TRY(tern_api_request_add_message(request, "tool", json_object_get(item, "output"), "input.output", err));
    return tern_api_request_add_result(request, id, NULL, err);
}

static bool is_call(const json_t *item)
{
    return is(json_string_value(json_object_get(item, "type")), "function_call");
}

/* The last message is the assistant's: the thoughts before it are those of the item before item i. */
static tern_status add_thoughts(tern_api_request *request, const json_t *items, size_t i, tern_error *err)
{
    const json_t *item = i ? json_array_get(items, i - 1) : NULL;
    json_t *text = json_object_get(json_array_get(json_object_get(item, "content"), 0), "text");
    if (!is(json_string_value(json_object_get(item, "type")), "reasoning") || !json_is_string(text)) return TERN_OK;
    json_t *message = json_pack("{s:O}", "reasoning_content", text);
    const tern_status status = tern_api_request_add_thoughts(request, message, err);
    json_decref(message);
    return status;
}

static tern_status read_message(tern_api_request *request, const json_t *items, size_t i, tern_error *err)
{
    const json_t *item = json_array_get(items, i);
    const char *role = json_string_value(json_object_get(item, "role"));
    if (is(role, "developer")) role = "system";
    TERN_TRY(tern_api_request_add_message(request, role, json_object_get(item, "content"), "input.content", err));
    return is(role, "assistant") ? add_thoughts(request, items, i, err) : TERN_OK;
}

/* Calls that follow each other from item *i on, of the assistant's message before them if there is one. */
static tern_status read_calls(tern_api_request *request, const json_t *items, size_t *i, tern_error *err)
{
    json_t *calls = json_array();
    const json_t *before = *i ? json_array_get(items, *i - 1) : NULL;
    const bool said = is(json_string_value(json_object_get(before, "role")), "assistant");
    const size_t first = *i;
    tern_status status = TERN_OK;
    for (; is_call(json_array_get(items, *i)); ++*i) {
        json_t *call = json_array_get(items, *i);
        json_t *name = tern_openai__qualify(json_object_get(call, "namespace"), json_object_get(call, "name"));
        json_array_append_new(calls,
                              json_pack("{s:O?, s:{s:o?, s:O?}}", "id", json_object_get(call, "call_id"), "function",
                                        "name", name, "arguments", json_object_get(call, "arguments")));
    }
    if (!said) status = tern_api_request_add_text(request, "assistant", "", 0, err);
    if (!said && status == TERN_OK) status = add_thoughts(request, items, first, err);
    if (status == TERN_OK) status = tern_api_request_add_calls(request, calls, "input", err);
    json_decref(calls);
    return status;
}

static tern_status read_item(tern_api_request *request, const json_t *items, size_t i, tern_error *err)
{
    const json_t *item = json_array_get(items, i);
    const char *type = json_string_value(json_object_get(item, "type"));
    if (is(type, "function_call_output")) return read_output(request, item, err);
    if (is(type, "reasoning")) return TERN_OK; /* of what follows */
    if (json_is_string(json_object_get(item, "role")) && (!type || is(type, "message")))
        return read_message(request, items, i, err);
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "input: an item of the type \"%s\" found, message, function_call or function_call_output expected",
                     type ? tern_show_z(type).text : "");
}

static tern_status read_input(void *into, const json_t *value, tern_error *err)
{
    if (json_is_string(value)) return tern_api_request_add_message(into, "user", value, "input", err);
    if (!json_is_array(value)) return tern_fields_fail("input", value, "a text or a list of messages", err);
    for (size_t i = 0; i < json_array_size(value);) {
        if (is_call(json_array_get(value, i))) TERN_TRY(read_calls(into, value, &i, err));
        else TERN_TRY(read_item(into, value, i++, err));
    }
    return TERN_OK;
}

/* A word as in chat, or {"type": "function", "name", "namespace"}, the last only for a tool of one. */
static tern_status read_choice(void *into, const json_t *value, tern_error *err)
{
    json_t *name = json_object_get(value, "name");
    if (!name) return tern_api_request_read_tool_choice(into, value, err);
    json_t *as_chat =
        json_pack("{s:{s:o}}", "function", "name", tern_openai__qualify(json_object_get(value, "namespace"), name));
    const tern_status status = tern_api_request_read_tool_choice(into, as_chat, err);
    json_decref(as_chat);
    return status;
}

static tern_status read_text(void *into, const json_t *value, tern_error *err)
{
    const json_t *format = json_object_get(value, "format"), *verbosity = json_object_get(value, "verbosity");
    if (!json_is_object(value)) return tern_fields_fail("text", value, "an object", err);
    if (verbosity && !json_is_null(verbosity)) TERN_TRY(tern_api_request_read_verbosity(into, verbosity, err));
    return format ? tern_openai__read_format(into, format, err) : TERN_OK;
}

static tern_status read_reasoning(void *into, const json_t *value, tern_error *err)
{
    const json_t *effort = json_object_get(value, "effort");
    if (!json_is_object(value)) return tern_fields_fail("reasoning", value, "an object", err);
    return effort && !json_is_null(effort) ? tern_api_request_read_effort(into, effort, err) : TERN_OK;
}

/* Additions to the answer. The server runs no tools itself, so their words add nothing. */
static tern_status read_include(void *into, const json_t *value, tern_error *err)
{
    static const char *const nothing[] = {
        "reasoning.encrypted_content",          "file_search_call.results",      "web_search_call.results",
        "web_search_call.action.sources",       "message.input_image.image_url", "code_interpreter_call.outputs",
        "computer_call_output.output.image_url"};
    tern_api_request *request = into;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        const char *word = json_string_value(item);
        bool known = is(word, "message.output_text.logprobs");
        request->logprobs |= known;
        for (size_t k = 0; k < sizeof nothing / sizeof *nothing; k++) known |= is(word, nothing[k]);
        if (!known) return tern_fields_fail("include", item, "message.output_text.logprobs", err);
    }
    return json_is_array(value) ? TERN_OK : tern_fields_fail("include", value, "a list", err);
}

static tern_status read_store(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_boolean(value)) return tern_fields_fail("store", value, "true or false", err);
    request->unstored = json_is_false(value);
    return TERN_OK;
}

static bool is_metadata(const json_t *value)
{
    enum { MOST_PAIRS = 16, MOST_KEY = 64, MOST_VALUE = 512 }; /* OpenAI's; here bytes */
    const char *key;
    json_t *one;
    bool good = json_is_object(value) && json_object_size(value) <= MOST_PAIRS;
    json_object_foreach((json_t *)(uintptr_t)value, key, one) good &=
        strlen(key) <= MOST_KEY && json_is_string(one) && json_string_length(one) <= MOST_VALUE;
    return good;
}

static tern_status read_metadata(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!is_metadata(value))
        return tern_fields_fail("metadata", value, "at most 16 texts of at most 512 bytes, with names of at most 64,",
                                err);
    request->metadata = value;
    return TERN_OK;
}

static const tern_field fields[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"input", TERN_FIELD_READ, .read = read_input},
    {"instructions", TERN_FIELD_TEXT, AT(system)},
    {"temperature", TERN_FIELD_F32, AT(sampler.temperature), 0, 100},
    {"top_p", TERN_FIELD_F32, AT(sampler.top_p), 0, 1},
    {"max_output_tokens", TERN_FIELD_U32, AT(max_tokens), 1, 1 << 24},
    {"stream", TERN_FIELD_BOOL, AT(stream)},
    {"text", TERN_FIELD_READ, .read = read_text},
    {"tools", TERN_FIELD_READ, .read = tern_openai__read_tools},
    {"tool_choice", TERN_FIELD_READ, .read = read_choice},
    {"parallel_tool_calls", TERN_FIELD_READ, .read = tern_api_request_read_parallel},
    {"grammar", TERN_FIELD_READ, .read = tern_api_request_read_grammar},
    {"max_tool_calls", TERN_FIELD_IGNORED},
    {"previous_response_id", TERN_FIELD_TEXT, AT(previous)},
    {"conversation", TERN_FIELD_REFUSED, .why = "previous_response_id goes on with a conversation"},
    {"background", TERN_FIELD_REFUSED},
    {"include", TERN_FIELD_READ, .read = read_include},
    {"prompt", TERN_FIELD_REFUSED},
    {"reasoning", TERN_FIELD_READ, .read = read_reasoning},
    {"top_logprobs", TERN_FIELD_U32, AT(n_top_logprobs), 0, TERN_BATCH_MAX_TOP_LOGPROBS},
    {"truncation", TERN_FIELD_IGNORED},
    {"stream_options", TERN_FIELD_IGNORED},
    {"metadata", TERN_FIELD_READ, .read = read_metadata},
    {"store", TERN_FIELD_READ, .read = read_store},
    {"service_tier", TERN_FIELD_IGNORED},
    {"client_metadata", TERN_FIELD_IGNORED}, /* Codex's */
    {"safety_identifier", TERN_FIELD_IGNORED},
    {"prompt_cache_key", TERN_FIELD_IGNORED},
    {"user", TERN_FIELD_IGNORED},
    {0},
};

tern_status tern_openai__read_response(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(tern_fields_read((const tern_field *const[]){fields, tern_api_thinking, NULL}, body, request, err));
    if (!request->n_messages) return tern_fail(err, TERN_INVALID_ARGUMENT, "input: none found, a text expected");
    request->stop_in_text = true;
    request->logprobs |= request->n_top_logprobs > 0;
    if (!request->system) return TERN_OK;
    request->n_front = 1;
    return tern_api_request_prepend_message(request, "system", json_object_get(body, "instructions"), "instructions",
                                            err);
}
