/* Conversations as documents: rendered by the chat template, with loss on what the assistant says. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "train/data/document.h"

/* One rendering of the first messages. */
typedef struct rendering {
    tern_buf text;
    tern_tokens ids;
} rendering;

typedef struct conversation {
    const tern_train_maker *maker;
    tern_chat_message *messages;
    bool *silent; /* [n]: not in the loss */
    size_t n;
    char *bos, *eos;
    rendering whole, part;
} conversation;

static tern_status render(const conversation *c, size_t n, bool prompt, rendering *out, tern_error *err)
{
    const tern_train_maker *m = c->maker;
    out->text.size = out->ids.n = 0;
    TERN_TRY(tern_chat_template_text(m->template, c->bos, c->eos, c->messages, n, prompt, &out->text, err));
    return tern_chat_template_tokens(m->template, m->tokenizer, c->messages, n, prompt, &out->ids, err);
}

/* How many tokens of the whole the first n messages are (with `prompt`: and what opens the answer). */
static tern_status count_prefix(conversation *c, size_t n, bool prompt, size_t *out, tern_error *err)
{
    TERN_TRY(render(c, n, prompt, &c->part, err));
    const tern_buf *part = &c->part.text, *whole = &c->whole.text;
    if (part->size > whole->size || (part->size && memcmp(part->data, whole->data, part->size) != 0))
        return tern_fail(err, TERN_MALFORMED,
                         "messages: the chat template renders the first %zu%s differently when more follow, so that "
                         "what the assistant says cannot be told from the rest",
                         n, prompt ? " and the opening of an answer" : "");
    *out = tern_train__common(&c->part.ids, &c->whole.ids);
    return TERN_OK;
}

/* Marks message i, of the assistant: what follows the opening of its answer, up to the token that ends it. */
static tern_status mark_answer(conversation *c, size_t i, tern_train_document *out, tern_error *err)
{
    size_t from, to;
    TERN_TRY(count_prefix(c, i, true, &from, err));
    TERN_TRY(count_prefix(c, i + 1, false, &to, err));
    for (size_t last = to; last > from; last--)
        if (tern_token_is_end(c->maker->tokenizer, out->ids.ids[last - 1])) {
            to = last;
            break;
        }
    if (to > from) memset(out->in_loss.data + from, 1, to - from);
    return TERN_OK;
}

static bool is_assistant(const tern_chat_message *m)
{
    return strcmp(m->role, "assistant") == 0;
}

static tern_status make_tokens(conversation *c, tern_train_document *out, tern_error *err)
{
    while (c->n && !is_assistant(&c->messages[c->n - 1])) c->n--;
    if (c->n == 0) {
        out->skip = TERN_TRAIN_NO_LABELS;
        return TERN_OK;
    }
    if (is_assistant(&c->messages[0]))
        return tern_fail(err, TERN_MALFORMED, "message 0: the assistant's: something to answer expected before it");
    TERN_TRY(render(c, c->n, false, &c->whole, err));
    for (size_t i = 0; i < c->whole.ids.n; i++) TERN_TRY(tern_tokens_add(&out->ids, c->whole.ids.ids[i], err));
    TERN_TRY(tern_train__fill(out, 0, err));
    for (size_t i = 0; i < c->n; i++)
        if (is_assistant(&c->messages[i]) && !c->silent[i]) TERN_TRY(mark_answer(c, i, out, err));
    return TERN_OK;
}

static tern_status read_message(const json_t *item, tern_chat_message *out, tern_error *err)
{
    tern_span role, content;
    TERN_TRY(tern_json_get_string(item, "role", &role, err));
    TERN_TRY(tern_json_get_string(item, "content", &content, err));
    if (memchr(role.data, 0, role.size))
        return tern_fail(err, TERN_MALFORMED, "role: a NUL found, a word like user or assistant expected");
    /* jansson's strings have a NUL behind them */
    *out = (tern_chat_message){(const char *)role.data, (const char *)content.data, content.size};
    return TERN_OK;
}

/* OpenAI's "weight": 1, or 0 for an answer that is not learned. */
static tern_status read_weight(const json_t *item, bool *silent, tern_error *err)
{
    int64_t weight = 1;
    *silent = false;
    if (!tern_json_has(item, "weight")) return TERN_OK;
    TERN_TRY(tern_json_get_i64(item, "weight", &weight, err));
    if (weight != 0 && weight != 1)
        return tern_fail(err, TERN_MALFORMED, "weight: %lld found, 0 or 1 expected", (long long)weight);
    *silent = weight == 0;
    return TERN_OK;
}

static tern_status read_messages(conversation *c, const json_t *list, tern_error *err)
{
    c->n = json_array_size(list);
    c->messages = tern_calloc(c->n, sizeof *c->messages);
    if (!c->messages) return tern_fail_alloc(err, c->n * sizeof *c->messages);
    c->silent = tern_calloc(c->n, sizeof *c->silent);
    if (!c->silent) return tern_fail_alloc(err, c->n * sizeof *c->silent);
    for (size_t i = 0; i < c->n; i++) {
        const json_t *item = json_array_get(list, i);
        if (read_message(item, &c->messages[i], err) != TERN_OK || read_weight(item, &c->silent[i], err) != TERN_OK)
            return tern_error_prefix(err, "message %zu", i);
    }
    return TERN_OK;
}

static tern_status special_text(const tern_tokenizer *t, int32_t id, char **out, tern_error *err)
{
    tern_span bytes = {0};
    if (id >= 0) bytes = tern_token_bytes(t, id, true);
    *out = tern_strndup(bytes.size ? (const char *)bytes.data : "", bytes.size);
    return *out ? TERN_OK : tern_fail_alloc(err, bytes.size);
}

tern_status tern_train__messages(const tern_train_maker *m, const json_t *list, tern_train_document *out,
                                 tern_error *err)
{
    conversation c = {.maker = m};
    out->conversation = true;
    if (!m->template)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "messages: the model has no chat template: one (--template) expected");
    tern_status status;
    TERN_GOTO(read_messages(&c, list, err));
    TERN_GOTO(special_text(m->tokenizer, tern_tokenizer_bos(m->tokenizer), &c.bos, err));
    TERN_GOTO(special_text(m->tokenizer, tern_tokenizer_eos(m->tokenizer), &c.eos, err));
    TERN_GOTO(make_tokens(&c, out, err));
fail:
    tern_buf_deinit(&c.whole.text);
    tern_buf_deinit(&c.part.text);
    tern_tokens_deinit(&c.whole.ids);
    tern_tokens_deinit(&c.part.ids);
    tern_free(c.bos);
    tern_free(c.eos);
    tern_free(c.messages);
    tern_free(c.silent);
    return status;
}
