/* The texts that Python formats values into: "%s" % values, and "{}".format(values). */
#include <string.h>

#include "text/jinja/chars.h"
#include "text/jinja/format.h"
#include "text/jinja/lex.h"

/* A format text that is being read, and the values for it. */
typedef struct reader {
    tern_jinja_render *r;
    tern_jinja_rope rope;
    tern_jinja_str s;
    size_t at;
    bool markup;                    /* values are escaped */
    const tern_jinja_value *values; /* of % */
    const tern_jinja_args *args;    /* of format */
    size_t next;                    /* value without a name */
} reader;

static char peek(const reader *f)
{
    return f->at < f->s.n ? f->s.data[f->at] : 0;
}

static bool take(reader *f, char c)
{
    bool there = f->at < f->s.n && f->s.data[f->at] == c;
    f->at += there;
    return there;
}

/* A decimal number, or -1 where there is none. */
static tern_status take_number(reader *f, int64_t *out)
{
    size_t n = 0, used;
    *out = -1;
    while (f->at + n < f->s.n && tern_jinja__is_digit(f->s.data[f->at + n])) n++;
    if (n == 0) return TERN_OK;
    TERN_TRY(tern_jinja__parse_int(&f->r->pool, f->s.data + f->at, n, 10, out, &used));
    f->at += n;
    return TERN_OK;
}

/* str() or repr() of a value, as Markup wants it. */
static tern_status text_of(reader *f, const tern_jinja_value *v, char how, tern_jinja_str *out)
{
    tern_jinja_rope rope = {0};
    if (how == 'a') return tern_jinja__unsupported(f->r, "formatting with ascii()");
    if (how == 'r') TERN_TRY(tern_jinja__repr(f->r, v, &rope));
    else TERN_TRY(tern_jinja__print(f->r, v, &rope));
    TERN_TRY(tern_jinja__rope_str(&f->r->pool, &rope, out));
    if (!f->markup || (v->kind == TERN_JINJA_STRING && v->str.markup && how != 'r')) return TERN_OK;
    rope = (tern_jinja_rope){0};
    TERN_TRY(tern_jinja__emit_escaped(f->r, &rope, *out, true));
    return tern_jinja__rope_str(&f->r->pool, &rope, out);
}

static tern_jinja_str shortened(tern_jinja_str s, int64_t precision)
{
    if (precision < 0 || (uint64_t)precision >= s.n) return s;
    return tern_jinja__slice(s, 0, tern_jinja__char_offset(s.data, s.n, (size_t)precision));
}

/* Text up to the next of `stop`, or to the end. */
static tern_status copy_until(reader *f, const char *stop)
{
    size_t from = f->at;
    while (f->at < f->s.n && !strchr(stop, f->s.data[f->at] ? f->s.data[f->at] : 'x')) f->at++;
    return tern_jinja__emit(f->r, &f->rope, tern_jinja__slice(f->s, from, f->at));
}

static tern_status incomplete(const reader *f, const char *what)
{
    return tern_jinja__bad(f->r, "%s in a format is not complete", what);
}

/* %: the value of "%(name)s", of "*" or of a plain directive. */
static tern_status next_value(reader *f, const tern_jinja_value **out)
{
    const bool many = f->values->kind == TERN_JINJA_TUPLE;
    const size_t n = many ? f->values->list->n : 1;
    if (f->next >= n) return tern_jinja__bad(f->r, "%zu values are not enough for the format", n);
    *out = many ? &f->values->list->items[f->next] : f->values;
    f->next++;
    return TERN_OK;
}

static tern_status named_value(reader *f, const tern_jinja_value **out)
{
    size_t from = ++f->at;
    while (f->at < f->s.n && f->s.data[f->at] != ')') f->at++;
    if (f->at == f->s.n) return incomplete(f, "%(");
    tern_jinja_value key = tern_jinja__string(tern_jinja__slice(f->s, from, f->at++));
    if (f->values->kind != TERN_JINJA_DICT) return tern_jinja__bad(f->r, "a format with names needs a dict");
    *out = tern_jinja__dict_find(&f->r->pool, f->values->dict, &key);
    f->next = 1;
    if (*out) return tern_jinja__charge(&f->r->pool, 1);
    return tern_jinja__bad(f->r, "the format's \"%.*s\" is missing", (int)(key.str.n < 60 ? key.str.n : 60),
                           key.str.data);
}

