/* One message of a conversation, checked and in the form that chat templates read. */
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/show.h"
#include "format/chat_json.h"
#include "format/json.h"
#include "train/data/talk.h"

bool tern_train__is_answer(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

static bool role_is(const json_t *message, const char *role)
{
    return strcmp(json_string_value(json_object_get(message, "role")), role) == 0;
}

/* Other words for the roles of chat templates, which would learn nothing: the role, or NULL. */
static const char *role_meant(const char *name)
{
    static const char *const words[][2] = {{"assistant", "assistant"}, {"model", "assistant"}, {"gpt", "assistant"},
                                           {"bot", "assistant"},       {"user", "user"},       {"human", "user"},
                                           {"system", "system"},       {"tool", "tool"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(name, words[i][0]) == 0) return strcmp(name, words[i][1]) == 0 ? NULL : words[i][1];
    return NULL;
}

static tern_status read_role(const json_t *item, json_t *message, tern_error *err)
{
    tern_span role;
    TERN_TRY(tern_json_get_string(item, "role", &role, err));
    const char *name = (const char *)role.data;
    if (role.size == 0 || strlen(name) != role.size)
        return tern_fail(err, TERN_MALFORMED, "role: \"%s\" found, a word like user or assistant expected",
                         tern_show(role).text);
    if (role_meant(name))
        return tern_fail(err, TERN_MALFORMED, "role: \"%s\" found, \"%s\" expected", tern_show(role).text,
                         role_meant(name));
    if (strcmp(name, "developer") == 0) name = "system"; /* OpenAI's newer word for it */
    if (strcmp(name, "function") == 0) name = "tool";    /* its older one */
    return json_object_set_new(message, "role", json_string(name)) == 0 ? TERN_OK : tern_fail_alloc(err, role.size);
}

static bool is_blank(const char *text, size_t n)
{
    return strspn(text, " \t\r\n") == n;
}

bool tern_train__has_text(const json_t *value)
{
    return json_is_string(value) && !is_blank(json_string_value(value), json_string_length(value));
}

static const char *const thoughts[] = {"reasoning_content", "reasoning", "thinking"};
enum { N_THOUGHTS = sizeof thoughts / sizeof *thoughts };

static bool has_thoughts(const json_t *message)
{
    for (size_t i = 0; i < N_THOUGHTS; i++)
        if (tern_train__has_text(json_object_get(message, thoughts[i]))) return true;
    return false;
}

/* A string, parts of text, or nothing beside calls or thoughts. */
static tern_status read_content(const json_t *item, json_t *message, tern_error *err)
{
    const json_t *content = json_object_get(item, "content");
    tern_buf text = {0};
    tern_status status = TERN_OK;
    if (json_is_string(content)) return TERN_OK;
    if (!tern_json_has(item, "content")) {
        if (!json_object_get(message, "tool_calls") && !has_thoughts(message))
            return tern_fail(err, TERN_MALFORMED, "content: missing");
    } else if (!json_is_array(content))
        return tern_train__found("content", content, "a string or a list of parts", err);
    else if (tern_chat_json_join(content, &text, err) != TERN_OK) TERN_GOTO(tern_error_prefix(err, "content"));
    if (json_object_set_new(message, "content", json_stringn(text.size ? text.data : "", text.size)) != 0)
        status = tern_fail_alloc(err, text.size);
fail:
    tern_buf_deinit(&text);
    return status;
}

/* One call: {"function": {"name", "arguments"}}, or name and arguments alone. */
static tern_status add_call(json_t *list, const json_t *call, tern_error *err)
{
    const json_t *function = tern_json_has(call, "function") ? json_object_get(call, "function") : call;
    const json_t *name = json_object_get(function, "name"), *given = json_object_get(function, "arguments");
    if (!tern_chat_json_is_name(name))
        return tern_fail(err, TERN_MALFORMED, "call %zu: no name of a function: {\"name\", \"arguments\"} expected",
                         json_array_size(list));
    json_t *arguments;
    const tern_status status = tern_chat_json_arguments(given, &arguments);
    if (status == TERN_OUT_OF_MEMORY) return tern_fail_alloc(err, 1);
    if (status != TERN_OK)
        return tern_fail(err, TERN_MALFORMED, "call %zu: the arguments of %s: %s found, an object or its JSON expected",
                         json_array_size(list), tern_show_z(json_string_value(name)).text, tern_json_kind(given));
    json_t *made = tern_chat_json_call(json_object_get(call, "id"), name, arguments);
    return json_array_append_new(list, made) == 0 ? TERN_OK : tern_fail_alloc(err, 1);
}

static tern_status add_calls(json_t *message, const json_t *calls, tern_error *err)
{
    json_t *list = json_array();
    tern_status status = TERN_OK;
    for (size_t i = 0; i < json_array_size(calls); i++) TERN_GOTO(add_call(list, json_array_get(calls, i), err));
    if (json_array_size(list) == 0) json_object_del(message, "tool_calls");
    else if (json_object_set(message, "tool_calls", list) != 0) status = tern_fail_alloc(err, 1);
fail:
    json_decref(list);
    return status;
}

/* "tool_calls", or OpenAI's older "function_call". */
static tern_status read_calls(const json_t *item, json_t *message, tern_error *err)
{
    const bool old = tern_json_has(item, "function_call");
    const char *key = old ? "function_call" : "tool_calls";
    json_t *calls;
    if (!tern_json_has(item, key)) return TERN_OK;
    if (old && tern_json_has(item, "tool_calls"))
        return tern_fail(err, TERN_MALFORMED, "both tool_calls and function_call: one of them expected");
    TERN_TRY(tern_train__nested(item, key, old ? JSON_OBJECT : JSON_ARRAY, &calls, err));
    json_t *one = old ? json_pack("[o]", calls) : calls;
    json_object_del(message, "function_call");
    tern_status status = one ? add_calls(message, one, err) : tern_fail_alloc(err, 1);
    json_decref(one);
    if (status != TERN_OK && status != TERN_OUT_OF_MEMORY) return tern_error_prefix(err, "%s", key);
    return status;
}

/* The result of a call names its tool, as the call with its id does. */
static tern_status read_result(const json_t *earlier, json_t *message, tern_error *err)
{
    const char *id = json_string_value(json_object_get(message, "tool_call_id"));
    if (!role_is(message, "tool") || tern_json_has(message, "name")) return TERN_OK;
    if (!id) return json_object_set_new(message, "tool_call_id", json_string("")) ? tern_fail_alloc(err, 1) : TERN_OK;
    json_t *name = tern_chat_json_called(earlier, id);
    return name && json_object_set(message, "name", name) != 0 ? tern_fail_alloc(err, 1) : TERN_OK;
}

/* Refuses members that hold other things than text: a document could not have them. */
static tern_status refuse_media(const json_t *item, tern_error *err)
{
    static const char *const media[] = {"audio", "image", "images", "video", "videos", "refusal"};
    for (size_t i = 0; i < sizeof media / sizeof *media; i++) {
        const json_t *value = json_object_get(item, media[i]);
        if (!value || json_is_null(value) || json_is_false(value)) continue;
        if (json_is_array(value) && json_array_size(value) == 0) continue;
        if (json_is_string(value) && json_string_length(value) == 0) continue;
        return tern_fail(err, TERN_MALFORMED, "%s: %s found, which is not supported: text expected", media[i],
                         tern_json_kind(value));
    }
    return TERN_OK;
}

/* OpenAI's "weight" (0 or 1) and others' "train" (a boolean): whether an answer is learned. */
static tern_status read_weight(const json_t *item, bool *learned, tern_error *err)
{
    int64_t weight = 1;
    bool train = true;
    if (tern_json_has(item, "weight")) TERN_TRY(tern_json_get_i64(item, "weight", &weight, err));
    if (weight != 0 && weight != 1)
        return tern_fail(err, TERN_MALFORMED, "weight: %lld found, 0 or 1 expected", (long long)weight);
    if (tern_json_has(item, "train")) TERN_TRY(tern_json_get_bool(item, "train", &train, err));
    *learned = weight == 1 && train;
    return TERN_OK;
}

static tern_status fill_message(const json_t *item, const json_t *earlier, json_t *message, bool *learned,
                                tern_error *err)
{
    TERN_TRY(read_role(item, message, err));
    TERN_TRY(refuse_media(item, err));
    TERN_TRY(read_weight(item, learned, err));
    json_object_del(message, "weight");
    json_object_del(message, "train");
    TERN_TRY(read_calls(item, message, err));
    TERN_TRY(read_content(item, message, err));
    return read_result(earlier, message, err);
}

tern_status tern_train__message(const json_t *item, const json_t *earlier, json_t **out, bool *learned, bool *empty,
                                tern_error *err)
{
    *out = NULL;
    if (!json_is_object(item))
        return tern_fail(err, TERN_MALFORMED, "%s found, an object expected", tern_json_kind(item));
    json_t *message = tern_train__without_nulls(item);
    if (!message) return tern_fail_alloc(err, 1);
    tern_status status;
    TERN_GOTO(fill_message(item, earlier, message, learned, err));
    *learned = *learned && tern_train__is_answer(message);
    *empty = !tern_train__has_text(json_object_get(message, "content")) && !has_thoughts(message) &&
             !json_object_get(message, "tool_calls");
    *out = message;
    return TERN_OK;
fail:
    json_decref(message);
    return status;
}
