/* SentencePiece's precompiled character map: normalisation rules in a double-array trie. */
#ifndef TERN_TEXT_TOKENIZER_CHARSMAP_H
#define TERN_TEXT_TOKENIZER_CHARSMAP_H

#include "base/bytes.h"
#include "base/error.h"

/* Zero-initialised maps nothing. */
typedef struct tern_charsmap {
    tern_buf blob; /* u32 bytes of trie, trie of u32 units, then NUL-terminated replacements */
    size_t n_units;
} tern_charsmap;

/* Copies the blob. An empty one maps nothing. Errors: MALFORMED (sizes). Source: SentencePiece, normalizer.cc. */
tern_status tern_charsmap__open(tern_charsmap *map, tern_span blob, tern_error *err);
/* How long both sides of a rule may be: NFKC's longest, of U+FDFA, makes 33 bytes. */
enum { TERN_CHARSMAP_MAX_BYTES = 128 };

/* The longest rule that matches at the start of text: how many bytes it takes (0: none), and what they become.
 * Errors: LIMIT (a rule of more than TERN_CHARSMAP_MAX_BYTES), MALFORMED (they become no UTF-8). */
tern_status tern_charsmap__match(const tern_charsmap *map, tern_span text, size_t *taken, tern_span *becomes,
                                 tern_error *err);
void tern_charsmap__deinit(tern_charsmap *map);

#endif
