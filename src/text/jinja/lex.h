/* Splits the text of a chat template into tokens, with Jinja's white-space control (trim_blocks and lstrip_blocks on).
 */
#ifndef TERN_TEXT_JINJA_LEX_H
#define TERN_TEXT_JINJA_LEX_H

#include "text/jinja/value.h"

typedef enum tern_jinja_token_kind {
    TERN_JINJA_END,         /* of the template */
    TERN_JINJA_DATA,        /* text outside tags */
    TERN_JINJA_BLOCK_BEGIN, /* {% */
    TERN_JINJA_BLOCK_END,
    TERN_JINJA_PRINT_BEGIN, /* {{ */
    TERN_JINJA_PRINT_END,
    TERN_JINJA_WORD,    /* a name or keyword */
    TERN_JINJA_LITERAL, /* a number or string: value */
    TERN_JINJA_OPERATOR /* text: one of "+", "==", "(", ... */
} tern_jinja_token_kind;

typedef struct tern_jinja_token {
    tern_jinja_token_kind kind;
    uint32_t line;
    tern_jinja_str text;
    tern_jinja_value value;
} tern_jinja_token;

/* `source` has "\n" line ends only and outlives the lexer. */
typedef struct tern_jinja_lexer {
    tern_jinja_pool *pool;
    const char *source;
    size_t n, at;
    uint32_t line;
    unsigned brackets; /* open ( [ { inside the tag */
    char tag;          /* '%' or '{' inside a tag, 0 outside */
} tern_jinja_lexer;

/* Copies n bytes of template with line ends made "\n" and one line end at the very end dropped, and starts there. */
tern_status tern_jinja__lex_open(tern_jinja_lexer *lex, tern_jinja_pool *pool, const char *source, size_t n);
/* The next token; END again and again after the last. Errors: MALFORMED, UNSUPPORTED, LIMIT. */
tern_status tern_jinja__lex_next(tern_jinja_lexer *lex, tern_jinja_token *token);

/* The value of a number or a quoted string at `s` (inside a tag); *used is its length in bytes. */
tern_status tern_jinja__lex_number(tern_jinja_pool *pool, const char *s, size_t n, bool after_dot,
                                   tern_jinja_value *out, size_t *used);
tern_status tern_jinja__lex_string(tern_jinja_pool *pool, const char *s, size_t n, tern_jinja_value *out, size_t *used);
/* The integer of a base up to 36 at the start of s, single underscores between its digits; *used: its bytes. */
tern_status tern_jinja__parse_int(tern_jinja_pool *pool, const char *s, size_t n, unsigned base, int64_t *out,
                                  size_t *used);
/* 2, 8 or 16 for what begins with 0b, 0o or 0x, else 10. */
unsigned tern_jinja__base_of(const char *s, size_t n);
/* The float that s spells: digits, "_", ".", "e" and signs only, at most 63 of them. */
tern_status tern_jinja__parse_float(tern_jinja_pool *pool, tern_jinja_str s, tern_jinja_value *out);

#endif
