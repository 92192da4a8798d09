/* The operators of chat templates, with Python's meaning. */
#include <math.h>
#include <string.h>

#include "text/jinja/format.h"
#include "text/jinja/render.h"

typedef const tern_jinja_value *operand;

static tern_status undefined_operand(tern_jinja_render *r, operand v)
{
    return tern_jinja__bad(r, "\"%.*s\" is undefined", (int)(v->str.n < 60 ? v->str.n : 60), v->str.data);
}

static tern_status bad_operands(tern_jinja_render *r, const char *words, operand a, operand b)
{
    if (a->kind == TERN_JINJA_UNDEFINED) return undefined_operand(r, a);
    if (b->kind == TERN_JINJA_UNDEFINED) return undefined_operand(r, b);
    return tern_jinja__bad(r, "cannot apply %s to %s and %s", words, tern_jinja__kind_words(a->kind),
                           tern_jinja__kind_words(b->kind));
}

static tern_status overflow(tern_jinja_render *r)
{
    return tern_jinja__fail(&r->pool, TERN_LIMIT, "integer overflow");
}

static tern_status divide_by_zero(tern_jinja_render *r)
{
    return tern_jinja__bad(r, "division by zero");
}

/* Floor division and its remainder, which has the sign of b. */
static tern_status divide_ints(tern_jinja_render *r, int64_t a, int64_t b, bool remainder, int64_t *out)
{
    if (b == 0) return divide_by_zero(r);
    if (b == -1) {
        if (__builtin_sub_overflow(0, remainder ? 0 : a, out)) return overflow(r);
        return TERN_OK;
    }
    int64_t quotient = a / b, rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient--, rest += b;
    *out = remainder ? rest : quotient;
    return TERN_OK;
}

static tern_status power(tern_jinja_render *r, int64_t base, int64_t exponent, int64_t *out)
{
    *out = 1;
    if (base == 1 || base == 0) return *out = base == 1 || exponent == 0, TERN_OK;
    if (base == -1) return *out = exponent % 2 ? -1 : 1, TERN_OK;
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(*out, base, out)) return overflow(r);
    return TERN_OK;
}

static tern_status int_operator(tern_jinja_render *r, int op, int64_t a, int64_t b, tern_jinja_value *out)
{
    int64_t result = 0;
    bool too_big = false;
    switch (op) {
    case '+': too_big = __builtin_add_overflow(a, b, &result); break;
    case '-': too_big = __builtin_sub_overflow(a, b, &result); break;
    case '*': too_big = __builtin_mul_overflow(a, b, &result); break;
    case 'P': TERN_TRY(power(r, a, b, &result)); break;
    default: TERN_TRY(divide_ints(r, a, b, op == '%', &result)); break;
    }
    if (too_big) return overflow(r);
    *out = tern_jinja__int(result);
    return TERN_OK;
}

static tern_status float_operator(tern_jinja_render *r, int op, double a, double b, tern_jinja_value *out)
{
    double result = 0;
    if ((op == '/' || op == 'F' || op == '%') && b == 0) return divide_by_zero(r);
    switch (op) {
    case '+': result = a + b; break;
    case '-': result = a - b; break;
    case '*': result = a * b; break;
    case '/': result = a / b; break;
    case 'F': result = floor(a / b); break;
    case 'P': result = pow(a, b); break;
    default:
        result = fmod(a, b);
        if (result != 0 && (result < 0) != (b < 0)) result += b;
        break;
    }
    *out = tern_jinja__float(result);
    return TERN_OK;
}

static tern_status concat_lists(tern_jinja_render *r, operand a, operand b, tern_jinja_value *out)
{
    tern_jinja_value *items;
    TERN_TRY(tern_jinja__list(&r->pool, a->kind, a->list->n + b->list->n, out, &items));
    for (size_t i = 0; i < a->list->n; i++) *items++ = a->list->items[i];
    for (size_t i = 0; i < b->list->n; i++) *items++ = b->list->items[i];
    return tern_jinja__charge(&r->pool, out->list->n);
}

