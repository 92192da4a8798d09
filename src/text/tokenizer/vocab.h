/* The vocabulary: what each token id is called, which bytes it stands for, and the id of given bytes. */
#ifndef TERN_TEXT_TOKENIZER_VOCAB_H
#define TERN_TEXT_TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/map.h"

/* The values are those of tokenizer.ggml.token_type. */
typedef enum tern_token_type {
    TERN_TOKEN_NORMAL = 1,
    TERN_TOKEN_UNKNOWN = 2,
    TERN_TOKEN_CONTROL = 3, /* markup: never made from plain text, not shown */
    TERN_TOKEN_USER = 4,    /* user-defined: matched whole in any text, shown */
    TERN_TOKEN_UNUSED = 5,
    TERN_TOKEN_BYTE = 6 /* "<0x0A>" */
} tern_token_type;

/* How pieces are written. */
typedef enum tern_alphabet {
    TERN_ALPHABET_BYTES, /* as they are: "▁the", "<0x0A>" */
    TERN_ALPHABET_GPT2   /* each byte as one printable character: "Ġthe" */
} tern_alphabet;

typedef struct tern_vocab_entry {
    uint32_t piece_at, piece_size; /* the name, in `bytes` */
    uint32_t text_at, text_size;   /* what it puts into the text */
    float score;
    uint8_t type;
    uint8_t flags; /* TERN_ADDED_*: how a CONTROL or USER token is matched */
} tern_vocab_entry;

/* Zero-initialised is empty. */
typedef struct tern_vocab {
    tern_alphabet alphabet;
    tern_vocab_entry *entries; /* [n] */
    uint32_t n;
    size_t cap;
    tern_buf bytes;
    tern_map ids;          /* from keys */
    uint32_t max_key;      /* bytes */
    int32_t byte_ids[256]; /* the token of each single byte, or -1 */
} tern_vocab;

enum { TERN_VOCAB_MAX = 1 << 20 };

/* Makes the vocabulary at least n entries large; those that were not there are UNUSED with an empty piece. LIMIT above
 * TERN_VOCAB_MAX. */
tern_status tern_vocab__resize(tern_vocab *v, size_t n, tern_error *err);
/* Room for the pieces of a file of about this many bytes, so that adding does not copy them over and over. */
tern_status tern_vocab__reserve(tern_vocab *v, size_t bytes, tern_error *err);
/* Names entry `id` < n, which must be unnamed. Scores must be finite. Errors: MALFORMED, naming id and piece. */
tern_status tern_vocab__set(tern_vocab *v, uint32_t id, const void *piece, size_t size, tern_token_type type,
                            float score, tern_error *err);
/* As above for a token that is given by the bytes it stands for; its piece is written in the vocabulary's alphabet. */
tern_status tern_vocab__set_text(tern_vocab *v, uint32_t id, const void *text, size_t size, tern_token_type type,
                                 tern_error *err);
/* Makes a named entry CONTROL or USER: it stands for its piece as it is written, but that "▁" in a USER one of a
 * vocabulary without GPT-2's alphabet remains a space. */
void tern_vocab__mark(tern_vocab *v, uint32_t id, tern_token_type type, unsigned flags);
/* Builds the table and byte_ids, after all entries are set; may be called again after changes. Errors: MALFORMED for
 * duplicate pieces, naming both ids. */
tern_status tern_vocab__index(tern_vocab *v, tern_error *err);
void tern_vocab__deinit(tern_vocab *v);

/* Whether merges can make this token: a normal one, and with GPT-2's alphabet one written in it. Some vocabularies hold
 * a character a second time as it is ("™" beside "âĦ¢"), which no text becomes. */
bool tern_vocab__is_plain(const tern_vocab *v, uint32_t id);

/* The id whose key is exactly these bytes, or -1. A key is the text under GPT-2's alphabet and else the piece. */
int32_t tern_vocab__find(const tern_vocab *v, const void *key, size_t size);
/* The id with this piece, or -1. */
int32_t tern_vocab__find_piece(const tern_vocab *v, const void *piece, size_t size);

static inline tern_span tern_vocab__piece(const tern_vocab *v, uint32_t id)
{
    const tern_vocab_entry *e = &v->entries[id];
    return (tern_span){(const uint8_t *)v->bytes.data + e->piece_at, e->piece_size};
}

static inline tern_span tern_vocab__text(const tern_vocab *v, uint32_t id)
{
    const tern_vocab_entry *e = &v->entries[id];
    return (tern_span){(const uint8_t *)v->bytes.data + e->text_at, e->text_size};
}

#endif
