/* Values of chat templates as text, the way Python's str() and repr() write them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/render.h"

static tern_status print_repr(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_rope *rope);

tern_status tern_jinja__emit(tern_jinja_render *r, tern_jinja_rope *rope, tern_jinja_str s)
{
    if (s.n > TERN_JINJA_MAX_OUTPUT - rope->n)
        return tern_jinja__fail(&r->pool, TERN_LIMIT, "writes more than %d MiB of text", TERN_JINJA_MAX_OUTPUT >> 20);
    return tern_jinja__rope_add(&r->pool, rope, s);
}

tern_status tern_jinja__emit_words(tern_jinja_render *r, tern_jinja_rope *rope, const char *words, bool untrusted)
{
    size_t n = strlen(words);
    char *copy = tern_jinja__alloc(&r->pool, n, 1);
    if (!copy) return tern_jinja__status(&r->pool);
    memcpy(copy, words, n);
    return tern_jinja__emit(r, rope, (tern_jinja_str){.data = copy, .n = n, .untrusted = untrusted});
}

tern_status tern_jinja__rope_value(tern_jinja_render *r, const tern_jinja_rope *rope, tern_jinja_value *out)
{
    tern_jinja_str s;
    TERN_TRY(tern_jinja__rope_str(&r->pool, rope, &s));
    *out = tern_jinja__string(s);
    return TERN_OK;
}

/* The fewest digits that read back as v; *exponent is that of the first one. */
static void shortest_digits(double v, char digits[32], int *exponent)
{
    char text[48];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, v);
        if (strtod(text, NULL) == v) break;
    }
    char *e = strchr(text, 'e');
    *exponent = (int)strtol(e + 1, NULL, 10);
    size_t n = 0;
    for (char *c = text; c < e; c++) /* the locale decides what the point is */
        if (*c >= '0' && *c <= '9') digits[n++] = *c;
    digits[n] = 0;
}

/* Digits with a point: all zeros that are needed, and ".0" when whole. */
static void write_fixed(char *out, size_t size, const char *digits, int exponent)
{
    int n = (int)strlen(digits), whole = exponent + 1;
    if (whole <= 0) snprintf(out, size, "0.%.*s%s", -whole, "0000", digits);
    else if (whole >= n) snprintf(out, size, "%s%.*s.0", digits, whole - n, "0000000000000000");
    else snprintf(out, size, "%.*s.%s", whole, digits, digits + whole);
}

tern_status tern_jinja__emit_float(tern_jinja_render *r, tern_jinja_rope *rope, double v)
{
    char digits[32] = "", text[64];
    int exponent;
    if (isnan(v)) return tern_jinja__emit_words(r, rope, "nan", false);
    if (signbit(v)) TERN_TRY(tern_jinja__emit_words(r, rope, "-", false));
    if (isinf(v)) return tern_jinja__emit_words(r, rope, "inf", false);
    shortest_digits(fabs(v), digits, &exponent);
    if (exponent >= -4 && exponent < 16) write_fixed(text, sizeof text, digits, exponent);
    else snprintf(text, sizeof text, "%c%s%se%+03d", digits[0], digits[1] ? "." : "", digits + 1, exponent);
    return tern_jinja__emit_words(r, rope, text, false);
}

/* How repr writes one byte inside quotes, or NULL for as it is. */
static const char *escaped(char c, char quote, char out[8])
{
    const char *letters = "\n\r\t\\", *names = "nrt\\";
    const char *hit = c ? strchr(letters, c) : NULL;
    if (hit) snprintf(out, 8, "\\%c", names[hit - letters]);
    else if (c == quote) snprintf(out, 8, "\\%c", c);
    else if ((uint8_t)c < 0x20 || c == 0x7f) snprintf(out, 8, "\\x%02x", (unsigned)(uint8_t)c);
    else return NULL;
    return out;
}

static tern_status print_quoted(tern_jinja_render *r, tern_jinja_str s, tern_jinja_rope *rope)
{
    char escape[8];
    bool doubled = s.n && memchr(s.data, '\'', s.n) && !memchr(s.data, '"', s.n);
    tern_jinja_str quote = tern_jinja__words(doubled ? "\"" : "'");
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 16));
    TERN_TRY(tern_jinja__emit(r, rope, quote));
    size_t from = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (!escaped(s.data[i], quote.data[0], escape)) continue;
        TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__slice(s, from, i)));
        TERN_TRY(tern_jinja__emit_words(r, rope, escape, tern_jinja__byte_untrusted(s, i)));
        from = i + 1;
    }
    TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__slice(s, from, s.n)));
    return tern_jinja__emit(r, rope, quote);
}

