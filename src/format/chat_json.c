/* Parts of conversations in OpenAI's JSON, in the form that chat templates read. */
#include "format/chat_json.h"

#include <string.h>

#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"

enum { MOST_NAME = 255 };

static json_t *unconst(const json_t *value)
{
    return (json_t *)(uintptr_t)value;
}

bool tern_chat_json_is_name(const json_t *name)
{
    const size_t n = json_string_length(name);
    return n > 0 && n <= MOST_NAME && strlen(json_string_value(name)) == n;
}

json_t *tern_chat_json_tool(const json_t *name, const json_t *description, const json_t *parameters)
{
    json_t *function = json_pack("{s:O}", "name", name);
    int bad = !function;
    if (json_is_string(description)) bad |= json_object_set(function, "description", unconst(description));
    if (parameters) bad |= json_object_set(function, "parameters", unconst(parameters));
    else bad |= json_object_set_new(function, "parameters", json_pack("{s:s, s:{}}", "type", "object", "properties"));
    if (!bad) return json_pack("{s:s, s:o}", "type", "function", "function", function);
    json_decref(function);
    return NULL;
}

tern_status tern_chat_json_arguments(const json_t *given, json_t **out)
{
    const size_t n = json_string_length(given);
    *out = NULL;
    if (json_is_object(given)) *out = json_incref(unconst(given));
    else if (!given || json_is_null(given) || (json_is_string(given) && n == 0)) *out = json_object();
    else if (!json_is_string(given)) return TERN_INVALID_ARGUMENT;
    else TERN_TRY(tern_json_parse(out, json_string_value(given), n, "arguments", NULL));
    if (json_is_object(*out)) return TERN_OK;
    const bool found = *out != NULL;
    tern_json_free(*out);
    *out = NULL;
    return found ? TERN_INVALID_ARGUMENT : TERN_OUT_OF_MEMORY;
}

json_t *tern_chat_json_call(const json_t *id, const json_t *name, json_t *arguments)
{
    json_t *made =
        json_pack("{s:s, s:{s:O, s:o}}", "type", "function", "function", "name", name, "arguments", arguments);
    if (!made || !json_is_string(id) || json_object_set(made, "id", unconst(id)) == 0) return made;
    json_decref(made);
    return NULL;
}

json_t *tern_chat_json_called(const json_t *messages, const char *id)
{
    for (size_t i = json_array_size(messages); i-- > 0;) {
        const json_t *calls = json_object_get(json_array_get(messages, i), "tool_calls");
        for (size_t k = 0; k < json_array_size(calls); k++) {
            const json_t *call = json_array_get(calls, k);
            const char *other = json_string_value(json_object_get(call, "id"));
            if (other && strcmp(other, id) == 0) return json_object_get(json_object_get(call, "function"), "name");
        }
    }
    return NULL;
}

static bool is_text_part(const char *type)
{
    return strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0;
}

tern_status tern_chat_json_join(const json_t *parts, tern_buf *text, tern_error *err)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *words = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!type || !is_text_part(type) || !json_is_string(words))
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "a part of the type \"%s\" found, parts of the type \"text\" expected",
                             type ? tern_show_z(type).text : "");
        TERN_TRY(tern_buf_add(text, json_string_value(words), json_string_length(words), err));
    }
    return TERN_OK;
}

const char *tern_chat_json_own_variable(const json_t *variables)
{
    static const char *const own[] = {"messages",  "tools",    "add_generation_prompt", "continue_final_message",
                                      "bos_token", "eos_token"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (json_object_get(variables, own[i])) return own[i];
    return NULL;
}
