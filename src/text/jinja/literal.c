/* Number and string literals inside the tags of a chat template. */
#include <stdlib.h>
#include <string.h>

#include "text/jinja/chars.h"
#include "text/jinja/lex.h"

static size_t count_digits(const char *s, size_t n, size_t at)
{
    while (at < n && tern_jinja__is_digit(s[at])) at++;
    return at;
}

/* The end of ".5" and "e-3" parts after the integer digits; the same offset when it is an integer. */
static size_t fraction_end(const char *s, size_t n, size_t at)
{
    size_t end = at;
    if (at + 1 < n && s[at] == '.' && tern_jinja__is_digit(s[at + 1])) end = count_digits(s, n, at + 1);
    if (end < n && (s[end] == 'e' || s[end] == 'E')) {
        size_t digits = end + 1;
        if (digits < n && (s[digits] == '+' || s[digits] == '-')) digits++;
        if (digits < n && tern_jinja__is_digit(s[digits])) end = count_digits(s, n, digits);
    }
    return end;
}

static tern_status integer(tern_jinja_pool *pool, const char *s, size_t n, tern_jinja_value *out)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, s[i] - '0', &sum))
            return tern_jinja__fail(pool, TERN_LIMIT, "integer of %zu digits does not fit in 64 bits", n);
    }
    *out = tern_jinja__int(sum);
    return TERN_OK;
}

tern_status tern_jinja__lex_number(tern_jinja_pool *pool, const char *s, size_t n, bool after_dot,
                                   tern_jinja_value *out, size_t *used)
{
    size_t digits = count_digits(s, n, 0);
    *used = after_dot ? digits : fraction_end(s, n, digits);
    if (*used < n && (s[*used] == '_' || tern_jinja__is_upper(s[*used]) || tern_jinja__is_lower(s[*used])))
        return tern_jinja__fail(pool, TERN_UNSUPPORTED, "number literal \"%.*s\"", (int)(*used < 40 ? *used + 1 : 40),
                                s);
    if (*used == digits) return integer(pool, s, digits, out);
    return tern_jinja__parse_float(pool, (tern_jinja_str){.data = s, .n = *used}, out);
}

static long double scaled(long double value, int64_t exponent)
{
    if (exponent > 400) exponent = 400;
    if (exponent < -400) exponent = -400;
    for (; exponent > 0; exponent--) value *= 10;
    for (; exponent < 0; exponent++) value /= 10;
    return value;
}

/* Not strtod: that would follow the locale's decimal point. */
tern_status tern_jinja__parse_float(tern_jinja_pool *pool, tern_jinja_str s, tern_jinja_value *out)
{
    if (s.n > 63) return tern_jinja__fail(pool, TERN_LIMIT, "number of %zu characters", s.n);
    size_t at = s.n > 0 && (s.data[0] == '-' || s.data[0] == '+') ? 1 : 0;
    long double value = 0;
    int64_t exponent = 0, written = 0;
    for (bool point = false; at < s.n && (s.data[at] == '.' || tern_jinja__is_digit(s.data[at])); at++) {
        if (s.data[at] != '.') value = value * 10 + (s.data[at] - '0'), exponent -= point;
        else point = true;
    }
    bool negative = at + 1 < s.n && s.data[at + 1] == '-';
    for (at++; at < s.n; at++)
        if (tern_jinja__is_digit(s.data[at]) && written < 10000) written = written * 10 + (s.data[at] - '0');
    value = scaled(value, exponent + (negative ? -written : written));
    *out = tern_jinja__float((double)(s.n > 0 && s.data[0] == '-' ? -value : value));
    return TERN_OK;
}

/* The value of up to `most` digits of a base, from s[*at] on. */
static uint32_t digits_value(const char *s, size_t n, size_t *at, size_t most, uint32_t base)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < most && *at < n; i++, (*at)++) {
        char c = tern_jinja__to_lower(s[*at]);
        uint32_t digit = tern_jinja__is_digit(c) ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f'  ? (uint32_t)(c - 'a' + 10)
                                                 : 99;
        if (digit >= base) break;
        sum = sum * base + digit;
    }
    return sum;
}

/* \xHH, \uHHHH, \UHHHHHHHH: exactly that many digits. */
static tern_status hex_escape(tern_jinja_pool *pool, const char *s, size_t n, size_t *at, uint32_t *code)
{
    char c = s[*at];
    size_t want = c == 'x' ? 2 : c == 'u' ? 4 : 8, start = ++*at;
    *code = digits_value(s, n, at, want, 16);
    if (*at - start == want && *code <= 0x10ffff) return TERN_OK;
    return tern_jinja__fail(pool, TERN_MALFORMED, "escape \\%c in a string needs %zu hexadecimal digits", c, want);
}

/* One escape whose letter is s[*at]; writes its bytes to out and moves past it. */
static tern_status escape(tern_jinja_pool *pool, const char *s, size_t n, size_t *at, char *out, size_t *size)
{
    static const char letters[] = "abfnrtv\\'\"", bytes[] = "\a\b\f\n\r\t\v\\'\"";
    char c = s[*at];
    uint32_t code;
    const char *letter = c ? strchr(letters, c) : NULL;
    if (c == 'N') return tern_jinja__fail(pool, TERN_UNSUPPORTED, "escape \\N in a string");
    if (c == 'x' || c == 'u' || c == 'U') {
        TERN_TRY(hex_escape(pool, s, n, at, &code));
        *size += tern_jinja__char_write(out + *size, code);
    } else if (c >= '0' && c <= '7') {
        code = digits_value(s, n, at, 3, 8);
        *size += tern_jinja__char_write(out + *size, code);
    } else {
        if (!letter && c != '\n') out[(*size)++] = '\\';
        if (c != '\n') out[(*size)++] = letter ? bytes[letter - letters] : c;
        ++*at;
    }
    return TERN_OK;
}

tern_status tern_jinja__lex_string(tern_jinja_pool *pool, const char *s, size_t n, tern_jinja_value *out, size_t *used)
{
    size_t end = 1;
    bool escapes = false;
    for (; end < n && s[end] != s[0]; end++)
        if (s[end] == '\\') escapes = true, end++;
    if (end >= n) return tern_jinja__fail(pool, TERN_MALFORMED, "string %c is never closed", s[0]);
    *used = end + 1;
    *out = tern_jinja__string((tern_jinja_str){.data = s + 1, .n = end - 1});
    if (!escapes) return TERN_OK;
    char *text = tern_jinja__alloc(pool, end + 4, 1); /* no escape writes more bytes than it takes */
    if (!text) return tern_jinja__status(pool);
    size_t size = 0;
    for (size_t at = 1; at < end;) {
        if (s[at] != '\\') {
            text[size++] = s[at++];
            continue;
        }
        at++;
        TERN_TRY(escape(pool, s, end, &at, text, &size));
    }
    out->str = (tern_jinja_str){.data = text, .n = size};
    return TERN_OK;
}
