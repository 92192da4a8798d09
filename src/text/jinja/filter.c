/* The filters of chat templates that work on one value, and the table of all filters. */
#include <math.h>

#include "text/jinja/chars.h"
#include "text/jinja/filters.h"
#include "text/jinja/parse.h"
#include "text/jinja/text.h"

typedef const tern_jinja_value *operand;

/* Filters on text take any value and see what it prints as. */
static tern_status filter_trim(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str s;
    TERN_TRY(tern_jinja__str(r, self, &s));
    return tern_jinja__strip(r, s, arg[0], true, true, out);
}

static tern_status with_case(tern_jinja_render *r, operand self, tern_jinja_case how, tern_jinja_value *out)
{
    tern_jinja_str s;
    TERN_TRY(tern_jinja__str(r, self, &s));
    return tern_jinja__change_case(r, s, how, out);
}

static tern_status filter_upper(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return with_case(r, self, TERN_JINJA_UPPER, out);
}

static tern_status filter_lower(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return with_case(r, self, TERN_JINJA_LOWER, out);
}

static tern_status filter_title(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return with_case(r, self, TERN_JINJA_HEADLINE, out);
}

static tern_status filter_capitalize(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return with_case(r, self, TERN_JINJA_CAPITAL, out);
}

static tern_status filter_string(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    tern_jinja_str s;
    TERN_TRY(tern_jinja__str(r, self, &s));
    *out = tern_jinja__string(s);
    return TERN_OK;
}

static tern_status filter_replace(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str s, from, to;
    int64_t most;
    if (!arg[0] || !arg[1]) return tern_jinja__bad(r, "replace needs two arguments");
    TERN_TRY(tern_jinja__str(r, self, &s));
    TERN_TRY(tern_jinja__str(r, arg[0], &from));
    TERN_TRY(tern_jinja__str(r, arg[1], &to));
    TERN_TRY(tern_jinja__int_arg(r, arg[2] && arg[2]->kind != TERN_JINJA_NONE ? arg[2] : NULL, "count", -1, &most));
    return tern_jinja__replace(r, s, from, to, most, out);
}

/* One line of the indent filter: empty lines stay empty unless `blank`. */
static tern_status indent_line(tern_jinja_render *r, tern_jinja_rope *rope, tern_jinja_str line, tern_jinja_str indent,
                               bool indented, bool blank)
{
    if (indented && (blank || line.n > 0)) TERN_TRY(tern_jinja__emit(r, rope, indent));
    TERN_TRY(tern_jinja__charge(&r->pool, 1));
    return tern_jinja__emit(r, rope, line);
}

static tern_status indent_width(tern_jinja_render *r, operand width, tern_jinja_str *out)
{
    static const char spaces[] = "                                                                ";
    int64_t n;
    if (width && width->kind == TERN_JINJA_STRING) return *out = width->str, TERN_OK;
    TERN_TRY(tern_jinja__int_arg(r, width, "width", 4, &n));
    if (n < 0 || n > 64) return tern_jinja__unsupported(r, "indent by %lld, at most 64", (long long)n);
    *out = (tern_jinja_str){.data = spaces, .n = (size_t)n};
    return TERN_OK;
}

static tern_status filter_indent(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str s, indent;
    tern_jinja_rope rope = {0};
    bool first = arg[1] && tern_jinja__truth(arg[1]), blank = arg[2] && tern_jinja__truth(arg[2]);
    TERN_TRY(tern_jinja__str(r, self, &s));
    TERN_TRY(indent_width(r, arg[0], &indent));
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 64));
    for (size_t from = 0, line = 0; from <= s.n; line++) {
        size_t to = tern_jinja__str_find(s, tern_jinja__words("\n"), from);
        bool last = to == SIZE_MAX;
        tern_jinja_str text = tern_jinja__slice(s, from, last ? s.n : to);
        if (line > 0) TERN_TRY(tern_jinja__emit(r, &rope, tern_jinja__words("\n")));
        TERN_TRY(indent_line(r, &rope, text, indent, line > 0 || first, blank));
        from = last ? s.n + 1 : to + 1;
    }
    return tern_jinja__rope_value(r, &rope, out);
}

