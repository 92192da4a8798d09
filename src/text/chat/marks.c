/* Marks of a chat template that its tokenizer knows as ordinary text. */
#include "text/chat/marks.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"

static tern_status text_of(const tern_tokenizer *t, int32_t id, char **out, tern_error *err)
{
    tern_span bytes = {0};
    if (id >= 0) bytes = tern_token_bytes(t, id, true);
    *out = tern_strndup(bytes.size ? (const char *)bytes.data : "", bytes.size);
    return *out ? TERN_OK : tern_fail_alloc(err, bytes.size);
}

/* With a system message, or, where that is refused, without. */
static tern_status render(const tern_chat_template *c, const tern_tokenizer *t, tern_buf *out, tern_error *err)
{
    static const tern_chat_message turns[] = {{"system", "a", 1}, {"user", "b", 1}, {"assistant", "c", 1}};
    char *bos = NULL, *eos = NULL;
    tern_status status;
    TERN_GOTO(text_of(t, tern_tokenizer_bos(t), &bos, err));
    TERN_GOTO(text_of(t, tern_tokenizer_eos(t), &eos, err));
    status = tern_chat_template_text(c, bos, eos, turns, 3, false, out, err);
    if (status == TERN_OK) goto fail;
    out->size = 0;
    TERN_GOTO(tern_chat_template_text(c, bos, eos, turns + 1, 2, false, out, err));
fail:
    tern_free(bos);
    tern_free(eos);
    return status;
}

/* Bytes of the mark that begins here; 0: none does. */
static size_t mark_at(const char *text, size_t n)
{
    const size_t most = n < TERN_CHAT_MARK_BYTES ? n : TERN_CHAT_MARK_BYTES;
    if (n == 0 || text[0] != '<') return 0;
    for (size_t i = 1; i < most; i++) {
        if (text[i] == '>') return i > 1 ? i + 1 : 0;
        if (text[i] == '<' || (uint8_t)text[i] <= ' ') return 0;
    }
    return 0;
}

static tern_status add_mark(const tern_tokenizer *t, const char *mark, size_t n, tern_buf *out, uint32_t *n_marks,
                            tern_error *err)
{
    tern_tokens ids = {0};
    tern_status status;
    TERN_GOTO(tern_tokenize(t, mark, n, true, &ids, err));
    if (ids.n < 2) goto fail;
    TERN_GOTO(tern_buf_addf(out, err, "%s%.*s (%zu tokens)", *n_marks ? ", " : "", (int)n, mark, ids.n));
    (*n_marks)++;
fail:
    tern_tokens_deinit(&ids);
    return status;
}

tern_status tern_chat_plain_marks(const tern_chat_template *c, const tern_tokenizer *t, tern_buf *out, uint32_t *n,
                                  tern_error *err)
{
    tern_buf text = {0};
    tern_status status;
    *n = 0;
    TERN_GOTO(render(c, t, &text, err));
    for (size_t at = 0; at < text.size;) {
        const bool behind = at && text.data[at - 1] == '<';
        const size_t size = behind ? 0 : mark_at(text.data + at, text.size - at);
        const bool again = size && memmem(text.data, at, text.data + at, size);
        if (size && !again) TERN_GOTO(add_mark(t, text.data + at, size, out, n, err));
        at += size ? size : 1;
    }
fail:
    tern_buf_deinit(&text);
    return status;
}
