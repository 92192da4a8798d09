/* Characters and white space of JSON as nodes of a grammar's tree, and values as text. */
#include "text/grammar/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"

enum { MOST_DEPTH = 64 };

/* How a character that must be escaped is written. */
static void escape(uint32_t code, char text[8])
{
    static const char codes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = code ? strchr(codes, (int)code) : NULL;
    if (found) snprintf(text, 8, "\\%c", letters[found - codes]);
    else snprintf(text, 8, "\\u%04x", code & 0xff);
}

static bool must_escape(uint32_t code)
{
    return code < 0x20 || code == '"' || code == '\\';
}

/* Splits normalised ranges into characters that are as they are and nodes of those that are escaped. */
static tern_status split(tern_grammar_tree *tree, const tern_grammar_range *ranges, size_t n, tern_grammar_range *plain,
                         size_t *n_plain, tern_grammar_list *items, tern_error *err)
{
    char text[8];
    uint32_t node;
    *n_plain = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t first = ranges[i].first;
        const uint32_t last = ranges[i].last;
        for (uint32_t code = first; code <= last && code <= '\\'; code++) {
            if (!must_escape(code)) continue;
            if (code > first) plain[(*n_plain)++] = (tern_grammar_range){first, code - 1};
            first = code + 1;
            escape(code, text);
            TERN_TRY(tern_grammar_tree__text(tree, text, &node, err));
            TERN_TRY(tern_grammar_list__add(items, node, err));
        }
        if (first <= last) plain[(*n_plain)++] = (tern_grammar_range){first, last};
    }
    return TERN_OK;
}