/* Python's int(text) and float(text), for plain decimal numbers with white space around; false for anything else. */
static bool plain_number(tern_jinja_str s, bool *whole)
{
    size_t at = s.n > 0 && (s.data[0] == '-' || s.data[0] == '+') ? 1 : 0, digits = 0, points = 0;
    for (; at < s.n && (tern_jinja__is_digit(s.data[at]) || s.data[at] == '.'); at++) {
        if (s.data[at] == '.') points++;
        else digits++;
    }
    *whole = points == 0;
    if (digits == 0 || points > 1) return false;
    if (at < s.n && (s.data[at] == 'e' || s.data[at] == 'E')) {
        *whole = false;
        at++;
        if (at < s.n && (s.data[at] == '-' || s.data[at] == '+')) at++;
        if (at == s.n) return false;
        while (at < s.n && tern_jinja__is_digit(s.data[at])) at++;
    }
    return at == s.n;
}

static tern_jinja_value truncated(double v, operand absent, int64_t zero)
{
    if (v >= -9.2e18 && v <= 9.2e18) return tern_jinja__int((int64_t)v);
    return absent ? *absent : tern_jinja__int(zero);
}

static tern_status text_to_number(tern_jinja_render *r, tern_jinja_str s, tern_jinja_value *out, bool *good)
{
    tern_jinja_value stripped;
    bool whole;
    size_t used;
    TERN_TRY(tern_jinja__strip(r, s, NULL, true, true, &stripped));
    s = stripped.str;
    *good = plain_number(s, &whole) && s.n < 60;
    if (!*good) return TERN_OK;
    if (!whole) return tern_jinja__parse_float(&r->pool, s, out);
    bool sign = s.data[0] == '-' || s.data[0] == '+';
    TERN_TRY(tern_jinja__lex_number(&r->pool, s.data + sign, s.n - sign, true, out, &used));
    if (s.data[0] == '-') out->integer = -out->integer;
    return TERN_OK;
}

static tern_status filter_int(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    bool good = tern_jinja__is_number(self);
    tern_jinja_value number = good ? *self : tern_jinja__int(0);
    if (self->kind == TERN_JINJA_UNDEFINED) return tern_jinja__bad(r, "int of an undefined value");
    if (self->kind == TERN_JINJA_STRING) TERN_TRY(text_to_number(r, self->str, &number, &good));
    *out = arg[0] ? *arg[0] : tern_jinja__int(0);
    if (good && number.kind == TERN_JINJA_FLOAT) *out = truncated(number.real, arg[0], 0);
    else if (good) *out = tern_jinja__int(tern_jinja__as_int(&number));
    return TERN_OK;
}

static tern_status filter_float(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    bool good = tern_jinja__is_number(self);
    tern_jinja_value number = good ? *self : tern_jinja__int(0);
    if (self->kind == TERN_JINJA_UNDEFINED) return tern_jinja__bad(r, "float of an undefined value");
    if (self->kind == TERN_JINJA_STRING) TERN_TRY(text_to_number(r, self->str, &number, &good));
    *out = arg[0] ? *arg[0] : tern_jinja__float(0);
    if (good) *out = tern_jinja__float(tern_jinja__as_float(&number));
    return TERN_OK;
}

static tern_status number_only(tern_jinja_render *r, operand v, const char *filter)
{
    if (tern_jinja__is_number(v)) return TERN_OK;
    return tern_jinja__bad(r, "%s of %s, expected a number", filter, tern_jinja__kind_words(v->kind));
}

static tern_status filter_abs(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    TERN_TRY(number_only(r, self, "abs"));
    if (self->kind == TERN_JINJA_FLOAT) return *out = tern_jinja__float(fabs(self->real)), TERN_OK;
    int64_t v = tern_jinja__as_int(self);
    if (v == INT64_MIN) return tern_jinja__fail(&r->pool, TERN_LIMIT, "integer overflow");
    *out = tern_jinja__int(v < 0 ? -v : v);
    return TERN_OK;
}

