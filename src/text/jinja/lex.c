/* The lexer of chat templates: data, tags, comments, raw blocks and what is inside tags. */
#include "text/jinja/lex.h"

#include <string.h>

#include "text/jinja/chars.h"

static tern_status unterminated(tern_jinja_lexer *lex, const char *what)
{
    return tern_jinja__fail(lex->pool, TERN_MALFORMED, "%s is never closed", what);
}

tern_status tern_jinja__lex_open(tern_jinja_lexer *lex, tern_jinja_pool *pool, const char *source, size_t n)
{
    char *copy = tern_jinja__alloc(pool, n + 1, 1);
    if (!copy) return tern_jinja__status(pool);
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n') continue;
        copy[size++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (size > 0 && copy[size - 1] == '\n') size--;
    *lex = (tern_jinja_lexer){.pool = pool, .source = copy, .n = size, .line = 1};
    return TERN_OK;
}

static char peek(const tern_jinja_lexer *lex, size_t ahead)
{
    return ahead < lex->n - lex->at ? lex->source[lex->at + ahead] : 0;
}

static void advance(tern_jinja_lexer *lex, size_t n)
{
    for (size_t i = 0; i < n; i++) lex->line += lex->source[lex->at + i] == '\n';
    lex->at += n;
}

static void skip_space(tern_jinja_lexer *lex)
{
    advance(lex, tern_jinja__leading_space(lex->source + lex->at, lex->n - lex->at));
}

/* After a tag, comment or raw block: "-" before its end takes all white space, else blocks take one line end. */
static void after_tag(tern_jinja_lexer *lex, char sign, bool trims)
{
    if (sign == '-') skip_space(lex);
    else if (sign != '+' && trims && peek(lex, 0) == '\n') advance(lex, 1);
}

/* How much of the data [from, to) before a tag that starts with `sign` is kept. */
static size_t data_end(const tern_jinja_lexer *lex, size_t from, size_t to, char sign, bool block)
{
    const char *s = lex->source;
    if (sign == '-') return to - tern_jinja__trailing_space(s + from, to - from);
    if (sign == '+' || !block) return to;
    size_t line = to;
    while (line > from && s[line - 1] != '\n') line--;
    bool starts_line = line > 0 ? s[line - 1] == '\n' : true;
    return starts_line && tern_jinja__leading_space(s + line, to - line) == to - line ? line : to;
}

/* Offset of the next "{{", "{%" or "{#" at or after `at`, or the end. */
static size_t find_tag(const tern_jinja_lexer *lex)
{
    size_t i = lex->at;
    for (; i + 1 < lex->n; i++) {
        char second = lex->source[i + 1];
        if (lex->source[i] == '{' && (second == '{' || second == '%' || second == '#')) return i;
    }
    return lex->n;
}

static char sign_at(const tern_jinja_lexer *lex, size_t at)
{
    char c = at < lex->n ? lex->source[at] : 0;
    return c == '-' || c == '+' ? c : 0;
}

/* Skips white space and one whole word from offset `at`; SIZE_MAX when it is not there. */
static size_t match_word(const tern_jinja_lexer *lex, size_t at, const char *word)
{
    at += tern_jinja__leading_space(lex->source + at, lex->n - at);
    size_t n = strlen(word);
    if (lex->n - at < n || memcmp(lex->source + at, word, n) != 0) return SIZE_MAX;
    at += n;
    return at + tern_jinja__leading_space(lex->source + at, lex->n - at);
}

/* The end of a tag "{% word %}" that starts at `at`, or SIZE_MAX; *sign is the one before its "%}". */
static size_t match_tag(const tern_jinja_lexer *lex, size_t at, const char *word, char *sign)
{
    at += 2;
    if (sign_at(lex, at)) at++;
    at = match_word(lex, at, word);
    if (at == SIZE_MAX) return SIZE_MAX;
    *sign = sign_at(lex, at);
    if (*sign) at++;
    return lex->n - at >= 2 && memcmp(lex->source + at, "%}", 2) == 0 ? at + 2 : SIZE_MAX;
}

static void give_data(tern_jinja_lexer *lex, tern_jinja_token *token, size_t from, size_t to)
{
    token->kind = TERN_JINJA_DATA;
    token->line = lex->line;
    token->text = (tern_jinja_str){.data = lex->source + from, .n = to - from};
}

static tern_status skip_comment(tern_jinja_lexer *lex)
{
    const char *start = lex->source + lex->at;
    const char *end = memmem(start + 2, lex->n - lex->at - 2, "#}", 2);
    if (!end) return unterminated(lex, "comment {#");
    char sign = end > start + 2 ? end[-1] : 0;
    advance(lex, (size_t)(end - start) + 2);
    after_tag(lex, sign, true);
    return TERN_OK;
}

/* The text of a raw block whose body starts at the cursor. */
static tern_status raw_body(tern_jinja_lexer *lex, tern_jinja_token *token)
{
    size_t from = lex->at;
    for (size_t i = from; i + 1 < lex->n; i++) {
        if (lex->source[i] != '{' || lex->source[i + 1] != '%') continue;
        char sign = 0;
        size_t end = match_tag(lex, i, "endraw", &sign);
        if (end == SIZE_MAX) continue;
        give_data(lex, token, from, data_end(lex, from, i, sign_at(lex, i + 2), true));
        advance(lex, end - from);
        after_tag(lex, sign, true);
        return TERN_OK;
    }
    return unterminated(lex, "raw block");
}

/* The cursor is at "{{", "{%" or "{#". */
static tern_status open_tag(tern_jinja_lexer *lex, tern_jinja_token *token, bool *given)
{
    char second = peek(lex, 1), sign = 0;
    lex->pool->line = lex->line;
    if (second == '#') return skip_comment(lex);
    *given = true;
    size_t end = second == '%' ? match_tag(lex, lex->at, "raw", &sign) : SIZE_MAX;
    if (end != SIZE_MAX) {
        advance(lex, end - lex->at);
        if (sign == '-') skip_space(lex);
        return raw_body(lex, token);
    }
    token->kind = second == '%' ? TERN_JINJA_BLOCK_BEGIN : TERN_JINJA_PRINT_BEGIN;
    token->line = lex->line;
    lex->tag = second;
    lex->brackets = 0;
    advance(lex, sign_at(lex, lex->at + 2) ? 3 : 2);
    return TERN_OK;
}

static tern_status lex_data(tern_jinja_lexer *lex, tern_jinja_token *token)
{
    bool given = false;
    while (!given) {
        size_t from = lex->at, to = find_tag(lex);
        if (to == from && from == lex->n) return TERN_OK;
        if (to == from) {
            TERN_TRY(open_tag(lex, token, &given));
            continue;
        }
        bool block = to < lex->n && lex->source[to + 1] != '{';
        size_t end = to < lex->n ? data_end(lex, from, to, sign_at(lex, to + 2), block) : to;
        give_data(lex, token, from, end);
        given = end > from;
        advance(lex, to - from);
    }
    return TERN_OK;
}

/* Whether the cursor is at the end of the tag; *sign is the one before it. */
static bool at_tag_end(const tern_jinja_lexer *lex, char *sign)
{
    if (lex->brackets > 0) return false;
    *sign = peek(lex, 0) == '-' || (peek(lex, 0) == '+' && lex->tag == '%') ? peek(lex, 0) : 0;
    size_t skip = *sign ? 1 : 0;
    char first = lex->tag == '%' ? '%' : '}';
    return peek(lex, skip) == first && peek(lex, skip + 1) == '}';
}

static bool is_name_char(char c)
{
    return c == '_' || tern_jinja__is_digit(c) || tern_jinja__is_upper(c) || tern_jinja__is_lower(c);
}

static tern_status lex_word(tern_jinja_lexer *lex, tern_jinja_token *token)
{
    size_t n = 0;
    while (is_name_char(peek(lex, n))) n++;
    token->kind = TERN_JINJA_WORD;
    token->text = (tern_jinja_str){.data = lex->source + lex->at, .n = n};
    advance(lex, n);
    return TERN_OK;
}

static tern_status lex_literal(tern_jinja_lexer *lex, tern_jinja_token *token, bool number)
{
    const char *s = lex->source + lex->at;
    size_t used = 0, left = lex->n - lex->at;
    token->kind = TERN_JINJA_LITERAL;
    if (number) TERN_TRY(tern_jinja__lex_number(lex->pool, s, left, s[-1] == '.', &token->value, &used));
    else TERN_TRY(tern_jinja__lex_string(lex->pool, s, left, &token->value, &used));
    advance(lex, used);
    return TERN_OK;
}

static tern_status lex_operator(tern_jinja_lexer *lex, tern_jinja_token *token)
{
    static const char *const two[] = {"**", "//", "==", "!=", "<=", ">="};
    char c = peek(lex, 0);
    size_t n = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (c == two[i][0] && peek(lex, 1) == two[i][1]) n = 2;
    if (n == 1 && (c == 0 || !strchr("+-*/%~<>=.,:|()[]{}", c)))
        return tern_jinja__fail(lex->pool, TERN_MALFORMED, "unexpected character 0x%02x in a tag",
                                (unsigned)(uint8_t)c);
    if (strchr("([{", c)) lex->brackets++;
    if (strchr(")]}", c) && lex->brackets > 0) lex->brackets--;
    token->kind = TERN_JINJA_OPERATOR;
    token->text = (tern_jinja_str){.data = lex->source + lex->at, .n = n};
    advance(lex, n);
    return TERN_OK;
}

static tern_status lex_tag(tern_jinja_lexer *lex, tern_jinja_token *token)
{
    skip_space(lex);
    token->line = lex->pool->line = lex->line;
    if (lex->at == lex->n) return unterminated(lex, lex->tag == '%' ? "tag {%" : "tag {{");
    char sign = 0, c = peek(lex, 0);
    if (at_tag_end(lex, &sign)) {
        bool block = lex->tag == '%';
        token->kind = block ? TERN_JINJA_BLOCK_END : TERN_JINJA_PRINT_END;
        lex->tag = 0;
        advance(lex, sign ? 3 : 2);
        after_tag(lex, sign, block);
        return TERN_OK;
    }
    if (tern_jinja__is_digit(c) || c == '"' || c == '\'') return lex_literal(lex, token, tern_jinja__is_digit(c));
    return is_name_char(c) ? lex_word(lex, token) : lex_operator(lex, token);
}

tern_status tern_jinja__lex_next(tern_jinja_lexer *lex, tern_jinja_token *token)
{
    *token = (tern_jinja_token){.kind = TERN_JINJA_END, .line = lex->line};
    return lex->tag ? lex_tag(lex, token) : lex_data(lex, token);
}
