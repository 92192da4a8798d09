/* Conversations as other programs write them, as lists of messages. */
#include <string.h>

#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "train/data/document.h"

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

/* What ShareGPT's "from" is called elsewhere; NULL: unknown. */
static const char *role_of(const char *from)
{
    static const char *const roles[][2] = {{"human", "user"},        {"user", "user"},     {"gpt", "assistant"},
                                           {"chatgpt", "assistant"}, {"bot", "assistant"}, {"assistant", "assistant"},
                                           {"model", "assistant"},   {"system", "system"}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(from, roles[i][0]) == 0) return roles[i][1];
    return NULL;
}

/* An item of "conversations": {"from", "value"}, or {"role", "content"}. */
static tern_status add_turn(json_t *list, const json_t *item, tern_error *err)
{
    const bool named = tern_json_has(item, "role");
    tern_span from;
    TERN_TRY(tern_json_get_string(item, named ? "role" : "from", &from, err));
    const char *role = role_of((const char *)from.data);
    if (!role || strlen((const char *)from.data) != from.size)
        return tern_fail(err, TERN_MALFORMED, "%s: \"%s\" found, one of human, gpt and system expected",
                         named ? "role" : "from", tern_show(from).text);
    if (json_array_size(list) == 0 && strcmp(role, "assistant") == 0) return TERN_OK;
    return add_message(list, role, item, named ? "content" : "value", false, err);
}

tern_status tern_train__conversation(const json_t *line, json_t *list, tern_error *err)
{
    const json_t *turns;
    TERN_TRY(tern_json_get_array(line, "conversations", &turns, err));
    TERN_TRY(add_message(list, "system", line, "system", true, err));
    for (size_t i = 0; i < json_array_size(turns); i++)
        if (add_turn(list, json_array_get(turns, i), err) != TERN_OK) return tern_error_prefix(err, "turn %zu", i);
    return TERN_OK;
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

tern_status tern_train__instruction(const json_t *line, json_t *list, tern_error *err)
{
    TERN_TRY(add_message(list, "system", line, "system", true, err));
    TERN_TRY(add_history(list, line, err));
    TERN_TRY(add_instruction(list, line, err));
    return add_message(list, "assistant", line, "output", false, err);
}
