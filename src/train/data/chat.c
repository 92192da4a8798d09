/* Conversations as documents: rendered by the chat template, with loss on what the assistant says. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "train/data/chat_internal.h"

/* How many tokens of the whole the first n messages are (with `prompt`: and what opens the answer); SIZE_MAX where the
 * template renders them differently once more follow. */
static tern_status count_prefix(tern_train_rendered *c, const tern_train_rendering *whole, size_t n, bool prompt,
                                size_t *out, tern_error *err)
{
    TERN_TRY(tern_train__render(c, tern_train__first(c, n), prompt, &c->prompt, err));
    const bool alike = tern_train__begins_with(&whole->text, &c->prompt.text);
    *out = alike ? tern_train__common(&c->prompt.ids, &whole->ids) : SIZE_MAX;
    if (alike || c->cause) return TERN_OK;
    c->cause = prompt ? " and the opening of an answer" : "";
    c->cause_at = n;
    return TERN_OK;
}

/* Marks answer i: what follows the opening of its turn, up to the token that ends it. */
static tern_status mark_answer(tern_train_rendered *c, const tern_train_rendering *whole, size_t i, tern_error *err)
{
    size_t from, to;
    TERN_TRY(count_prefix(c, whole, i, true, &from, err));
    TERN_TRY(count_prefix(c, whole, i + 1, false, &to, err));
    if (from == SIZE_MAX || to == SIZE_MAX || to <= from) {
        c->d->n_unlike++;
        return TERN_OK;
    }
    const size_t end = tern_train__end_in(c, &whole->ids, from, to);
    memset(c->d->in_loss.data + from, 1, (end ? end : to) - from);
    return TERN_OK;
}

static tern_status make_whole(tern_train_rendered *c, tern_error *err)
{
    tern_train__clear_tokens(c);
    TERN_TRY(tern_train__render(c, tern_train__first(c, c->n), false, &c->answered, err));
    TERN_TRY(tern_train__add_ids(c, &c->answered.ids, 0, c->answered.ids.n, err));
    for (size_t i = 0; i < c->n; i++)
        if (c->talk->learned[i]) TERN_TRY(mark_answer(c, &c->answered, i, err));
    return TERN_OK;
}

static size_t count_learned(const tern_train_rendered *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) n += c->talk->learned[i];
    return n;
}

static tern_status make_tokens(tern_train_rendered *c, tern_error *err)
{
    c->n = json_array_size(c->talk->messages);
    while (c->n && !c->talk->learned[c->n - 1]) c->n--;
    if (c->n == 0) {
        c->d->skip = TERN_TRAIN_NO_LABELS;
        return TERN_OK;
    }
    if (tern_train__is_answer(json_array_get(c->talk->messages, 0)))
        return tern_fail(err, TERN_MALFORMED,
                         "message 0 is from the assistant: a message of the user expected before it");
    TERN_TRY(tern_train__check_members(c, err));
    TERN_TRY(make_whole(c, err));
    if (c->d->n_unlike == 0) return TERN_OK;
    TERN_TRY(tern_train__join(c, &c->d->joined, err));
    if (c->d->joined) return TERN_OK;
    TERN_TRY(make_whole(c, err));
    if (c->d->n_unlike < count_learned(c)) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED,
                     "messages: the chat template renders the first %zu%s differently when more follow, so the text of "
                     "the assistant cannot be located",
                     c->cause_at, c->cause ? c->cause : "");
}

static tern_status special_text(const tern_tokenizer *t, int32_t id, char **out, tern_error *err)
{
    tern_span bytes = {0};
    if (id >= 0) bytes = tern_token_bytes(t, id, true);
    *out = tern_strndup(bytes.size ? (const char *)bytes.data : "", bytes.size);
    return *out ? TERN_OK : tern_fail_alloc(err, bytes.size);
}

static void free_rendering(tern_train_rendering *r)
{
    tern_buf_deinit(&r->text);
    tern_tokens_deinit(&r->ids);
}

tern_status tern_train__messages(const tern_train_maker *m, const tern_train_talk *talk, tern_train_document *out,
                                 tern_error *err)
{
    tern_train_rendered c = {.maker = m, .talk = talk, .d = out};
    out->conversation = true;
    out->n_empty = talk->n_empty;
    if (!m->template)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "messages: the model has no chat template: one (--template) expected");
    tern_status status;
    TERN_GOTO(special_text(m->tokenizer, tern_tokenizer_bos(m->tokenizer), &c.bos, err));
    TERN_GOTO(special_text(m->tokenizer, tern_tokenizer_eos(m->tokenizer), &c.eos, err));
    TERN_GOTO(make_tokens(&c, err));
fail:
    free_rendering(&c.prompt);
    free_rendering(&c.answered);
    free_rendering(&c.changed);
    tern_tokens_deinit(&c.earlier);
    tern_free(c.bos);
    tern_free(c.eos);
    return status;
}