static tern_status print_items(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_rope *rope)
{
    bool tuple = v->kind == TERN_JINJA_TUPLE;
    TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__words(tuple ? "(" : "[")));
    for (size_t i = 0; i < v->list->n; i++) {
        if (i > 0) TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__words(", ")));
        TERN_TRY(print_repr(r, &v->list->items[i], rope));
    }
    return tern_jinja__emit(r, rope, tern_jinja__words(!tuple ? "]" : v->list->n == 1 ? ",)" : ")"));
}

static tern_status print_entries(tern_jinja_render *r, const tern_jinja_dict *dict, tern_jinja_rope *rope)
{
    TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__words("{")));
    for (size_t i = 0; i < dict->n; i++) {
        if (i > 0) TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__words(", ")));
        TERN_TRY(print_repr(r, &dict->entries[i].key, rope));
        TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__words(": ")));
        TERN_TRY(print_repr(r, &dict->entries[i].value, rope));
    }
    return tern_jinja__emit(r, rope, tern_jinja__words("}"));
}

/* dict_keys(['a', 'b']) */
static tern_status print_view(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_rope *rope)
{
    TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__words(v->list->name)));
    TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__words("(")));
    TERN_TRY(print_items(r, v, rope));
    return tern_jinja__emit(r, rope, tern_jinja__words(")"));
}

static tern_status print_range(tern_jinja_render *r, const tern_jinja_list *range, tern_jinja_rope *rope)
{
    if (!range->name) return tern_jinja__unsupported(r, "printing a part of a range");
    return tern_jinja__emit(r, rope, tern_jinja__words(range->name));
}

static tern_status print_namespace(tern_jinja_render *r, const tern_jinja_dict *dict, tern_jinja_rope *rope)
{
    TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__words("<Namespace ")));
    TERN_TRY(print_entries(r, dict, rope));
    return tern_jinja__emit(r, rope, tern_jinja__words(">"));
}

static tern_status print_integer(tern_jinja_render *r, int64_t v, tern_jinja_rope *rope)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)v);
    return tern_jinja__emit_words(r, rope, text, false);
}

static tern_status print_plain(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_rope *rope)
{
    switch (v->kind) {
    case TERN_JINJA_UNDEFINED: return TERN_OK;
    case TERN_JINJA_NONE: return tern_jinja__emit(r, rope, tern_jinja__words("None"));
    case TERN_JINJA_BOOL: return tern_jinja__emit(r, rope, tern_jinja__words(v->flag ? "True" : "False"));
    case TERN_JINJA_INT: return print_integer(r, v->integer, rope);
    case TERN_JINJA_FLOAT: return tern_jinja__emit_float(r, rope, v->real);
    case TERN_JINJA_STRING: return tern_jinja__emit(r, rope, v->str);
    case TERN_JINJA_LIST:
    case TERN_JINJA_TUPLE: return print_items(r, v, rope);
    case TERN_JINJA_RANGE: return print_range(r, v->list, rope);
    case TERN_JINJA_VIEW: return print_view(r, v, rope);
    case TERN_JINJA_DICT: return print_entries(r, v->dict, rope);
    case TERN_JINJA_NAMESPACE: return print_namespace(r, v->dict, rope);
    default: return tern_jinja__unsupported(r, "printing a %s", tern_jinja__kind_words(v->kind));
    }
}

static tern_status print_string(tern_jinja_render *r, tern_jinja_str s, tern_jinja_rope *rope)
{
    if (!s.markup) return print_quoted(r, s, rope);
    TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__words("Markup(")));
    TERN_TRY(print_quoted(r, s, rope));
    return tern_jinja__emit(r, rope, tern_jinja__words(")"));
}

static tern_status print_repr(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_rope *rope)
{
    if (v->kind == TERN_JINJA_STRING) return print_string(r, v->str, rope);
    if (v->kind == TERN_JINJA_UNDEFINED) return tern_jinja__emit(r, rope, tern_jinja__words("Undefined"));
    TERN_TRY(tern_jinja__enter_render(r));
    TERN_TRY(print_plain(r, v, rope));
    r->depth--;
    return TERN_OK;
}

tern_status tern_jinja__print(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_rope *rope)
{
    return print_plain(r, v, rope);
}

tern_status tern_jinja__repr(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_rope *rope)
{
    return print_repr(r, v, rope);
}

tern_status tern_jinja__str(tern_jinja_render *r, const tern_jinja_value *v, tern_jinja_str *out)
{
    tern_jinja_rope rope = {0};
    TERN_TRY(print_plain(r, v, &rope));
    return tern_jinja__rope_str(&r->pool, &rope, out);
}
