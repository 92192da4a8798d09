/* Numbers and padding as Python's format specifications ask for them, and the escapes of Markup. */
#include "text/jinja/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja/chars.h"

enum { MAX_PRECISION = 100, MAX_NUMBER = 512 };

tern_status tern_jinja__fill(tern_jinja_render *r, tern_jinja_rope *rope, tern_jinja_str fill, int64_t count)
{
    static const char spaces[] = "                                                                ";
    if (count > TERN_JINJA_MAX_OUTPUT)
        return tern_jinja__fail(&r->pool, TERN_LIMIT, "writes more than %d MiB of text", TERN_JINJA_MAX_OUTPUT >> 20);
    while (count > 0) {
        int64_t n = fill.n || count < (int64_t)sizeof spaces ? count : (int64_t)sizeof spaces - 1;
        tern_jinja_str piece = fill.n ? fill : (tern_jinja_str){.data = spaces, .n = (size_t)n};
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(tern_jinja__emit(r, rope, piece));
        count -= fill.n ? 1 : n;
    }
    return TERN_OK;
}

tern_status tern_jinja__pad(tern_jinja_render *r, tern_jinja_rope *rope, tern_jinja_str text, size_t sign,
                            const tern_jinja_spec *spec)
{
    TERN_TRY(tern_jinja__charge(&r->pool, text.n / 16));
    int64_t pad = spec->width - (int64_t)tern_jinja__char_count(text.data, text.n);
    if (pad <= 0) return tern_jinja__emit(r, rope, text);
    const int64_t left = spec->align == '<' ? 0 : spec->align == '^' ? pad / 2 : pad;
    const size_t head = spec->align == '=' ? sign : 0;
    TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__slice(text, 0, head)));
    TERN_TRY(tern_jinja__fill(r, rope, spec->fill, left));
    TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__slice(text, head, text.n)));
    return tern_jinja__fill(r, rope, spec->fill, pad - left);
}

/* Digits of a magnitude, written backwards from `end`; returns their start. */
static char *write_digits(char *end, uint64_t v, unsigned base, bool upper)
{
    const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    do *--end = digits[v % base];
    while ((v /= base) != 0);
    return end;
}

/* Puts `separator` between groups of digits at the start of a number, in place. */
static void group_digits(char text[MAX_NUMBER], char separator, size_t every)
{
    size_t whole = strspn(text, "0123456789abcdefABCDEF"), n = strlen(text);
    for (size_t at = whole; at > every && n + 1 < MAX_NUMBER; n++) {
        at -= every;
        memmove(text + at + 1, text + at, n - at + 1);
        text[at] = separator;
    }
}

/* Sign, prefix and digits to the rope, padded. */
static tern_status put_number(tern_jinja_render *r, tern_jinja_rope *rope, bool negative, const char *prefix,
                              char digits[MAX_NUMBER], const tern_jinja_spec *spec)
{
    char *text = tern_jinja__alloc(&r->pool, MAX_NUMBER + 8, 1);
    tern_jinja_spec padded = *spec;
    if (!text) return tern_jinja__status(&r->pool);
    if (spec->grouping) group_digits(digits, spec->grouping, strchr("boxX", spec->type) && spec->type ? 4 : 3);
    const char sign[2] = {negative ? '-' : spec->sign, 0};
    int n = snprintf(text, MAX_NUMBER + 8, "%s%s%s", sign, prefix, digits);
    if (!padded.align) padded.align = '>';
    return tern_jinja__pad(r, rope, (tern_jinja_str){.data = text, .n = (size_t)n}, strlen(sign) + strlen(prefix),
                           &padded);
}

static tern_status put_char(tern_jinja_render *r, tern_jinja_rope *rope, int64_t code, const tern_jinja_spec *spec)
{
    if (code < 0 || code > 0x10ffff) return tern_jinja__bad(r, "character %lld does not exist", (long long)code);
    char *text = tern_jinja__alloc(&r->pool, 4, 1);
    if (!text) return tern_jinja__status(&r->pool);
    size_t n = tern_jinja__char_write(text, (uint32_t)code);
    return tern_jinja__pad(r, rope, (tern_jinja_str){.data = text, .n = n}, 0, spec);
}

