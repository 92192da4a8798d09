/* The filters of chat templates that work on one value, and the table of all filters. */
#include <math.h>

#include "text/jinja/chars.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/parse.h"
#include "text/jinja/text.h"

typedef const tern_jinja_value *operand;

/* Filters on text take any value and see what it prints as; Markup stays Markup. */
static tern_status soft_str(tern_jinja_render *r, operand self, tern_jinja_str *out)
{
    if (self->kind != TERN_JINJA_STRING) return tern_jinja__str(r, self, out);
    *out = self->str;
    return TERN_OK;
}

static tern_status filter_trim(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str s;
    TERN_TRY(soft_str(r, self, &s));
    return tern_jinja__strip(r, s, arg[0], true, true, out);
}

static tern_status with_case(tern_jinja_render *r, operand self, tern_jinja_case how, tern_jinja_value *out)
{
    tern_jinja_str s;
    TERN_TRY(soft_str(r, self, &s));
    if (how == TERN_JINJA_HEADLINE) s.markup = false;
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
    TERN_TRY(soft_str(r, self, &s));
    *out = tern_jinja__string(s);
    return TERN_OK;
}

static tern_status filter_safe(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    TERN_TRY(filter_string(r, self, arg, out));
    out->str.markup = true;
    return TERN_OK;
}

/* The text with & < > ' " escaped, as Markup; Markup only when `again`. */
static tern_status escape(tern_jinja_render *r, operand self, bool again, tern_jinja_value *out)
{
    tern_jinja_rope rope = {0};
    tern_jinja_str s;
    TERN_TRY(soft_str(r, self, &s));
    s.markup = s.markup && !again;
    TERN_TRY(tern_jinja__emit_escaped(r, &rope, s, true));
    TERN_TRY(tern_jinja__rope_value(r, &rope, out));
    out->str.markup = true;
    return TERN_OK;
}

static tern_status filter_escape(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return escape(r, self, false, out);
}

static tern_status filter_forceescape(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return escape(r, self, true, out);
}

static tern_status filter_center(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str s;
    int64_t width;
    TERN_TRY(soft_str(r, self, &s));
    TERN_TRY(tern_jinja__int_arg(r, arg[0], "width", 80, &width));
    return tern_jinja__justify(r, s, width, tern_jinja__words(" "), 'c', out);
}

/* format(a, b) or format(name=a): the value is a text with % directives. */
static tern_status filter_format(tern_jinja_render *r, operand self, const tern_jinja_args *args, tern_jinja_value *out)
{
    tern_jinja_str s;
    tern_jinja_value values;
    TERN_TRY(soft_str(r, self, &s));
    if (args->n_named && args->n_positional)
        return tern_jinja__bad(r, "format takes arguments with names or without, not both");
    if (!args->n_named) TERN_TRY(tern_jinja__rest_of(r, args, 0, &values));
    else TERN_TRY(tern_jinja__dict(&r->pool, TERN_JINJA_DICT, &values));
    for (size_t i = 0; i < args->n_named; i++) {
        tern_jinja_value key = tern_jinja__string(args->names[i]);
        TERN_TRY(tern_jinja__dict_set(&r->pool, values.dict, &key, &args->values[i]));
    }
    return tern_jinja__percent(r, s, &values, out);
}

/* How long a value is: characters, items. */
static tern_status length_of(tern_jinja_render *r, operand v, int64_t *out)
{
    size_t n = 0;
    if (v->kind == TERN_JINJA_STRING) n = tern_jinja__char_count(v->str.data, v->str.n);
    else if (v->kind == TERN_JINJA_DICT) n = v->dict->n;
    else if (tern_jinja__is_sized(v)) n = v->list->n;
    else if (v->kind == TERN_JINJA_LOOP) n = v->loop->items->n;
    else if (v->kind != TERN_JINJA_UNDEFINED)
        return tern_jinja__bad(r, "%s has no length", tern_jinja__kind_words(v->kind));
    *out = (int64_t)n;
    return v->kind == TERN_JINJA_STRING ? tern_jinja__charge(&r->pool, v->str.n / 16) : TERN_OK;
}

