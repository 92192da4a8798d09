/* The tests of chat templates: what may follow "is". */
#include "text/jinja/chars.h"
#include "text/jinja/parse.h"
#include "text/jinja/render.h"
#include "text/jinja/text.h"

typedef const tern_jinja_value *operand;

/* A test that only looks at the kind of its value. */
#define KIND_TEST(name, condition)                                                                                     \
    static tern_status name(tern_jinja_render *r, operand v, operand argument, bool *out)                              \
    {                                                                                                                  \
        (void)r;                                                                                                       \
        (void)argument;                                                                                                \
        *out = (condition);                                                                                            \
        return TERN_OK;                                                                                                \
    }

KIND_TEST(is_defined, v->kind != TERN_JINJA_UNDEFINED)
KIND_TEST(is_undefined, v->kind == TERN_JINJA_UNDEFINED)
KIND_TEST(is_none, v->kind == TERN_JINJA_NONE)
KIND_TEST(is_string, v->kind == TERN_JINJA_STRING)
KIND_TEST(is_mapping, v->kind == TERN_JINJA_DICT)
KIND_TEST(is_number, tern_jinja__is_number(v))
KIND_TEST(is_integer, v->kind == TERN_JINJA_INT)
KIND_TEST(is_float, v->kind == TERN_JINJA_FLOAT)
KIND_TEST(is_boolean, v->kind == TERN_JINJA_BOOL)
KIND_TEST(is_true, v->kind == TERN_JINJA_BOOL && v->flag)
KIND_TEST(is_false, v->kind == TERN_JINJA_BOOL && !v->flag)
KIND_TEST(is_callable, v->kind == TERN_JINJA_MACRO || v->kind == TERN_JINJA_FUNCTION || v->kind == TERN_JINJA_METHOD ||
                           v->kind == TERN_JINJA_JOINER || v->kind == TERN_JINJA_LOOP ||
                           v->kind == TERN_JINJA_UNDEFINED)
KIND_TEST(is_escaped, v->kind == TERN_JINJA_STRING && v->str.markup)
KIND_TEST(is_filter, v->kind == TERN_JINJA_STRING && tern_jinja__find_filter(v->str))
KIND_TEST(is_test, v->kind == TERN_JINJA_STRING && tern_jinja__find_test(v->str))
KIND_TEST(is_sequence, v->kind == TERN_JINJA_STRING || v->kind == TERN_JINJA_DICT || v->kind == TERN_JINJA_UNDEFINED ||
                           v->kind == TERN_JINJA_RANGE || tern_jinja__is_list(v))
KIND_TEST(is_iterable, v->kind == TERN_JINJA_STRING || v->kind == TERN_JINJA_DICT || v->kind == TERN_JINJA_UNDEFINED ||
                           v->kind == TERN_JINJA_LOOP || v->kind == TERN_JINJA_GENERATOR || tern_jinja__is_sized(v))

static tern_status is_divisible(tern_jinja_render *r, operand v, operand by, bool *out)
{
    tern_jinja_value rest;
    TERN_TRY(tern_jinja__binary(r, '%', v, by, &rest));
    if (!tern_jinja__is_number(&rest)) return tern_jinja__bad(r, "test of divisibility needs numbers");
    *out = !tern_jinja__truth(&rest);
    return TERN_OK;
}

static tern_status is_even(tern_jinja_render *r, operand v, operand argument, bool *out)
{
    (void)argument;
    tern_jinja_value two = tern_jinja__int(2);
    return is_divisible(r, v, &two, out);
}

static tern_status is_odd(tern_jinja_render *r, operand v, operand argument, bool *out)
{
    (void)argument;
    const tern_jinja_value two = tern_jinja__int(2), one = tern_jinja__int(1);
    tern_jinja_value rest;
    TERN_TRY(tern_jinja__binary(r, '%', v, &two, &rest));
    *out = tern_jinja__equal(&r->pool, &rest, &one);
    return TERN_OK;
}

/* In the case of upper() or lower(), of what the value prints as. */
static tern_status in_case(tern_jinja_render *r, operand v, bool upper, bool *out)
{
    tern_jinja_str s;
    TERN_TRY(tern_jinja__str(r, v, &s));
    *out = tern_jinja__all_in_case(r, s, upper);
    return TERN_OK;
}

static tern_status is_upper_case(tern_jinja_render *r, operand v, operand argument, bool *out)
{
    (void)argument;
    return in_case(r, v, true, out);
}

static tern_status is_lower_case(tern_jinja_render *r, operand v, operand argument, bool *out)
{
    (void)argument;
    return in_case(r, v, false, out);
}

/* The comparisons under their names. */
#define COMPARE_TEST(name, op)                                                                                         \
    static tern_status name(tern_jinja_render *r, operand v, operand argument, bool *out)                              \
    {                                                                                                                  \
        return tern_jinja__compare(r, op, v, argument, out);                                                           \
    }

COMPARE_TEST(is_equal, '=')
COMPARE_TEST(is_different, '!')
COMPARE_TEST(is_less, '<')
COMPARE_TEST(is_greater, '>')
COMPARE_TEST(is_at_most, 'l')
COMPARE_TEST(is_at_least, 'g')
COMPARE_TEST(is_in, 'i')

static tern_status is_same(tern_jinja_render *r, operand v, operand argument, bool *out)
{
    *out = false;
    if (v->kind != argument->kind) return TERN_OK;
    if (tern_jinja__is_sized(v)) return *out = v->list == argument->list, TERN_OK;
    if (v->kind == TERN_JINJA_DICT) return *out = v->dict == argument->dict, TERN_OK;
    return is_equal(r, v, argument, out);
}

static const tern_jinja_test tests[] = {
    {"boolean", "", is_boolean},
    {"callable", "", is_callable},
    {"defined", "", is_defined},
    {"divisibleby", "num", is_divisible},
    {"eq", "other", is_equal},
    {"equalto", "other", is_equal},
    {"escaped", "", is_escaped},
    {"even", "", is_even},
    {"false", "", is_false},
    {"filter", "", is_filter},
    {"float", "", is_float},
    {"ge", "other", is_at_least},
    {"greaterthan", "other", is_greater},
    {"gt", "other", is_greater},
    {"in", "seq", is_in},
    {"integer", "", is_integer},
    {"iterable", "", is_iterable},
    {"le", "other", is_at_most},
    {"lessthan", "other", is_less},
    {"lower", "", is_lower_case},
    {"lt", "other", is_less},
    {"mapping", "", is_mapping},
    {"ne", "other", is_different},
    {"none", "", is_none},
    {"number", "", is_number},
    {"odd", "", is_odd},
    {"sameas", "other", is_same},
    {"sequence", "", is_sequence},
    {"string", "", is_string},
    {"test", "", is_test},
    {"true", "", is_true},
    {"undefined", "", is_undefined},
    {"upper", "", is_upper_case},
    {"==", "other", is_equal},
    {"!=", "other", is_different},
    {"<", "other", is_less},
    {">", "other", is_greater},
    {"<=", "other", is_at_most},
    {">=", "other", is_at_least},
};

const tern_jinja_test *tern_jinja__find_test(tern_jinja_str name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (tern_jinja__str_is(name, tests[i].name)) return &tests[i];
    return NULL;
}