/* A number, or "*" for the next value. */
static tern_status take_size(reader *f, int64_t *out)
{
    const tern_jinja_value *value = NULL;
    if (!take(f, '*')) return take_number(f, out);
    TERN_TRY(next_value(f, &value));
    if (value->kind != TERN_JINJA_INT) return tern_jinja__bad(f->r, "* in a format needs an integer");
    *out = value->integer;
    return TERN_OK;
}

static tern_status percent_spec(reader *f, tern_jinja_spec *spec)
{
    static const char zero[] = "0";
    bool zeros = false;
    for (; peek(f) && strchr("#0- +", peek(f)); f->at++) {
        const char c = peek(f);
        if (c == '#') spec->alternate = true;
        else if (c == '-') spec->align = '<';
        else if (c == '0') zeros = true;
        else if (spec->sign != '+') spec->sign = c;
    }
    TERN_TRY(take_size(f, &spec->width));
    if (spec->width < -1) spec->align = '<', spec->width = -spec->width;
    if (take(f, '.')) {
        TERN_TRY(take_size(f, &spec->precision));
        if (spec->precision < 0) spec->precision = 0;
    }
    while (peek(f) && strchr("hlL", peek(f))) f->at++;
    spec->type = peek(f);
    if (zeros && !spec->align && spec->type && !strchr("srac", spec->type))
        spec->fill = (tern_jinja_str){.data = zero, .n = 1}, spec->align = '=';
    if (!spec->type) return incomplete(f, "%");
    f->at++;
    return TERN_OK;
}

static tern_status percent_number(reader *f, const tern_jinja_value *v, tern_jinja_spec *spec)
{
    tern_jinja_value whole = *v;
    const bool decimal = strchr("diu", spec->type) != NULL;
    if (!tern_jinja__is_number(v))
        return tern_jinja__bad(f->r, "%%%c of %s, expected a number", spec->type, tern_jinja__kind_words(v->kind));
    if (decimal && v->kind == TERN_JINJA_FLOAT) {
        if (!(v->real > -9.2e18 && v->real < 9.2e18)) return tern_jinja__unsupported(f->r, "%%d of such a float");
        whole = tern_jinja__int((int64_t)v->real);
    }
    return tern_jinja__format_number(f->r, &f->rope, &whole, spec);
}

static tern_status percent_char(reader *f, const tern_jinja_value *v, const tern_jinja_spec *spec)
{
    if (v->kind != TERN_JINJA_STRING) return percent_number(f, v, (tern_jinja_spec[]){*spec});
    if (tern_jinja__char_count(v->str.data, v->str.n) != 1) return tern_jinja__bad(f->r, "%%c needs one character");
    return tern_jinja__pad(f->r, &f->rope, v->str, 0, spec);
}

/* One directive after its "%". */
static tern_status percent_directive(reader *f)
{
    tern_jinja_spec spec = {.precision = -1};
    const tern_jinja_value *value = NULL;
    tern_jinja_str text;
    if (take(f, '%')) return tern_jinja__emit(f->r, &f->rope, tern_jinja__words("%"));
    if (peek(f) == '(') TERN_TRY(named_value(f, &value));
    TERN_TRY(percent_spec(f, &spec));
    if (!value) TERN_TRY(next_value(f, &value));
    if (!spec.align) spec.align = '>';
    if (spec.type == 'c') return percent_char(f, value, &spec);
    if (!strchr("sra", spec.type)) {
        if (!strchr("diouxXeEfFgG", spec.type)) return tern_jinja__bad(f->r, "format directive %%%c", spec.type);
        return percent_number(f, value, &spec);
    }
    TERN_TRY(text_of(f, value, spec.type, &text));
    return tern_jinja__pad(f->r, &f->rope, shortened(text, spec.precision), 0, &spec);
}

