/* The expressions of a chat template, one function for each level of precedence, loosest first. */
#include "text/jinja_parse.h"

typedef tern_status (*level)(tern_jinja_parser *, tern_jinja_node **);

static tern_status parse_or(tern_jinja_parser *p, tern_jinja_node **out);
static tern_status parse_unary(tern_jinja_parser *p, tern_jinja_node **out);

static bool at_op(const tern_jinja_parser *p, const char *text)
{
    return tern_jinja__at(p, TERN_JINJA_OPERATOR, text);
}

static bool at_word(const tern_jinja_parser *p, const char *text)
{
    return tern_jinja__at(p, TERN_JINJA_WORD, text);
}

/* Puts a node of this kind around *out. Chains are bounded, since rendering goes down them. */
static tern_status wrap(tern_jinja_parser *p, tern_jinja_node_kind kind, tern_jinja_node **out)
{
    tern_jinja_node *outer;
    TERN_TRY(tern_jinja__node(p, kind, &outer));
    outer->a = *out;
    outer->depth = *out ? (*out)->depth + 1 : 1;
    if (outer->depth > TERN_JINJA_MAX_CHAIN)
        return tern_jinja__fail(p->pool, TERN_LIMIT, "expression of more than %d operators", (int)TERN_JINJA_MAX_CHAIN);
    *out = outer;
    return TERN_OK;
}

/* The operator of `table` that the cursor is at, or 0. */
typedef struct operator_row {
    const char *text;
    int op;
} operator_row;

static int find_op(const tern_jinja_parser *p, const operator_row *table)
{
    for (; table->text; table++)
        if (at_op(p, table->text) || at_word(p, table->text)) return table->op;
    return 0;
}

/* next (op next)*, left to right. */
static tern_status parse_left(tern_jinja_parser *p, const operator_row *table, level next, tern_jinja_node **out)
{
    TERN_TRY(next(p, out));
    for (int op; (op = find_op(p, table)) != 0;) {
        TERN_TRY(wrap(p, TERN_JINJA_BINARY, out));
        (*out)->op = op;
        TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(next(p, &(*out)->b));
    }
    return TERN_OK;
}

tern_status tern_jinja__parse_expression(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__enter(p, &p->expressions));
    TERN_TRY(parse_or(p, out));
    while (at_word(p, "if")) {
        tern_jinja_node *value = *out;
        bool has_else;
        TERN_TRY(wrap(p, TERN_JINJA_COND, out));
        (*out)->b = value;
        TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(parse_or(p, &(*out)->a));
        TERN_TRY(tern_jinja__accept(p, TERN_JINJA_WORD, "else", &has_else));
        if (has_else) TERN_TRY(tern_jinja__parse_expression(p, &(*out)->c));
    }
    p->expressions--;
    return TERN_OK;
}

static bool ends_tuple(const tern_jinja_parser *p)
{
    return p->now.kind == TERN_JINJA_BLOCK_END || p->now.kind == TERN_JINJA_PRINT_END || at_op(p, ")") || at_op(p, "]") ||
           at_op(p, "=") || at_word(p, "in");
}

/* More items after the first one of a tuple, each after a comma. */
static tern_status parse_rest(tern_jinja_parser *p, bool conditional, tern_jinja_node **out)
{
    tern_jinja_node *first = *out, *last = first;
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_ITEMS, out));
    (*out)->op = TERN_JINJA_TUPLE;
    (*out)->list = first;
    while (at_op(p, ",")) {
        TERN_TRY(tern_jinja__advance(p));
        if (ends_tuple(p)) break;
        TERN_TRY(conditional ? tern_jinja__parse_expression(p, &last->next) : parse_or(p, &last->next));
        last = last->next;
    }
    return TERN_OK;
}

tern_status tern_jinja__parse_tuple(tern_jinja_parser *p, bool conditional, tern_jinja_node **out)
{
    TERN_TRY(conditional ? tern_jinja__parse_expression(p, out) : parse_or(p, out));
    return at_op(p, ",") ? parse_rest(p, conditional, out) : TERN_OK;
}

/* A name, name.attribute, or names in parentheses. */
static tern_status parse_target_item(tern_jinja_parser *p, bool attributes, tern_jinja_node **out)
{
    if (at_op(p, "(")) {
        TERN_TRY(tern_jinja__enter(p, &p->expressions));
        TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(tern_jinja__parse_target(p, attributes, out));
        p->expressions--;
        return tern_jinja__expect(p, TERN_JINJA_OPERATOR, ")");
    }
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_NAME, out));
    TERN_TRY(tern_jinja__take_name(p, &(*out)->name));
    if (!attributes || !at_op(p, ".")) return TERN_OK;
    TERN_TRY(wrap(p, TERN_JINJA_ATTR, out));
    TERN_TRY(tern_jinja__advance(p));
    return tern_jinja__take_name(p, &(*out)->name);
}

