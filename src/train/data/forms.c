/* Conversations as other programs write them, as lists of messages. */
#include <string.h>

#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "train/data/talk.h"

/* Adds {"role", "content"} with the string of `object` under `key`; an absent, null or, where `optional`, empty one is
 * left out. */
static tern_status add_message(json_t *list, const char *role, const json_t *object, const char *key, bool optional,
                               tern_error *err)
{
    tern_span text;
    if (optional && !tern_json_has(object, key)) return TERN_OK;
    TERN_TRY(tern_json_get_string(object, key, &text, err));
    if (optional && text.size == 0) return TERN_OK;
    json_t *message =
        json_pack("{s:s, s:o}", "role", role, "content", json_stringn_nocheck((const char *)text.data, text.size));
    if (message && json_array_append_new(list, message) == 0) return TERN_OK;
    return tern_fail_alloc(err, text.size);
}

/* The role of ShareGPT's "from"; NULL: unknown. A "function_call" is an answer that is calls. */
static const char *role_of(const char *from)
{
    static const char *const roles[][2] = {{"human", "user"},
                                           {"user", "user"},
                                           {"gpt", "assistant"},
                                           {"chatgpt", "assistant"},
                                           {"bot", "assistant"},
                                           {"assistant", "assistant"},
                                           {"model", "assistant"},
                                           {"system", "system"},
                                           {"developer", "system"},
                                           {"tool", "tool"},
                                           {"observation", "tool"},
                                           {"function_response", "tool"},
                                           {"tool_response", "tool"},
                                           {"function_call", "function_call"},
                                           {"tool_call", "function_call"}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(from, roles[i][0]) == 0) return roles[i][1];
    return NULL;
}

/* The calls of a "function_call": {"name", "arguments"} or a list of them, or the JSON of either. */
static tern_status set_calls(json_t *message, const json_t *value, tern_error *err)
{
    json_t *parsed = NULL;
    if (json_is_string(value)) {
        const tern_status status =
            tern_json_parse(&parsed, json_string_value(value), json_string_length(value), "value", NULL);
        if (status == TERN_OUT_OF_MEMORY) return tern_fail_alloc(err, json_string_length(value));
        if (status != TERN_OK)
            return tern_fail(err, TERN_MALFORMED,
                             "value: text that is not JSON found, {\"name\", \"arguments\"} expected");
    } else parsed = json_incref(tern_train__unconst(value));
    if (!json_is_array(parsed)) parsed = json_pack("[o]", parsed);
    json_object_del(message, "content");
    if (json_object_set_new(message, "tool_calls", parsed) != 0) return tern_fail_alloc(err, 1);
    return json_object_set_new(message, "role", json_string("assistant")) == 0 ? TERN_OK : tern_fail_alloc(err, 1);
}

static tern_status fill_turn(json_t *message, const json_t *item, const char *role, const char *key, tern_error *err)
{
    json_t *value = json_object_get(item, key);
    const bool calls = strcmp(role, "function_call") == 0;
    if (strcmp(key, "value") == 0) {
        json_object_del(message, "from");
        json_object_del(message, "value");
        if (!tern_json_has(item, key)) return tern_fail(err, TERN_NOT_FOUND, "value: missing");
        if (json_object_set(message, "content", value) != 0) return tern_fail_alloc(err, 1);
    }
    if (calls) return set_calls(message, value, err);
    return json_object_set_new(message, "role", json_string(role)) == 0 ? TERN_OK : tern_fail_alloc(err, 1);
}

/* An item of "conversations": {"from", "value"}, or {"role", "content"}, with whatever else it has. */
static tern_status add_turn(json_t *list, const json_t *item, tern_error *err)
{
    const char *key = tern_json_has(item, "role") ? "role" : "from";
    tern_span from;
    TERN_TRY(tern_json_get_string(item, key, &from, err));
    const char *role = role_of((const char *)from.data);
    if (!role || strlen((const char *)from.data) != from.size)
        return tern_fail(err, TERN_MALFORMED,
                         "%s: \"%s\" found, one of human, gpt, system, function_call, observation and tool expected",
                         key, tern_show(from).text);
    const bool answer = strcmp(role, "assistant") == 0 || strcmp(role, "function_call") == 0;
    if (json_array_size(list) == 0 && answer) return TERN_OK;
    json_t *message = json_copy(tern_train__unconst(item));
    if (!message) return tern_fail_alloc(err, 1);
    tern_status status = fill_turn(message, item, role, strcmp(key, "from") == 0 ? "value" : "content", err);
    if (status == TERN_OK && json_array_append(list, message) != 0) status = tern_fail_alloc(err, 1);
    json_decref(message);
    return status;
}

