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
    if (json_array_size(request->tools) >= MOST_TOOLS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "tools: more than %d found, at most %d expected", MOST_TOOLS,
                         MOST_TOOLS);
    if (!request->tools) request->tools = json_array();
    json_t *tool = tern_chat_json_tool(name, description, parameters);
    return json_array_append_new(request->tools, tool) == 0 ? TERN_OK : out_of_memory(err);
}

tern_status tern_api_request_read_functions(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_array(value)) return tern_fields_fail("functions", value, "a list of functions", err);
    request->old_calls = request->serial = true;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *function = json_array_get(value, i);
        TERN_TRY(tern_api_request_add_tool(request, i, json_object_get(function, "name"),
                                           json_object_get(function, "description"),
                                           json_object_get(function, "parameters"), err));
    }
    return TERN_OK;
}

tern_status tern_api_request_read_function_call(void *into, const json_t *value, tern_error *err)
{
    json_t *name = json_object_get(value, "name");
    if (!name) return tern_api_request_read_tool_choice(into, value, err);
    json_t *choice = json_pack("{s:{s:O}}", "function", "name", name);
    const tern_status status = tern_api_request_read_tool_choice(into, choice, err);
    json_decref(choice);
    return status;
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
    if (!json_is_array(value)) return tern_fields_fail("tools", value, "a list of tools", err);
    for (size_t i = 0; i < json_array_size(value); i++) TERN_TRY(read_tool(into, json_array_get(value, i), i, err));
    return TERN_OK;
}

/* {"mode": "auto" | "required", "tools": [{"type": "function", "function": {"name"}} or {"type", "name"}]}. */
static tern_status read_allowed(tern_api_request *request, const json_t *value, tern_error *err)
{
    const json_t *tools = json_object_get(value, "tools");
    const char *mode = json_string_value(json_object_get(value, "mode"));
    request->calls = mode && strcmp(mode, "required") == 0 ? TERN_CALLS_REQUIRED : TERN_CALLS_AUTO;
    if (!mode || (request->calls == TERN_CALLS_AUTO && strcmp(mode, "auto") != 0))
        return tern_fields_fail("tool_choice: mode", json_object_get(value, "mode"), "auto or required", err);
    if (!json_array_size(tools)) return tern_fields_fail("tool_choice: tools", tools, "a list of tools", err);
    json_decref(request->allowed_tools);
    request->allowed_tools = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i), *function = json_object_get(tool, "function");
        json_t *name = json_object_get(function ? function : tool, "name");
        if (!tern_chat_json_is_name(name)) return tern_fields_fail("tool_choice: tools", name, "names of tools", err);
        if (json_array_append(request->allowed_tools, name) != 0) return out_of_memory(err);
    }
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
    const char *type = json_string_value(json_object_get(value, "type"));
    if (type && strcmp(type, "allowed_tools") == 0) {
        const json_t *inner = json_object_get(value, "allowed_tools");
        return read_allowed(request, inner ? inner : value, err);
    }
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
    return tern_fields_fail("tool_choice", value, "auto, none, required, one function or allowed tools", err);
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
        if (!json_string_length(value)) continue;
        TERN_TRY(set(request, "reasoning_content", json_incref(value), err));
        return set(request, "thinking", json_incref(value), err); /* as GPT-OSS has it */
    }
    return TERN_OK;
}

bool tern_api_request_wants_calls(const tern_api_request *request)
{
    return json_array_size(request->tools) > 0 && request->calls != TERN_CALLS_NONE;
}

bool tern_api_request_has_tool(const tern_api_request *request, const json_t *name)
{
    for (size_t i = 0; i < json_array_size(request->tools); i++)
        if (json_equal(json_object_get(json_object_get(json_array_get(request->tools, i), "function"), "name"), name))
            return true;
    return false;
}

static bool is_allowed(const tern_api_request *request, const json_t *tool)
{
    const json_t *name = json_object_get(json_object_get(tool, "function"), "name");
    for (size_t i = 0; i < json_array_size(request->allowed_tools); i++)
        if (json_equal(json_array_get(request->allowed_tools, i), name)) return true;
    return false;
}

/* Leaves those tools that are allowed. */
static tern_status filter_tools(tern_api_request *request, tern_error *err)
{
    if (!request->allowed_tools) return TERN_OK;
    for (size_t i = 0; i < json_array_size(request->allowed_tools); i++) {
        const json_t *name = json_array_get(request->allowed_tools, i);
        if (!tern_api_request_has_tool(request, name))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "tool_choice: no tool is called \"%s\"",
                             tern_show_z(json_string_value(name)).text);
    }
    for (size_t i = json_array_size(request->tools); i-- > 0;)
        if (!is_allowed(request, json_array_get(request->tools, i))) json_array_remove(request->tools, i);
    return TERN_OK;
}

tern_status tern_api_request_check_tools(tern_api_request *request, tern_error *err)
{
    TERN_TRY(filter_tools(request, err));
    if (request->calls == TERN_CALLS_REQUIRED && !tern_api_request_wants_calls(request))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "tool_choice requires a call, but the request has no tools");
    if (request->tool_choice && !tern_api_request_has_tool(request, request->tool_choice))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "tool_choice: no tool is called \"%s\"",
                         tern_show_z(json_string_value(request->tool_choice)).text);
    if (tern_api_request_wants_calls(request) && request->constrained &&
        (request->grammar_kind != TERN_GRAMMAR_GBNF || request->calls == TERN_CALLS_REQUIRED))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "tools: not together with a format or grammar of the answer");
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

json_t *tern_api_request_conversation(const tern_api_request *request, size_t first)
{
    json_t *messages = json_array();
    int bad = 0;
    for (size_t i = first; i < request->n_messages; i++) bad |= json_array_append_new(messages, message_of(request, i));
    if (!bad) return messages;
    json_decref(messages);
    return NULL;
}

/* Whether the model is to think, by the names that templates know it by. */
static int set_thinking(json_t *all, tern_thinking thinking)
{
    static const char *const names[] = {"enable_thinking", "thinking"};
    int bad = 0;
    for (size_t i = 0; thinking != TERN_THINKING_AUTO && i < sizeof names / sizeof *names; i++)
        if (!json_object_get(all, names[i]))
            bad |= json_object_set_new(all, names[i], json_boolean(thinking == TERN_THINKING_ON));
    return bad;
}

char *tern_api_request_template_variables(const tern_api_request *request, bool generic)
{
    json_t *all = request->variables ? json_copy(request->variables) : json_object();
    json_t *messages = tern_api_request_conversation(request, 0);
    const json_t *tools = tern_api_request_wants_calls(request) ? request->tools : NULL;
    int bad = messages ? set_thinking(all, request->thinking) : 1;
    if (generic && !bad) bad = tern_api_generic_tools(messages, tools);
    bad |= json_object_set_new(all, "messages", messages);
    bad |= json_object_set_new(all, "add_generation_prompt", json_boolean(!request->no_generation_prompt));
    if (request->continues) bad |= json_object_set_new(all, "continue_final_message", json_true());
    if (tools && !generic) bad |= json_object_set(all, "tools", request->tools);
    char *text = all && !bad ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(all);
    return text;
}
