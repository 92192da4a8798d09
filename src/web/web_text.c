/* Exports: text to tokens and back, and chat prompts. Ids and text of the last call stay until the next one. */
#include <string.h>

#include "base/alloc.h"
#include "tern.h"
#include "web/web.h"

TERN_WEB tern_status tern_web_tokenize(const tern_engine *engine, const char *text, size_t n, unsigned how);
TERN_WEB tern_status tern_web_chat_prompt(const tern_engine *engine, const char *messages);
TERN_WEB const int32_t *tern_web_tokens(void);
TERN_WEB size_t tern_web_n_tokens(void);
TERN_WEB tern_status tern_web_detokenize(const tern_engine *engine, const int32_t *ids, size_t n, int special);
TERN_WEB const char *tern_web_text(void);
TERN_WEB size_t tern_web_text_bytes(void);

static tern_tokens tokens;
static tern_buf text_out;

const int32_t *tern_web_tokens(void)
{
    return tokens.ids;
}

size_t tern_web_n_tokens(void)
{
    return tokens.n;
}

const char *tern_web_text(void)
{
    return text_out.data;
}

size_t tern_web_text_bytes(void)
{
    return text_out.size;
}

/* how: TERN_TOKENIZE_BOS, TERN_TOKENIZE_SPECIAL; the ids are in tern_web_tokens. */
tern_status tern_web_tokenize(const tern_engine *engine, const char *text, size_t n, unsigned how)
{
    tokens.n = 0;
    return tern_engine_tokenize(engine, text, n, how, &tokens, tern_web__error());
}

/* The text is in tern_web_text. */
tern_status tern_web_detokenize(const tern_engine *engine, const int32_t *ids, size_t n, int special)
{
    text_out.size = 0;
    return tern_engine_detokenize(engine, ids, n, special, &text_out, tern_web__error());
}

static tern_status read_message(const json_t *item, size_t i, tern_chat_message *out, tern_error *err)
{
    const json_t *role = json_object_get(item, "role"), *content = json_object_get(item, "content");
    if (!json_is_string(role) || !json_is_string(content) || json_object_size(item) != 2)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "message %zu: {role, content} expected, both text", i);
    *out = (tern_chat_message){json_string_value(role), json_string_value(content), json_string_length(content)};
    return TERN_OK;
}

static tern_status render(const tern_engine *engine, const json_t *list, tern_error *err)
{
    const size_t n = json_array_size(list);
    tern_chat_message *messages = json_is_array(list) ? tern_calloc(n + 1, sizeof *messages) : NULL;
    if (!json_is_array(list)) return tern_fail(err, TERN_INVALID_ARGUMENT, "messages: a list expected");
    if (!messages) return tern_fail_alloc(err, n * sizeof *messages);
    tern_status status = TERN_OK;
    for (size_t i = 0; i < n; i++) TERN_GOTO(read_message(json_array_get(list, i), i, &messages[i], err));
    TERN_GOTO(tern_engine_chat_prompt(engine, NULL, messages, n, true, &tokens, err));
fail:
    tern_free(messages);
    return status;
}

/* messages: [{role, content}, ...]. The ids, which end with what makes the model answer, are in tern_web_tokens. */
tern_status tern_web_chat_prompt(const tern_engine *engine, const char *messages)
{
    tern_error *err = tern_web__error();
    json_error_t at;
    json_t *list = json_loads(messages, 0, &at);
    tokens.n = 0;
    if (!list) return tern_fail(err, TERN_INVALID_ARGUMENT, "messages: %s", at.text);
    tern_status status = render(engine, list, err);
    json_decref(list);
    return status;
}
