/* Regular expressions without memory: characters, classes, groups, alternatives and repetitions; in a JSON Schema also
 * look-ahead, and ends in any place. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "text/grammar/internal.h"
#include "text/grammar/json.h"
#include "text/grammar/reader.h"
#include "text/utf8.h"

typedef struct regex {
    tern_grammar_reader r;
    tern_grammar_tree *tree;
    bool searched;     /* a pattern of JSON Schema */
    bool fresh;        /* nothing but look-ahead was read since a ^ at the top */
    unsigned n_starts; /* further ^, which say nothing there */
} regex;

typedef struct kind {
    char letter;
    unsigned n;
    tern_grammar_range ranges[4];
} kind;

static const kind kinds[] = {{'d', 1, {{'0', '9'}}},
                             {'w', 4, {{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'}}},
                             {'s', 2, {{'\t', '\r'}, {' ', ' '}}}};

/* \d \w \s and their opposites: adds them to the ranges. */
static tern_status add_kind(char letter, tern_grammar_ranges *ranges, bool *found, tern_error *err)
{
    tern_grammar_range others[8];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const kind *k = &kinds[i];
        tern_grammar_range sorted[4];
        if ((letter | 0x20) != k->letter) continue;
        memcpy(sorted, k->ranges, sizeof sorted);
        size_t n = tern_grammar_ranges__normalise(sorted, k->n);
        const tern_grammar_range *add = sorted;
        if (letter != k->letter) {
            n = tern_grammar_ranges__others(sorted, n, others);
            add = others;
        }
        *found = true;
        for (size_t r = 0; r < n; r++) TERN_TRY(tern_grammar_ranges__add(ranges, add[r].first, add[r].last, err));
    }
    return TERN_OK;
}

/* u{1F600} */
static tern_status read_braced(regex *x, uint32_t *code, tern_error *err)
{
    const size_t start = ++x->r.at;
    while (tern_grammar_reader__peek(&x->r, 0) && tern_grammar_reader__peek(&x->r, 0) != '}') x->r.at++;
    const size_t n = x->r.at - start;
    x->r.at = start;
    if (n == 0 || n > 6) return tern_grammar_reader__fail(&x->r, "1 to 6 hexadecimal digits and `}`", err);
    TERN_TRY(tern_grammar_reader__hex(&x->r, (unsigned)n, code, err));
    if (tern_grammar_reader__skip(&x->r, '}')) return TERN_OK;
    return tern_grammar_reader__fail(&x->r, "`}`", err);
}

/* After a backslash: one character into the ranges, or a kind of them; *single says which. */
static tern_status read_escape(regex *x, tern_grammar_ranges *ranges, bool *single, tern_error *err)
{
    static const char letters[] = "nrtfv0", values[] = "\n\r\t\f\v";
    const uint8_t b = tern_grammar_reader__peek(&x->r, 0);
    const char *letter = b ? strchr(letters, b) : NULL;
    bool found = false;
    uint32_t code = b;
    TERN_TRY(add_kind((char)b, ranges, &found, err));
    *single = !found;
    if (found) {
        x->r.at++;
        return TERN_OK;
    }
    const bool is_letter = (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9');
    if (b < 0x20 || b >= 0x7f || (is_letter && !letter && b != 'x' && b != 'u'))
        return tern_grammar_reader__fail(&x->r,
                                         "an escape (\\d \\w \\s \\D \\W \\S \\n \\r \\t \\f \\v \\0 \\xHH "
                                         "\\uHHHH \\u{H} or \\ before a sign)",
                                         err);
    x->r.at++;
    if (letter) code = (uint8_t)values[letter - letters];
    if (b == 'x') TERN_TRY(tern_grammar_reader__hex(&x->r, 2, &code, err));
    if (b == 'u' && tern_grammar_reader__peek(&x->r, 0) == '{') TERN_TRY(read_braced(x, &code, err));
    else if (b == 'u') TERN_TRY(tern_grammar_reader__hex(&x->r, 4, &code, err));
    return tern_grammar_ranges__add(ranges, code, code, err);
}

/* One character, or a kind of them, into the ranges. */
static tern_status read_one(regex *x, tern_grammar_ranges *ranges, bool *single, tern_error *err)
{
    uint32_t code;
    if (tern_grammar_reader__skip(&x->r, '\\')) return read_escape(x, ranges, single, err);
    *single = true;
    TERN_TRY(tern_grammar_reader__code(&x->r, "`]` at the end of a class", &code, err));
    return tern_grammar_ranges__add(ranges, code, code, err);
}

static tern_status read_range(regex *x, tern_grammar_ranges *ranges, tern_error *err)
{
    bool single, other;
    const size_t start = x->r.at;
    TERN_TRY(read_one(x, ranges, &single, err));
    if (!single || tern_grammar_reader__peek(&x->r, 0) != '-' || tern_grammar_reader__peek(&x->r, 1) == ']')
        return TERN_OK;
    x->r.at++;
    TERN_TRY(read_one(x, ranges, &other, err));
    if (!other) return tern_grammar_reader__fail_at(&x->r, start, "a range between two characters", err);
    const uint32_t last = ranges->items[--ranges->n].first;
    tern_grammar_range *range = &ranges->items[ranges->n - 1];
    if (last < range->first) return tern_grammar_reader__fail_at(&x->r, start, "a range that goes upwards", err);
    range->last = last;
    return TERN_OK;
}

static tern_status read_class(regex *x, uint32_t *node, tern_error *err)
{
    tern_grammar_ranges ranges = {0};
    tern_status status = TERN_OK;
    const size_t start = x->r.at++;
    const bool others = tern_grammar_reader__skip(&x->r, '^');
    while (!tern_grammar_reader__skip(&x->r, ']')) TERN_GOTO(read_range(x, &ranges, err));
    if (ranges.n == 0 && !others)
        TERN_GOTO(tern_grammar_reader__fail_at(&x->r, start, "a class of at least one character", err));
    status = tern_grammar_tree__class(x->tree, ranges.items, ranges.n, others, node, err);
fail:
    tern_free(ranges.items);
    return status;
}

static tern_status read_alternatives(regex *x, bool top, uint32_t *node, tern_error *err);

/* The mark behind `(`: '=' or '!' for a look-ahead, ':' for a group. */
static tern_status read_sign(regex *x, size_t start, char *sign, tern_error *err)
{
    *sign = ':';
    if (!tern_grammar_reader__skip(&x->r, '?') || tern_grammar_reader__skip(&x->r, ':')) return TERN_OK;
    const uint8_t b = tern_grammar_reader__peek(&x->r, 0), next = tern_grammar_reader__peek(&x->r, 1);
    *sign = (char)b;
    if (x->searched && (b == '=' || b == '!')) x->r.at++;
    else if (b == '<' && next != '=' && next != '!' &&
             memchr(x->r.source.data + x->r.at, '>', x->r.source.size - x->r.at))
        while (x->r.source.data[x->r.at++] != '>') *sign = ':';
    else if (x->searched)
        return tern_grammar_reader__fail_at(&x->r, start,
                                            "a group without look-behind and flags, `(`, `(?:`, `(?=` or "
                                            "`(?!`,",
                                            err);
    else return tern_grammar_reader__fail_at(&x->r, start, "a group without look-ahead and flags, `(` or `(?:`,", err);
    return TERN_OK;
}

static tern_status read_group(regex *x, uint32_t *node, tern_error *err)
{
    const size_t start = x->r.at++;
    char sign;
    TERN_TRY(read_sign(x, start, &sign, err));
    TERN_TRY(tern_grammar_reader__enter(&x->r, err));
    TERN_TRY(read_alternatives(x, false, node, err));
    x->r.nesting--;
    if (!tern_grammar_reader__skip(&x->r, ')')) return tern_grammar_reader__fail(&x->r, "`)`", err);
    return sign == ':' ? TERN_OK : tern_grammar_tree__ahead(x->tree, *node, sign == '=', node, err);
}

static tern_status read_item(regex *x, uint32_t *node, tern_error *err)
{
    static const tern_grammar_range ends[] = {{'\n', '\n'}, {'\r', '\r'}};
    tern_grammar_ranges ranges = {0};
    const uint8_t b = tern_grammar_reader__peek(&x->r, 0);
    bool single;
    if (b == '[') return read_class(x, node, err);
    if (b == '(') return read_group(x, node, err);
    if (tern_grammar_reader__skip(&x->r, '.')) return tern_grammar_tree__class(x->tree, ends, 2, true, node, err);
    if (b == '^' && x->fresh) {
        x->r.at++;
        x->n_starts++;
        return tern_grammar_tree__bytes(x->tree, "", 0, node, err);
    }
    if (b == '$' && x->searched) {
        x->r.at++;
        return tern_grammar_tree__at_end(x->tree, node, err);
    }
    if (b && strchr("*+?{", b)) return tern_grammar_reader__fail(&x->r, "something to repeat", err);
    if (b == '^' || b == '$')
        return tern_grammar_reader__fail(&x->r, "^ only at the beginning and $ only at the end, elsewhere \\^ and \\$,",
                                         err);
    tern_status status = read_one(x, &ranges, &single, err);
    if (status == TERN_OK) status = tern_grammar_tree__class(x->tree, ranges.items, ranges.n, false, node, err);
    tern_free(ranges.items);
    return status;
}

static tern_status read_repeat(regex *x, uint32_t *node, tern_error *err)
{
    uint32_t least = 0, most = TERN_GRAMMAR_FOREVER;
    const uint8_t b = tern_grammar_reader__peek(&x->r, 0);
    if (b != '*' && b != '+' && b != '?' && b != '{') return TERN_OK;
    x->r.at++;
    if (b == '+') least = 1;
    if (b == '?') most = 1;
    if (b == '{') TERN_TRY(tern_grammar_reader__counts(&x->r, &least, &most, err));
    tern_grammar_reader__skip(&x->r, '?'); /* lazy: the same texts */
    return tern_grammar_tree__repeat(x->tree, *node, least, most, node, err);
}

/* An item as often as it may be there. Only look-ahead, and ^ itself, may stand before a further ^. */
static tern_status read_repeated(regex *x, uint32_t *node, tern_error *err)
{
    const bool fresh = x->fresh;
    const unsigned n_starts = x->n_starts;
    TERN_TRY(read_item(x, node, err));
    const tern_grammar_node_kind read = x->tree->nodes[*node].kind;
    const uint8_t b = tern_grammar_reader__peek(&x->r, 0);
    x->fresh = fresh && (read == TERN_GRAMMAR_AHEAD || read == TERN_GRAMMAR_BYTES);
    if (x->n_starts > n_starts && (b == '*' || b == '+' || b == '{'))
        return tern_grammar_reader__fail(&x->r, "^ in a repetition is not supported: none", err);
    return read_repeat(x, node, err);
}

/* Any text, where a pattern is not tied to the beginning or the end. */
static tern_status add_anything(regex *x, tern_grammar_list *items, tern_error *err)
{
    uint32_t node;
    TERN_TRY(tern_grammar_tree__class(x->tree, NULL, 0, true, &node, err));
    TERN_TRY(tern_grammar_tree__repeat(x->tree, node, 0, TERN_GRAMMAR_FOREVER, &node, err));
    return tern_grammar_list__add(items, node, err);
}

static bool at_end(regex *x, bool top)
{
    const uint8_t b = tern_grammar_reader__peek(&x->r, 0), next = tern_grammar_reader__peek(&x->r, 1);
    if (tern_grammar_reader__is_over(&x->r) || b == '|' || (b == ')' && !top)) return true;
    return top && !x->searched && b == '$' && (x->r.at + 1 == x->r.source.size || next == '|');
}

static tern_status read_sequence(regex *x, bool top, uint32_t *node, tern_error *err)
{
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    uint32_t item = 0;
    const bool tied = top && tern_grammar_reader__skip(&x->r, '^');
    if (top && x->searched && !tied) TERN_GOTO(add_anything(x, &items, err));
    if (top) x->fresh = tied && x->searched;
    while (!at_end(x, top)) {
        if (tern_grammar_reader__peek(&x->r, 0) == ')')
            TERN_GOTO(tern_grammar_reader__fail(&x->r, "`(` before `)`", err));
        TERN_GOTO(read_repeated(x, &item, err));
        TERN_GOTO(tern_grammar_list__add(&items, item, err));
    }
    if (x->searched && top) TERN_GOTO(add_anything(x, &items, err));
    else if (top) tern_grammar_reader__skip(&x->r, '$');
    if (items.n) status = tern_grammar_tree__join(x->tree, TERN_GRAMMAR_ALL, &items, node, err);
    else status = tern_grammar_tree__bytes(x->tree, "", 0, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

static tern_status read_alternatives(regex *x, bool top, uint32_t *node, tern_error *err)
{
    tern_grammar_list items = {0};
    tern_status status;
    uint32_t item;
    const bool fresh = x->fresh;
    do {
        x->fresh = fresh;
        TERN_GOTO(read_sequence(x, top, &item, err));
        TERN_GOTO(tern_grammar_list__add(&items, item, err));
    } while (tern_grammar_reader__skip(&x->r, '|'));
    status = tern_grammar_tree__join(x->tree, TERN_GRAMMAR_ANY, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

tern_status tern_grammar_regex__parse(tern_grammar_tree *tree, tern_span source, const char *what, bool searched,
                                      uint32_t *node, tern_error *err)
{
    regex x = {.r = {.source = source, .what = what}, .tree = tree, .searched = searched};
    return read_alternatives(&x, true, node, err);
}

tern_status tern_grammar__parse_regex(tern_grammar_tree *tree, tern_span source, tern_error *err)
{
    uint32_t node;
    TERN_TRY(tern_grammar_tree__rule(tree, "root", 4, &tree->root, err));
    TERN_TRY(tern_grammar_regex__parse(tree, source, "regular expression", false, &node, err));
    tern_grammar_tree__define(tree, tree->root, node);
    return tern_grammar_tree__label(tree, node, "the regular expression", err);
}
