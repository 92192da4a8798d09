/* Pre-tokenisation: text cut into pieces by regular expressions, within which byte pairs are merged. */
#ifndef TERN_TEXT_TOKENIZER_PRETOKENIZE_H
#define TERN_TEXT_TOKENIZER_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

/* The treatment of the parts that a pattern matches and of those between them. Source: tokenizers,
 * SplitDelimiterBehavior. */
typedef enum tern_split_behavior {
    TERN_SPLIT_ISOLATED,        /* each match and each gap is a piece */
    TERN_SPLIT_REMOVED,         /* matches are dropped */
    TERN_SPLIT_MATCHES,         /* gaps are dropped: "Removed" with invert */
    TERN_SPLIT_MERGED_PREVIOUS, /* a match joins the gap before it */
    TERN_SPLIT_MERGED_NEXT,     /* a match joins the gap after it */
    TERN_SPLIT_CONTIGUOUS,      /* neighbouring matches are one piece */
    TERN_SPLIT_PREFIX_SPACE     /* no pattern: a space is put in front where there is none */
} tern_split_behavior;

typedef struct tern_splitter tern_splitter;

/* The stages run one after another, each over the pieces of the one before. Zero-initialised leaves text whole. */
enum { TERN_SPLIT_MAX_STAGES = 16 };
typedef struct tern_pretokenizer {
    tern_splitter *stages[TERN_SPLIT_MAX_STAGES];
    size_t n;
} tern_pretokenizer;

/* A named row of the table. */
typedef struct tern_pretokenizer_row {
    const char *names;       /* separated by commas; the first is written to new files */
    bool ignore_merges;      /* a piece that is a token as it stands is not merged */
    bool whole;              /* one pattern, and each character of any text is in a match of it */
    const char *patterns[7]; /* at most 6, and NULL; all ISOLATED */
} tern_pretokenizer_row;

/* The row with this tokenizer.ggml.pre name, or NULL. */
const tern_pretokenizer_row *tern_pretokenizer__find(const void *name, size_t n);
/* The row whose patterns these stages are, with this ignore_merges if there is a choice; or NULL. */
const tern_pretokenizer_row *tern_pretokenizer__row_of(const tern_pretokenizer *p, bool ignore_merges);
/* Whether this is the pattern of a row that leaves no gaps, so that "matches alone" and "isolated" are the same. */
bool tern_pretokenizer__covers(tern_span pattern);
tern_status tern_pretokenizer__add_row(tern_pretokenizer *p, const tern_pretokenizer_row *row, tern_error *err);

/* Adds a stage. Patterns are those of Rust's and Oniguruma's regex: Unicode classes, \s is White_Space. Errors:
 * UNSUPPORTED (the pattern does not compile: its place and why), LIMIT (more than TERN_SPLIT_MAX_STAGES). */
tern_status tern_pretokenizer__add(tern_pretokenizer *p, tern_span pattern, tern_split_behavior behavior,
                                   tern_error *err);
void tern_pretokenizer__deinit(tern_pretokenizer *p);

tern_span tern_splitter__pattern(const tern_splitter *s);
tern_split_behavior tern_splitter__behavior(const tern_splitter *s);
/* "isolated", ... as stored in files; and back: -1 when unknown. */
const char *tern_split_behavior__name(tern_split_behavior behavior);
int tern_split_behavior__find(const void *name, size_t n);

/* Called for each piece, in order. */
typedef tern_status (*tern_piece_fn)(void *user, tern_span piece, tern_error *err);
/* Cuts n bytes of text. Bytes that are not UTF-8 match nothing: each run of them is a piece. Errors: those of fn, and
 * LIMIT when matching takes too many steps. Thread-safe. */
tern_status tern_pretokenizer__run(const tern_pretokenizer *p, const uint8_t *text, size_t n, tern_piece_fn fn,
                                   void *user, tern_error *err);

#endif
