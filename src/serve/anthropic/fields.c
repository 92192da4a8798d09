/* Requests of the Anthropic API: what is read of them. */
#include <string.h>

#include "base/show.h"
#include "format/json.h"
#include "serve/anthropic/anthropic.h"

#define AT(member) offsetof(tern_api_request, member)

/* {"effort": WORD, "format": {"type": "json_schema", "schema"}}. */
static tern_status read_output(void *request, const json_t *value, tern_error *err)
{
    const char *name;
    const json_t *member;
    if (!json_is_object(value)) return tern_fields_fail("output_config", value, "an object", err);
    json_object_foreach((json_t *)(uintptr_t)value, name, member)
    {
        const char *type = json_string_value(json_object_get(member, "type"));
        if (json_is_null(member)) continue;
        if (strcmp(name, "effort") == 0) TERN_TRY(tern_api_request_read_effort(request, member, err));
        else if (strcmp(name, "format") != 0)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "output_config: %s: an unknown field", tern_show_z(name).text);
        else if (!type || strcmp(type, "json_schema") != 0)
            return tern_fields_fail("output_config: format: type", json_object_get(member, "type"), "json_schema", err);
        else TERN_TRY(tern_api_request_read_schema(request, json_object_get(member, "schema"), err));
    }
    return TERN_OK;
}

/* An edit that leaves all messages as they are: keeping all thoughts, as Claude Code asks for. */
static bool keeps_all(const json_t *edit)
{
    const char *type = json_string_value(json_object_get(edit, "type"));
    const char *keep = json_string_value(json_object_get(edit, "keep"));
    return type && keep && strcmp(type, "clear_thinking_20251015") == 0 && strcmp(keep, "all") == 0;
}

static tern_status read_context(void *into, const json_t *value, tern_error *err)
{
    const json_t *edits = json_object_get(value, "edits");
    bool same = json_is_object(value) && json_object_size(value) == (edits != NULL);
    (void)into;
    for (size_t i = 0; i < json_array_size(edits); i++) same &= keeps_all(json_array_get(edits, i));
    if (same) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "context_management: not supported, messages count as they are sent: no edits expected, or "
                     "clear_thinking_20251015 with keep \"all\"");
}

static const tern_field shared[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"messages", TERN_FIELD_READ, .read = tern_anthropic__read_conversation},
    {"system", TERN_FIELD_IGNORED}, /* read when the messages are there */
    {"tools", TERN_FIELD_READ, .read = tern_anthropic__read_tools},
    {"tool_choice", TERN_FIELD_READ, .read = tern_anthropic__read_choice},
    {"thinking", TERN_FIELD_READ, .read = tern_api_request_read_thinking},
    {"mcp_servers", TERN_FIELD_REFUSED},
    {"cache_control", TERN_FIELD_IGNORED},
    {"output_config", TERN_FIELD_READ, .read = read_output},
    {"context_management", TERN_FIELD_READ, .read = read_context},
    {0},
};

static const tern_field messages[] = {
    {"max_tokens", TERN_FIELD_U32, AT(max_tokens), 1, 1 << 24},
    {"temperature", TERN_FIELD_F32, AT(sampler.temperature), 0, 100},
    {"top_p", TERN_FIELD_F32, AT(sampler.top_p), 0, 1},
    {"top_k", TERN_FIELD_READ, .read = tern_api_request_read_top_k},
    {"stop_sequences", TERN_FIELD_READ, .read = tern_api_request_read_stop},
    {"stream", TERN_FIELD_BOOL, AT(stream)},
    {"container", TERN_FIELD_REFUSED},
    {"metadata", TERN_FIELD_IGNORED},
    {"service_tier", TERN_FIELD_IGNORED},
    {0},
};

static tern_status put_system(tern_api_request *request, const json_t *body, tern_error *err)
{
    if (!request->n_messages)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "messages: none found, at least one expected");
    if (!tern_json_has(body, "system")) return TERN_OK;
    return tern_api_request_prepend_message(request, "system", json_object_get(body, "system"), "system", err);
}

tern_status tern_anthropic__read_messages(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(
        tern_fields_read((const tern_field *const[]){shared, messages, tern_api_thinking, NULL}, body, request, err));
    if (!request->max_tokens) return tern_fail(err, TERN_INVALID_ARGUMENT, "max_tokens: none found, a number expected");
    return put_system(request, body, err);
}

tern_status tern_anthropic__read_count(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(tern_fields_read((const tern_field *const[]){shared, tern_api_thinking, NULL}, body, request, err));
    return put_system(request, body, err);
}