static tern_status finish(reader *f, tern_jinja_value *out)
{
    TERN_TRY(tern_jinja__rope_value(f->r, &f->rope, out));
    out->str.markup = f->markup;
    return TERN_OK;
}

tern_status tern_jinja__percent(tern_jinja_render *r, tern_jinja_str format, const tern_jinja_value *values,
                                tern_jinja_value *out)
{
    reader f = {.r = r, .s = format, .markup = format.markup, .values = values};
    TERN_TRY(tern_jinja__charge(&r->pool, format.n / 16));
    while (f.at < f.s.n) {
        TERN_TRY(copy_until(&f, "%"));
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        if (take(&f, '%')) TERN_TRY(percent_directive(&f));
    }
    const bool tuple = values->kind == TERN_JINJA_TUPLE;
    const bool loose = values->kind == TERN_JINJA_DICT || values->kind == TERN_JINJA_LIST ||
                       values->kind == TERN_JINJA_RANGE || values->kind == TERN_JINJA_UNDEFINED;
    if (!loose && f.next < (tuple ? values->list->n : 1)) return tern_jinja__bad(r, "the format takes fewer values");
    return finish(&f, out);
}

/* format: the value of a number or name at the start of a field. */
static tern_status field_value(reader *f, tern_jinja_str name, tern_jinja_value *out)
{
    int64_t index = (int64_t)f->next;
    if (name.n == 0) f->next++;
    else if (tern_jinja__is_digit(name.data[0])) {
        size_t used;
        TERN_TRY(tern_jinja__parse_int(&f->r->pool, name.data, name.n, 10, &index, &used));
    } else {
        for (size_t i = 0; i < f->args->n_named; i++)
            if (tern_jinja__str_equal(f->args->names[i], name))
                return *out = f->args->values[f->args->n_positional + i], TERN_OK;
        index = -1;
    }
    if (index < 0 || (uint64_t)index >= f->args->n_positional)
        return tern_jinja__bad(f->r, "format has no argument \"%.*s\"", (int)(name.n < 60 ? name.n : 60), name.data);
    *out = f->args->values[index];
    return TERN_OK;
}

/* The end of a name inside a field. */
static tern_jinja_str take_word(reader *f, const char *stop)
{
    size_t from = f->at;
    while (f->at < f->s.n && !strchr(stop, f->s.data[f->at] ? f->s.data[f->at] : 'x')) f->at++;
    return tern_jinja__slice(f->s, from, f->at);
}

/* ".name" or "[key]" after the value. */
static tern_status field_step(reader *f, tern_jinja_value *v)
{
    tern_jinja_value object = *v, key;
    if (take(f, '.')) return tern_jinja__attribute(f->r, &object, take_word(f, ".[:!}"), v);
    f->at++;
    key = tern_jinja__string(take_word(f, "]}"));
    if (!take(f, ']')) return incomplete(f, "[");
    if (key.str.n && tern_jinja__is_digit(key.str.data[0])) {
        size_t used, n = key.str.n;
        const char *digits = key.str.data;
        key = tern_jinja__int(0);
        TERN_TRY(tern_jinja__parse_int(&f->r->pool, digits, n, 10, &key.integer, &used));
    }
    return tern_jinja__item(f->r, &object, &key, v);
}

