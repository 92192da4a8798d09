/* The characters of a grammar's source, and where they stand. */
#include "text/grammar/reader.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "text/utf8.h"

bool tern_grammar_reader__skip(tern_grammar_reader *r, char byte)
{
    if (tern_grammar_reader__is_over(r) || r->source.data[r->at] != (uint8_t)byte) return false;
    r->at++;
    return true;
}

void tern_grammar_reader__where(const tern_grammar_reader *r, size_t at, uint32_t *line, uint32_t *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < at && i < r->source.size; i++) {
        const uint8_t b = r->source.data[i];
        if (b == '\n') {
            *line += 1;
            *column = 1;
        } else if ((b & 0xc0) != 0x80) {
            *column += 1;
        }
    }
}

tern_status tern_grammar_reader__fail_at(const tern_grammar_reader *r, size_t at, const char *expected, tern_error *err)
{
    uint32_t line, column, code;
    tern_grammar_reader__where(r, at, &line, &column);
    if (at >= r->source.size)
        return tern_fail(err, TERN_MALFORMED, "%s: line %u, column %u: found the end: %s expected", r->what, line,
                         column, expected);
    unsigned n = tern_utf8__decode(r->source.data + at, r->source.size - at, &code);
    const tern_span found = {r->source.data + at, n ? n : 1};
    return tern_fail(err, TERN_MALFORMED, "%s: line %u, column %u: found \"%s\": %s expected", r->what, line, column,
                     tern_show(found).text, expected);
}

tern_status tern_grammar_reader__fail(const tern_grammar_reader *r, const char *expected, tern_error *err)
{
    return tern_grammar_reader__fail_at(r, r->at, expected, err);
}

tern_status tern_grammar_reader__code(tern_grammar_reader *r, const char *expected, uint32_t *code, tern_error *err)
{
    if (tern_grammar_reader__is_over(r)) return tern_grammar_reader__fail(r, expected, err);
    const unsigned n = tern_utf8__decode(r->source.data + r->at, r->source.size - r->at, code);
    if (n == 0) return tern_grammar_reader__fail(r, "UTF-8", err);
    r->at += n;
    return TERN_OK;
}

tern_status tern_grammar_reader__hex(tern_grammar_reader *r, unsigned digits, uint32_t *code, tern_error *err)
{
    const size_t start = r->at;
    *code = 0;
    for (unsigned i = 0; i < digits; i++) {
        const uint8_t b = tern_grammar_reader__peek(r, 0);
        const uint8_t low = b | 0x20;
        const bool digit = b >= '0' && b <= '9', letter = low >= 'a' && low <= 'f';
        if (!digit && !letter) return tern_grammar_reader__fail(r, "a hexadecimal digit", err);
        *code = *code << 4 | (digit ? (uint32_t)(b - '0') : (uint32_t)(low - 'a' + 10));
        r->at++;
    }
    if (*code <= TERN_GRAMMAR_LAST_CODE && (*code < 0xd800 || *code > 0xdfff)) return TERN_OK;
    return tern_grammar_reader__fail_at(r, start, "a Unicode code point that is not a surrogate", err);
}

bool tern_grammar_reader__number(tern_grammar_reader *r, uint32_t *number)
{
    uint64_t n = 0;
    const size_t start = r->at;
    for (; tern_grammar_reader__peek(r, 0) >= '0' && tern_grammar_reader__peek(r, 0) <= '9'; r->at++)
        if (n < 999999999) n = n * 10 + (uint64_t)(r->source.data[r->at] - '0');
    *number = n < 999999999 ? (uint32_t)n : 999999999;
    return r->at > start;
}

tern_status tern_grammar_reader__counts(tern_grammar_reader *r, uint32_t *least, uint32_t *most, tern_error *err)
{
    const size_t start = r->at;
    const bool low = tern_grammar_reader__number(r, least);
    if (!low) *least = 0;
    *most = *least;
    if (tern_grammar_reader__skip(r, ',')) {
        const bool high = tern_grammar_reader__number(r, most);
        if (!high && !low) return tern_grammar_reader__fail(r, "a number of repetitions", err);
        if (!high) *most = TERN_GRAMMAR_FOREVER;
    } else if (!low) {
        return tern_grammar_reader__fail(r, "a number of repetitions", err);
    }
    if (!tern_grammar_reader__skip(r, '}')) return tern_grammar_reader__fail(r, "`,` or `}`", err);
    if (*least > *most) return tern_grammar_reader__fail_at(r, start, "no more at least than at most", err);
    const uint32_t count = *most == TERN_GRAMMAR_FOREVER ? *least : *most;
    if (count <= TERN_GRAMMAR_MAX_REPEAT) return TERN_OK;
    return tern_grammar_reader__fail_at(r, start, "at most 100000 repetitions", err);
}

tern_status tern_grammar_reader__enter(tern_grammar_reader *r, tern_error *err)
{
    if (++r->nesting <= TERN_GRAMMAR_MAX_NESTING) return TERN_OK;
    uint32_t line, column;
    tern_grammar_reader__where(r, r->at, &line, &column);
    return tern_fail(err, TERN_LIMIT, "%s: line %u, column %u: groups nest deeper than %d", r->what, line, column,
                     TERN_GRAMMAR_MAX_NESTING);
}

tern_status tern_grammar_ranges__add(tern_grammar_ranges *ranges, uint32_t first, uint32_t last, tern_error *err)
{
    TERN_TRY(tern_grow((void **)&ranges->items, &ranges->cap, ranges->n + 1, sizeof *ranges->items, err));
    ranges->items[ranges->n++] = (tern_grammar_range){first, last};
    return TERN_OK;
}
