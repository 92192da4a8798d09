/* SentencePiece's precompiled character map: normalisation rules in a double-array trie. */
#ifndef TERN_TEXT_CHARSMAP_H
#define TERN_TEXT_CHARSMAP_H

#include "base/bytes.h"
#include "base/error.h"

/* Zero-initialised maps nothing. */
typedef struct tern_charsmap {
    tern_buf blob; /* u32 bytes of trie, trie of u32 units, then NUL-terminated replacements */
    size_t n_units;
} tern_charsmap;

/* Copies the blob. An empty one maps nothing. Errors: MALFORMED (sizes). Source: SentencePiece, normalizer.cc. */
tern_status tern_charsmap__open(tern_charsmap *map, tern_span blob, tern_error *err);
/* What a rule may make of its characters at most: NFKC's longest, of U+FDFA, has 33 bytes. */
enum { TERN_CHARSMAP_MAX_BYTES = 128 };

/* The longest rule that matches at the start of text: how many bytes it takes (0: none), and what they become; more
 * than TERN_CHARSMAP_MAX_BYTES count as one more. */
size_t tern_charsmap__match(const tern_charsmap *map, tern_span text, tern_span *replacement);
void tern_charsmap__deinit(tern_charsmap *map);

#endif
