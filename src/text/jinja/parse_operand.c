/* The operands of a chat template's expressions: literals, names and brackets, and what follows them without an
 * operator between: attributes, subscripts, calls, filters, tests. */
#include "text/jinja/parse.h"

tern_status tern_jinja__wrap(tern_jinja_parser *p, tern_jinja_node_kind kind, tern_jinja_node **out)
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

/* Items up to `close`, the cursor being after the opening bracket. */
static tern_status parse_items(tern_jinja_parser *p, const char *close, bool pairs, tern_jinja_node **list)
{
    while (!tern_jinja__at_op(p, close)) {
        TERN_TRY(tern_jinja__parse_expression(p, list));
        list = &(*list)->next;
        if (pairs) {
            TERN_TRY(tern_jinja__expect(p, TERN_JINJA_OPERATOR, ":"));
            TERN_TRY(tern_jinja__parse_expression(p, list));
            list = &(*list)->next;
        }
        if (!tern_jinja__at_op(p, close)) TERN_TRY(tern_jinja__expect(p, TERN_JINJA_OPERATOR, ","));
    }
    return tern_jinja__advance(p);
}

static tern_status parse_parenthesis(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__advance(p));
    if (tern_jinja__at_op(p, ")")) {
        TERN_TRY(tern_jinja__node(p, TERN_JINJA_ITEMS, out));
        (*out)->op = TERN_JINJA_TUPLE;
        return tern_jinja__advance(p);
    }
    TERN_TRY(tern_jinja__parse_tuple(p, true, out));
    return tern_jinja__expect(p, TERN_JINJA_OPERATOR, ")");
}

static tern_status parse_bracket(tern_jinja_parser *p, tern_jinja_node **out)
{
    bool pairs = tern_jinja__at_op(p, "{");
    TERN_TRY(tern_jinja__node(p, pairs ? TERN_JINJA_MAP : TERN_JINJA_ITEMS, out));
    (*out)->op = TERN_JINJA_LIST;
    TERN_TRY(tern_jinja__advance(p));
    return parse_items(p, pairs ? "}" : "]", pairs, &(*out)->list);
}

/* Arguments that a macro takes because its body reads this name. */
static int extra_of(tern_jinja_str name)
{
    if (tern_jinja__str_is(name, "varargs")) return TERN_JINJA_VARARGS;
    if (tern_jinja__str_is(name, "kwargs")) return TERN_JINJA_KWARGS;
    return tern_jinja__str_is(name, "caller") ? TERN_JINJA_CALLER : 0;
}

/* true, false, none or a name. */
static tern_status parse_word(tern_jinja_parser *p, tern_jinja_node **out)
{
    tern_jinja_str word = p->now.text;
    p->extras |= extra_of(word);
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
    if (tern_jinja__at_op(p, "(")) return parse_parenthesis(p, out);
    if (tern_jinja__at_op(p, "[") || tern_jinja__at_op(p, "{")) return parse_bracket(p, out);
    return tern_jinja__unexpected(p, "an expression");
}

static tern_status parse_star(tern_jinja_parser *p, tern_jinja_node_kind kind, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__node(p, kind, out));
    TERN_TRY(tern_jinja__advance(p));
    return tern_jinja__parse_expression(p, &(*out)->a);
}

static tern_status parse_argument(tern_jinja_parser *p, tern_jinja_node **out)
{
    if (tern_jinja__at_op(p, "*")) return parse_star(p, TERN_JINJA_STAR, out);
    if (tern_jinja__at_op(p, "**")) return parse_star(p, TERN_JINJA_STARS, out);
    if (p->now.kind != TERN_JINJA_WORD || p->ahead.kind != TERN_JINJA_OPERATOR ||
        !tern_jinja__str_is(p->ahead.text, "="))
        return tern_jinja__parse_expression(p, out);
    TERN_TRY(tern_jinja__node(p, TERN_JINJA_KEYWORD, out));
    TERN_TRY(tern_jinja__take_name(p, &(*out)->name));
    TERN_TRY(tern_jinja__advance(p));
    return tern_jinja__parse_expression(p, &(*out)->a);
}

/* Arguments stand in this order: plain ones, *, named ones (which may also stand before *), **. */
static int argument_rank(const tern_jinja_node *argument)
{
    switch (argument->kind) {
    case TERN_JINJA_KEYWORD: return 1;
    case TERN_JINJA_STAR: return 2;
    case TERN_JINJA_STARS: return 3;
    default: return 0;
    }
}

/* Whether an argument may follow one whose rank is the highest so far. */
static bool may_follow(int highest, int rank)
{
    return highest < 3 && (rank > highest || rank == 1 || (rank == 0 && highest == 0));
}

tern_status tern_jinja__parse_arguments(tern_jinja_parser *p, tern_jinja_node **list)
{
    int highest = 0;
    while (!tern_jinja__at_op(p, ")")) {
        TERN_TRY(parse_argument(p, list));
        int rank = argument_rank(*list);
        if (!may_follow(highest, rank))
            return tern_jinja__fail(p->pool, TERN_MALFORMED, "argument in the wrong place after a named one or *");
        if (rank > highest) highest = rank;
        list = &(*list)->next;
        if (!tern_jinja__at_op(p, ")")) TERN_TRY(tern_jinja__expect(p, TERN_JINJA_OPERATOR, ","));
    }
    return tern_jinja__advance(p);
}

static tern_status parse_attribute(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__wrap(p, TERN_JINJA_ATTR, out));
    TERN_TRY(tern_jinja__advance(p));
    if (p->now.kind != TERN_JINJA_LITERAL || p->now.value.kind != TERN_JINJA_INT)
        return tern_jinja__take_name(p, &(*out)->name);
    (*out)->kind = TERN_JINJA_INDEX; /* x.0 */
    return parse_literal(p, &(*out)->b);
}

