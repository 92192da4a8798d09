/* Renderings of the first messages of a conversation by the chat template. */
#include <string.h>

#include "train/data/chat_internal.h"

json_t *tern_train__first(const tern_train_rendered *c, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        if (json_array_append(list, json_array_get(c->talk->messages, i)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

tern_status tern_train__variables(const json_t *beside, json_t *messages, bool prompt, json_t **out, tern_error *err)
{
    *out = json_copy(tern_train__unconst(beside));
    int bad = json_object_set_new(*out, "messages", messages);
    bad |= json_object_set_new(*out, "add_generation_prompt", json_boolean(prompt));
    if (!bad) return TERN_OK;
    json_decref(*out);
    *out = NULL;
    return tern_fail_alloc(err, 1);
}

tern_status tern_train__render_text(const tern_train_rendered *c, const json_t *variables, tern_buf *out,
                                    tern_error *err)
{
    out->size = 0;
    return tern_chat_template_json(c->maker->template, c->bos, c->eos, variables, out, err);
}

tern_status tern_train__render(const tern_train_rendered *c, json_t *messages, bool prompt, tern_train_rendering *out,
                               tern_error *err)
{
    const tern_train_maker *m = c->maker;
    json_t *variables;
    tern_status status;
    out->ids.n = 0;
    TERN_TRY(tern_train__variables(c->talk->variables, messages, prompt, &variables, err));
    TERN_GOTO(tern_train__render_text(c, variables, &out->text, err));
    status = tern_chat_template_json_tokens(m->template, m->tokenizer, variables, &out->ids, err);
fail:
    json_decref(variables);
    return status;
}

json_t *tern_train__exchanged(const tern_train_rendered *c, size_t n, size_t i, json_t *message)
{
    json_t *list = tern_train__first(c, n);
    if (json_array_set_new(list, i, message) == 0) return list;
    json_decref(list);
    return NULL;
}

bool tern_train__begins_with(const tern_buf *text, const tern_buf *part)
{
    return part->size <= text->size && (!part->size || memcmp(part->data, text->data, part->size) == 0);
}

json_t *tern_train__with_content(const json_t *message, const char *before, size_t at)
{
    const json_t *content = json_object_get(message, "content");
    json_t *copy = json_copy(tern_train__unconst(message)), *made = NULL;
    tern_buf text = {0};
    if (tern_buf_add(&text, before, strlen(before), NULL) == TERN_OK &&
        tern_buf_add(&text, json_string_value(content) + at, json_string_length(content) - at, NULL) == TERN_OK)
        made = json_stringn(text.size ? text.data : "", text.size);
    tern_buf_deinit(&text);
    if (json_object_set_new(copy, "content", made) == 0) return copy;
    json_decref(copy);
    return NULL;
}

size_t tern_train__end_in(const tern_train_rendered *c, const tern_tokens *ids, size_t from, size_t to)
{
    for (; to > from; to--)
        if (tern_token_is_end(c->maker->tokenizer, ids->ids[to - 1])) return to;
    return 0;
}

tern_status tern_train__add_ids(tern_train_rendered *c, const tern_tokens *ids, size_t from, size_t to, tern_error *err)
{
    for (size_t i = from; i < to; i++) TERN_TRY(tern_tokens_add(&c->d->ids, ids->ids[i], err));
    return tern_train__fill(c->d, 0, err);
}

void tern_train__clear_tokens(tern_train_rendered *c)
{
    c->d->ids.n = c->d->in_loss.size = c->d->n_unlike = 0;
}