tern_status tern_jinja__parse_target(tern_jinja_parser *p, bool attributes, tern_jinja_node **out)
{
    TERN_TRY(parse_target_item(p, attributes, out));
    if (!at_op(p, ",")) return TERN_OK;
    tern_jinja_node *last = *out;
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_ITEMS, out));
    (*out)->list = last;
    while (at_op(p, ",")) {
        TERN_TRY(tern_jinja__advance(p));
        if (ends_tuple(p)) break;
        TERN_TRY(parse_target_item(p, attributes, &last->next));
        last = last->next;
    }
    return TERN_OK;
}

static tern_status parse_pow(tern_jinja_parser *p, tern_jinja_node **out)
{
    static const operator_row table[] = {{"**", 'P'}, {0}};
    return parse_left(p, table, parse_unary, out);
}

static tern_status parse_product(tern_jinja_parser *p, tern_jinja_node **out)
{
    static const operator_row table[] = {{"*", '*'}, {"/", '/'}, {"//", 'F'}, {"%", '%'}, {0}};
    return parse_left(p, table, parse_pow, out);
}

static tern_status parse_concat(tern_jinja_parser *p, tern_jinja_node **out)
{
    static const operator_row table[] = {{"~", '~'}, {0}};
    return parse_left(p, table, parse_product, out);
}

static tern_status parse_sum(tern_jinja_parser *p, tern_jinja_node **out)
{
    static const operator_row table[] = {{"+", '+'}, {"-", '-'}, {0}};
    return parse_left(p, table, parse_concat, out);
}

static int compare_op(const tern_jinja_parser *p)
{
    static const operator_row table[] = {{"==", '='}, {"!=", '!'}, {"<", '<'}, {">", '>'}, {"<=", 'l'}, {">=", 'g'},
                                         {"in", 'i'}, {0}};
    if (at_word(p, "not") && p->ahead.kind == TERN_JINJA_WORD && tern_jinja__str_is(p->ahead.text, "in")) return 'n';
    return find_op(p, table);
}

static tern_status parse_compare(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(parse_sum(p, out));
    if (!compare_op(p)) return TERN_OK;
    TERN_TRY(wrap(p, TERN_JINJA_COMPARE, out));
    tern_jinja_node **end = &(*out)->list;
    for (int op; (op = compare_op(p)) != 0; end = &(*end)->next) {
        TERN_TRY(tern_jinja__node(p, TERN_JINJA_COMPARE, end));
        (*end)->op = op;
        if (op == 'n') TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(parse_sum(p, &(*end)->a));
    }
    return TERN_OK;
}

/* An operator before its operand; `operand` parses what follows. */
static tern_status parse_prefix(tern_jinja_parser *p, int op, level operand, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__enter(p, &p->expressions));
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_UNARY, out));
    (*out)->op = op;
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(operand(p, &(*out)->a));
    p->expressions--;
    return TERN_OK;
}

static tern_status parse_not(tern_jinja_parser *p, tern_jinja_node **out)
{
    return at_word(p, "not") ? parse_prefix(p, '!', parse_not, out) : parse_compare(p, out);
}

static tern_status parse_and(tern_jinja_parser *p, tern_jinja_node **out)
{
    static const operator_row table[] = {{"and", '&'}, {0}};
    return parse_left(p, table, parse_not, out);
}

static tern_status parse_or(tern_jinja_parser *p, tern_jinja_node **out)
{
    static const operator_row table[] = {{"or", '|'}, {0}};
    return parse_left(p, table, parse_and, out);
}

/* Items up to `close`, the cursor being after the opening bracket. */
static tern_status parse_items(tern_jinja_parser *p, const char *close, bool pairs, tern_jinja_node **list)
{
    while (!at_op(p, close)) {
        TERN_TRY(tern_jinja__parse_expression(p, list));
        list = &(*list)->next;
        if (pairs) {
            TERN_TRY(tern_jinja__expect(p, TERN_JINJA_OPERATOR, ":"));
            TERN_TRY(tern_jinja__parse_expression(p, list));
            list = &(*list)->next;
        }
        if (!at_op(p, close)) TERN_TRY(tern_jinja__expect(p, TERN_JINJA_OPERATOR, ","));
    }
    return tern_jinja__advance(p);
}

static tern_status parse_parenthesis(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__advance(p));
    if (at_op(p, ")")) {
        TERN_TRY(tern_jinja__node(p, TERN_JINJA_ITEMS, out));
        (*out)->op = TERN_JINJA_TUPLE;
        return tern_jinja__advance(p);
    }
    TERN_TRY(tern_jinja__parse_tuple(p, true, out));
    return tern_jinja__expect(p, TERN_JINJA_OPERATOR, ")");
}

