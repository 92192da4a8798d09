/* GBNF, the grammars of llama.cpp: rules of literals, classes, groups, repetitions and tokens. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/map.h"
#include "base/show.h"
#include "text/grammar/internal.h"
#include "text/grammar/reader.h"
#include "text/utf8.h"

typedef struct gbnf {
    tern_grammar_reader r;
    tern_grammar_tree *tree;
    const tern_grammar_vocab *vocab;
    tern_map names; /* of rules, in the source */
} gbnf;

static bool is_name(uint8_t b)
{
    return (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') || b == '-' || b == '_';
}

/* Blanks and comments; with `lines` also ends of lines. */
static void skip_space(tern_grammar_reader *r, bool lines)
{
    while (!tern_grammar_reader__is_over(r)) {
        const uint8_t b = tern_grammar_reader__peek(r, 0);
        if (b == '#') {
            while (!tern_grammar_reader__is_over(r) && tern_grammar_reader__peek(r, 0) != '\n') r->at++;
        } else if (b == ' ' || b == '\t' || (lines && (b == '\n' || b == '\r'))) {
            r->at++;
        } else {
            return;
        }
    }
}

/* The rule of the name at the reader, which is made when it is new. */
static tern_status read_name(gbnf *g, uint32_t *rule, tern_error *err)
{
    const size_t start = g->r.at;
    bool added;
    while (is_name(tern_grammar_reader__peek(&g->r, 0))) g->r.at++;
    const tern_span name = {g->r.source.data + start, g->r.at - start};
    if (name.size == 0) return tern_grammar_reader__fail(&g->r, "the name of a rule", err);
    if (tern_map_find(&g->names, name, rule)) return TERN_OK;
    TERN_TRY(tern_grammar_tree__rule(g->tree, name.data, name.size, rule, err));
    g->tree->rules[*rule].at = start;
    return tern_map_add(&g->names, name, *rule, &added, err);
}

/* One character of a literal or a class, which may be escaped. */
static tern_status read_char(gbnf *g, const char *expected, uint32_t *code, tern_error *err)
{
    static const char plain[] = "\"\\[]^-";
    static const char letters[] = "nrt", values[] = "\n\r\t";
    tern_grammar_reader *r = &g->r;
    TERN_TRY(tern_grammar_reader__code(r, expected, code, err));
    if (*code != '\\') return TERN_OK;
    const uint8_t b = tern_grammar_reader__peek(r, 0);
    const char *letter = b ? strchr(letters, b) : NULL;
    const size_t escape = r->at;
    r->at += !tern_grammar_reader__is_over(r);
    if (b == 'x') return tern_grammar_reader__hex(r, 2, code, err);
    if (b == 'u') return tern_grammar_reader__hex(r, 4, code, err);
    if (b == 'U') return tern_grammar_reader__hex(r, 8, code, err);
    *code = letter ? (uint8_t)values[letter - letters] : b;
    if (letter || (b && strchr(plain, b))) return TERN_OK;
    return tern_grammar_reader__fail_at(
        r, escape, "an escape (\\n \\r \\t \\\" \\\\ \\[ \\] \\^ \\- \\xHH \\uHHHH \\UHHHHHHHH)", err);
}

static tern_status read_literal(gbnf *g, uint32_t *node, tern_error *err)
{
    tern_buf text = {0};
    tern_status status = TERN_OK;
    g->r.at++;
    while (!tern_grammar_reader__skip(&g->r, '"')) {
        uint8_t utf8[4];
        uint32_t code;
        TERN_GOTO(read_char(g, "`\"` at the end of a literal", &code, err));
        TERN_GOTO(tern_buf_add(&text, utf8, tern_utf8__encode(utf8, code), err));
    }
    status = tern_grammar_tree__bytes(g->tree, text.data ? text.data : "", text.size, node, err);
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status read_range(gbnf *g, tern_grammar_ranges *ranges, tern_error *err)
{
    static const char expected[] = "`]` at the end of a class";
    uint32_t first, last;
    TERN_TRY(read_char(g, expected, &first, err));
    last = first;
    if (tern_grammar_reader__peek(&g->r, 0) == '-' && tern_grammar_reader__peek(&g->r, 1) != ']') {
        const size_t dash = g->r.at++;
        TERN_TRY(read_char(g, expected, &last, err));
        if (last < first) return tern_grammar_reader__fail_at(&g->r, dash, "a range that goes upwards", err);
    }
    return tern_grammar_ranges__add(ranges, first, last, err);
}

static tern_status read_class(gbnf *g, uint32_t *node, tern_error *err)
{
    tern_grammar_ranges ranges = {0};
    tern_status status = TERN_OK;
    const size_t start = g->r.at++;
    const bool others = tern_grammar_reader__skip(&g->r, '^');
    while (!tern_grammar_reader__skip(&g->r, ']')) TERN_GOTO(read_range(g, &ranges, err));
    if (ranges.n == 0 && !others)
        TERN_GOTO(tern_grammar_reader__fail_at(&g->r, start, "a class of at least one character", err));
    status = tern_grammar_tree__class(g->tree, ranges.items, ranges.n, others, node, err);
fail:
    tern_free(ranges.items);
    return status;
}

/* <[12]>, or a token by its text: <think> is that of "<think>". */
static tern_status read_token(gbnf *g, uint32_t *node, tern_error *err)
{
    tern_grammar_reader *r = &g->r;
    const size_t start = r->at++;
    uint32_t id;
    if (!g->vocab) return tern_grammar_reader__fail_at(r, start, "no token, as there is no vocabulary,", err);
    if (tern_grammar_reader__skip(r, '[')) {
        if (!tern_grammar_reader__number(r, &id)) return tern_grammar_reader__fail(r, "a token's number", err);
        if (!tern_grammar_reader__skip(r, ']') || !tern_grammar_reader__skip(r, '>'))
            return tern_grammar_reader__fail(r, "`]>`", err);
        if (id >= g->vocab->n)
            return tern_grammar_reader__fail_at(r, start + 2, "the number of a token of the vocabulary", err);
        return tern_grammar_tree__token(g->tree, id, node, err);
    }
    while (!tern_grammar_reader__is_over(r) && !strchr("> \t\r\n", tern_grammar_reader__peek(r, 0))) r->at++;
    if (!tern_grammar_reader__skip(r, '>')) return tern_grammar_reader__fail(r, "`>` at the end of a token", err);
    const int32_t found = tern_token_find(g->vocab->tokenizer, (const char *)r->source.data + start, r->at - start);
    if (found < 0) return tern_grammar_reader__fail_at(r, start, "a token of the vocabulary", err);
    return tern_grammar_tree__token(g->tree, (uint32_t)found, node, err);
}

static tern_status read_alternatives(gbnf *g, bool grouped, uint32_t *node, tern_error *err);

static tern_status read_group(gbnf *g, uint32_t *node, tern_error *err)
{
    g->r.at++;
    TERN_TRY(tern_grammar_reader__enter(&g->r, err));
    TERN_TRY(read_alternatives(g, true, node, err));
    g->r.nesting--;
    if (tern_grammar_reader__skip(&g->r, ')')) return TERN_OK;
    return tern_grammar_reader__fail(&g->r, "`)`, `|` or another item of the group", err);
}

static tern_status read_item(gbnf *g, uint32_t *node, tern_error *err)
{
    static const tern_grammar_range all = {0, TERN_GRAMMAR_LAST_CODE};
    const uint8_t b = tern_grammar_reader__peek(&g->r, 0);
    uint32_t rule = 0;
    if (b == '"') return read_literal(g, node, err);
    if (b == '[') return read_class(g, node, err);
    if (b == '(') return read_group(g, node, err);
    if (b == '<') return read_token(g, node, err);
    if (tern_grammar_reader__skip(&g->r, '.')) return tern_grammar_tree__class(g->tree, &all, 1, false, node, err);
    TERN_TRY(read_name(g, &rule, err));
    return tern_grammar_tree__call(g->tree, rule, node, err);
}

/* What is written behind an item: * + ? {m,n}, any number of them. */
static tern_status read_repeats(gbnf *g, bool grouped, uint32_t *node, tern_error *err)
{
    for (;;) {
        uint32_t least = 0, most = TERN_GRAMMAR_FOREVER;
        skip_space(&g->r, grouped);
        const uint8_t b = tern_grammar_reader__peek(&g->r, 0);
        if (b != '*' && b != '+' && b != '?' && b != '{') return TERN_OK;
        g->r.at++;
        if (b == '+') least = 1;
        if (b == '?') most = 1;
        if (b == '{') TERN_TRY(tern_grammar_reader__counts(&g->r, &least, &most, err));
        TERN_TRY(tern_grammar_tree__repeat(g->tree, *node, least, most, node, err));
    }
}

static bool is_item(uint8_t b)
{
    return is_name(b) || (b && strchr("\"[(<.", b));
}

static tern_status read_sequence(gbnf *g, bool grouped, uint32_t *node, tern_error *err)
{
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    uint32_t item;
    for (skip_space(&g->r, grouped); is_item(tern_grammar_reader__peek(&g->r, 0)); skip_space(&g->r, grouped)) {
        TERN_GOTO(read_item(g, &item, err));
        TERN_GOTO(read_repeats(g, grouped, &item, err));
        TERN_GOTO(tern_grammar_list__add(&items, item, err));
    }
    if (items.n) status = tern_grammar_tree__join(g->tree, TERN_GRAMMAR_ALL, &items, node, err);
    else status = tern_grammar_tree__bytes(g->tree, "", 0, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

/* Whether another alternative comes; at the top a line may begin with `|`. */
static bool skip_bar(gbnf *g)
{
    const size_t before = g->r.at;
    skip_space(&g->r, true);
    if (tern_grammar_reader__skip(&g->r, '|')) return true;
    g->r.at = before;
    return false;
}

static tern_status read_alternatives(gbnf *g, bool grouped, uint32_t *node, tern_error *err)
{
    tern_grammar_list items = {0};
    tern_status status;
    uint32_t item;
    do {
        skip_space(&g->r, true);
        TERN_GOTO(read_sequence(g, grouped, &item, err));
        TERN_GOTO(tern_grammar_list__add(&items, item, err));
    } while (skip_bar(g));
    status = tern_grammar_tree__join(g->tree, TERN_GRAMMAR_ANY, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

static tern_status label_rule(gbnf *g, uint32_t rule, tern_error *err)
{
    const tern_grammar_rule *r = &g->tree->rules[rule];
    const tern_span name = {(const uint8_t *)g->tree->bytes.data + r->name_at, r->n_name};
    char label[sizeof(tern_shown) + 8];
    snprintf(label, sizeof label, "rule `%s`", tern_show(name).text);
    return tern_grammar_tree__label(g->tree, r->node, label, err);
}

static tern_status read_rule(gbnf *g, tern_error *err)
{
    const size_t start = g->r.at;
    uint32_t rule = 0, node;
    TERN_TRY(read_name(g, &rule, err));
    if (g->tree->rules[rule].defined)
        return tern_grammar_reader__fail_at(&g->r, start, "a rule that is not there already", err);
    skip_space(&g->r, false);
    for (const char *p = "::="; *p; p++)
        if (!tern_grammar_reader__skip(&g->r, *p)) return tern_grammar_reader__fail(&g->r, "`::=`", err);
    TERN_TRY(read_alternatives(g, false, &node, err));
    tern_grammar_tree__define(g->tree, rule, node);
    TERN_TRY(label_rule(g, rule, err));
    skip_space(&g->r, false);
    if (tern_grammar_reader__is_over(&g->r) || strchr("\r\n", tern_grammar_reader__peek(&g->r, 0))) return TERN_OK;
    return tern_grammar_reader__fail(&g->r, "an item, `|` or the end of the line", err);
}

static tern_status check_rules(const gbnf *g, tern_error *err)
{
    for (size_t i = 0; i < g->tree->n_rules; i++) {
        const tern_grammar_rule *rule = &g->tree->rules[i];
        const tern_span name = {(const uint8_t *)g->tree->bytes.data + rule->name_at, rule->n_name};
        uint32_t line, column;
        if (rule->defined) continue;
        tern_grammar_reader__where(&g->r, rule->at, &line, &column);
        return tern_fail(err, TERN_MALFORMED, "grammar: line %u, column %u: found \"%s\": the name of a rule expected",
                         line, column, tern_show(name).text);
    }
    if (tern_map_find(&g->names, (tern_span){(const uint8_t *)"root", 4}, &g->tree->root)) return TERN_OK;
    return tern_grammar_reader__fail(&g->r, "a rule `root`", err);
}

static tern_status read_rules(gbnf *g, tern_error *err)
{
    for (skip_space(&g->r, true); !tern_grammar_reader__is_over(&g->r); skip_space(&g->r, true))
        TERN_TRY(read_rule(g, err));
    return check_rules(g, err);
}

tern_status tern_grammar__parse_gbnf(tern_grammar_tree *tree, const tern_grammar_vocab *vocab, tern_span source,
                                     tern_error *err)
{
    gbnf g = {.r = {.source = source, .what = "grammar"}, .tree = tree, .vocab = vocab};
    tern_status status = read_rules(&g, err);
    tern_map_deinit(&g.names);
    return status;
}
