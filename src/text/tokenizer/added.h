/* Tokens that are matched whole in the text before anything else: control tokens and user-defined symbols. */
#ifndef TERN_TEXT_TOKENIZER_ADDED_H
#define TERN_TEXT_TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

/* As in tokenizer.json's added_tokens. */
enum { TERN_ADDED_LSTRIP = 1, TERN_ADDED_RSTRIP = 2, TERN_ADDED_SINGLE_WORD = 4, TERN_ADDED_CONTROL = 8 };
enum { TERN_ADDED_MAX_BYTES = 1024 };

typedef struct tern_added_token {
    tern_span text; /* lives as long as the vocabulary */
    int32_t id;
    unsigned flags;
} tern_added_token;

/* Zero-initialised is empty. */
typedef struct tern_added {
    tern_added_token *tokens; /* sorted by text once indexed */
    size_t n, cap;
    uint32_t first[257]; /* tokens that begin with byte b: first[b] .. first[b+1] */
} tern_added;

typedef struct tern_added_match {
    size_t start, end; /* with the white space that lstrip and rstrip take */
    int32_t id;
} tern_added_match;

/* Errors: LIMIT for texts longer than TERN_ADDED_MAX_BYTES. Empty texts are left out. */
tern_status tern_added__add(tern_added *added, tern_span text, int32_t id, unsigned flags, tern_error *err);
/* Sorts; call once, after the last add and when the texts will not move again. */
void tern_added__index(tern_added *added);
/* The longest token that starts exactly at p, of which n > 0 bytes may be read; NULL when none. Control tokens only
 * with `control`. */
const tern_added_token *tern_added__at(const tern_added *added, const uint8_t *p, size_t n, bool control);
/* The first, and there the longest, match in text[from..n); false when there is none. `untrusted` is NULL or has a byte
 * for each of text: control tokens match only where all of them are 0. */
bool tern_added__next(const tern_added *added, const uint8_t *text, const uint8_t *untrusted, size_t n, size_t from,
                      bool control, tern_added_match *match);
void tern_added__deinit(tern_added *added);

#endif
