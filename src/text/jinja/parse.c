/* The statements of a chat template: if, for, set, macro, and what stands between them. */
#include "text/jinja/parse.h"

#include <string.h>

static tern_status parse_body(tern_jinja_parser *p, tern_jinja_node **list);

bool tern_jinja__at(const tern_jinja_parser *p, tern_jinja_token_kind kind, const char *text)
{
    return p->now.kind == kind && (!text || tern_jinja__str_is(p->now.text, text));
}

tern_status tern_jinja__advance(tern_jinja_parser *p)
{
    p->now = p->ahead;
    TERN_TRY(tern_jinja__lex_next(&p->lexer, &p->ahead));
    p->pool->line = p->now.line;
    return TERN_OK;
}

tern_status tern_jinja__accept(tern_jinja_parser *p, tern_jinja_token_kind kind, const char *text, bool *taken)
{
    *taken = tern_jinja__at(p, kind, text);
    return *taken ? tern_jinja__advance(p) : TERN_OK;
}

tern_status tern_jinja__unexpected(tern_jinja_parser *p, const char *wanted)
{
    static const char *const kinds[] = {"the end of the template", "text", "{%", "%}", "{{", "}}", "", "a literal", ""};
    tern_jinja_str text = p->now.kind == TERN_JINJA_WORD || p->now.kind == TERN_JINJA_OPERATOR
                              ? p->now.text
                              : tern_jinja__words(kinds[p->now.kind]);
    return tern_jinja__fail(p->pool, TERN_MALFORMED, "expected %s, found %.*s", wanted,
                            (int)(text.n < 40 ? text.n : 40), text.data);
}

tern_status tern_jinja__expect(tern_jinja_parser *p, tern_jinja_token_kind kind, const char *text)
{
    static const char *const kinds[] = {"the end", "text",   "{%",        "%}",         "{{",
                                        "}}",      "a name", "a literal", "an operator"};
    if (!tern_jinja__at(p, kind, text)) return tern_jinja__unexpected(p, text ? text : kinds[kind]);
    return tern_jinja__advance(p);
}

tern_status tern_jinja__take_name(tern_jinja_parser *p, tern_jinja_str *name)
{
    *name = p->now.text;
    return tern_jinja__expect(p, TERN_JINJA_WORD, NULL);
}

tern_status tern_jinja__node(tern_jinja_parser *p, tern_jinja_node_kind kind, tern_jinja_node **out)
{
    tern_jinja_node *node = tern_jinja__alloc(p->pool, 1, sizeof *node);
    if (!node) return tern_jinja__status(p->pool);
    node->kind = kind;
    node->line = p->now.line;
    *out = node;
    return TERN_OK;
}

tern_status tern_jinja__enter(tern_jinja_parser *p, unsigned *level)
{
    if (*level == TERN_JINJA_MAX_DEPTH)
        return tern_jinja__fail(p->pool, TERN_LIMIT, "nesting deeper than %d", (int)TERN_JINJA_MAX_DEPTH);
    ++*level;
    return TERN_OK;
}

static tern_status end_tag(tern_jinja_parser *p)
{
    return tern_jinja__expect(p, TERN_JINJA_BLOCK_END, NULL);
}

/* "{% word %}" as a whole; the body before it stopped at its "{%". */
static tern_status close_tag(tern_jinja_parser *p, const char *word)
{
    if (p->now.kind != TERN_JINJA_BLOCK_BEGIN) return tern_jinja__unexpected(p, word);
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(tern_jinja__expect(p, TERN_JINJA_WORD, word));
    return end_tag(p);
}

static tern_status parse_branch(tern_jinja_parser *p, bool has_condition, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_BRANCH, out));
    TERN_TRY(tern_jinja__advance(p)); /* if, elif, else */
    if (has_condition) TERN_TRY(tern_jinja__parse_tuple(p, false, &(*out)->a));
    TERN_TRY(end_tag(p));
    return parse_body(p, &(*out)->list);
}

