/* The tokens of a vocabulary as a tree of their bytes, in the order in which a walk meets them. */
#ifndef TERN_TEXT_GRAMMAR_VOCAB_H
#define TERN_TEXT_GRAMMAR_VOCAB_H

#include "text/tokenizer/tokenizer.h"

enum { TERN_GRAMMAR_MAX_TOKEN = 512 }; /* bytes; longer tokens are never allowed */

/* One byte after those of its ancestors. Nodes lie in the order of a walk: children follow their parent. */
typedef struct tern_grammar_twig {
    uint32_t skip;  /* the node after its descendants */
    uint32_t first; /* tokens[first] is the first that begins with these bytes; the next node's is the end of those
                     * that are these bytes */
    uint16_t depth; /* 1: one byte */
    uint8_t byte;
    uint8_t below; /* the kinds of its descendants' bytes */
} tern_grammar_twig;

/* Kinds of bytes, as bits, which the classes of most expressions hold whole or not at all. */
enum {
    TERN_GRAMMAR_LOWER = 1,
    TERN_GRAMMAR_UPPER = 2,
    TERN_GRAMMAR_DIGIT = 4,
    TERN_GRAMMAR_LINE = 8,   /* _ and - */
    TERN_GRAMMAR_BLANK = 16, /* a space */
    TERN_GRAMMAR_SIGN = 32,  /* other ASCII that may stand in a JSON string as it is */
    TERN_GRAMMAR_OTHER = 64
};

static inline uint8_t tern_grammar_kind_of(uint8_t byte)
{
    if (byte >= 'a' && byte <= 'z') return TERN_GRAMMAR_LOWER;
    if (byte >= 'A' && byte <= 'Z') return TERN_GRAMMAR_UPPER;
    if (byte >= '0' && byte <= '9') return TERN_GRAMMAR_DIGIT;
    if (byte == '_' || byte == '-') return TERN_GRAMMAR_LINE;
    if (byte == ' ') return TERN_GRAMMAR_BLANK;
    return byte > ' ' && byte < 0x7f && byte != '"' && byte != '\\' ? TERN_GRAMMAR_SIGN : TERN_GRAMMAR_OTHER;
}

struct tern_grammar_vocab {
    const tern_tokenizer *tokenizer;
    uint32_t n;               /* ids */
    tern_grammar_twig *twigs; /* [n_twigs + 1] */
    uint32_t n_twigs;
    int32_t *tokens; /* [n_tokens] neither special nor ends, in the order of their bytes */
    uint32_t n_tokens;
};

#endif