/* a ~ b. */
static tern_status concat_text(tern_jinja_render *r, operand a, operand b, tern_jinja_value *out)
{
    tern_jinja_rope rope = {0};
    TERN_TRY(tern_jinja__print(r, a, &rope));
    TERN_TRY(tern_jinja__print(r, b, &rope));
    return tern_jinja__rope_value(r, &rope, out);
}

static tern_status repeat_list(tern_jinja_render *r, operand list, operand count, tern_jinja_value *out)
{
    tern_jinja_value *items;
    const size_t n = list->list->n;
    int64_t times = tern_jinja__as_int(count) > 0 && n ? tern_jinja__as_int(count) : 0;
    TERN_TRY(tern_jinja__charge(&r->pool,
                                (uint64_t)times > UINT64_MAX / 2 / (n + 1) ? UINT64_MAX / 2 : (uint64_t)times * n));
    TERN_TRY(tern_jinja__list(&r->pool, list->kind, (size_t)times * n, out, &items));
    for (int64_t i = 0; i < times; i++, items += n) memcpy(items, list->list->items, n * sizeof *items);
    return TERN_OK;
}

static tern_status repeat_text(tern_jinja_render *r, operand text, operand count, tern_jinja_value *out)
{
    tern_jinja_rope rope = {0};
    for (int64_t i = tern_jinja__as_int(count); i > 0 && text->str.n > 0; i--)
        TERN_TRY(tern_jinja__emit(r, &rope, text->str));
    TERN_TRY(tern_jinja__rope_value(r, &rope, out));
    out->str.markup = text->str.markup;
    return TERN_OK;
}

/* a + b of strings, of which Markup escapes the other. */
static tern_status add_text(tern_jinja_render *r, operand a, operand b, tern_jinja_value *out)
{
    tern_jinja_rope rope = {0};
    const bool markup = a->str.markup || b->str.markup;
    TERN_TRY(tern_jinja__emit_escaped(r, &rope, a->str, markup));
    TERN_TRY(tern_jinja__emit_escaped(r, &rope, b->str, markup));
    TERN_TRY(tern_jinja__rope_value(r, &rope, out));
    out->str.markup = markup;
    return TERN_OK;
}

static bool is_int(operand v)
{
    return v->kind == TERN_JINJA_INT || v->kind == TERN_JINJA_BOOL;
}

static tern_status number_operator(tern_jinja_render *r, int op, operand a, operand b, tern_jinja_value *out)
{
    bool whole = is_int(a) && is_int(b) && op != '/' && !(op == 'P' && tern_jinja__as_int(b) < 0);
    if (whole) return int_operator(r, op, tern_jinja__as_int(a), tern_jinja__as_int(b), out);
    return float_operator(r, op, tern_jinja__as_float(a), tern_jinja__as_float(b), out);
}

static const char *op_words(int op)
{
    switch (op) {
    case '+': return "+";
    case '-': return "-";
    case '*': return "*";
    case '/': return "/";
    case '%': return "%";
    case 'F': return "//";
    case 'P': return "**";
    default: return "an order";
    }
}

tern_status tern_jinja__binary(tern_jinja_render *r, int op, operand a, operand b, tern_jinja_value *out)
{
    bool text = a->kind == TERN_JINJA_STRING && b->kind == TERN_JINJA_STRING;
    if (op == '~') return concat_text(r, a, b, out);
    if (op == '+' && text) return add_text(r, a, b, out);
    if (op == '%' && a->kind == TERN_JINJA_STRING) return tern_jinja__percent(r, a->str, b, out);
    if (tern_jinja__is_number(a) && tern_jinja__is_number(b)) return number_operator(r, op, a, b, out);
    if (op == '+' && tern_jinja__is_list(a) && a->kind == b->kind) return concat_lists(r, a, b, out);
    if (op == '*' && a->kind == TERN_JINJA_STRING && is_int(b)) return repeat_text(r, a, b, out);
    if (op == '*' && b->kind == TERN_JINJA_STRING && is_int(a)) return repeat_text(r, b, a, out);
    if (op == '*' && tern_jinja__is_list(a) && is_int(b)) return repeat_list(r, a, b, out);
    if (op == '*' && tern_jinja__is_list(b) && is_int(a)) return repeat_list(r, b, a, out);
    return bad_operands(r, op_words(op), a, b);
}