/* The first `n` characters, without the last word unless `cut_words`, and what stands for the rest. */
static tern_status shorten(tern_jinja_render *r, tern_jinja_str s, int64_t n, bool cut_words, tern_jinja_str end,
                           tern_jinja_value *out)
{
    tern_jinja_rope rope = {0};
    s = tern_jinja__slice(s, 0, tern_jinja__char_offset(s.data, s.n, (size_t)n));
    size_t space = cut_words ? SIZE_MAX : tern_jinja__str_rfind(s, tern_jinja__words(" "));
    TERN_TRY(tern_jinja__emit(r, &rope, tern_jinja__slice(s, 0, space == SIZE_MAX ? s.n : space)));
    TERN_TRY(tern_jinja__emit(r, &rope, end));
    return tern_jinja__rope_value(r, &rope, out);
}

/* truncate(length=255, killwords, end="...", leeway=5) */
static tern_status filter_truncate(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    int64_t length, leeway, n = 0;
    tern_jinja_str end;
    TERN_TRY(tern_jinja__int_arg(r, arg[0], "length", 255, &length));
    TERN_TRY(tern_jinja__string_arg(r, arg[2], "end", tern_jinja__words("..."), &end));
    TERN_TRY(tern_jinja__int_arg(r, arg[3] && arg[3]->kind != TERN_JINJA_NONE ? arg[3] : NULL, "leeway", 5, &leeway));
    TERN_TRY(length_of(r, self, &n));
    const int64_t kept = length - (int64_t)tern_jinja__char_count(end.data, end.n);
    if (kept < 0 || leeway < 0) return tern_jinja__bad(r, "truncate: length or leeway too small");
    if (n - length <= leeway) return *out = *self, TERN_OK;
    if (self->kind != TERN_JINJA_STRING)
        return tern_jinja__bad(r, "truncate of %s, expected a string", tern_jinja__kind_words(self->kind));
    return shorten(r, self->str, kept, arg[1] && tern_jinja__truth(arg[1]), end, out);
}

/* attr(name): as a.name, but never a key of a dict. */
static tern_status filter_attr(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str name;
    bool unsafe;
    if (!arg[0]) return tern_jinja__bad(r, "attr needs a name");
    TERN_TRY(tern_jinja__string_arg(r, arg[0], "name", tern_jinja__words(""), &name));
    if (self->kind != TERN_JINJA_DICT || tern_jinja__find_method(self, name, &unsafe))
        return tern_jinja__attribute(r, self, name, out);
    *out = tern_jinja__undefined(name);
    return TERN_OK;
}

static bool is_word(uint8_t c)
{
    return c == '_' || tern_jinja__is_digit((char)c) || tern_jinja__is_upper((char)c) || tern_jinja__is_lower((char)c);
}

static tern_status filter_wordcount(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    tern_jinja_str s;
    int64_t n = 0;
    TERN_TRY(soft_str(r, self, &s));
    for (size_t i = 0; i < s.n; i++) {
        if ((uint8_t)s.data[i] >= 0x80) return tern_jinja__unsupported(r, "wordcount of a string beyond ASCII");
        n += is_word((uint8_t)s.data[i]) && (i == 0 || !is_word((uint8_t)s.data[i - 1]));
    }
    *out = tern_jinja__int(n);
    return tern_jinja__charge(&r->pool, s.n / 16);
}

static tern_status filter_replace(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str s, from, to;
    int64_t most;
    if (!arg[0] || !arg[1]) return tern_jinja__bad(r, "replace needs two arguments");
    TERN_TRY(tern_jinja__str(r, self, &s)); /* never Markup */
    TERN_TRY(tern_jinja__str(r, arg[0], &from));
    TERN_TRY(tern_jinja__str(r, arg[1], &to));
    TERN_TRY(tern_jinja__int_arg(r, arg[2] && arg[2]->kind != TERN_JINJA_NONE ? arg[2] : NULL, "count", -1, &most));
    return tern_jinja__replace(r, s, from, to, most, out);
}

static tern_status indent_width(tern_jinja_render *r, operand width, tern_jinja_str *out)
{
    tern_jinja_rope rope = {0};
    int64_t n;
    if (width && width->kind == TERN_JINJA_STRING) return *out = width->str, TERN_OK;
    TERN_TRY(tern_jinja__int_arg(r, width, "width", 4, &n));
    TERN_TRY(tern_jinja__fill(r, &rope, (tern_jinja_str){0}, n));
    return tern_jinja__rope_str(&r->pool, &rope, out);
}