static bool is_align(char c)
{
    return c && strchr("<>^=", c);
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static tern_status field_spec(reader *f, tern_jinja_spec *spec)
{
    static const char zero[] = "0";
    uint32_t code;
    size_t n = f->at < f->s.n ? tern_jinja__char(f->s.data + f->at, f->s.n - f->at, &code) : 0;
    if (n && f->at + n < f->s.n && is_align(f->s.data[f->at + n])) {
        spec->fill = tern_jinja__slice(f->s, f->at, f->at + n);
        f->at += n;
    }
    if (is_align(peek(f))) spec->align = f->s.data[f->at++];
    if (peek(f) && strchr("+- ", peek(f))) spec->sign = f->s.data[f->at++];
    if (spec->sign == '-') spec->sign = 0;
    spec->alternate = take(f, '#');
    if (take(f, '0') && !spec->align) spec->fill = (tern_jinja_str){.data = zero, .n = 1}, spec->align = '=';
    TERN_TRY(take_number(f, &spec->width));
    if (peek(f) && strchr(",_", peek(f))) spec->grouping = f->s.data[f->at++];
    if (take(f, '.')) {
        TERN_TRY(take_number(f, &spec->precision));
        if (spec->precision < 0) return incomplete(f, "a precision");
    }
    if (peek(f) && peek(f) != '}') spec->type = f->s.data[f->at++];
    if (spec->grouping && spec->align == '=' && spec->width > 0)
        return tern_jinja__unsupported(f->r, "a format with groups of digits and leading zeros");
    if (peek(f) == '}' || f->at == f->s.n) return TERN_OK;
    return tern_jinja__unsupported(f->r, "format specification with \"%c\"", peek(f));
}

/* A value by a specification that is not empty. */
static tern_status put_specified(reader *f, const tern_jinja_value *v, char how, tern_jinja_spec *spec)
{
    tern_jinja_str text;
    const bool number = !how && tern_jinja__is_number(v);
    if (number && v->kind != TERN_JINJA_FLOAT && !spec->type) spec->type = 'd';
    if (number && !spec->type) {
        if (spec->precision >= 0 || spec->grouping || spec->sign || spec->alternate || spec->align == '=')
            return tern_jinja__unsupported(f->r, "format specification of a float without a type");
        if (!spec->align) spec->align = '>';
    } else if (number) return tern_jinja__format_number(f->r, &f->rope, v, spec);
    if (!number && how == 0 && v->kind != TERN_JINJA_STRING)
        return tern_jinja__bad(f->r, "format specification of %s", tern_jinja__kind_words(v->kind));
    if (!number && ((spec->type && spec->type != 's') || spec->sign || spec->alternate || spec->align == '='))
        return tern_jinja__bad(f->r, "format specification of a string");
    TERN_TRY(text_of(f, v, how, &text));
    if (!spec->align) spec->align = '<';
    return tern_jinja__pad(f->r, &f->rope, number ? text : shortened(text, spec->precision), 0, spec);
}

static tern_status put_field(reader *f, const tern_jinja_value *v)
{
    tern_jinja_spec spec = {.precision = -1};
    tern_jinja_str text;
    char how = 0;
    if (take(f, '!')) how = peek(f), f->at++;
    if (how && !strchr("sra", how)) return tern_jinja__bad(f->r, "conversion !%c in a format", how);
    const bool specified = take(f, ':') && peek(f) != '}';
    if (specified) {
        TERN_TRY(field_spec(f, &spec));
        TERN_TRY(put_specified(f, v, how, &spec));
    } else {
        TERN_TRY(text_of(f, v, how, &text));
        TERN_TRY(tern_jinja__emit(f->r, &f->rope, text));
    }
    return take(f, '}') ? TERN_OK : incomplete(f, "{");
}

static tern_status field(reader *f)
{
    tern_jinja_value v;
    TERN_TRY(field_value(f, take_word(f, ".[:!}"), &v));
    while (peek(f) == '.' || peek(f) == '[') TERN_TRY(field_step(f, &v));
    return put_field(f, &v);
}

tern_status tern_jinja__format(tern_jinja_render *r, const tern_jinja_value *self, const tern_jinja_args *args,
                               tern_jinja_value *out)
{
    reader f = {.r = r, .s = self->str, .markup = self->str.markup, .args = args};
    TERN_TRY(tern_jinja__charge(&r->pool, self->str.n / 16));
    while (f.at < f.s.n) {
        TERN_TRY(copy_until(&f, "{}"));
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        if (f.at == f.s.n) break;
        const char c = f.s.data[f.at++];
        if (take(&f, c)) TERN_TRY(tern_jinja__emit(r, &f.rope, tern_jinja__words(c == '{' ? "{" : "}")));
        else if (c == '{') TERN_TRY(field(&f));
        else return tern_jinja__bad(r, "a single } in a format");
    }
    return finish(&f, out);
}
