/* Text to token ids. */
#include <string.h>

#include "base/alloc.h"
#include "text/tokenizer/internal.h"
#include "text/tokenizer/normal/nfc.h"
#include "text/utf8.h"

/* One call of tern_tokenize: what it reads, and the storage that goes from piece to piece. */
typedef struct work {
    const tern_tokenizer *t;
    tern_tokens *out;
    tern_bpe bpe;
    tern_buf composed, normal;
    bool after_unk;
} work;

tern_status tern_tokens_add(tern_tokens *tokens, int32_t id, tern_error *err)
{
    TERN_NEED(tokens, err);
    if (tokens->n == tokens->cap) {
        void *ids = tokens->ids;
        TERN_TRY(tern_grow(&ids, &tokens->cap, tokens->n + 1, sizeof id, err));
        tokens->ids = ids;
    }
    tokens->ids[tokens->n++] = id;
    return TERN_OK;
}

void tern_tokens_deinit(tern_tokens *tokens)
{
    if (!tokens) return;
    tern_free(tokens->ids);
    *tokens = (tern_tokens){0};
}

static tern_status add_id(work *w, int32_t id, tern_error *err)
{
    w->after_unk = false;
    return tern_tokens_add(w->out, id, err);
}

static tern_status add_unknown(work *w, tern_span text, tern_error *err)
{
    const tern_tokenizer *t = w->t;
    if (t->unk < 0)
        return tern_fail(err, TERN_MALFORMED, "the vocabulary has no token for byte 0x%02X, and none for unknown text",
                         text.data[0]);
    if (w->after_unk && t->fuse_unk) return TERN_OK;
    TERN_TRY(tern_tokens_add(w->out, t->unk, err));
    w->after_unk = true;
    return TERN_OK;
}

static bool has_bytes(const tern_tokenizer *t, tern_span text)
{
    for (size_t i = 0; i < text.size; i++)
        if (t->vocab.byte_ids[text.data[i]] < 0) return false;
    return t->byte_fallback;
}

static tern_status add_bytes(work *w, tern_span text, tern_error *err)
{
    for (size_t i = 0; i < text.size; i++) TERN_TRY(add_id(w, w->t->vocab.byte_ids[text.data[i]], err));
    return TERN_OK;
}

/* The token that plain text of exactly these bytes may become, or -1. */
static int32_t find_plain(const tern_vocab *v, tern_span text)
{
    int32_t id = tern_vocab__find(v, text.data, text.size);
    if (id < 0) return -1;
    return tern_vocab__is_plain(v, (uint32_t)id) || v->entries[id].type == TERN_TOKEN_USER ? id : -1;
}

static tern_status add_symbols(work *w, tern_span piece, tern_error *err)
{
    if (w->bpe.n == 0) return TERN_OK;
    for (int32_t i = 0; i >= 0; i = w->bpe.symbols[i].next) {
        const tern_bpe_symbol *s = &w->bpe.symbols[i];
        tern_span text = {piece.data + s->at, s->size};
        int32_t id = s->id >= 0 ? s->id : find_plain(&w->t->vocab, text);
        if (id >= 0) TERN_TRY(add_id(w, id, err));
        else if (has_bytes(w->t, text)) TERN_TRY(add_bytes(w, text, err));
        else TERN_TRY(add_unknown(w, text, err));
    }
    return TERN_OK;
}

/* One symbol for each byte. */
static tern_status split_bytes(work *w, tern_span text, size_t at, size_t size, tern_error *err)
{
    for (size_t i = at; i < at + size; i++)
        TERN_TRY(tern_bpe__add(&w->bpe, (uint32_t)i, 1, w->t->vocab.byte_ids[text.data[i]], false, err));
    return TERN_OK;
}

/* One symbol for each character, each user-defined symbol and each byte that is not UTF-8 (a vocabulary's map of
 * characters may make such). With listed merges an unknown character counts as its bytes. */