static tern_status add_turns(json_t *list, const json_t *turns, tern_error *err)
{
    for (size_t i = 0; i < json_array_size(turns); i++)
        if (add_turn(list, json_array_get(turns, i), err) != TERN_OK) return tern_error_prefix(err, "turn %zu", i);
    return TERN_OK;
}

tern_status tern_train__conversation(const json_t *line, json_t *list, size_t *n_prompt, tern_error *err)
{
    (void)n_prompt;
    json_t *turns;
    TERN_TRY(tern_train__list(line, "conversations", &turns, err));
    tern_status status = add_message(list, "system", line, "system", true, err);
    if (status == TERN_OK) status = add_turns(list, turns, err);
    json_decref(turns);
    return status;
}

tern_status tern_train__plain(const json_t *line, json_t *list, size_t *n_prompt, tern_error *err)
{
    json_t *messages;
    (void)n_prompt;
    TERN_TRY(tern_train__list(line, "messages", &messages, err));
    const int bad = json_array_extend(list, messages);
    json_decref(messages);
    return bad ? tern_fail_alloc(err, 1) : TERN_OK;
}

tern_status tern_train__pair(const json_t *line, json_t *list, size_t *n_prompt, tern_error *err)
{
    json_t *prompt = json_object_get(line, "prompt"), *completion = json_object_get(line, "completion");
    *n_prompt = json_array_size(prompt);
    if (json_is_array(prompt) && json_is_array(completion))
        return json_array_extend(list, prompt) || json_array_extend(list, completion) ? tern_fail_alloc(err, 1)
                                                                                      : TERN_OK;
    return tern_fail(err, TERN_MALFORMED,
                     "prompt: %s, completion: %s found: both strings, or both lists of messages expected",
                     tern_json_kind(prompt), tern_json_kind(completion));
}

/* The instruction, and after an empty line its input. */
static tern_status add_instruction(json_t *list, const json_t *line, tern_error *err)
{
    tern_span instruction, input = {0};
    tern_buf both = {0};
    tern_status status;
    TERN_TRY(tern_json_get_string(line, "instruction", &instruction, err));
    if (tern_json_has(line, "input")) TERN_TRY(tern_json_get_string(line, "input", &input, err));
    TERN_GOTO(tern_buf_add(&both, instruction.data, instruction.size, err));
    if (instruction.size && input.size) TERN_GOTO(tern_buf_add(&both, "\n\n", 2, err));
    TERN_GOTO(tern_buf_add(&both, input.data, input.size, err));
    json_t *message = json_pack("{s:s, s:o}", "role", "user", "content",
                                json_stringn_nocheck(both.size ? (const char *)both.data : "", both.size));
    if (!message || json_array_append_new(list, message) != 0) status = tern_fail_alloc(err, both.size);
fail:
    tern_buf_deinit(&both);
    return status;
}

/* "history": [["question", "answer"], ...], what was said before. */
static tern_status add_history(json_t *list, const json_t *line, tern_error *err)
{
    const json_t *history;
    if (!tern_json_has(line, "history")) return TERN_OK;
    TERN_TRY(tern_json_get_array(line, "history", &history, err));
    for (size_t i = 0; i < json_array_size(history); i++) {
        json_t *pair = json_array_get(history, i), *user = json_array_get(pair, 0), *answer = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_string(user) || !json_is_string(answer))
            return tern_fail(err, TERN_MALFORMED, "history: item %zu: %s found, a pair of strings expected", i,
                             tern_json_kind(pair));
        json_t *two = json_pack("[{s:s, s:O}, {s:s, s:O}]", "role", "user", "content", user, "role", "assistant",
                                "content", answer);
        const bool added = two && json_array_extend(list, two) == 0;
        json_decref(two);
        if (!added) return tern_fail_alloc(err, json_string_length(user));
    }
    return TERN_OK;
}

tern_status tern_train__instruction(const json_t *line, json_t *list, size_t *n_prompt, tern_error *err)
{
    (void)n_prompt;
    TERN_TRY(add_message(list, "system", line, "system", true, err));
    TERN_TRY(add_history(list, line, err));
    TERN_TRY(add_instruction(list, line, err));
    return add_message(list, "assistant", line, "output", false, err);
}
