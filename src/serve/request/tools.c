/* Tools that a client offers, calls that were made and what they gave: read, checked, and written for templates. */
#include <string.h>

#include "base/show.h"
#include "format/chat_json.h"
#include "format/json.h"
#include "serve/request/request.h"

enum { MOST_TOOLS = 256 };

static tern_status out_of_memory(tern_error *err)
{
    return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
}

tern_status tern_api_request_add_tool(tern_api_request *request, size_t i, const json_t *name,
                                      const json_t *description, const json_t *parameters, tern_error *err)
{
    char place[64];
    snprintf(place, sizeof place, "tools[%zu]: the name", i);
    if (!tern_chat_json_is_name(name)) return tern_fields_fail(place, name, "a text of 1 to 255 bytes", err);
    snprintf(place, sizeof place, "tools[%zu]: the parameters", i);
    if (parameters && !json_is_object(parameters)) return tern_fields_fail(place, parameters, "a JSON Schema", err);
    if (!request->tools) request->tools = json_array();
    json_t *tool = tern_chat_json_tool(name, description, parameters);
    return json_array_append_new(request->tools, tool) == 0 ? TERN_OK : out_of_memory(err);
}

static tern_status read_tool(tern_api_request *request, const json_t *tool, size_t i, tern_error *err)
{
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *function = json_object_get(tool, "function");
    const json_t *parameters = json_object_get(function, "parameters");
    if ((type && strcmp(type, "function") != 0) || !json_is_object(function))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "tools[%zu]: the type \"%s\" found, \"function\" with its object expected", i,
                         type ? tern_show_z(type).text : "");
    return tern_api_request_add_tool(request, i, json_object_get(function, "name"),
                                     json_object_get(function, "description"),
                                     json_is_null(parameters) ? NULL : parameters, err);
}

tern_status tern_api_request_read_tools(void *into, const json_t *value, tern_error *err)
{
    if (!json_is_array(value) || json_array_size(value) > MOST_TOOLS)
        return tern_fields_fail("tools", value, "a list of at most 256 tools", err);
    for (size_t i = 0; i < json_array_size(value); i++) TERN_TRY(read_tool(into, json_array_get(value, i), i, err));
    return TERN_OK;
}

tern_status tern_api_request_read_tool_choice(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    static const struct {
        const char *word;
        tern_tool_calls_mode calls;
    } words[] = {{"auto", TERN_CALLS_AUTO}, {"none", TERN_CALLS_NONE}, {"required", TERN_CALLS_REQUIRED}};
    const char *word = json_string_value(value);
    const json_t *name = json_object_get(json_object_get(value, "function"), "name");
    if (tern_chat_json_is_name(name)) {
        request->calls = TERN_CALLS_REQUIRED;
        json_decref(request->tool_choice);
        request->tool_choice = json_incref((json_t *)(uintptr_t)name);
        return TERN_OK;
    }
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) {
        request->calls = words[i].calls;
        if (strcmp(word, words[i].word) == 0) return TERN_OK;
    }
    return tern_fields_fail("tool_choice", value, "auto, none, required or one function", err);
}

tern_status tern_api_request_read_parallel(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_boolean(value)) return tern_fields_fail("parallel_tool_calls", value, "true or false", err);
    request->serial = json_is_false(value);
    return TERN_OK;
}

/* A member of the last message beside its role and text; takes the value. */
static tern_status set(tern_api_request *request, const char *key, json_t *value, tern_error *err)
{
    int bad = 0;
    if (!request->more) request->more = json_array();
    while (request->more && !bad && json_array_size(request->more) < request->n_messages)
        bad = json_array_append_new(request->more, json_null());
    const size_t last = request->n_messages - 1;
    if (json_is_null(json_array_get(request->more, last)))
        bad |= json_array_set_new(request->more, last, json_object());
    bad |= json_object_set_new(json_array_get(request->more, last), key, value);
    return bad ? out_of_memory(err) : TERN_OK;
}