/* One bound of a slice, when there is one. */
static tern_status parse_bound(tern_jinja_parser *p, tern_jinja_node **out)
{
    return tern_jinja__at_op(p, ":") || tern_jinja__at_op(p, "]") ? TERN_OK : tern_jinja__parse_expression(p, out);
}

static tern_status parse_subscript(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__wrap(p, TERN_JINJA_INDEX, out));
    tern_jinja_node *node = *out, **bounds[] = {&node->c, &node->d};
    TERN_TRY(tern_jinja__advance(p));
    if (tern_jinja__at_op(p, "]")) return tern_jinja__unexpected(p, "an index");
    TERN_TRY(parse_bound(p, &node->b));
    for (size_t i = 0; i < 2 && tern_jinja__at_op(p, ":"); i++) {
        node->kind = TERN_JINJA_SLICE;
        TERN_TRY(tern_jinja__advance(p));
        TERN_TRY(parse_bound(p, bounds[i]));
    }
    return tern_jinja__expect(p, TERN_JINJA_OPERATOR, "]");
}

static tern_status parse_call(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(tern_jinja__wrap(p, TERN_JINJA_CALL, out));
    TERN_TRY(tern_jinja__advance(p));
    return tern_jinja__parse_arguments(p, &(*out)->list);
}

static tern_status parse_postfix(tern_jinja_parser *p, tern_jinja_node **out)
{
    for (;;) {
        if (tern_jinja__at_op(p, ".")) TERN_TRY(parse_attribute(p, out));
        else if (tern_jinja__at_op(p, "[")) TERN_TRY(parse_subscript(p, out));
        else if (tern_jinja__at_op(p, "(")) TERN_TRY(parse_call(p, out));
        else return TERN_OK;
    }
}

/* An unknown filter or test counts where it runs, and in the whole template if it stands outside branches. */
static void note_lost(tern_jinja_parser *p, const tern_jinja_node *node, bool known)
{
    if (!known && !p->lost) p->lost = node;
}

static tern_status parse_filter(tern_jinja_parser *p, tern_jinja_node **out)
{
    bool called;
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(tern_jinja__wrap(p, TERN_JINJA_FILTER, out));
    (*out)->name = p->now.text;
    (*out)->filter = tern_jinja__find_filter(p->now.text);
    note_lost(p, *out, (*out)->filter != NULL);
    TERN_TRY(tern_jinja__expect(p, TERN_JINJA_WORD, NULL));
    TERN_TRY(tern_jinja__accept(p, TERN_JINJA_OPERATOR, "(", &called));
    return called ? tern_jinja__parse_arguments(p, &(*out)->list) : TERN_OK;
}

tern_status tern_jinja__parse_first_filter(tern_jinja_parser *p, tern_jinja_node **node)
{
    TERN_TRY(parse_filter(p, node));
    return tern_jinja__parse_filters(p, node);
}

tern_status tern_jinja__parse_filters(tern_jinja_parser *p, tern_jinja_node **node)
{
    while (tern_jinja__at_op(p, "|")) TERN_TRY(parse_filter(p, node));
    return TERN_OK;
}

/* Whether a test is followed by one argument without parentheses ("is divisibleby 3"). */
static bool at_bare_argument(const tern_jinja_parser *p)
{
    if (p->now.kind == TERN_JINJA_LITERAL || tern_jinja__at_op(p, "[") || tern_jinja__at_op(p, "{")) return true;
    return p->now.kind == TERN_JINJA_WORD && !tern_jinja__at_word(p, "else") && !tern_jinja__at_word(p, "or") &&
           !tern_jinja__at_word(p, "and") && !tern_jinja__at_word(p, "is") && !tern_jinja__at_word(p, "if") &&
           !tern_jinja__at_word(p, "in") && !tern_jinja__at_word(p, "not");
}

tern_status tern_jinja__parse_operand(tern_jinja_parser *p, tern_jinja_node **out)
{
    TERN_TRY(parse_primary(p, out));
    return parse_postfix(p, out);
}

static tern_status parse_test(tern_jinja_parser *p, tern_jinja_node **out)
{
    bool negated, called;
    TERN_TRY(tern_jinja__advance(p));
    TERN_TRY(tern_jinja__accept(p, TERN_JINJA_WORD, "not", &negated));
    TERN_TRY(tern_jinja__wrap(p, TERN_JINJA_TEST, out));
    (*out)->op = negated;
    (*out)->name = p->now.text;
    (*out)->test = tern_jinja__find_test(p->now.text);
    note_lost(p, *out, (*out)->test != NULL);
    TERN_TRY(tern_jinja__expect(p, TERN_JINJA_WORD, NULL));
    TERN_TRY(tern_jinja__accept(p, TERN_JINJA_OPERATOR, "(", &called));
    if (called) return tern_jinja__parse_arguments(p, &(*out)->list);
    return at_bare_argument(p) ? tern_jinja__parse_operand(p, &(*out)->list) : TERN_OK;
}

tern_status tern_jinja__parse_modifiers(tern_jinja_parser *p, tern_jinja_node **out)
{
    for (;;) {
        if (tern_jinja__at_op(p, "|")) TERN_TRY(parse_filter(p, out));
        else if (tern_jinja__at_word(p, "is")) TERN_TRY(parse_test(p, out));
        else if (tern_jinja__at_op(p, "(")) TERN_TRY(parse_call(p, out));
        else return TERN_OK;
    }
}
