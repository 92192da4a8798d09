/* Text, prompts with completions, and ready-made ids as documents. */
#include "train/data/document.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "train/data/talk.h"

void tern_train_document_deinit(tern_train_document *document)
{
    tern_tokens_deinit(&document->ids);
    tern_buf_deinit(&document->in_loss);
}

static void clear_document(tern_train_document *d)
{
    d->ids.n = d->in_loss.size = 0;
    d->sequence = false;
    d->conversation = false;
    d->skip = TERN_TRAIN_KEPT;
    d->n_empty = d->n_unlike = 0;
    d->joined = false;
}

size_t tern_train__common(const tern_tokens *a, const tern_tokens *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->ids[n] == b->ids[n]) n++;
    return n;
}

tern_status tern_train__fill(tern_train_document *d, uint8_t value, tern_error *err)
{
    while (d->in_loss.size < d->ids.n) TERN_TRY(tern_buf_add(&d->in_loss, &value, 1, err));
    return TERN_OK;
}

/* Says whether there is anything to learn: the first token is never a label. */
static void check_labels(tern_train_document *d)
{
    if (d->skip != TERN_TRAIN_KEPT) return;
    if (d->ids.n < 2) d->skip = TERN_TRAIN_SHORT;
    else if (!memchr(d->in_loss.data + 1, 1, d->in_loss.size - 1)) d->skip = TERN_TRAIN_NO_LABELS;
}

static tern_status need_tokenizer(const tern_train_maker *m, tern_error *err)
{
    if (m->tokenizer) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "the model has no tokenizer: ids expected");
}

static tern_status add_bos(const tern_train_maker *m, tern_tokens *ids, tern_error *err)
{
    const int32_t bos = tern_tokenizer_bos(m->tokenizer);
    return bos >= 0 && tern_tokenizer_adds_bos(m->tokenizer) ? tern_tokens_add(ids, bos, err) : TERN_OK;
}

static tern_status add_eos(const tern_train_maker *m, tern_tokens *ids, tern_error *err)
{
    const int32_t eos = tern_tokenizer_eos(m->tokenizer);
    return eos >= 0 ? tern_tokens_add(ids, eos, err) : TERN_OK;
}

tern_status tern_train_document_text(const tern_train_maker *m, const void *text, size_t n, tern_train_document *out,
                                     tern_error *err)
{
    clear_document(out);
    TERN_TRY(need_tokenizer(m, err));
    if (n == 0) {
        out->skip = TERN_TRAIN_SHORT;
        return TERN_OK;
    }
    TERN_TRY(add_bos(m, &out->ids, err));
    TERN_TRY(tern_tokenize(m->tokenizer, text, n, false, &out->ids, err));
    TERN_TRY(add_eos(m, &out->ids, err));
    TERN_TRY(tern_train__fill(out, 1, err));
    check_labels(out);
    return TERN_OK;
}

/* The tokens of the prompt alone say where the completion begins: where tokens span the border, with the first of them.
 */
static tern_status add_pair(const tern_train_maker *m, const tern_buf *both, size_t n_prompt, tern_tokens *prompt,
                            tern_train_document *out, tern_error *err)
{
    TERN_TRY(add_bos(m, &out->ids, err));
    TERN_TRY(add_bos(m, prompt, err));
    TERN_TRY(tern_tokenize(m->tokenizer, both->data, both->size, false, &out->ids, err));
    TERN_TRY(tern_tokenize(m->tokenizer, both->data, n_prompt, false, prompt, err));
    TERN_TRY(add_eos(m, &out->ids, err));
    size_t masked = tern_train__common(prompt, &out->ids);
    TERN_TRY(tern_train__fill(out, 1, err));
    if (masked) memset(out->in_loss.data, 0, masked);
    return TERN_OK;
}

static tern_status make_pair(const tern_train_maker *m, const json_t *line, tern_train_document *out, tern_error *err)
{
    tern_span prompt, completion;
    tern_buf both = {0};
    tern_tokens alone = {0};
    TERN_TRY(need_tokenizer(m, err));
    TERN_TRY(tern_json_get_string(line, "prompt", &prompt, err));
    TERN_TRY(tern_json_get_string(line, "completion", &completion, err));
    if (completion.size == 0) {
        out->skip = TERN_TRAIN_NO_LABELS;
        return TERN_OK;
    }
    tern_status status;
    TERN_GOTO(tern_buf_add(&both, prompt.data, prompt.size, err));
    TERN_GOTO(tern_buf_add(&both, completion.data, completion.size, err));
    TERN_GOTO(add_pair(m, &both, prompt.size, &alone, out, err));
fail:
    tern_tokens_deinit(&alone);
    tern_buf_deinit(&both);
    return status;
}

