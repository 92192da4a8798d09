/* Messages, tools and variables of a line, checked and in the form that chat templates read. */
#include "train/data/talk.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/chat_json.h"
#include "format/json.h"

void tern_train__talk_deinit(tern_train_talk *talk)
{
    json_decref(talk->variables);
    json_decref(talk->messages);
    tern_free(talk->learned);
    *talk = (tern_train_talk){0};
}

/* One tool: {"type": "function", "function": {...}}, or the function alone; either may be its JSON text. */
static tern_status add_tool(json_t *list, const json_t *item, tern_error *err)
{
    const json_t *function = tern_json_has(item, "function") ? json_object_get(item, "function") : item;
    const json_t *name = json_object_get(function, "name"), *parameters = json_object_get(function, "parameters");
    const char *type = json_string_value(json_object_get(item, "type"));
    if (function != item && type && strcmp(type, "function") != 0)
        return tern_fail(err, TERN_MALFORMED, "type: \"%s\" found, \"function\" expected", tern_show_z(type).text);
    if (!tern_chat_json_is_name(name)) return tern_train__found("name", name, "a string of 1 to 255 bytes", err);
    if (json_is_null(parameters)) parameters = NULL;
    if (parameters && !json_is_object(parameters)) return tern_train__found("parameters", parameters, "an object", err);
    if (json_object_get(function, "parameter_definitions"))
        return tern_fail(err, TERN_MALFORMED,
                         "parameter_definitions: not supported: parameters (a JSON Schema) expected");
    json_t *tool = tern_chat_json_tool(name, json_object_get(function, "description"), parameters);
    return json_array_append_new(list, tool) == 0 ? TERN_OK : tern_fail_alloc(err, 1);
}

static tern_status add_tool_text(json_t *list, const json_t *item, tern_error *err)
{
    json_t *parsed;
    if (!json_is_string(item)) return add_tool(list, item, err);
    TERN_TRY(tern_json_parse(&parsed, json_string_value(item), json_string_length(item), "JSON", err));
    tern_status status = add_tool(list, parsed, err);
    json_decref(parsed);
    return status;
}

static tern_status make_tools(const json_t *given, json_t *list, tern_error *err)
{
    for (size_t i = 0; i < json_array_size(given); i++)
        if (add_tool_text(list, json_array_get(given, i), err) != TERN_OK)
            return tern_error_prefix(err, "tools[%zu]", i);
    return TERN_OK;
}

/* "tools", or "functions" of OpenAI's older files. */
static tern_status read_tools(tern_train_talk *talk, const json_t *line, tern_error *err)
{
    if (tern_json_has(line, "tools") && tern_json_has(line, "functions"))
        return tern_fail(err, TERN_MALFORMED, "both functions and tools: one of them expected");
    const char *key = tern_json_has(line, "tools") ? "tools" : "functions";
    const json_t *value = json_object_get(line, key);
    json_t *given = NULL, *list = NULL;
    tern_status status = TERN_OK;
    if (!tern_json_has(line, key) || (json_is_string(value) && !tern_train__has_text(value))) return TERN_OK;
    TERN_TRY(tern_train__nested(line, key, JSON_ARRAY, &given, err));
    list = json_array();
    TERN_GOTO(make_tools(given, list, err));
    if (json_array_size(list) && json_object_set(talk->variables, "tools", list) != 0) status = tern_fail_alloc(err, 1);
fail:
    json_decref(given);
    json_decref(list);
    return status;
}

/* "chat_template_kwargs": variables of the template, by name; not those that the line has in other members. */
static tern_status read_kwargs(tern_train_talk *talk, const json_t *line, tern_error *err)
{
    static const char *const taken[] = {"messages",  "tools",    "documents", "add_generation_prompt",
                                        "bos_token", "eos_token"};
    json_t *given;
    tern_status status = TERN_OK;
    if (!tern_json_has(line, "chat_template_kwargs")) return TERN_OK;
    TERN_TRY(tern_train__nested(line, "chat_template_kwargs", JSON_OBJECT, &given, err));
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (json_object_get(given, taken[i]))
            TERN_GOTO(tern_fail(err, TERN_MALFORMED, "chat_template_kwargs: %s cannot be set here", taken[i]));
    json_t *set = tern_train__without_nulls(given);
    if (!set || json_object_update(talk->variables, set) != 0) status = tern_fail_alloc(err, 1);
    json_decref(set);
fail:
    json_decref(given);
    return status;
}

static tern_status read_variables(tern_train_talk *talk, const json_t *line, tern_error *err)
{
    json_t *documents = NULL;
    talk->variables = json_object();
    if (!talk->variables) return tern_fail_alloc(err, 1);
    TERN_TRY(read_kwargs(talk, line, err));
    TERN_TRY(read_tools(talk, line, err));
    if (!tern_json_has(line, "documents")) return TERN_OK;
    TERN_TRY(tern_train__nested(line, "documents", JSON_ARRAY, &documents, err));
    if (json_array_size(documents) == 0) {
        json_decref(documents);
        return TERN_OK;
    }
    return json_object_set_new(talk->variables, "documents", documents) == 0 ? TERN_OK : tern_fail_alloc(err, 1);
}

static tern_status add_message(tern_train_talk *talk, const json_t *item, bool prompt, tern_error *err)
{
    const size_t i = json_array_size(talk->messages);
    json_t *message;
    bool learned, empty;
    TERN_TRY(tern_train__message(item, talk->messages, &message, &learned, &empty, err));
    learned = learned && !prompt;
    talk->n_empty += learned && empty;
    talk->learned[i] = learned && !empty;
    return json_array_append_new(talk->messages, message) == 0 ? TERN_OK : tern_fail_alloc(err, 1);
}

static tern_status read_all(tern_train_talk *talk, const json_t *line, const json_t *list, size_t n_prompt,
                            tern_error *err)
{
    const size_t n = json_array_size(list);
    talk->messages = json_array();
    talk->learned = tern_calloc(n, sizeof *talk->learned);
    if (!talk->messages || !talk->learned) return tern_fail_alloc(err, n);
    for (size_t i = 0; i < n; i++)
        if (add_message(talk, json_array_get(list, i), i < n_prompt, err) != TERN_OK)
            return tern_error_prefix(err, "message %zu", i);
    return read_variables(talk, line, err);
}

tern_status tern_train__talk_read(tern_train_talk *talk, const json_t *line, const json_t *list, size_t n_prompt,
                                  tern_error *err)
{
    const tern_status status = read_all(talk, line, list, n_prompt, err);
    if (status == TERN_OK || status == TERN_OUT_OF_MEMORY || status == TERN_LIMIT) return status;
    if (err) err->code = TERN_MALFORMED;
    return TERN_MALFORMED;
}
