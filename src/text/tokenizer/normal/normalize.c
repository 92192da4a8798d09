/* Text made ready for SentencePiece-like vocabularies. */
#include "text/tokenizer/normal/normalize.h"

#include <string.h>

#include "text/utf8.h"

#define SPACE_SYMBOL "\xE2\x96\x81"

/* The next stretch of text that is mapped as one: how many bytes it takes, and what it becomes. */
static tern_status next_part(const tern_normalizer *norm, const tern_added *frozen, tern_span text, size_t *taken,
                             tern_span *becomes, tern_error *err)
{
    const tern_added_token *token = frozen->n ? tern_added__at(frozen, text.data, text.size, false) : NULL;
    if (token) {
        *becomes = token->text;
        *taken = token->text.size;
        return TERN_OK;
    }
    TERN_TRY(tern_charsmap__match(&norm->charsmap, text, taken, becomes, err));
    if (*taken) return TERN_OK;
    uint32_t code;
    *taken = tern_utf8__decode(text.data, text.size, &code);
    *becomes = *taken ? (tern_span){text.data, *taken} : (tern_span){(const uint8_t *)"\xEF\xBF\xBD", 3};
    if (*taken == 0) *taken = 1;
    return TERN_OK;
}

static tern_status add_space(const tern_normalizer *norm, tern_buf *out, tern_error *err)
{
    return norm->escape ? tern_buf_add(out, SPACE_SYMBOL, 3, err) : tern_buf_add(out, " ", 1, err);
}

static tern_status add_escaped(const tern_normalizer *norm, tern_span part, tern_buf *out, tern_error *err)
{
    for (size_t i = 0; i < part.size; i++) {
        if (part.data[i] == ' ') TERN_TRY(add_space(norm, out, err));
        else TERN_TRY(tern_buf_add(out, part.data + i, 1, err));
    }
    return TERN_OK;
}

static tern_status add_parts(const tern_normalizer *norm, const tern_added *frozen, tern_span text, tern_buf *out,
                             tern_error *err)
{
    bool after_space = true;
    for (size_t at = 0; at < text.size;) {
        tern_span part;
        size_t taken;
        TERN_TRY(next_part(norm, frozen, (tern_span){text.data + at, text.size - at}, &taken, &part, err));
        at += taken;
        while (norm->remove_extra && after_space && part.size && part.data[0] == ' ') {
            part.data++;
            part.size--;
        }
        if (part.size == 0) continue;
        TERN_TRY(add_escaped(norm, part, out, err));
        after_space = part.data[part.size - 1] == ' ';
    }
    return TERN_OK;
}

static void trim_end(const tern_normalizer *norm, tern_buf *out, size_t start)
{
    const char *space = norm->escape ? SPACE_SYMBOL : " ";
    size_t n = strlen(space);
    while (out->size - start >= n && memcmp(out->data + out->size - n, space, n) == 0) out->size -= n;
}

static bool is_blank(tern_span text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] != ' ') return false;
    return true;
}

tern_status tern_normalizer__run(const tern_normalizer *norm, const tern_added *frozen, tern_span text, bool first,
                                 tern_buf *out, tern_error *err)
{
    if (text.size == 0 || (norm->remove_extra && is_blank(text))) return TERN_OK;
    size_t start = out->size;
    bool extra = norm->prefix == TERN_PREFIX_ALWAYS || (norm->prefix == TERN_PREFIX_FIRST && first);
    if (norm->prefix_once && (text.data[0] == ' ' || (text.size >= 3 && !memcmp(text.data, SPACE_SYMBOL, 3))))
        extra = false;
    if (extra && !norm->suffix) TERN_TRY(add_space(norm, out, err));
    TERN_TRY(add_parts(norm, frozen, text, out, err));
    if (norm->remove_extra) trim_end(norm, out, start);
    return extra && norm->suffix ? add_space(norm, out, err) : TERN_OK;
}