static tern_status make_ids(const tern_train_maker *m, const json_t *list, tern_train_document *out, tern_error *err)
{
    out->sequence = true;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        int64_t id;
        if (!tern_json_int(item, &id))
            return tern_fail(err, TERN_MALFORMED, "ids: item %zu is %s: a whole number expected", i,
                             json_is_number(item) ? "no whole number" : tern_json_kind(item));
        if (id < 0 || id >= m->n_vocab)
            return tern_fail(err, TERN_MALFORMED, "ids: item %zu is %lld: 0 to %u expected", i, (long long)id,
                             m->n_vocab - 1);
        TERN_TRY(tern_tokens_add(&out->ids, (int32_t)id, err));
    }
    return tern_train__fill(out, 1, err);
}

static tern_status make_text(const tern_train_maker *m, const json_t *line, tern_train_document *out, tern_error *err)
{
    tern_span text;
    TERN_TRY(tern_json_get_string(line, "text", &text, err));
    return tern_train_document_text(m, text.data, text.size, out, err);
}

/* A conversation of the messages that `read` finds in the line. */
static tern_status make_form(const tern_train_maker *m, const json_t *line,
                             tern_status (*read)(const json_t *, json_t *, size_t *, tern_error *),
                             tern_train_document *out, tern_error *err)
{
    json_t *list = json_array();
    tern_train_talk talk = {0};
    size_t n_prompt = 0;
    tern_status status;
    if (!list) return tern_fail_alloc(err, 1);
    TERN_GOTO(need_tokenizer(m, err));
    TERN_GOTO(read(line, list, &n_prompt, err));
    TERN_GOTO(tern_train__talk_read(&talk, line, list, n_prompt, err));
    status = tern_train__messages(m, &talk, out, err);
fail:
    tern_train__talk_deinit(&talk);
    json_decref(list);
    return status;
}

static tern_status make_prompt(const tern_train_maker *m, const json_t *line, tern_train_document *out, tern_error *err)
{
    const bool lists =
        json_is_array(json_object_get(line, "prompt")) || json_is_array(json_object_get(line, "completion"));
    if (json_is_boolean(json_object_get(line, "label")))
        return tern_fail(err, TERN_UNSUPPORTED, "label: preference data is not supported: lines without it expected");
    return lists ? make_form(m, line, tern_train__pair, out, err) : make_pair(m, line, out, err);
}

enum { N_KEYS = 6 };

static const char *const keys[N_KEYS] = {"text", "prompt", "messages", "ids", "conversations", "instruction"};

/* Alpaca's lines have their text beside them, as that program would put it to a model. */
static bool is_source_key(const json_t *line, const char *key)
{
    return tern_json_has(line, key) && (strcmp(key, "text") != 0 || !tern_json_has(line, "instruction"));
}

bool tern_train_document_has_key(const json_t *object)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (tern_json_has(object, keys[i])) return true;
    return false;
}

static tern_status make_tokens(const tern_train_maker *m, const json_t *line, tern_train_document *out, tern_error *err)
{
    const json_t *ids;
    size_t found = 0, which = 0;
    if (!json_is_object(line))
        return tern_fail(err, TERN_MALFORMED, "%s found, an object expected", tern_json_kind(line));
    for (size_t i = 0; i < N_KEYS; i++)
        if (is_source_key(line, keys[i])) {
            if (found++)
                return tern_fail(err, TERN_MALFORMED, "both %s and %s: one of them expected", keys[which], keys[i]);
            which = i;
        }
    if (tern_json_has(line, "chosen") || tern_json_has(line, "rejected"))
        return tern_fail(
            err, TERN_UNSUPPORTED,
            "chosen and rejected: preference data is not supported: messages, or prompt and completion, expected");
    if (!found)
        return tern_fail(
            err, TERN_MALFORMED,
            "none of text, prompt (with completion), messages and ids: one of them expected, or conversations, "
            "or instruction (with output)");
    switch (which) {
    case 0: return make_text(m, line, out, err);
    case 1: return make_prompt(m, line, out, err);
    case 2: return make_form(m, line, tern_train__plain, out, err);
    case 4: return make_form(m, line, tern_train__conversation, out, err);
    case 5: return make_form(m, line, tern_train__instruction, out, err);
    default: TERN_TRY(tern_json_get_array(line, "ids", &ids, err)); return make_ids(m, ids, out, err);
    }
}

tern_status tern_train_document_value(const tern_train_maker *m, const json_t *value, const char *what,
                                      tern_train_document *out, tern_error *err)
{
    clear_document(out);
    tern_status status = make_tokens(m, value, out, err);
    if (status == TERN_NOT_FOUND) { /* a key: the file is there */
        status = TERN_MALFORMED;
        if (err) err->code = TERN_MALFORMED;
    }
    if (status != TERN_OK) return tern_error_prefix(err, "%s", what);
    check_labels(out);
    return TERN_OK;
}

tern_status tern_train_document_json(const tern_train_maker *m, const void *line, size_t n, const char *what,
                                     tern_train_document *out, tern_error *err)
{
    json_t *root;
    clear_document(out);
    TERN_TRY(tern_json_parse(&root, line, n, what, err));
    tern_status status = tern_train_document_value(m, root, what, out, err);
    tern_json_free(root);
    return status;
}
