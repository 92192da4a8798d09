/* The vocabulary: entries over one run of bytes, and a hash table over their keys. */
#include "text/tokenizer/vocab.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "text/tokenizer/alphabet.h"
#include "text/utf8.h"

tern_status tern_vocab__resize(tern_vocab *v, size_t n, tern_error *err)
{
    if (n > TERN_VOCAB_MAX)
        return tern_fail(err, TERN_LIMIT, "vocabulary of %zu tokens: at most %d expected", n, TERN_VOCAB_MAX);
    if (n <= v->n) return TERN_OK;
    void *entries = v->entries;
    TERN_TRY(tern_grow(&entries, &v->cap, n, sizeof *v->entries, err));
    v->entries = entries;
    for (size_t i = v->n; i < n; i++) v->entries[i] = (tern_vocab_entry){.type = TERN_TOKEN_UNUSED};
    v->n = (uint32_t)n;
    return TERN_OK;
}

tern_status tern_vocab__reserve(tern_vocab *v, size_t bytes, tern_error *err)
{
    void *data = v->bytes.data;
    TERN_TRY(tern_grow(&data, &v->bytes.cap, bytes + 1, 1, err));
    v->bytes.data = data;
    return TERN_OK;
}

/* "<0x0A>" is the byte 10; -1 for anything else. */
static int hex_byte(const uint8_t *p, size_t n)
{
    if (n != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>') return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        const char *digits = "0123456789ABCDEF", *at = memchr(digits, p[i] >= 'a' ? p[i] - 32 : p[i], 16);
        if (!at) return -1;
        value = value * 16 + (int)(at - digits);
    }
    return value;
}

static tern_status add_bytes(tern_vocab *v, const void *bytes, size_t n, uint32_t *at, tern_error *err)
{
    if (n > UINT32_MAX / 2 || v->bytes.size > UINT32_MAX / 2)
        return tern_fail(err, TERN_LIMIT, "the vocabulary's pieces take more than 2 GiB");
    *at = (uint32_t)v->bytes.size;
    return tern_buf_add(&v->bytes, bytes, n, err);
}

/* A SentencePiece piece as text: "▁" (E2 96 81) becomes a space. */
static tern_status add_spaced(tern_vocab *v, tern_vocab_entry *e, const uint8_t *piece, size_t n, tern_error *err)
{
    e->text_at = (uint32_t)v->bytes.size;
    for (size_t at = 0; at < n;) {
        bool space = n - at >= 3 && memcmp(piece + at, "\xE2\x96\x81", 3) == 0;
        TERN_TRY(tern_buf_add(&v->bytes, space ? (const void *)" " : piece + at, 1, err));
        at += space ? 3 : 1;
    }
    e->text_size = (uint32_t)v->bytes.size - e->text_at;
    return TERN_OK;
}

/* A GPT-2 piece as text; a piece with characters outside the alphabet stands for itself. */
static tern_status add_decoded(tern_vocab *v, tern_vocab_entry *e, const uint8_t *piece, size_t n, tern_error *err)
{
    TERN_TRY(tern_vocab__reserve(v, v->bytes.size + n, err));
    size_t size = tern_alphabet__decode((uint8_t *)v->bytes.data + v->bytes.size, piece, n);
    if (size == SIZE_MAX) return TERN_OK;
    e->text_at = (uint32_t)v->bytes.size;
    e->text_size = (uint32_t)size;
    v->bytes.size += size;
    return TERN_OK;
}

static tern_status add_text(tern_vocab *v, tern_vocab_entry *e, const uint8_t *piece, size_t n, tern_error *err)
{
    e->text_at = e->piece_at;
    e->text_size = e->piece_size;
    int byte = hex_byte(piece, n);
    if (e->type == TERN_TOKEN_BYTE && byte >= 0) {
        uint8_t b = (uint8_t)byte;
        e->text_size = 1;
        return add_bytes(v, &b, 1, &e->text_at, err);
    }
    if (e->type == TERN_TOKEN_CONTROL || e->type == TERN_TOKEN_UNKNOWN) return TERN_OK;
    if (v->alphabet == TERN_ALPHABET_BYTES) return memchr(piece, 0xE2, n) ? add_spaced(v, e, piece, n, err) : TERN_OK;
    return e->type == TERN_TOKEN_USER ? TERN_OK : add_decoded(v, e, piece, n, err);
}

static tern_status check_entry(const tern_vocab *v, uint32_t id, tern_span piece, tern_token_type type, float score,
                               tern_error *err)
{
    if (id >= v->n) return tern_fail(err, TERN_MALFORMED, "token id %u: below %u expected", id, v->n);
    if (v->entries[id].piece_size)
        return tern_fail(err, TERN_MALFORMED, "token %u: is \"%s\" and \"%s\"", id,
                         tern_show(tern_vocab__piece(v, id)).text, tern_show(piece).text);
    if (type < TERN_TOKEN_NORMAL || type > TERN_TOKEN_BYTE)
        return tern_fail(err, TERN_MALFORMED, "token %u \"%s\": type %d, 1 to 6 expected", id, tern_show(piece).text,
                         (int)type);
    if (!isfinite(score))
        return tern_fail(err, TERN_MALFORMED, "token %u \"%s\": score %g is not finite", id, tern_show(piece).text,
                         (double)score);
    return TERN_OK;
}

tern_status tern_vocab__set(tern_vocab *v, uint32_t id, const void *piece, size_t size, tern_token_type type,
                            float score, tern_error *err)
{
    TERN_TRY(check_entry(v, id, (tern_span){piece, size}, type, score, err));
    tern_vocab_entry e = {.piece_size = (uint32_t)size, .score = score, .type = (uint8_t)type};
    if (size == 0) e.type = TERN_TOKEN_UNUSED;
    TERN_TRY(add_bytes(v, piece, size, &e.piece_at, err));
    TERN_TRY(add_text(v, &e, piece, size, err));
    v->entries[id] = e;
    return TERN_OK;
}