static tern_status split_chars(work *w, tern_span text, tern_error *err)
{
    const tern_tokenizer *t = w->t;
    for (size_t at = 0; at < text.size;) {
        size_t left = text.size - at;
        uint32_t code;
        const tern_added_token *token = t->frozen.n ? tern_added__at(&t->frozen, text.data + at, left, false) : NULL;
        size_t size = token ? token->text.size : tern_utf8__decode(text.data + at, left, &code);
        if (size == 0) size = 1;
        tern_span character = {text.data + at, size};
        int32_t id = token ? token->id : t->rule == TERN_MERGE_PAIRS ? find_plain(&t->vocab, character) : -1;
        if (id < 0 && t->rule == TERN_MERGE_PAIRS && has_bytes(t, character))
            TERN_TRY(split_bytes(w, text, at, size, err));
        else TERN_TRY(tern_bpe__add(&w->bpe, (uint32_t)at, (uint32_t)size, id, token != NULL, err));
        at += size;
    }
    return TERN_OK;
}

static tern_status add_piece(void *user, tern_span piece, tern_error *err)
{
    work *w = user;
    const tern_tokenizer *t = w->t;
    int32_t whole = t->ignore_merges || piece.size == 1 ? find_plain(&t->vocab, piece) : -1;
    if (whole >= 0) return add_id(w, whole, err);
    w->bpe.n = 0;
    if (t->vocab.alphabet == TERN_ALPHABET_GPT2) TERN_TRY(split_bytes(w, piece, 0, piece.size, err));
    else TERN_TRY(split_chars(w, piece, err));
    TERN_TRY(tern_bpe__merge(&w->bpe, t->rule, &t->vocab, &t->pairs, piece.data, err));
    return add_symbols(w, piece, err);
}

/* Text between special tokens. */
static tern_status add_plain(work *w, tern_span text, bool first, tern_error *err)
{
    const tern_tokenizer *t = w->t;
    w->after_unk = false;
    if (t->nfc) {
        w->composed.size = 0;
        TERN_TRY(tern_nfc__normalize(text, &w->composed, err));
        text = (tern_span){(const uint8_t *)w->composed.data, w->composed.size};
    }
    if (t->vocab.alphabet == TERN_ALPHABET_GPT2)
        return tern_pretokenizer__run(&t->pre, text.data, text.size, add_piece, w, err);
    w->normal.size = 0;
    TERN_TRY(tern_normalizer__run(&t->norm, &t->frozen, text, first, &w->normal, err));
    if (w->normal.size > UINT32_MAX) return tern_fail(err, TERN_LIMIT, "text of more than 4 GiB");
    return tern_pretokenizer__run(&t->pre, (const uint8_t *)w->normal.data, w->normal.size, add_piece, w, err);
}

static tern_status add_all(work *w, tern_span text, const uint8_t *untrusted, bool allow_special, tern_error *err)
{
    tern_added_match match;
    size_t at = 0;
    while (at < text.size &&
           tern_added__next(&w->t->added, text.data, untrusted, text.size, at, allow_special, &match)) {
        TERN_TRY(add_plain(w, (tern_span){text.data + at, match.start - at}, at == 0, err));
        TERN_TRY(add_id(w, match.id, err));
        at = match.end;
    }
    return add_plain(w, (tern_span){text.data + at, text.size - at}, at == 0, err);
}

static tern_status tokenize(const tern_tokenizer *t, const void *text, const uint8_t *untrusted, size_t n,
                            bool allow_special, tern_tokens *out, tern_error *err)
{
    if (n > UINT32_MAX / 4) return tern_fail(err, TERN_LIMIT, "text of %zu bytes: at most 1 GiB expected", n);
    work w = {.t = t, .out = out};
    size_t before = out->n;
    tern_status status = add_all(&w, (tern_span){n ? text : "", n}, untrusted, allow_special, err);
    if (status != TERN_OK) out->n = before;
    tern_bpe__deinit(&w.bpe);
    tern_buf_deinit(&w.composed);
    tern_buf_deinit(&w.normal);
    return status;
}

tern_status tern_tokenize(const tern_tokenizer *t, const void *text, size_t n, bool allow_special, tern_tokens *out,
                          tern_error *err)
{
    return tokenize(t, text, NULL, n, allow_special, out, err);
}

tern_status tern_tokenize_marked(const tern_tokenizer *t, const void *text, const uint8_t *untrusted, size_t n,
                                 tern_tokens *out, tern_error *err)
{
    return tokenize(t, text, untrusted, n, true, out, err);
}