/* The lines of a text and of what follows its last line end. */
static tern_status lines_of(tern_jinja_render *r, tern_jinja_str s, tern_jinja_value *out)
{
    tern_jinja_rope rope = {0};
    TERN_TRY(tern_jinja__emit(r, &rope, s));
    TERN_TRY(tern_jinja__emit(r, &rope, tern_jinja__words("\n")));
    TERN_TRY(tern_jinja__rope_str(&r->pool, &rope, &s));
    return tern_jinja__splitlines(r, s, false, out);
}

/* indent(width=4, first, blank) */
static tern_status filter_indent(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str s, indent;
    tern_jinja_value lines;
    tern_jinja_rope rope = {0};
    bool first = arg[1] && tern_jinja__truth(arg[1]), blank = arg[2] && tern_jinja__truth(arg[2]);
    if (self->kind != TERN_JINJA_STRING)
        return tern_jinja__bad(r, "indent of %s, expected a string", tern_jinja__kind_words(self->kind));
    s = self->str;
    TERN_TRY(indent_width(r, arg[0], &indent));
    TERN_TRY(lines_of(r, s, &lines));
    for (size_t i = 0; i < lines.list->n; i++) {
        tern_jinja_str line = lines.list->items[i].str;
        if (i > 0) TERN_TRY(tern_jinja__emit(r, &rope, tern_jinja__words("\n")));
        if (i == 0 ? first : blank || line.n > 0) TERN_TRY(tern_jinja__emit(r, &rope, indent));
        TERN_TRY(tern_jinja__emit(r, &rope, line));
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
    }
    TERN_TRY(tern_jinja__rope_value(r, &rope, out));
    out->str.markup = s.markup;
    return TERN_OK;
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

/* int(text, base): digits after a sign and, for base 0 and the base's own, a prefix. */
static tern_status text_in_base(tern_jinja_render *r, tern_jinja_str s, int64_t base, tern_jinja_value *out, bool *good)
{
    tern_jinja_value stripped;
    size_t used;
    TERN_TRY(tern_jinja__strip(r, s, NULL, true, true, &stripped));
    s = stripped.str;
    const bool sign = s.n && (s.data[0] == '-' || s.data[0] == '+');
    tern_jinja_str digits = tern_jinja__slice(s, sign, s.n);
    const unsigned prefix = tern_jinja__base_of(digits.data, digits.n);
    if (prefix != 10 && (base == 0 || base == (int64_t)prefix)) digits = tern_jinja__slice(digits, 2, digits.n);
    *out = tern_jinja__int(0);
    if (base == 0) base = prefix;
    TERN_TRY(tern_jinja__parse_int(&r->pool, digits.data, digits.n, (unsigned)base, &out->integer, &used));
    *good = digits.n > 0 && used == digits.n;
    if (sign && s.data[0] == '-') out->integer = -out->integer;
    return TERN_OK;
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
    int64_t base;
    if (self->kind == TERN_JINJA_UNDEFINED) return tern_jinja__bad(r, "int of an undefined value");
    TERN_TRY(tern_jinja__int_arg(r, arg[1], "base", 10, &base));
    if (base < 0 || base == 1 || base > 36)
        return tern_jinja__bad(r, "int of base %lld, expected 0 or 2 to 36", (long long)base);
    if (self->kind == TERN_JINJA_STRING) TERN_TRY(text_in_base(r, self->str, base, &number, &good));
    if (self->kind == TERN_JINJA_STRING && !good) TERN_TRY(text_to_number(r, self->str, &number, &good));
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
    const bool common = tern_jinja__str_is(method, "common");
    if (!common && !tern_jinja__str_is(method, "ceil") && !tern_jinja__str_is(method, "floor"))
        return tern_jinja__bad(r, "round by \"%.*s\", expected common, ceil or floor",
                               (int)(method.n < 60 ? method.n : 60), method.data);
    double scale = pow(10, (double)precision), v = tern_jinja__as_float(self) * scale;
    if (tern_jinja__str_is(method, "ceil")) v = ceil(v);
    else if (tern_jinja__str_is(method, "floor")) v = floor(v);
    else v = nearbyint(v);
    *out = tern_jinja__float(v / scale);
    if (self->kind == TERN_JINJA_FLOAT || !common) return TERN_OK;
    const int64_t whole = tern_jinja__as_int(self);
    if (precision < 0 && (whole > 1LL << 53 || whole < -(1LL << 53)))
        return tern_jinja__unsupported(r, "round to %lld digits of %lld", (long long)precision, (long long)whole);
    *out = tern_jinja__int(precision < 0 ? (int64_t)out->real : whole);
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
    int64_t n = 0;
    TERN_TRY(length_of(r, self, &n));
    *out = tern_jinja__int(n);
    return TERN_OK;
}

static const tern_jinja_filter filters[] = {
    {.name = "abs", .params = "", .apply = filter_abs},
    {.name = "attr", .params = "name", .apply = filter_attr},
    {.name = "batch", .params = "linecount fill_with", .apply = tern_jinja__filter_batch},
    {.name = "capitalize", .params = "", .apply = filter_capitalize},
    {.name = "center", .params = "width", .apply = filter_center},
    {.name = "count", .params = "", .apply = filter_length},
    {.name = "d", .params = "default_value boolean", .apply = filter_default},
    {.name = "default", .params = "default_value boolean", .apply = filter_default},
    {.name = "dictsort", .params = "case_sensitive by reverse", .apply = tern_jinja__filter_dictsort},
    {.name = "e", .params = "", .apply = filter_escape},
    {.name = "escape", .params = "", .apply = filter_escape},
    {.name = "first", .params = "", .apply = tern_jinja__filter_first},
    {.name = "float", .params = "default", .apply = filter_float},
    {.name = "forceescape", .params = "", .apply = filter_forceescape},
    {.name = "format", .apply_open = filter_format},
    {.name = "groupby", .params = "attribute default case_sensitive", .apply = tern_jinja__filter_groupby},
    {.name = "indent", .params = "width first blank", .apply = filter_indent},
    {.name = "int", .params = "default base", .apply = filter_int},
    {.name = "items", .params = "", .apply = tern_jinja__filter_items},
    {.name = "join", .params = "d attribute", .apply = tern_jinja__filter_join},
    {.name = "last", .params = "", .apply = tern_jinja__filter_last},
    {.name = "length", .params = "", .apply = filter_length},
    {.name = "list", .params = "", .apply = tern_jinja__filter_list},
    {.name = "lower", .params = "", .apply = filter_lower},
    {.name = "map", .apply_open = tern_jinja__filter_map},
    {.name = "max", .params = "case_sensitive attribute", .apply = tern_jinja__filter_max},
    {.name = "min", .params = "case_sensitive attribute", .apply = tern_jinja__filter_min},
    {.name = "reject", .apply_open = tern_jinja__filter_reject},
    {.name = "rejectattr", .apply_open = tern_jinja__filter_rejectattr},
    {.name = "replace", .params = "old new count", .apply = filter_replace},
    {.name = "reverse", .params = "", .apply = tern_jinja__filter_reverse},
    {.name = "round", .params = "precision method", .apply = filter_round},
    {.name = "safe", .params = "", .apply = filter_safe},
    {.name = "select", .apply_open = tern_jinja__filter_select},
    {.name = "selectattr", .apply_open = tern_jinja__filter_selectattr},
    {.name = "slice", .params = "slices fill_with", .apply = tern_jinja__filter_slice},
    {.name = "sort", .params = "reverse case_sensitive attribute", .apply = tern_jinja__filter_sort},
    {.name = "string", .params = "", .apply = filter_string},
    {.name = "sum", .params = "attribute start", .apply = tern_jinja__filter_sum},
    {.name = "title", .params = "", .apply = filter_title},
    {.name = "tojson", .params = "ensure_ascii indent separators sort_keys", .apply = tern_jinja__filter_tojson},
    {.name = "trim", .params = "chars", .apply = filter_trim},
    {.name = "truncate", .params = "length killwords end leeway", .apply = filter_truncate},
    {.name = "unique", .params = "case_sensitive attribute", .apply = tern_jinja__filter_unique},
    {.name = "upper", .params = "", .apply = filter_upper},
    {.name = "wordcount", .params = "", .apply = filter_wordcount},
};

const tern_jinja_filter *tern_jinja__find_filter(tern_jinja_str name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (tern_jinja__str_is(name, filters[i].name)) return &filters[i];
    return NULL;
}