/* round(x, precision=0, method="common"): to even at a half, up ("ceil") or down ("floor"). */
static tern_status filter_round(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    int64_t precision;
    tern_jinja_str method;
    TERN_TRY(number_only(r, self, "round"));
    TERN_TRY(tern_jinja__int_arg(r, arg[0], "precision", 0, &precision));
    TERN_TRY(tern_jinja__string_arg(r, arg[1], "method", tern_jinja__words("common"), &method));
    if (precision < -15 || precision > 15)
        return tern_jinja__unsupported(r, "round to %lld digits", (long long)precision);
    double scale = pow(10, (double)precision), v = tern_jinja__as_float(self) * scale;
    if (tern_jinja__str_is(method, "ceil")) v = ceil(v);
    else if (tern_jinja__str_is(method, "floor")) v = floor(v);
    else v = nearbyint(v);
    *out = tern_jinja__float(v / scale);
    if (self->kind != TERN_JINJA_FLOAT && tern_jinja__str_is(method, "common") && precision >= 0) *out = *self;
    return TERN_OK;
}

static tern_status filter_default(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)r;
    bool falsy = arg[1] && tern_jinja__truth(arg[1]) && !tern_jinja__truth(self);
    *out = *self;
    if (self->kind == TERN_JINJA_UNDEFINED || falsy)
        *out = arg[0] ? *arg[0] : tern_jinja__string(tern_jinja__words(""));
    return TERN_OK;
}

static tern_status filter_length(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    size_t n = 0;
    if (self->kind == TERN_JINJA_STRING) n = tern_jinja__char_count(self->str.data, self->str.n);
    else if (self->kind == TERN_JINJA_DICT) n = self->dict->n;
    else if (tern_jinja__is_list(self)) n = self->list->n;
    else if (self->kind != TERN_JINJA_UNDEFINED)
        return tern_jinja__bad(r, "%s has no length", tern_jinja__kind_words(self->kind));
    *out = tern_jinja__int((int64_t)n);
    return self->kind == TERN_JINJA_STRING ? tern_jinja__charge(&r->pool, self->str.n / 16) : TERN_OK;
}

static const tern_jinja_filter filters[] = {
    {"abs", "", filter_abs},
    {"capitalize", "", filter_capitalize},
    {"count", "", filter_length},
    {"d", "default_value boolean", filter_default},
    {"default", "default_value boolean", filter_default},
    {"first", "", tern_jinja__filter_first},
    {"float", "default", filter_float},
    {"indent", "width first blank", filter_indent},
    {"int", "default", filter_int},
    {"items", "", tern_jinja__filter_items},
    {"join", "d attribute", tern_jinja__filter_join},
    {"last", "", tern_jinja__filter_last},
    {"length", "", filter_length},
    {"list", "", tern_jinja__filter_list},
    {"lower", "", filter_lower},
    {"map", "filter a b attribute default", tern_jinja__filter_map},
    {"reject", "test argument", tern_jinja__filter_reject},
    {"rejectattr", "attribute test argument", tern_jinja__filter_rejectattr},
    {"replace", "old new count", filter_replace},
    {"reverse", "", tern_jinja__filter_reverse},
    {"round", "precision method", filter_round},
    {"safe", "", filter_string},
    {"select", "test argument", tern_jinja__filter_select},
    {"selectattr", "attribute test argument", tern_jinja__filter_selectattr},
    {"sort", "reverse case_sensitive attribute", tern_jinja__filter_sort},
    {"string", "", filter_string},
    {"title", "", filter_title},
    {"tojson", "ensure_ascii indent separators sort_keys", tern_jinja__filter_tojson},
    {"trim", "chars", filter_trim},
    {"unique", "case_sensitive attribute", tern_jinja__filter_unique},
    {"upper", "", filter_upper},
};

const tern_jinja_filter *tern_jinja__find_filter(tern_jinja_str name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (tern_jinja__str_is(name, filters[i].name)) return &filters[i];
    return NULL;
}
