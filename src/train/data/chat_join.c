/* Each answer as it is rendered when it is the last message.
 *
 * Some templates drop the thoughts of earlier answers, or put something behind all messages. They render an answer
 * differently once more messages follow. No single rendering has all answers as the model is to write them. So
 * renderings are joined behind the token that ends each answer: the answer comes from the rendering that it ends, the
 * turns after it from the rendering of the next answer. */
#include <string.h>

#include "train/data/chat_internal.h"

/* Whether what stands in the prompt from `from` on also ends the answered rendering: it stands behind all messages. */
static bool is_tail(const tern_tokens *prompt, size_t from, const tern_tokens *answered)
{
    const size_t n = prompt->n - from;
    return n && from + n < answered->n &&
           memcmp(prompt->ids + from, answered->ids + answered->n - n, n * sizeof *prompt->ids) == 0;
}

/* The first i messages, with another text in each after answer `last`. NULL: out of memory. */
static json_t *other_turns(const tern_train_rendered *c, size_t last, size_t i)
{
    json_t *list = tern_train__first(c, i);
    for (size_t k = last + 1; list && k < i; k++) {
        if (json_array_set_new(list, k, tern_train__with_content(json_array_get(list, k), "x", 0)) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

/* The place in the rendered prompt where the turns between answer `last` and answer i begin: behind the token that ends
 * the former. That is the last such token before the text of the first message between, which is found by a change.
 * 0: it cannot be told. */
static tern_status find_turns(tern_train_rendered *c, size_t last, size_t i, size_t *out, tern_error *err)
{
    const tern_tokens *prompt = &c->prompt.ids;
    const size_t start = tern_train__common(&c->earlier, prompt);
    TERN_TRY(tern_train__render(c, other_turns(c, last, i), true, &c->changed, err));
    *out = tern_train__end_in(c, prompt, start, tern_train__common(prompt, &c->changed.ids));
    return TERN_OK;
}

/* Where answer i begins in the answered rendering: *from; and where what asks for it ends in the prompt: *until. Where
 * the one does not begin with the other, as the template words messages before the answer anew, the text of the answer
 * follows the token that the prompt ends with. False: it cannot be told. */
static tern_status find_answer(tern_train_rendered *c, size_t i, size_t *from, size_t *until, bool *found,
                               tern_error *err)
{
    const tern_tokens *prompt = &c->prompt.ids, *ids = &c->answered.ids;
    *from = *until = tern_train__common(prompt, ids);
    *found = tern_train__begins_with(&c->answered.text, &c->prompt.text) ? *from < ids->n : is_tail(prompt, *from, ids);
    if (*found || prompt->n == 0) return TERN_OK;
    json_t *other = tern_train__with_content(json_array_get(c->talk->messages, i), "x", 0);
    json_t *list = tern_train__exchanged(c, i + 1, i, other);
    if (!list) return tern_fail_alloc(err, 1);
    TERN_TRY(tern_train__render(c, list, false, &c->changed, err));
    const int32_t opening = prompt->ids[prompt->n - 1];
    *from = tern_train__common(ids, &c->changed.ids);
    *until = prompt->n;
    *found = *from && ids->ids[*from - 1] == opening && tern_token_is_special(c->maker->tokenizer, opening);
    return TERN_OK;
}

/* Adds the turns up to answer i and the answer. `last`: the answer before; SIZE_MAX: none. *done: it could. */
static tern_status join_answer(tern_train_rendered *c, size_t last, size_t i, bool *done, tern_error *err)
{
    size_t at = 0, from, until;
    TERN_TRY(tern_train__render(c, tern_train__first(c, i), true, &c->prompt, err));
    TERN_TRY(tern_train__render(c, tern_train__first(c, i + 1), false, &c->answered, err));
    TERN_TRY(find_answer(c, i, &from, &until, done, err));
    const tern_tokens *ids = &c->answered.ids;
    const size_t to = tern_train__end_in(c, ids, from, ids->n);
    *done = *done && to;
    if (*done && last != SIZE_MAX) {
        TERN_TRY(find_turns(c, last, i, &at, err));
        *done = at && at <= until;
    }
    if (!*done) return TERN_OK;
    TERN_TRY(tern_train__add_ids(c, &c->prompt.ids, at, until, err));
    const size_t n = c->d->ids.n;
    TERN_TRY(tern_train__add_ids(c, ids, from, i + 1 == c->n ? ids->n : to, err));
    if (c->talk->learned[i]) memset(c->d->in_loss.data + n, 1, to - from);
    const tern_tokens earlier = c->earlier;
    c->earlier = c->prompt.ids;
    c->prompt.ids = earlier;
    return TERN_OK;
}

tern_status tern_train__join(tern_train_rendered *c, bool *done, tern_error *err)
{
    tern_train__clear_tokens(c);
    *done = true;
    for (size_t i = 0, last = SIZE_MAX; i < c->n && *done; i++) {
        if (!tern_train__is_answer(json_array_get(c->talk->messages, i))) continue;
        TERN_TRY(join_answer(c, last, i, done, err));
        last = i;
    }
    return TERN_OK;
}