static tern_status parse_if(tern_jinja_parser *p, tern_jinja_node **out)
{
    const tern_jinja_node *lost = p->lost;
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_IF, out));
    TERN_TRY(parse_branch(p, true, &(*out)->list));
    tern_jinja_node *last = (*out)->list;
    while (tern_jinja__at(p, TERN_JINJA_BLOCK_BEGIN, NULL) && last->a) {
        bool conditional = tern_jinja__str_is(p->ahead.text, "elif");
        if (!conditional && !tern_jinja__str_is(p->ahead.text, "else")) break;
        TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(parse_branch(p, conditional, &last->next));
        last = last->next;
    }
    p->lost = lost; /* branches may have filters that are unknown */
    return close_tag(p, "endif");
}

static tern_status parse_for_header(tern_jinja_parser *p, tern_jinja_node *loop)
{
    bool filtered;
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(tern_jinja__parse_target(p, false, &loop->a));
    TERN_TRY(tern_jinja__expect(p, TERN_JINJA_WORD, "in"));
    TERN_TRY(tern_jinja__parse_tuple(p, false, &loop->b));
    TERN_TRY(tern_jinja__accept(p, TERN_JINJA_WORD, "if", &filtered));
    if (filtered) TERN_TRY(tern_jinja__parse_expression(p, &loop->c));
    bool recursive;
    TERN_TRY(tern_jinja__accept(p, TERN_JINJA_WORD, "recursive", &recursive));
    loop->op = recursive;
    return end_tag(p);
}

static tern_status parse_for(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_FOR, out));
    TERN_TRY(parse_for_header(p, *out));
    p->loops++;
    TERN_TRY(parse_body(p, &(*out)->list));
    p->loops--;
    if (tern_jinja__at(p, TERN_JINJA_BLOCK_BEGIN, NULL) && tern_jinja__str_is(p->ahead.text, "else")) {
        TERN_TRY(close_tag(p, "else"));
        TERN_TRY(parse_body(p, &(*out)->other));
    }
    return close_tag(p, "endfor");
}

static tern_status parse_set(tern_jinja_parser *p, tern_jinja_node **out)
{
    bool assigned;
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_SET, out));
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(tern_jinja__parse_target(p, true, &(*out)->a));
    TERN_TRY(tern_jinja__accept(p, TERN_JINJA_OPERATOR, "=", &assigned));
    if (assigned) {
        TERN_TRY(tern_jinja__parse_tuple(p, true, &(*out)->b));
        return end_tag(p);
    }
    (*out)->kind = TERN_JINJA_SET_BLOCK;
    TERN_TRY(tern_jinja__parse_filters(p, &(*out)->b));
    TERN_TRY(end_tag(p));
    TERN_TRY(parse_body(p, &(*out)->list));
    return close_tag(p, "endset");
}

static tern_status parse_parameter(tern_jinja_parser *p, tern_jinja_node **out)
{
    bool has_default;
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_KEYWORD, out));
    TERN_TRY(tern_jinja__take_name(p, &(*out)->name));
    TERN_TRY(tern_jinja__accept(p, TERN_JINJA_OPERATOR, "=", &has_default));
    return has_default ? tern_jinja__parse_expression(p, &(*out)->a) : TERN_OK;
}

static tern_status parse_parameters(tern_jinja_parser *p, tern_jinja_node **list)
{
    TERN_TRY(tern_jinja__expect(p, TERN_JINJA_OPERATOR, "("));
    while (!tern_jinja__at_op(p, ")")) {
        TERN_TRY(parse_parameter(p, list));
        list = &(*list)->next;
        if (!tern_jinja__at_op(p, ")")) TERN_TRY(tern_jinja__expect(p, TERN_JINJA_OPERATOR, ","));
    }
    return tern_jinja__advance(p);
}