static tern_status read_call(const json_t *call, const char *name, json_t *list, tern_error *err)
{
    const json_t *function = json_object_get(call, "function"), *id = json_object_get(call, "id");
    const json_t *called = json_object_get(function, "name"), *given = json_object_get(function, "arguments");
    if (!tern_chat_json_is_name(called))
        return tern_fields_fail(name, called, "calls of functions with their names", err);
    json_t *arguments;
    const tern_status status = tern_chat_json_arguments(given, &arguments);
    if (status == TERN_OUT_OF_MEMORY) return out_of_memory(err);
    if (status != TERN_OK)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: the arguments of %s are not a JSON object", name,
                         tern_show_z(json_string_value(called)).text);
    json_t *made = tern_chat_json_call(id, called, arguments);
    return json_array_append_new(list, made) == 0 ? TERN_OK : out_of_memory(err);
}

tern_status tern_api_request_add_calls(tern_api_request *request, const json_t *calls, const char *name,
                                       tern_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const tern_status status = read_call(json_array_get(calls, i), name, list, err);
        if (status == TERN_OK) continue;
        json_decref(list);
        return status;
    }
    return set(request, "tool_calls", list, err);
}

tern_status tern_api_request_add_result(tern_api_request *request, const json_t *id, const json_t *called,
                                        tern_error *err)
{
    if (!json_is_string(called) && json_is_string(id))
        called = tern_chat_json_called(request->more, json_string_value(id));
    if (json_is_string(id)) TERN_TRY(set(request, "tool_call_id", json_incref((json_t *)(uintptr_t)id), err));
    if (json_is_string(called)) return set(request, "name", json_incref((json_t *)(uintptr_t)called), err);
    return json_is_string(id) ? TERN_OK : set(request, "tool_call_id", json_string(""), err);
}

tern_status tern_api_request_add_thoughts(tern_api_request *request, const json_t *message, tern_error *err)
{
    static const char *const keys[] = {"reasoning_content", "reasoning", "thinking"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(message, keys[i]);
        if (json_string_length(value)) TERN_TRY(set(request, keys[i], json_incref(value), err));
    }
    return TERN_OK;
}

bool tern_api_request_has_calls(const tern_api_request *request)
{
    for (size_t i = 0; i < json_array_size(request->more); i++) {
        const json_t *more = json_array_get(request->more, i);
        if (json_object_get(more, "tool_calls") || json_object_get(more, "tool_call_id")) return true;
        if (json_object_get(more, "name")) return true;
    }
    return false;
}

bool tern_api_request_wants_calls(const tern_api_request *request)
{
    return json_array_size(request->tools) > 0 && request->calls != TERN_CALLS_NONE;
}

static bool has_tool(const tern_api_request *request, const json_t *name)
{
    for (size_t i = 0; i < json_array_size(request->tools); i++)
        if (json_equal(json_object_get(json_object_get(json_array_get(request->tools, i), "function"), "name"), name))
            return true;
    return false;
}

tern_status tern_api_request_check_tools(const tern_api_request *request, tern_error *err)
{
    if (request->calls == TERN_CALLS_REQUIRED && !tern_api_request_wants_calls(request))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "tool_choice requires a call, but the request has no tools");
    if (request->tool_choice && !has_tool(request, request->tool_choice))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "tool_choice: no tool is called \"%s\"",
                         tern_show_z(json_string_value(request->tool_choice)).text);
    if (tern_api_request_wants_calls(request) && request->constrained &&
        (request->grammar_kind != TERN_GRAMMAR_GBNF || request->calls == TERN_CALLS_REQUIRED))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "tools: no format of the answer expected beside them");
    return TERN_OK;
}

static json_t *message_of(const tern_api_request *request, size_t i)
{
    const tern_chat_message *m = &request->messages[i];
    json_t *message = json_pack("{s:s, s:o}", "role", m->role, "content", json_stringn(m->content, m->n_content));
    const json_t *more = json_array_get(request->more, i);
    if (message && json_is_object(more)) json_object_update(message, (json_t *)(uintptr_t)more);
    return message;
}

char *tern_api_request_template_variables(const tern_api_request *request)
{
    json_t *messages = json_array();
    int bad = 0;
    for (size_t i = 0; i < request->n_messages; i++) bad |= json_array_append_new(messages, message_of(request, i));
    json_t *all = json_pack("{s:o, s:b}", "messages", messages, "add_generation_prompt", 1);
    if (tern_api_request_wants_calls(request)) bad |= json_object_set(all, "tools", request->tools);
    char *text = all && !bad ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(all);
    return text;
}