static tern_status parse_bracket(tern_jinja_parser *p, tern_jinja_node **out)
{
    bool pairs = at_op(p, "{");
    TERN_TRY(tern_jinja__node(p, pairs ? TERN_JINJA_MAP : TERN_JINJA_ITEMS, out));
    (*out)->op = TERN_JINJA_LIST;
    TERN_TRY(tern_jinja__advance(p));
    return parse_items(p, pairs ? "}" : "]", pairs, &(*out)->list);
}

/* true, false, none or a name. */
static tern_status parse_word(tern_jinja_parser *p, tern_jinja_node **out)
{
    tern_jinja_str word = p->now.text;
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_CONST, out));
    bool yes = tern_jinja__str_is(word, "true") || tern_jinja__str_is(word, "True");
    bool no = tern_jinja__str_is(word, "false") || tern_jinja__str_is(word, "False");
    bool none = tern_jinja__str_is(word, "none") || tern_jinja__str_is(word, "None");
    (*out)->value = none ? tern_jinja__none() : tern_jinja__bool(yes);
    if (!yes && !no && !none) (*out)->kind = TERN_JINJA_NAME;
    (*out)->name = word;
    return tern_jinja__advance(p);
}

/* A literal; strings side by side are one string. */
static tern_status parse_literal(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_CONST, out));
    tern_jinja_value *value = &(*out)->value;
    *value = p->now.value;
    TERN_TRY(tern_jinja__advance(p));
    if (value->kind != TERN_JINJA_STRING) return TERN_OK;
    tern_jinja_rope rope = {0};
    TERN_TRY(tern_jinja__rope_add(p->pool, &rope, value->str));
    while (p->now.kind == TERN_JINJA_LITERAL && p->now.value.kind == TERN_JINJA_STRING) {
        TERN_TRY(tern_jinja__rope_add(p->pool, &rope, p->now.value.str));
        TERN_TRY(tern_jinja__advance(p));
    }
    return tern_jinja__rope_str(p->pool, &rope, &value->str);
}

static tern_status parse_primary(tern_jinja_parser *p, tern_jinja_node **out)
{
    if (p->now.kind == TERN_JINJA_LITERAL) return parse_literal(p, out);
    if (p->now.kind == TERN_JINJA_WORD) return parse_word(p, out);
    if (at_op(p, "(")) return parse_parenthesis(p, out);
    if (at_op(p, "[") || at_op(p, "{")) return parse_bracket(p, out);
    return tern_jinja__unexpected(p, "an expression");
}

static tern_status parse_argument(tern_jinja_parser *p, tern_jinja_node **out)
{
    if (at_op(p, "*") || at_op(p, "**")) return tern_jinja__fail(p->pool, TERN_UNSUPPORTED, "argument that starts with *");
    if (p->now.kind != TERN_JINJA_WORD || p->ahead.kind != TERN_JINJA_OPERATOR || !tern_jinja__str_is(p->ahead.text, "="))
        return tern_jinja__parse_expression(p, out);
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_KEYWORD, out));
    TERN_TRY(tern_jinja__take_name(p, &(*out)->name));
    TERN_TRY(tern_jinja__advance(p));
    return tern_jinja__parse_expression(p, &(*out)->a);
}

tern_status tern_jinja__parse_arguments(tern_jinja_parser *p, tern_jinja_node **list)
{
    bool named = false;
    while (!at_op(p, ")")) {
        TERN_TRY(parse_argument(p, list));
        if (named && (*list)->kind != TERN_JINJA_KEYWORD)
            return tern_jinja__fail(p->pool, TERN_MALFORMED, "argument without a name after one with a name");
        named = (*list)->kind == TERN_JINJA_KEYWORD;
        list = &(*list)->next;
        if (!at_op(p, ")")) TERN_TRY(tern_jinja__expect(p, TERN_JINJA_OPERATOR, ","));
    }
    return tern_jinja__advance(p);
}

static tern_status parse_attribute(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(wrap(p, TERN_JINJA_ATTR, out));
    TERN_TRY(tern_jinja__advance(p));
    if (p->now.kind != TERN_JINJA_LITERAL || p->now.value.kind != TERN_JINJA_INT)
        return tern_jinja__take_name(p, &(*out)->name);
    (*out)->kind = TERN_JINJA_INDEX; /* x.0 */
    return parse_literal(p, &(*out)->b);
}

/* One bound of a slice, when there is one. */
static tern_status parse_bound(tern_jinja_parser *p, tern_jinja_node **out)
{
    return at_op(p, ":") || at_op(p, "]") ? TERN_OK : tern_jinja__parse_expression(p, out);
}

