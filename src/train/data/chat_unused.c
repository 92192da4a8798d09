/* Members of messages that the chat template passes over: what they say would be lost. */
#include <stdio.h>
#include <string.h>

#include "train/data/chat_internal.h"

/* *same: what stands beside the messages, or one of the messages, makes no difference. Takes the list. A template that
 * refuses the changed one reads it. */
static tern_status is_same(tern_train_rendered *c, const json_t *beside, json_t *messages, bool *same, tern_error *err)
{
    json_t *variables;
    tern_error why = {0};
    *same = false;
    TERN_TRY(tern_train__variables(beside, messages, false, &variables, err));
    const tern_status status = tern_train__render_text(c, variables, &c->changed.text, &why);
    json_decref(variables);
    if (status == TERN_OUT_OF_MEMORY) return tern_fail(err, status, "%s", why.message);
    *same = status == TERN_OK && c->answered.text.size == c->changed.text.size &&
            tern_train__begins_with(&c->answered.text, &c->changed.text);
    return TERN_OK;
}

static json_t *without(const json_t *object, const char *key)
{
    json_t *copy = json_copy(tern_train__unconst(object));
    json_object_del(copy, key);
    return copy;
}

static tern_status fail_unused(const char *place, const char *what, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED,
                     "%s%s: the chat template does not render it: data without it, or a template that does "
                     "(--template), expected",
                     place, what);
}

/* Refuses an answer that the template renders as it renders `bare`, which lacks `what`; takes `bare`. */
static tern_status check_use(tern_train_rendered *c, size_t i, json_t *bare, const char *what, tern_error *err)
{
    json_t *list = tern_train__exchanged(c, i + 1, i, bare);
    char place[32];
    bool same;
    if (!list) return tern_fail_alloc(err, 1);
    snprintf(place, sizeof place, "message %zu: ", i);
    TERN_TRY(is_same(c, c->talk->variables, list, &same, err));
    return same ? fail_unused(place, what, err) : TERN_OK;
}

/* Where the text after thoughts begins in the content; 0: it has none. */
static size_t thoughts_end(const json_t *message)
{
    static const char mark[] = "</think>";
    const json_t *content = json_object_get(message, "content");
    const char *text = json_string_value(content);
    const char *end = text ? memmem(text, json_string_length(content), mark, sizeof mark - 1) : NULL;
    return end ? (size_t)(end - text) + sizeof mark - 1 : 0;
}

/* Calls and thoughts of an answer, even where it is the last message. */
static tern_status check_answer(tern_train_rendered *c, size_t i, tern_error *err)
{
    enum { N_KEYS = 4 };
    static const char *const keys[N_KEYS] = {"tool_calls", "reasoning_content", "reasoning", "thinking"};
    const json_t *message = json_array_get(c->talk->messages, i);
    const size_t end = thoughts_end(message);
    bool has[N_KEYS], any = end > 0;
    for (size_t k = 0; k < N_KEYS; k++) {
        const json_t *value = json_object_get(message, keys[k]);
        has[k] = json_is_array(value) || tern_train__has_text(value);
        any |= has[k];
    }
    if (!any) return TERN_OK;
    TERN_TRY(tern_train__render(c, tern_train__first(c, i + 1), false, &c->answered, err));
    for (size_t k = 0; k < N_KEYS; k++)
        if (has[k]) TERN_TRY(check_use(c, i, without(message, keys[k]), keys[k], err));
    return end ? check_use(c, i, tern_train__with_content(message, "", end), "content before </think>", err) : TERN_OK;
}

static tern_status check_beside(tern_train_rendered *c, const char *key, tern_error *err)
{
    bool same;
    if (!json_object_get(c->talk->variables, key)) return TERN_OK;
    TERN_TRY(tern_train__render(c, tern_train__first(c, c->n), false, &c->answered, err));
    json_t *beside = without(c->talk->variables, key);
    const tern_status status = is_same(c, beside, tern_train__first(c, c->n), &same, err);
    json_decref(beside);
    TERN_TRY(status);
    return same ? fail_unused("", key, err) : TERN_OK;
}

tern_status tern_train__check_members(tern_train_rendered *c, tern_error *err)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->talk->learned[i]) TERN_TRY(check_answer(c, i, err));
    TERN_TRY(check_beside(c, "tools", err));
    return check_beside(c, "documents", err);
}
