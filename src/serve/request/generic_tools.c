/* Tools for templates that know none: the messages tell of them, in the form of Hermes. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "serve/request/request.h"

static tern_status add_json(tern_buf *text, const json_t *value, const char *before, const char *behind)
{
    char *dump = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!dump) return TERN_OUT_OF_MEMORY;
    const tern_status status = tern_buf_addf(text, NULL, "%s%s%s", before, dump, behind);
    tern_free(dump);
    return status;
}

static tern_status add_text(tern_buf *text, const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    return tern_buf_add(text, json_string_value(content), json_string_length(content), NULL);
}

static tern_status add_calls(tern_buf *text, const json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = json_copy(json_object_get(json_array_get(calls, i), "function"));
        const tern_status status =
            add_json(text, call, text->size ? "\n<tool_call>\n" : "<tool_call>\n", "\n</tool_call>");
        json_decref(call);
        TERN_TRY(status);
    }
    return TERN_OK;
}

static bool is(const json_t *message, const char *role)
{
    const char *has = json_string_value(json_object_get(message, "role"));
    return has && strcmp(has, role) == 0;
}

/* The text of a message in words that any template shows. */
static tern_status tell(tern_buf *text, const json_t *message)
{
    const char *name = json_string_value(json_object_get(message, "name"));
    if (is(message, "tool"))
        TERN_TRY(tern_buf_addf(text, NULL, "<tool_response>\n%s%s", name ? name : "", name ? ": " : ""));
    TERN_TRY(add_text(text, message));
    TERN_TRY(add_calls(text, message));
    return is(message, "tool") ? tern_buf_addf(text, NULL, "\n</tool_response>") : TERN_OK;
}

static tern_status describe(tern_buf *text, const json_t *tools)
{
    TERN_TRY(tern_buf_addf(text, NULL, "You may call functions. These are there, each as a JSON object:\n<tools>\n"));
    for (size_t i = 0; i < json_array_size(tools); i++) TERN_TRY(add_json(text, json_array_get(tools, i), "", "\n"));
    return tern_buf_addf(text, NULL,
                         "</tools>\nTo call one, write its name and its arguments as JSON between these tags, and "
                         "nothing else:\n<tool_call>\n{\"name\": NAME, \"arguments\": OBJECT}\n</tool_call>");
}

static int set_text(json_t *message, const tern_buf *text)
{
    return json_object_set_new(message, "content", json_stringn(text->data ? text->data : "", text->size));
}

/* A result and what the user says beside it are one turn, as templates expect turns to alternate. */
static tern_status join(json_t *messages, size_t i, tern_buf *text)
{
    json_t *before = json_array_get(messages, i - 1);
    tern_buf all = {0};
    tern_status status;
    TERN_GOTO(add_text(&all, before));
    TERN_GOTO(tern_buf_addf(&all, NULL, "\n"));
    TERN_GOTO(tern_buf_add(&all, text->data, text->size, NULL));
    if (set_text(before, &all) || json_array_remove(messages, i)) status = TERN_OUT_OF_MEMORY;
fail:
    tern_buf_deinit(&all);
    return status;
}

static tern_status rewrite(json_t *messages, size_t *i, bool *behind_result)
{
    json_t *message = json_array_get(messages, *i);
    const bool result = is(message, "tool"), user = result || is(message, "user");
    const bool joins = user && (result || *behind_result) && *i && is(json_array_get(messages, *i - 1), "user");
    tern_buf text = {0};
    tern_status status = tell(&text, message);
    *behind_result = result;
    if (status == TERN_OK && joins) {
        status = join(messages, *i, &text);
    } else if (status == TERN_OK) {
        int bad = set_text(message, &text);
        if (result) bad |= json_object_set_new(message, "role", json_string("user"));
        json_object_del(message, "tool_calls");
        status = bad ? TERN_OUT_OF_MEMORY : TERN_OK;
        ++*i;
    }
    tern_buf_deinit(&text);
    return status;
}

/* Behind the system's message, or before the first. */
static tern_status tell_tools(json_t *messages, const json_t *tools)
{
    json_t *first = json_array_get(messages, 0);
    const bool behind = is(first, "system");
    tern_buf text = {0};
    tern_status status = TERN_OK;
    if (behind) TERN_GOTO(add_text(&text, first));
    if (behind && text.size) TERN_GOTO(tern_buf_addf(&text, NULL, "\n\n"));
    TERN_GOTO(describe(&text, tools));
    if (!behind) TERN_GOTO(tern_buf_addf(&text, NULL, "\n\n"));
    if (!behind) TERN_GOTO(add_text(&text, first));
    if (set_text(first, &text)) status = TERN_OUT_OF_MEMORY;
fail:
    tern_buf_deinit(&text);
    return status;
}

int tern_api_generic_tools(json_t *messages, const json_t *tools)
{
    bool behind_result = false;
    tern_status status = TERN_OK;
    for (size_t i = 0; status == TERN_OK && i < json_array_size(messages);)
        status = rewrite(messages, &i, &behind_result);
    if (status == TERN_OK && tools && json_array_size(messages)) status = tell_tools(messages, tools);
    return status != TERN_OK;
}
