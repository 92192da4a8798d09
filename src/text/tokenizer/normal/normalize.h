/* Text made ready for SentencePiece-like vocabularies: white space is written as "▁", a space is put in front, and
 * characters are mapped. */
#ifndef TERN_TEXT_TOKENIZER_NORMALIZE_H
#define TERN_TEXT_TOKENIZER_NORMALIZE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/error.h"
#include "text/tokenizer/added.h"
#include "text/tokenizer/normal/charsmap.h"

typedef enum tern_prefix { TERN_PREFIX_NEVER, TERN_PREFIX_FIRST, TERN_PREFIX_ALWAYS } tern_prefix;

typedef struct tern_normalizer {
    tern_prefix prefix; /* a space before the text: only at its very start, or also after each control token */
    bool prefix_once;   /* not where there is one already */
    bool escape;        /* " " becomes "▁" */
    bool remove_extra;  /* no leading, trailing or double spaces */
    bool suffix;        /* the added space goes behind the text */
    tern_charsmap charsmap;
} tern_normalizer;

/* Adds the normal form of text to out: always valid UTF-8, each byte that was not becoming U+FFFD. Text that `frozen`
 * matches is left as it is. `first`: the text starts here. Source: SentencePiece, normalizer.cc. */
tern_status tern_normalizer__run(const tern_normalizer *norm, const tern_added *frozen, tern_span text, bool first,
                                 tern_buf *out, tern_error *err);

#endif