static bool in_list(tern_jinja_render *r, operand item, const tern_jinja_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (tern_jinja__equal(&r->pool, item, &list->items[i])) return true;
    return false;
}

static tern_status contains(tern_jinja_render *r, operand item, operand whole, bool *out)
{
    *out = false;
    if (whole->kind == TERN_JINJA_UNDEFINED) return TERN_OK;
    if (whole->kind == TERN_JINJA_STRING && item->kind == TERN_JINJA_STRING) {
        *out = tern_jinja__str_find(whole->str, item->str, 0) != SIZE_MAX;
        return tern_jinja__charge(&r->pool, whole->str.n / 64);
    }
    if (whole->kind == TERN_JINJA_GENERATOR) {
        const tern_jinja_list *items;
        TERN_TRY(tern_jinja__iterate(r, whole, &items));
        *out = in_list(r, item, items);
    } else if (tern_jinja__is_sized(whole)) *out = in_list(r, item, whole->list);
    else if (whole->kind == TERN_JINJA_DICT && !tern_jinja__is_hashable(item))
        return tern_jinja__bad(r, "in: %s as a key of a dict", tern_jinja__kind_words(item->kind));
    else if (whole->kind == TERN_JINJA_DICT) *out = tern_jinja__dict_find(&r->pool, whole->dict, item) != NULL;
    else return bad_operands(r, "in", item, whole);
    return tern_jinja__charge(&r->pool, 0);
}

static tern_status order(tern_jinja_render *r, operand a, operand b, int *out);

/* The first items that differ decide, then the length. */
static tern_status order_lists(tern_jinja_render *r, const tern_jinja_list *a, const tern_jinja_list *b, int *out)
{
    const size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        bool same = tern_jinja__equal(&r->pool, &a->items[i], &b->items[i]);
        TERN_TRY(tern_jinja__enter_render(r));
        if (!same) TERN_TRY(order(r, &a->items[i], &b->items[i], out));
        r->depth--;
        if (!same) return TERN_OK;
    }
    *out = (a->n > b->n) - (a->n < b->n);
    return TERN_OK;
}

/* Less, equal, greater as -1, 0, 1; a NaN orders as 2: nothing holds. */
static tern_status order(tern_jinja_render *r, operand a, operand b, int *out)
{
    if (tern_jinja__is_list(a) && a->kind == b->kind) return order_lists(r, a->list, b->list, out);
    if (a->kind == TERN_JINJA_STRING && b->kind == TERN_JINJA_STRING) {
        int bytes = tern_jinja__str_compare(a->str, b->str);
        *out = (bytes > 0) - (bytes < 0);
        return tern_jinja__charge(&r->pool, (a->str.n < b->str.n ? a->str.n : b->str.n) / 64);
    }
    if (!tern_jinja__is_number(a) || !tern_jinja__is_number(b)) return bad_operands(r, op_words(0), a, b);
    if (is_int(a) && is_int(b)) {
        int64_t x = tern_jinja__as_int(a), y = tern_jinja__as_int(b);
        *out = (x > y) - (x < y);
        return TERN_OK;
    }
    double x = tern_jinja__as_float(a), y = tern_jinja__as_float(b);
    *out = isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
    return TERN_OK;
}

tern_status tern_jinja__compare(tern_jinja_render *r, int op, operand a, operand b, bool *out)
{
    int ordered = 0;
    switch (op) {
    case '=':
    case '!': *out = tern_jinja__equal(&r->pool, a, b) == (op == '='); return tern_jinja__charge(&r->pool, 0);
    case 'i':
    case 'n':
        TERN_TRY(contains(r, a, b, out));
        *out = *out == (op == 'i');
        return TERN_OK;
    default: break;
    }
    TERN_TRY(order(r, a, b, &ordered));
    bool less = ordered<0, greater = ordered> 0 && ordered != 2;
    *out = op == '<' ? less : op == '>' ? greater : ordered == 0 || (op == 'l' ? less : greater);
    return TERN_OK;
}
