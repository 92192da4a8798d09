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
} tern_grammar_twig;

struct tern_grammar_vocab {
    const tern_tokenizer *tokenizer;
    uint32_t n;               /* ids */
    tern_grammar_twig *twigs; /* [n_twigs + 1] */
    uint32_t n_twigs;
    int32_t *tokens; /* [n_tokens] neither special nor ends, in the order of their bytes */
    uint32_t n_tokens;
};

#endif