tern_status tern_vocab__set_text(tern_vocab *v, uint32_t id, const void *text, size_t size, tern_token_type type,
                                 tern_error *err)
{
    const uint8_t *bytes = text;
    TERN_TRY(check_entry(v, id, (tern_span){text, size}, type, 0, err));
    tern_vocab_entry e = {.text_size = (uint32_t)size, .type = (uint8_t)type};
    TERN_TRY(add_bytes(v, text, size, &e.text_at, err));
    e.piece_at = (uint32_t)v->bytes.size;
    for (size_t i = 0; i < size; i++) {
        uint8_t out[4];
        unsigned length = tern_utf8__encode(out, tern_alphabet__code(bytes[i]));
        TERN_TRY(tern_buf_add(&v->bytes, out, length, err));
    }
    e.piece_size = (uint32_t)v->bytes.size - e.piece_at;
    v->entries[id] = e;
    return TERN_OK;
}

void tern_vocab__mark(tern_vocab *v, uint32_t id, tern_token_type type, unsigned flags)
{
    tern_vocab_entry *e = &v->entries[id];
    e->type = (uint8_t)type;
    e->flags = (uint8_t)flags;
    if (type == TERN_TOKEN_USER && v->alphabet == TERN_ALPHABET_BYTES) return; /* "▁▁" stands for two spaces */
    e->text_at = e->piece_at;
    e->text_size = e->piece_size;
}

static tern_span key_of(const tern_vocab *v, uint32_t id)
{
    return v->alphabet == TERN_ALPHABET_GPT2 ? tern_vocab__text(v, id) : tern_vocab__piece(v, id);
}

static bool same(tern_span a, tern_span b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

bool tern_vocab__is_plain(const tern_vocab *v, uint32_t id)
{
    const tern_vocab_entry *e = &v->entries[id];
    return e->type == TERN_TOKEN_NORMAL && (v->alphabet == TERN_ALPHABET_BYTES || e->text_at != e->piece_at);
}

/* Two pieces with the same text ("Ġ" and an added " ") share one key, which the plain token keeps. */
static tern_status insert(tern_vocab *v, uint32_t id, tern_error *err)
{
    tern_span key = key_of(v, id), piece = tern_vocab__piece(v, id);
    bool added;
    uint32_t other = 0;
    if (key.size == 0) return TERN_OK;
    if (key.size > v->max_key) v->max_key = (uint32_t)key.size;
    TERN_TRY(tern_map_add(&v->ids, key, id, &added, err));
    if (added || !tern_map_find(&v->ids, key, &other) || !same(tern_vocab__piece(v, other), piece)) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "tokens %u and %u are both \"%s\"", other, id, tern_show(piece).text);
}

static void find_byte_ids(tern_vocab *v)
{
    memset(v->byte_ids, 0xFF, sizeof v->byte_ids);
    for (uint32_t id = 0; id < v->n; id++) {
        const tern_vocab_entry *e = &v->entries[id];
        bool wanted = v->alphabet == TERN_ALPHABET_GPT2 ? tern_vocab__is_plain(v, id) : e->type == TERN_TOKEN_BYTE;
        if (!wanted || e->text_size != 1) continue;
        int32_t *slot = &v->byte_ids[(uint8_t)v->bytes.data[e->text_at]];
        if (*slot < 0) *slot = (int32_t)id;
    }
}

tern_status tern_vocab__index(tern_vocab *v, tern_error *err)
{
    tern_map_deinit(&v->ids);
    TERN_TRY(tern_map_reserve(&v->ids, v->n, err));
    v->max_key = 0;
    for (uint32_t id = 0; id < v->n; id++)
        if (tern_vocab__is_plain(v, id)) TERN_TRY(insert(v, id, err));
    for (uint32_t id = 0; id < v->n; id++)
        if (!tern_vocab__is_plain(v, id)) TERN_TRY(insert(v, id, err));
    find_byte_ids(v);
    return TERN_OK;
}

void tern_vocab__deinit(tern_vocab *v)
{
    tern_map_deinit(&v->ids);
    tern_free(v->entries);
    tern_buf_deinit(&v->bytes);
    *v = (tern_vocab){0};
}

int32_t tern_vocab__find(const tern_vocab *v, const void *key, size_t size)
{
    uint32_t id;
    if (size == 0 || size > v->max_key) return -1;
    return tern_map_find(&v->ids, (tern_span){key, size}, &id) ? (int32_t)id : -1;
}

static bool has_piece(const tern_vocab *v, int32_t id, tern_span piece)
{
    return id >= 0 && same(tern_vocab__piece(v, (uint32_t)id), piece);
}

int32_t tern_vocab__find_piece(const tern_vocab *v, const void *piece, size_t size)
{
    tern_span wanted = {piece, size};
    int32_t id = tern_vocab__find(v, piece, size);
    if (has_piece(v, id, wanted) || v->alphabet == TERN_ALPHABET_BYTES) return id;
    if (size > (size_t)v->max_key * 2) return -1;
    uint8_t room[256], *text = size <= sizeof room ? room : tern_alloc(size);
    size_t text_size = text ? tern_alphabet__decode(text, piece, size) : SIZE_MAX;
    id = text_size != SIZE_MAX ? tern_vocab__find(v, text, text_size) : -1;
    if (text != room) tern_free(text);
    return has_piece(v, id, wanted) ? id : -1;
}
