/* Reading the source of a grammar character by character, with errors that give line and column; for GBNF and regular
 * expressions. */
#ifndef TERN_TEXT_GRAMMAR_READER_H
#define TERN_TEXT_GRAMMAR_READER_H

#include "base/bytes.h"
#include "text/grammar/tree.h"

typedef struct tern_grammar_reader {
    tern_span source;
    size_t at;
    const char *what; /* "grammar", "regular expression" */
    unsigned nesting;
} tern_grammar_reader;

/* The byte that comes next, or 0 at the end; and `ahead` bytes later. */
static inline uint8_t tern_grammar_reader__peek(const tern_grammar_reader *r, size_t ahead)
{
    return ahead < r->source.size - r->at ? r->source.data[r->at + ahead] : 0;
}

static inline bool tern_grammar_reader__is_over(const tern_grammar_reader *r)
{
    return r->at >= r->source.size;
}

/* True, and past it, when the byte comes next. */
bool tern_grammar_reader__skip(tern_grammar_reader *r, char byte);
/* MALFORMED: "grammar: line 3, column 7: found "x": a rule's name expected". */
tern_status tern_grammar_reader__fail(const tern_grammar_reader *r, const char *expected, tern_error *err);
/* As above at another place. */
tern_status tern_grammar_reader__fail_at(const tern_grammar_reader *r, size_t at, const char *expected,
                                         tern_error *err);
/* Line and column (both from 1) of a place. */
void tern_grammar_reader__where(const tern_grammar_reader *r, size_t at, uint32_t *line, uint32_t *column);
/* The next character. Errors: MALFORMED (not UTF-8, or the end: `expected` says of what). */
tern_status tern_grammar_reader__code(tern_grammar_reader *r, const char *expected, uint32_t *code, tern_error *err);
/* `digits` hexadecimal digits. */
tern_status tern_grammar_reader__hex(tern_grammar_reader *r, unsigned digits, uint32_t *code, tern_error *err);
/* Decimal digits; false, with nothing read, where there are none. At most 9 count: more make 999999999. */
bool tern_grammar_reader__number(tern_grammar_reader *r, uint32_t *number);
/* The words after "{" of a repetition: "m}", "m,}", ",n}" or "m,n}". */
tern_status tern_grammar_reader__counts(tern_grammar_reader *r, uint32_t *least, uint32_t *most, tern_error *err);
/* One group deeper; LIMIT beyond MAX_NESTING. */
tern_status tern_grammar_reader__enter(tern_grammar_reader *r, tern_error *err);

/* Ranges of characters that grow; zero-initialised is empty. The caller's to free. */
typedef struct tern_grammar_ranges {
    tern_grammar_range *items;
    size_t n, cap;
} tern_grammar_ranges;

tern_status tern_grammar_ranges__add(tern_grammar_ranges *ranges, uint32_t first, uint32_t last, tern_error *err);

#endif
