/* Token ids to text, whole and streaming. */
#include <string.h>

#include "text/tokenizer/internal.h"
#include "text/utf8.h"

static const char REPLACEMENT[] = "\xEF\xBF\xBD";

tern_span tern_token_bytes(const tern_tokenizer *t, int32_t id, bool special)
{
    tern_span none = {(const uint8_t *)"", 0};
    if (id < 0 || (uint32_t)id >= t->vocab.n) return none;
    switch (t->vocab.entries[id].type) {
    case TERN_TOKEN_CONTROL:
    case TERN_TOKEN_UNKNOWN:
    case TERN_TOKEN_UNUSED: return special ? tern_vocab__piece(&t->vocab, (uint32_t)id) : none;
    default: return tern_vocab__text(&t->vocab, (uint32_t)id);
    }
}

/* The bytes of a token at this place: the space that was put in front of the text is taken off again. */
static tern_span bytes_at(const tern_tokenizer *t, int32_t id, bool special, bool *started)
{
    tern_span bytes = tern_token_bytes(t, id, special);
    if (*started || bytes.size == 0 || tern_token_is_special(t, id)) return bytes;
    *started = true;
    if (t->norm.prefix == TERN_PREFIX_NEVER || t->norm.suffix || bytes.data[0] != ' ') return bytes;
    return (tern_span){bytes.data + 1, bytes.size - 1};
}

tern_status tern_detokenize(const tern_tokenizer *t, const int32_t *ids, size_t n, bool special, tern_buf *out,
                            tern_error *err)
{
    bool started = false;
    TERN_TRY(tern_buf_add(out, "", 0, err));
    for (size_t i = 0; i < n; i++) {
        tern_span bytes = bytes_at(t, ids[i], special, &started);
        TERN_TRY(tern_buf_add(out, bytes.data, bytes.size, err));
    }
    return TERN_OK;
}

/* Takes one byte: what is pending is always the start of a sequence that can still be completed. */
static tern_status take_byte(tern_text_stream *s, uint8_t byte, tern_buf *out, tern_error *err)
{
    uint32_t code;
    s->pending[s->n_pending++] = byte;
    if (tern_utf8__is_prefix(s->pending, s->n_pending)) return TERN_OK;
    size_t n = s->n_pending;
    s->n_pending = 0;
    if (tern_utf8__decode(s->pending, n, &code) == n) return tern_buf_add(out, s->pending, n, err);
    TERN_TRY(tern_buf_add(out, REPLACEMENT, 3, err));
    return n > 1 ? take_byte(s, byte, out, err) : TERN_OK; /* the byte may start a sequence of its own */
}

tern_status tern_text_stream_add(tern_text_stream *s, const tern_tokenizer *t, int32_t id, bool special, tern_buf *out,
                                 tern_error *err)
{
    tern_span bytes = bytes_at(t, id, special, &s->started);
    for (size_t i = 0; i < bytes.size; i++) TERN_TRY(take_byte(s, bytes.data[i], out, err));
    return TERN_OK;
}

tern_status tern_text_stream_finish(tern_text_stream *s, tern_buf *out, tern_error *err)
{
    bool cut = s->n_pending > 0;
    s->n_pending = 0;
    return cut ? tern_buf_add(out, REPLACEMENT, 3, err) : TERN_OK;
}
