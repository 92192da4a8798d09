/* Tools of namespaces in the responses of the OpenAI API. Chat templates know no namespaces: there, and in what the
 * model writes, such a tool is called NAMESPACE__NAME. */
#include <string.h>

#include "base/show.h"
#include "format/chat_json.h"
#include "format/json.h"
#include "serve/openai/openai.h"

static tern_status fail_type(const json_t *tool, size_t i, const char *expected, tern_error *err)
{
    const char *type = json_string_value(json_object_get(tool, "type"));
    return tern_fail(err, TERN_INVALID_ARGUMENT, "tools[%zu]: the type \"%s\" found, %s expected", i,
                     type ? tern_show_z(type).text : "", expected);
}

static bool has_type(const json_t *tool, const char *type)
{
    const char *found = json_string_value(json_object_get(tool, "type"));
    return found && strcmp(found, type) == 0;
}

json_t *tern_openai__qualify(const json_t *space, json_t *name)
{
    if (!json_is_string(space) || !json_is_string(name)) return json_incref(name);
    return json_sprintf("%s__%s", json_string_value(space), json_string_value(name));
}

/* {"type": "function", "name", "description", "parameters"}, without the inner object that chat has; `space` may be
 * NULL. */
static tern_status read_function(tern_api_request *request, const json_t *tool, const json_t *space, size_t i,
                                 tern_error *err)
{
    const json_t *parameters = json_object_get(tool, "parameters");
    json_t *name = tern_openai__qualify(space, json_object_get(tool, "name"));
    const tern_status status = tern_api_request_add_tool(request, i, name, json_object_get(tool, "description"),
                                                         json_is_null(parameters) ? NULL : parameters, err);
    json_decref(name);
    return status;
}

/* No tool before may have the name that this one has for the model. */
static tern_status check_new(const tern_api_request *request, const json_t *space, const json_t *tool, size_t i,
                             tern_error *err)
{
    json_t *name = tern_openai__qualify(space, json_object_get(tool, "name"));
    const char *text = json_string_value(name);
    const bool found = text && tern_api_request_has_tool(request, name);
    const tern_status status =
        !found
            ? TERN_OK
            : tern_fail(err, TERN_INVALID_ARGUMENT,
                        "tools[%zu]: \"%s\" is the name of two tools, with their namespaces: different names expected",
                        i, tern_show_z(text).text);
    json_decref(name);
    return status;
}

/* Remembers which namespace a tool belongs to. */
static tern_status enter(tern_api_request *request, const json_t *space, const json_t *tool, tern_error *err)
{
    json_t *name = json_object_get(tool, "name");
    json_t *qualified = tern_openai__qualify(json_object_get(space, "name"), name);
    if (!request->namespaces) request->namespaces = json_object();
    const int bad =
        json_object_set_new(request->namespaces, json_string_value(qualified),
                            json_pack("{s:O, s:O, s:O?}", "name", name, "namespace", json_object_get(space, "name"),
                                      "description", json_object_get(space, "description")));
    json_decref(qualified);
    return bad ? tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory") : TERN_OK;
}

/* {"type": "namespace", "name", "description", "tools": functions}. */
static tern_status read_namespace(tern_api_request *request, const json_t *space, size_t i, tern_error *err)
{
    const json_t *tools = json_object_get(space, "tools"), *name = json_object_get(space, "name");
    char name_at[64], place[64];
    snprintf(name_at, sizeof name_at, "tools[%zu]: the name", i);
    if (!tern_chat_json_is_name(name)) return tern_fields_fail(name_at, name, "a text of 1 to 255 bytes", err);
    snprintf(place, sizeof place, "tools[%zu]: the tools", i);
    if (!json_is_array(tools)) return tern_fields_fail(place, tools, "a list of functions", err);
    for (size_t k = 0; k < json_array_size(tools); k++) {
        const json_t *tool = json_array_get(tools, k);
        if (!has_type(tool, "function")) return fail_type(tool, i, "\"function\" in its namespace", err);
        const json_t *own = json_object_get(tool, "name");
        if (!tern_chat_json_is_name(own)) return tern_fields_fail(name_at, own, "a text of 1 to 255 bytes", err);
        TERN_TRY(check_new(request, name, tool, i, err));
        TERN_TRY(read_function(request, tool, name, i, err));
        TERN_TRY(enter(request, space, tool, err));
    }
    return TERN_OK;
}

static tern_status read_plain(tern_api_request *request, const json_t *tool, size_t i, tern_error *err)
{
    if (request->namespaces) TERN_TRY(check_new(request, NULL, tool, i, err));
    return read_function(request, tool, NULL, i, err);
}

tern_status tern_openai__read_tools(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    if (!json_is_array(value)) return tern_fields_fail("tools", value, "a list of tools", err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *tool = json_array_get(value, i);
        if (has_type(tool, "namespace")) TERN_TRY(read_namespace(request, tool, i, err));
        else if (has_type(tool, "function")) TERN_TRY(read_plain(request, tool, i, err));
        else return fail_type(tool, i, "\"function\" or \"namespace\"", err);
    }
    return TERN_OK;
}

void tern_openai__set_name(const tern_api_request *request, json_t *item, const char *name)
{
    const json_t *entry = json_object_get(request->namespaces, name);
    if (!entry) json_object_set_new(item, "name", json_string(name));
    else json_object_set(item, "name", json_object_get(entry, "name"));
    if (entry) json_object_set(item, "namespace", json_object_get(entry, "namespace"));
}

/* The list for the tools of a namespace in `list`, which gets it where it has none. */
static json_t *list_of(json_t *list, const json_t *entry)
{
    json_t *space = json_object_get(entry, "namespace");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (has_type(json_array_get(list, i), "namespace") &&
            json_equal(json_object_get(json_array_get(list, i), "name"), space))
            return json_object_get(json_array_get(list, i), "tools");
    json_t *made = json_pack("{s:s, s:O, s:O*, s:[]}", "type", "namespace", "name", space, "description",
                             json_object_get(entry, "description"), "tools");
    json_array_append_new(list, made);
    return json_object_get(made, "tools");
}

json_t *tern_openai__tools(const tern_api_request *request)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(request->tools); i++) {
        const json_t *function = json_object_get(json_array_get(request->tools, i), "function");
        const json_t *entry =
            json_object_get(request->namespaces, json_string_value(json_object_get(function, "name")));
        json_t *tool = json_pack("{s:s, s:b}", "type", "function", "strict", 0);
        json_object_update(tool, (json_t *)(uintptr_t)function);
        if (entry) json_object_set(tool, "name", json_object_get(entry, "name"));
        json_array_append_new(entry ? list_of(list, entry) : list, tool);
    }
    return list;
}
