/* The expressions of a chat template, one function for each level of precedence above operands. */
#include "text/jinja/parse.h"

typedef tern_status (*level)(tern_jinja_parser *, tern_jinja_node **);

static tern_status parse_or(tern_jinja_parser *p, tern_jinja_node **out);
static tern_status parse_unary(tern_jinja_parser *p, tern_jinja_node **out);

/* The operator of `table` that the cursor is at, or 0. */
typedef struct operator_row {
    const char *text;
    int op;
} operator_row;

static int find_op(const tern_jinja_parser *p, const operator_row *table)
{
    for (; table->text; table++)
        if (tern_jinja__at_op(p, table->text) || tern_jinja__at_word(p, table->text)) return table->op;
    return 0;
}

/* next (op next)*, left to right. */
static tern_status parse_left(tern_jinja_parser *p, const operator_row *table, level next, tern_jinja_node **out)
{
    TERN_TRY(next(p, out));
    for (int op; (op = find_op(p, table)) != 0;) {
        TERN_TRY(tern_jinja__wrap(p, TERN_JINJA_BINARY, out));
        (*out)->op = op;
        TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(next(p, &(*out)->b));
    }
    return TERN_OK;
}

tern_status tern_jinja__parse_expression(tern_jinja_parser *p, tern_jinja_node **out)
{
    const tern_jinja_node *lost = p->lost;
    TERN_TRY(tern_jinja__enter(p, &p->expressions));
    TERN_TRY(parse_or(p, out));
    while (tern_jinja__at_word(p, "if")) {
        tern_jinja_node *value = *out;
        bool has_else;
        TERN_TRY(tern_jinja__wrap(p, TERN_JINJA_COND, out));
        (*out)->b = value;
        TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(parse_or(p, &(*out)->a));
        TERN_TRY(tern_jinja__accept(p, TERN_JINJA_WORD, "else", &has_else));
        if (has_else) TERN_TRY(tern_jinja__parse_expression(p, &(*out)->c));
        p->lost = lost; /* all that the condition has stands in a branch */
    }
    p->expressions--;
    return TERN_OK;
}

static bool ends_tuple(const tern_jinja_parser *p)
{
    return p->now.kind == TERN_JINJA_BLOCK_END || p->now.kind == TERN_JINJA_PRINT_END || tern_jinja__at_op(p, ")") ||
           tern_jinja__at_op(p, "]") || tern_jinja__at_op(p, "=") || tern_jinja__at_word(p, "in");
}

/* More items after the first one of a tuple, each after a comma. */
static tern_status parse_rest(tern_jinja_parser *p, bool conditional, tern_jinja_node **out)
{
    tern_jinja_node *first = *out, *last = first;
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_ITEMS, out));
    (*out)->op = TERN_JINJA_TUPLE;
    (*out)->list = first;
    while (tern_jinja__at_op(p, ",")) {
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
    return tern_jinja__at_op(p, ",") ? parse_rest(p, conditional, out) : TERN_OK;
}

tern_status tern_jinja__parse_target_item(tern_jinja_parser *p, bool attributes, tern_jinja_node **out)
{
    if (tern_jinja__at_op(p, "(")) {
        TERN_TRY(tern_jinja__enter(p, &p->expressions));
        TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(tern_jinja__parse_target(p, attributes, out));
        p->expressions--;
        return tern_jinja__expect(p, TERN_JINJA_OPERATOR, ")");
    }
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_NAME, out));
    TERN_TRY(tern_jinja__take_name(p, &(*out)->name));
    if (!attributes || !tern_jinja__at_op(p, ".")) return TERN_OK;
    TERN_TRY(tern_jinja__wrap(p, TERN_JINJA_ATTR, out));
    TERN_TRY(tern_jinja__advance(p));
    return tern_jinja__take_name(p, &(*out)->name);
}

tern_status tern_jinja__parse_target(tern_jinja_parser *p, bool attributes, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__parse_target_item(p, attributes, out));
    if (!tern_jinja__at_op(p, ",")) return TERN_OK;
    tern_jinja_node *last = *out;
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_ITEMS, out));
    (*out)->list = last;
    while (tern_jinja__at_op(p, ",")) {
        TERN_TRY(tern_jinja__advance(p));
        if (ends_tuple(p)) break;
        TERN_TRY(tern_jinja__parse_target_item(p, attributes, &last->next));
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
    static const operator_row table[] = {{"==", '='}, {"!=", '!'}, {"<", '<'},  {">", '>'},
                                         {"<=", 'l'}, {">=", 'g'}, {"in", 'i'}, {0}};
    if (tern_jinja__at_word(p, "not") && p->ahead.kind == TERN_JINJA_WORD && tern_jinja__str_is(p->ahead.text, "in"))
        return 'n';
    return find_op(p, table);
}

static tern_status parse_compare(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(parse_sum(p, out));
    if (!compare_op(p)) return TERN_OK;
    TERN_TRY(tern_jinja__wrap(p, TERN_JINJA_COMPARE, out));
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
    return tern_jinja__at_word(p, "not") ? parse_prefix(p, '!', parse_not, out) : parse_compare(p, out);
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

static tern_status parse_signed(tern_jinja_parser *p, tern_jinja_node **out)
{
    if (tern_jinja__at_op(p, "-")) return parse_prefix(p, '-', parse_signed, out);
    if (tern_jinja__at_op(p, "+")) return parse_prefix(p, '+', parse_signed, out);
    return tern_jinja__parse_operand(p, out);
}

/* A signed operand takes its filters after the sign: -x|abs is (-x)|abs. */
static tern_status parse_unary(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(parse_signed(p, out));
    return tern_jinja__parse_modifiers(p, out);
}