static tern_status put_int(tern_jinja_render *r, tern_jinja_rope *rope, int64_t v, const tern_jinja_spec *spec)
{
    char buffer[MAX_NUMBER], digits[MAX_NUMBER];
    const unsigned base = spec->type == 'b' ? 2 : spec->type == 'o' ? 8 : strchr("xX", spec->type) ? 16 : 10;
    const uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    if (spec->type == 'c') return put_char(r, rope, v, spec);
    buffer[MAX_NUMBER - 1] = 0;
    const char *start = write_digits(buffer + MAX_NUMBER - 1, magnitude, base, spec->type == 'X');
    if (spec->precision > MAX_PRECISION)
        return tern_jinja__fail(&r->pool, TERN_LIMIT, "precision %lld, at most %d", (long long)spec->precision,
                                (int)MAX_PRECISION);
    int zeros = (int)spec->precision - (int)strlen(start);
    snprintf(digits, sizeof digits, "%0*d%s", zeros > 0 ? zeros : 0, 0, start);
    const char prefix[3] = {'0', spec->type, 0};
    return put_number(r, rope, v < 0, base == 10 || !spec->alternate ? "" : prefix, digits + (zeros > 0 ? 0 : 1), spec);
}

/* printf's text, with "." as the decimal point in every locale. */
static void plain_point(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (strchr("0123456789+-eEinfaINFA", *in)) *out++ = *in;
        else if (out == text || out[-1] != '.') *out++ = '.';
    }
    *out = 0;
}

static tern_status put_float(tern_jinja_render *r, tern_jinja_rope *rope, double v, const tern_jinja_spec *spec)
{
    char format[8], digits[MAX_NUMBER];
    const bool percent = spec->type == '%';
    const int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    if (spec->precision > MAX_PRECISION)
        return tern_jinja__fail(&r->pool, TERN_LIMIT, "precision %lld, at most %d", (long long)spec->precision,
                                (int)MAX_PRECISION);
    snprintf(format, sizeof format, "%%%s.*%c", spec->alternate ? "#" : "", percent ? 'f' : spec->type);
    const double shown = fabs(percent ? v * 100 : v);
    if (isnan(v) || isinf(v)) snprintf(digits, sizeof digits, "%s", isnan(v) ? "nan" : "inf");
    else {
        snprintf(digits, sizeof digits - 1, format, precision, shown);
        plain_point(digits);
    }
    for (char *c = digits; strchr("EFG", spec->type) && *c; c++) *c = tern_jinja__to_upper(*c);
    if (percent) snprintf(digits + strlen(digits), 2, "%%");
    return put_number(r, rope, signbit(v) && !isnan(v), "", digits, spec);
}

tern_status tern_jinja__format_number(tern_jinja_render *r, tern_jinja_rope *rope, const tern_jinja_value *v,
                                      const tern_jinja_spec *spec)
{
    const bool whole = v->kind != TERN_JINJA_FLOAT;
    if (whole && strchr("bcdiouxX", spec->type)) return put_int(r, rope, tern_jinja__as_int(v), spec);
    if (strchr("eEfFgG%", spec->type)) return put_float(r, rope, tern_jinja__as_float(v), spec);
    return tern_jinja__bad(r, "format type \"%c\" of %s", spec->type, tern_jinja__kind_words(v->kind));
}

static const char *html_of(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '\'': return "&#39;";
    case '"': return "&#34;";
    default: return NULL;
    }
}

tern_status tern_jinja__emit_escaped(tern_jinja_render *r, tern_jinja_rope *rope, tern_jinja_str s, bool markup)
{
    size_t from = 0;
    if (!markup || s.markup) return tern_jinja__emit(r, rope, s);
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 16));
    for (size_t i = 0; i < s.n; i++) {
        const char *escape = html_of(s.data[i]);
        if (!escape) continue;
        TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__slice(s, from, i)));
        TERN_TRY(tern_jinja__emit_words(r, rope, escape, tern_jinja__byte_untrusted(s, i)));
        from = i + 1;
    }
    return tern_jinja__emit(r, rope, tern_jinja__slice(s, from, s.n));
}