/* The end of the tag and the body of a macro, which no loop reaches into; notes what it reads beside parameters. */
static tern_status parse_macro_body(tern_jinja_parser *p, tern_jinja_node *macro, const char *end)
{
    const unsigned loops = p->loops;
    const int extras = p->extras;
    TERN_TRY(end_tag(p));
    p->loops = 0;
    p->extras = 0;
    TERN_TRY(parse_body(p, &macro->list));
    macro->op = p->extras;
    p->extras |= extras;
    p->loops = loops;
    return close_tag(p, end);
}

static tern_status parse_macro(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_MACRO_DEF, out));
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(tern_jinja__take_name(p, &(*out)->name));
    TERN_TRY(parse_parameters(p, &(*out)->a));
    return parse_macro_body(p, *out, "endmacro");
}

/* {% call(parameters) macro(arguments) %}: the body is a macro named caller. */
static tern_status parse_call_block(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_CALL_BLOCK, out));
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_MACRO_DEF, &(*out)->a));
    (*out)->a->name = tern_jinja__words("caller");
    TERN_TRY(tern_jinja__advance(p));
    if (tern_jinja__at_op(p, "(")) TERN_TRY(parse_parameters(p, &(*out)->a->a));
    TERN_TRY(tern_jinja__parse_expression(p, &(*out)->b));
    if ((*out)->b->kind != TERN_JINJA_CALL) return tern_jinja__unexpected(p, "a call in {% call %}");
    return parse_macro_body(p, (*out)->a, "endcall");
}

/* The rest of the tag, its body and the tag that ends it. */
static tern_status parse_block_body(tern_jinja_parser *p, tern_jinja_node *block, const char *end)
{
    TERN_TRY(end_tag(p));
    TERN_TRY(parse_body(p, &block->list));
    return close_tag(p, end);
}

static tern_status parse_filter_block(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_FILTER_BLOCK, out));
    TERN_TRY(tern_jinja__parse_first_filter(p, &(*out)->b));
    return parse_block_body(p, *out, "endfilter");
}

/* {% with a = 1, b = 2 %} */
static tern_status parse_with(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_WITH, out));
    TERN_TRY(tern_jinja__advance(p));
    for (tern_jinja_node **end = &(*out)->a; p->now.kind != TERN_JINJA_BLOCK_END; end = &(*end)->next) {
        if ((*out)->a) TERN_TRY(tern_jinja__expect(p, TERN_JINJA_OPERATOR, ","));
        TERN_TRY(tern_jinja__node(p, TERN_JINJA_SET, end));
        TERN_TRY(tern_jinja__parse_target_item(p, false, &(*end)->a));
        TERN_TRY(tern_jinja__expect(p, TERN_JINJA_OPERATOR, "="));
        TERN_TRY(tern_jinja__parse_expression(p, &(*end)->b));
    }
    return parse_block_body(p, *out, "endwith");
}

static tern_status parse_generation(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_BLOCK, out));
    TERN_TRY(tern_jinja__advance(p));
    return parse_block_body(p, *out, "endgeneration");
}

/* {% print a, b %} prints each value. */
static tern_status parse_print_tag(tern_jinja_parser *p, tern_jinja_node **out)
{
    tern_jinja_node **end;
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_BLOCK, out));
    end = &(*out)->list;
    for (bool more = true; more; end = &(*end)->next) {
        TERN_TRY(tern_jinja__advance(p)); /* print or , */
        TERN_TRY(tern_jinja__node(p, TERN_JINJA_PRINT, end));
        TERN_TRY(tern_jinja__parse_expression(p, &(*end)->a));
        more = tern_jinja__at_op(p, ",");
    }
    return end_tag(p);
}

