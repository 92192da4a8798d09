/* Messages of the Anthropic API: blocks of text, uses of tools and what these gave; the tools themselves. */
#include <string.h>

#include "base/show.h"
#include "format/json.h"
#include "serve/anthropic/anthropic.h"

static bool is(const char *word, const char *other)
{
    return word && strcmp(word, other) == 0;
}

/* The result of a call, as a message of its own. */
static tern_status read_result(tern_api_request *request, const json_t *block, const char *name, tern_error *err)
{
    const json_t *id = json_object_get(block, "tool_use_id"), *content = json_object_get(block, "content");
    if (!json_is_string(id)) return tern_fields_fail(name, id, "a tool_use_id", err);
    if (tern_json_has(block, "content")) TERN_TRY(tern_api_request_add_message(request, "tool", content, name, err));
    else TERN_TRY(tern_api_request_add_text(request, "tool", "", 0, err));
    return tern_api_request_add_result(request, id, NULL, err);
}

/* A use of a tool, in OpenAI's form. */
static tern_status read_use(const json_t *block, json_t *calls, tern_error *err)
{
    json_t *none = json_object(), *input = json_object_get(block, "input");
    json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name");
    json_t *call =
        json_pack("{s:O?, s:{s:O?, s:O}}", "id", id, "function", "name", name, "arguments", input ? input : none);
    json_decref(none);
    return json_array_append_new(calls, call) == 0 ? TERN_OK : tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
}

/* The blocks of a message: those of text into `parts`, uses of tools into `calls`, the texts of thoughts. */
static tern_status read_blocks(tern_api_request *request, const json_t *blocks, const char *name, json_t *parts,
                               json_t *calls, json_t *thoughts, tern_error *err)
{
    for (size_t i = 0; i < json_array_size(blocks); i++) {
        json_t *block = json_array_get(blocks, i);
        const char *type = json_string_value(json_object_get(block, "type"));
        if (is(type, "thinking")) json_array_append(thoughts, json_object_get(block, "thinking"));
        if (is(type, "thinking") || is(type, "redacted_thinking")) continue;
        if (is(type, "tool_result")) TERN_TRY(read_result(request, block, name, err));
        else if (is(type, "tool_use")) TERN_TRY(read_use(block, calls, err));
        else if (json_array_append(parts, block) != 0) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    }
    return TERN_OK;
}

static tern_status add_thoughts(tern_api_request *request, const json_t *thoughts, tern_error *err)
{
    json_t *message = json_object(), *text = json_string("");
    for (size_t i = 0; i < json_array_size(thoughts); i++) {
        json_t *more = json_pack("s++", json_string_value(text), json_string_length(text) ? "\n" : "",
                                 json_string_value(json_array_get(thoughts, i)));
        json_decref(text);
        text = more;
    }
    json_object_set_new(message, "reasoning_content", text);
    const tern_status status = tern_api_request_add_thoughts(request, message, err);
    json_decref(message);
    return status;
}

static tern_status read_list(tern_api_request *request, const char *role, const json_t *blocks, const char *name,
                             tern_error *err)
{
    json_t *parts = json_array(), *calls = json_array(), *thoughts = json_array();
    tern_status status;
    const size_t before = request->n_messages;
    TERN_GOTO(read_blocks(request, blocks, name, parts, calls, thoughts, err));
    if (json_array_size(parts) || json_array_size(calls) || json_array_size(thoughts) || request->n_messages == before)
        TERN_GOTO(tern_api_request_add_message(request, role, parts, name, err));
    if (json_array_size(calls)) TERN_GOTO(tern_api_request_add_calls(request, calls, name, err));
    if (json_array_size(thoughts)) status = add_thoughts(request, thoughts, err);
fail:
    json_decref(thoughts);
    json_decref(parts);
    json_decref(calls);
    return status;
}

tern_status tern_anthropic__read_conversation(void *into, const json_t *value, tern_error *err)
{
    char name[48];
    if (!json_is_array(value) || json_array_size(value) == 0)
        return tern_fields_fail("messages", value, "a list of at least one message", err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *message = json_array_get(value, i), *content = json_object_get(message, "content");
        const char *role = json_string_value(json_object_get(message, "role"));
        snprintf(name, sizeof name, "messages[%zu]", i);
        if (!json_is_object(message)) return tern_fields_fail(name, message, "an object", err);
        if (!role) return tern_fields_fail(name, json_object_get(message, "role"), "a role", err);
        snprintf(name, sizeof name, "messages[%zu].content", i);
        if (json_is_array(content)) TERN_TRY(read_list(into, role, content, name, err));
        else TERN_TRY(tern_api_request_add_message(into, role, content, name, err));
    }
    return TERN_OK;
}

tern_status tern_anthropic__read_tools(void *into, const json_t *value, tern_error *err)
{
    if (!json_is_array(value)) return tern_fields_fail("tools", value, "a list of tools", err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *tool = json_array_get(value, i);
        const char *type = json_string_value(json_object_get(tool, "type"));
        if (type && !is(type, "custom"))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "tools[%zu]: the type \"%s\" found, \"custom\" expected", i,
                             tern_show_z(type).text);
        TERN_TRY(tern_api_request_add_tool(into, i, json_object_get(tool, "name"), json_object_get(tool, "description"),
                                           json_object_get(tool, "input_schema"), err));
    }
    return TERN_OK;
}

/* {"type": "auto" | "any" | "tool" | "none", "name": ..., "disable_parallel_tool_use": ...}. */
tern_status tern_anthropic__read_choice(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    const char *type = json_string_value(json_object_get(value, "type"));
    json_t *name = json_object_get(value, "name");
    request->serial = json_is_true(json_object_get(value, "disable_parallel_tool_use"));
    request->calls = is(type, "none") ? TERN_CALLS_NONE : is(type, "auto") ? TERN_CALLS_AUTO : TERN_CALLS_REQUIRED;
    if (is(type, "tool") && json_is_string(name)) {
        json_decref(request->tool_choice);
        request->tool_choice = json_incref(name);
        return TERN_OK;
    }
    if (request->calls != TERN_CALLS_REQUIRED || is(type, "any")) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "tool_choice: the type \"%s\" found, auto, any, none, or tool with its name expected",
                     type ? tern_show_z(type).text : "");
}
