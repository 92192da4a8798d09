/* Each answer as it is rendered when it is the last message.
 *
 * Templates that drop the thoughts of earlier answers, or that put something behind all messages, render an answer
 * differently once more messages follow, so that no single rendering has all answers as the model is to write them.
 * Where each answer ends with a token for that, renderings are joined there: the answer as the last message, and what
 * follows it from the rendering that goes on. */
#include <string.h>

#include "train/data/chat_internal.h"

/* Whether what stands in the prompt from `from` on also ends the answered rendering: it stands behind all messages. */
static bool is_tail(const tern_tokens *prompt, size_t from, const tern_tokens *answered)
{
    const size_t n = prompt->n - from;
    if (n == 0) return from < answered->n;
    return from + n < answered->n &&
           memcmp(prompt->ids + from, answered->ids + answered->n - n, n * sizeof *prompt->ids) == 0;
}

/* Where the turns between answer `last` and answer i begin in the rendered prompt: behind the token that ends the
 * former, before the first message after it, which is found by a change of its text. 0: it cannot be told. */
static tern_status find_turns(tern_train_rendered *c, size_t last, size_t i, size_t *out, tern_error *err)
{
    const tern_tokens *prompt = &c->prompt.ids;
    const size_t start = tern_train__common(&c->earlier, prompt);
    size_t end = prompt->n;
    if (last + 1 < i) {
        json_t *other = tern_train__with_content(json_array_get(c->talk->messages, last + 1), "x", 0);
        json_t *list = tern_train__exchanged(c, i, last + 1, other);
        if (!list) return tern_fail_alloc(err, 1);
        TERN_TRY(tern_train__render(c, list, true, &c->changed, err));
        end = tern_train__common(prompt, &c->changed.ids);
    }
    *out = tern_train__end_in(c, prompt, start, end);
    return TERN_OK;
}

/* Adds the turns up to answer i and the answer. `last`: the answer before; SIZE_MAX: none. *done: it could. */
static tern_status join_answer(tern_train_rendered *c, size_t last, size_t i, bool *done, tern_error *err)
{
    size_t at = 0;
    TERN_TRY(tern_train__render(c, tern_train__first(c, i), true, &c->prompt, err));
    TERN_TRY(tern_train__render(c, tern_train__first(c, i + 1), false, &c->answered, err));
    const tern_tokens *ids = &c->answered.ids;
    const size_t from = tern_train__common(&c->prompt.ids, ids), to = tern_train__end_in(c, ids, from, ids->n),
                 n = c->d->ids.n;
    *done = to && is_tail(&c->prompt.ids, from, ids);
    if (*done && last != SIZE_MAX) {
        TERN_TRY(find_turns(c, last, i, &at, err));
        *done = at && at <= from;
    }
    if (!*done) return TERN_OK;
    TERN_TRY(tern_train__add_ids(c, ids, at, i + 1 == c->n ? ids->n : to, err));
    if (c->talk->learned[i]) memset(c->d->in_loss.data + n + from - at, 1, to - from);
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