static tern_status parse_jump(tern_jinja_parser *p, tern_jinja_node **out)
{
    bool is_break = tern_jinja__at_word(p, "break");
    if (p->loops == 0)
        return tern_jinja__fail(p->pool, TERN_MALFORMED, "%s outside a loop", is_break ? "break" : "continue");
    TERN_TRY(tern_jinja__node(p, is_break ? TERN_JINJA_BREAK : TERN_JINJA_CONTINUE, out));
    TERN_TRY(tern_jinja__advance(p));
    return end_tag(p);
}

/* A tag whose "{%" has been taken. */
static tern_status parse_tag(tern_jinja_parser *p, tern_jinja_node **out)
{
    static const struct {
        const char *word;
        tern_status (*parse)(tern_jinja_parser *, tern_jinja_node **);
    } tags[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"with", parse_with},
        {"print", parse_print_tag},
        {"break", parse_jump},
        {"continue", parse_jump},
        {"generation", parse_generation},
    };
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (tern_jinja__at_word(p, tags[i].word)) return tags[i].parse(p, out);
    if (p->now.kind != TERN_JINJA_WORD) return tern_jinja__unexpected(p, "the name of a tag");
    return tern_jinja__fail(p->pool, TERN_UNSUPPORTED, "tag {%% %.*s %%}",
                            (int)(p->now.text.n < 40 ? p->now.text.n : 40), p->now.text.data);
}

static tern_status parse_data(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_TEXT, out));
    (*out)->value = tern_jinja__string(p->now.text);
    return tern_jinja__advance(p);
}

static tern_status parse_print(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_PRINT, out));
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(tern_jinja__parse_tuple(p, true, &(*out)->a));
    return tern_jinja__expect(p, TERN_JINJA_PRINT_END, NULL);
}

static tern_status parse_block(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(tern_jinja__enter(p, &p->tags));
    TERN_TRY(parse_tag(p, out));
    p->tags--;
    return TERN_OK;
}

/* Words that end or divide the body of an enclosing tag. */
static bool ends_body(tern_jinja_str word)
{
    static const char *const words[] = {"elif",     "else",    "endif",     "endfor",  "endset",
                                        "endmacro", "endcall", "endfilter", "endwith", "endgeneration"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (tern_jinja__str_is(word, words[i])) return true;
    return false;
}

/* Statements up to the end, or up to the "{%" of a tag that ends a body. */
static tern_status parse_body(tern_jinja_parser *p, tern_jinja_node **list)
{
    for (;;) {
        switch (p->now.kind) {
        case TERN_JINJA_DATA: TERN_TRY(parse_data(p, list)); break;
        case TERN_JINJA_PRINT_BEGIN: TERN_TRY(parse_print(p, list)); break;
        case TERN_JINJA_BLOCK_BEGIN:
            if (ends_body(p->ahead.text)) return TERN_OK;
            TERN_TRY(parse_block(p, list));
            break;
        default: return TERN_OK;
        }
        list = &(*list)->next;
    }
}

static tern_status check_lost(tern_jinja_parser *p)
{
    if (!p->lost) return TERN_OK;
    p->pool->line = p->lost->line;
    return tern_jinja__unknown(p->pool, p->lost->kind == TERN_JINJA_TEST ? "test" : "filter", p->lost->name);
}

tern_status tern_jinja__parse(tern_jinja_pool *pool, const char *source, size_t n, tern_jinja_node **statements)
{
    tern_jinja_parser p = {.pool = pool};
    TERN_TRY(tern_jinja__lex_open(&p.lexer, pool, source, n));
    TERN_TRY(tern_jinja__lex_next(&p.lexer, &p.now));
    TERN_TRY(tern_jinja__lex_next(&p.lexer, &p.ahead));
    *statements = NULL;
    TERN_TRY(parse_body(&p, statements));
    if (p.now.kind == TERN_JINJA_END) return check_lost(&p);
    if (p.now.kind == TERN_JINJA_BLOCK_BEGIN) TERN_TRY(tern_jinja__advance(&p));
    return tern_jinja__unexpected(&p, "text or a tag that starts something");
}