static tern_status class_of(tern_grammar_tree *tree, const tern_grammar_range *ranges, size_t n,
                            tern_grammar_range *plain, uint32_t *node, tern_error *err)
{
    tern_grammar_list items = {0};
    size_t n_plain;
    tern_status status = TERN_OK;
    TERN_GOTO(split(tree, ranges, n, plain, &n_plain, &items, err));
    if (n_plain || items.n == 0) {
        TERN_GOTO(tern_grammar_tree__class(tree, plain, n_plain, false, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    status = tern_grammar_tree__join(tree, TERN_GRAMMAR_ANY, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

tern_status tern_grammar_json__class(tern_grammar_tree *tree, const tern_grammar_range *ranges, size_t n, bool others,
                                     uint32_t *node, tern_error *err)
{
    const size_t most = 3 * n + 64; /* sorted, what they leave, and both cut at what must be escaped */
    tern_grammar_range *sorted = tern_alloc(2 * most * sizeof *sorted), *used = sorted;
    if (!sorted) return tern_fail_alloc(err, 2 * most * sizeof *sorted);
    if (n) memcpy(sorted, ranges, n * sizeof *sorted);
    n = tern_grammar_ranges__normalise(sorted, n);
    if (others) {
        used = sorted + n;
        n = tern_grammar_ranges__others(sorted, n, used);
    }
    tern_status status = class_of(tree, used, n, sorted + most, node, err);
    tern_free(sorted);
    return status;
}

/* Four hexadecimal digits of which the first two are of these classes; NULL: any. */
static tern_status hex4(tern_grammar_tree *t, const tern_grammar_range *first, size_t n_first,
                        const tern_grammar_range *second, size_t n_second, uint32_t *node, tern_error *err)
{
    static const tern_grammar_range hex[] = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}};
    uint32_t items[5];
    TERN_TRY(tern_grammar_tree__text(t, "\\u", &items[0], err));
    TERN_TRY(tern_grammar_tree__class(t, first, n_first, false, &items[1], err));
    TERN_TRY(tern_grammar_tree__class(t, second ? second : hex, second ? n_second : 3, false, &items[2], err));
    TERN_TRY(tern_grammar_tree__class(t, hex, 3, false, &items[3], err));
    items[4] = items[3];
    return tern_grammar_tree__join_n(t, TERN_GRAMMAR_ALL, items, 5, node, err);
}

/* \uHHHH of a code point that is not a surrogate, or of two surrogates that belong together. */
static tern_status unicode(tern_grammar_tree *t, uint32_t *node, tern_error *err)
{
    static const tern_grammar_range not_d[] = {{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}};
    static const tern_grammar_range d[] = {{'d', 'd'}, {'D', 'D'}}, low[] = {{'0', '7'}};
    static const tern_grammar_range lead[] = {{'8', '9'}, {'a', 'b'}, {'A', 'B'}};
    static const tern_grammar_range trail[] = {{'c', 'f'}, {'C', 'F'}};
    uint32_t items[3], pair[2];
    TERN_TRY(hex4(t, not_d, 5, NULL, 0, &items[0], err));
    TERN_TRY(hex4(t, d, 2, low, 1, &items[1], err));
    TERN_TRY(hex4(t, d, 2, lead, 3, &pair[0], err));
    TERN_TRY(hex4(t, d, 2, trail, 2, &pair[1], err));
    TERN_TRY(tern_grammar_tree__join_n(t, TERN_GRAMMAR_ALL, pair, 2, &items[2], err));
    return tern_grammar_tree__join_n(t, TERN_GRAMMAR_ANY, items, 3, node, err);
}

tern_status tern_grammar_json__char(tern_grammar_tree *t, uint32_t *node, tern_error *err)
{
    static const tern_grammar_range not_plain[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
    static const tern_grammar_range letters[] = {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'},
                                                 {'f', 'f'}, {'n', 'n'},   {'r', 'r'}, {'t', 't'}};
    uint32_t items[3], escaped[2];
    TERN_TRY(tern_grammar_tree__class(t, not_plain, 3, true, &items[0], err));
    TERN_TRY(tern_grammar_tree__text(t, "\\", &escaped[0], err));
    TERN_TRY(tern_grammar_tree__class(t, letters, 8, false, &escaped[1], err));
    TERN_TRY(tern_grammar_tree__join_n(t, TERN_GRAMMAR_ALL, escaped, 2, &items[1], err));
    TERN_TRY(unicode(t, &items[2], err));
    return tern_grammar_tree__join_n(t, TERN_GRAMMAR_ANY, items, 3, node, err);
}

tern_status tern_grammar_json__space(tern_grammar_tree *t, uint32_t *node, tern_error *err)
{
    static const tern_grammar_range blank[] = {{' ', ' '}, {'\t', '\t'}}, line[] = {{'\n', '\n'}};
    uint32_t items[3], lines[2];
    TERN_TRY(tern_grammar_tree__bytes(t, "", 0, &items[0], err));
    TERN_TRY(tern_grammar_tree__text(t, " ", &items[1], err));
    TERN_TRY(tern_grammar_tree__class(t, line, 1, false, &lines[0], err));
    TERN_TRY(tern_grammar_tree__repeat(t, lines[0], 1, 2, &lines[0], err));
    TERN_TRY(tern_grammar_tree__class(t, blank, 2, false, &lines[1], err));
    TERN_TRY(tern_grammar_tree__repeat(t, lines[1], 0, 32, &lines[1], err));
    TERN_TRY(tern_grammar_tree__join_n(t, TERN_GRAMMAR_ALL, lines, 2, &items[2], err));
    return tern_grammar_tree__join_n(t, TERN_GRAMMAR_ANY, items, 3, node, err);
}

tern_status tern_grammar_json__quote(tern_buf *out, const char *text, size_t n, tern_error *err)
{
    char escaped[8];
    TERN_TRY(tern_buf_add(out, "\"", 1, err));
    for (size_t i = 0; i < n; i++) {
        const uint8_t byte = (uint8_t)text[i];
        if (must_escape(byte)) {
            escape(byte, escaped);
            TERN_TRY(tern_buf_add(out, escaped, strlen(escaped), err));
        } else {
            TERN_TRY(tern_buf_add(out, text + i, 1, err));
        }
    }
    return tern_buf_add(out, "\"", 1, err);
}

/* In as few digits as tell the number from others. */
static tern_status print_number(tern_buf *out, double value, tern_error *err)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return tern_buf_add(out, text, strlen(text), err);
}

static tern_status print(tern_buf *out, const json_t *value, unsigned depth, tern_error *err)
{
    const char *key;
    json_t *member;
    size_t i;
    int64_t number;
    const char *const names[] = {"true", "false", "null"};
    if (depth > MOST_DEPTH) return tern_fail(err, TERN_LIMIT, "a value nested deeper than %d", MOST_DEPTH);
    if (json_is_string(value))
        return tern_grammar_json__quote(out, json_string_value(value), json_string_length(value), err);
    if (tern_json_int(value, &number)) return tern_buf_addf(out, err, "%" PRId64, number);
    if (json_is_number(value)) return print_number(out, json_number_value(value), err);
    if (!json_is_object(value) && !json_is_array(value)) {
        const char *name = names[json_is_true(value) ? 0 : json_is_false(value) ? 1 : 2];
        return tern_buf_add(out, name, strlen(name), err);
    }
    TERN_TRY(tern_buf_add(out, json_is_object(value) ? "{" : "[", 1, err));
    bool more = false;
    json_object_foreach((json_t *)value, key, member)
    {
        if (more) TERN_TRY(tern_buf_add(out, ",", 1, err));
        TERN_TRY(tern_grammar_json__quote(out, key, strlen(key), err));
        TERN_TRY(tern_buf_add(out, ":", 1, err));
        TERN_TRY(print(out, member, depth + 1, err));
        more = true;
    }
    json_array_foreach((json_t *)value, i, member)
    {
        if (i) TERN_TRY(tern_buf_add(out, ",", 1, err));
        TERN_TRY(print(out, member, depth + 1, err));
    }
    return tern_buf_add(out, json_is_object(value) ? "}" : "]", 1, err);
}

tern_status tern_grammar_json__print(tern_buf *out, const json_t *value, tern_error *err)
{
    return print(out, value, 0, err);
}