static tern_status parse_subscript(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(wrap(p, TERN_JINJA_INDEX, out));
    tern_jinja_node *node = *out, **bounds[] = {&node->c, &node->d};
    TERN_TRY(tern_jinja__advance(p));
    if (at_op(p, "]")) return tern_jinja__unexpected(p, "an index");
    TERN_TRY(parse_bound(p, &node->b));
    for (size_t i = 0; i < 2 && at_op(p, ":"); i++) {
        node->kind = TERN_JINJA_SLICE;
        TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(parse_bound(p, bounds[i]));
    }
    return tern_jinja__expect(p, TERN_JINJA_OPERATOR, "]");
}

static tern_status parse_call(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(wrap(p, TERN_JINJA_CALL, out));
    TERN_TRY(tern_jinja__advance(p));
    return tern_jinja__parse_arguments(p, &(*out)->list);
}

static tern_status parse_postfix(tern_jinja_parser *p, tern_jinja_node **out)
{
    for (;;) {
        if (at_op(p, ".")) TERN_TRY(parse_attribute(p, out));
        else if (at_op(p, "[")) TERN_TRY(parse_subscript(p, out));
        else if (at_op(p, "(")) TERN_TRY(parse_call(p, out));
        else return TERN_OK;
    }
}

static tern_status unknown(tern_jinja_parser *p, const char *what, tern_jinja_str name)
{
    return tern_jinja__fail(p->pool, TERN_UNSUPPORTED, "%s \"%.*s\"", what, (int)(name.n < 60 ? name.n : 60), name.data);
}

static tern_status parse_filter(tern_jinja_parser *p, tern_jinja_node **out)
{
    bool called;
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(wrap(p, TERN_JINJA_FILTER, out));
    (*out)->name = p->now.text;
    (*out)->filter = tern_jinja__find_filter(p->now.text);
    if (p->now.kind == TERN_JINJA_WORD && !(*out)->filter) return unknown(p, "filter", p->now.text);
    TERN_TRY(tern_jinja__expect(p, TERN_JINJA_WORD, NULL));
    TERN_TRY(tern_jinja__accept(p, TERN_JINJA_OPERATOR, "(", &called));
    return called ? tern_jinja__parse_arguments(p, &(*out)->list) : TERN_OK;
}

tern_status tern_jinja__parse_filters(tern_jinja_parser *p, tern_jinja_node **node)
{
    while (at_op(p, "|")) TERN_TRY(parse_filter(p, node));
    return TERN_OK;
}

/* Whether a test is followed by one argument without parentheses ("is divisibleby 3"). */
static bool at_bare_argument(const tern_jinja_parser *p)
{
    if (p->now.kind == TERN_JINJA_LITERAL || at_op(p, "[") || at_op(p, "{")) return true;
    return p->now.kind == TERN_JINJA_WORD && !at_word(p, "else") && !at_word(p, "or") && !at_word(p, "and") &&
           !at_word(p, "is") && !at_word(p, "if") && !at_word(p, "in") && !at_word(p, "not");
}

static tern_status parse_test_argument(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(parse_primary(p, out));
    return parse_postfix(p, out);
}

static tern_status parse_test(tern_jinja_parser *p, tern_jinja_node **out)
{
    bool negated, called;
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(tern_jinja__accept(p, TERN_JINJA_WORD, "not", &negated));
    TERN_TRY(wrap(p, TERN_JINJA_TEST, out));
    (*out)->op = negated;
    (*out)->name = p->now.text;
    (*out)->test = tern_jinja__find_test(p->now.text);
    if (p->now.kind == TERN_JINJA_WORD && !(*out)->test) return unknown(p, "test", p->now.text);
    TERN_TRY(tern_jinja__expect(p, TERN_JINJA_WORD, NULL));
    TERN_TRY(tern_jinja__accept(p, TERN_JINJA_OPERATOR, "(", &called));
    if (called) return tern_jinja__parse_arguments(p, &(*out)->list);
    return at_bare_argument(p) ? parse_test_argument(p, &(*out)->list) : TERN_OK;
}

/* Filters, tests and calls after an operand; they bind tighter than every operator between two operands. */
static tern_status parse_modifiers(tern_jinja_parser *p, tern_jinja_node **out)
{
    for (;;) {
        if (at_op(p, "|")) TERN_TRY(parse_filter(p, out));
        else if (at_word(p, "is")) TERN_TRY(parse_test(p, out));
        else if (at_op(p, "(")) TERN_TRY(parse_call(p, out));
        else return TERN_OK;
    }
}

static tern_status parse_signed(tern_jinja_parser *p, tern_jinja_node **out)
{
    if (at_op(p, "-")) return parse_prefix(p, '-', parse_signed, out);
    if (at_op(p, "+")) return parse_prefix(p, '+', parse_signed, out);
    TERN_TRY(parse_primary(p, out));
    return parse_postfix(p, out);
}

/* A signed operand takes its filters after the sign: -x|abs is (-x)|abs. */
static tern_status parse_unary(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(parse_signed(p, out));
    return parse_modifiers(p, out);
}
