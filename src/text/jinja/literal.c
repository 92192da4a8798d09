/* Number and string literals inside the tags of a chat template. */
#include <stdlib.h>
#include <string.h>

#include "text/jinja/chars.h"
#include "text/jinja/lex.h"

/* The end of digits, single underscores between them. */
static size_t count_digits(const char *s, size_t n, size_t at)
{
    while (at < n && (tern_jinja__is_digit(s[at]) || (s[at] == '_' && at + 1 < n && tern_jinja__is_digit(s[at + 1]))))
        at++;
    return at;
}

/* A digit of a base up to 36, or 99. */
static unsigned digit_value(char c)
{
    if (tern_jinja__is_digit(c)) return (unsigned)(c - '0');
    char lower = tern_jinja__to_lower(c);
    return tern_jinja__is_lower(lower) ? (unsigned)(lower - 'a' + 10) : 99;
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

tern_status tern_jinja__parse_int(tern_jinja_pool *pool, const char *s, size_t n, unsigned base, int64_t *out,
                                  size_t *used)
{
    size_t at = 0;
    for (*out = 0; at < n; at++) {
        if (s[at] == '_' && at > 0 && at + 1 < n && digit_value(s[at + 1]) < base) at++;
        if (digit_value(s[at]) >= base) break;
        if (__builtin_mul_overflow(*out, (int64_t)base, out) ||
            __builtin_add_overflow(*out, (int64_t)digit_value(s[at]), out))
            return tern_jinja__fail(pool, TERN_LIMIT, "integer \"%.*s\" does not fit in 64 bits", n < 40 ? (int)n : 40,
                                    s);
    }
    *used = at;
    return TERN_OK;
}

unsigned tern_jinja__base_of(const char *s, size_t n)
{
    static const char letters[] = "box";
    static const unsigned bases[] = {2, 8, 16};
    const char *hit = n > 1 && s[0] == '0' ? strchr(letters, tern_jinja__to_lower(s[1])) : NULL;
    return hit && *hit ? bases[hit - letters] : 10;
}

/* 0b1, 0o7, 0xf. */
static tern_status prefixed(tern_jinja_pool *pool, const char *s, size_t n, unsigned base, tern_jinja_value *out,
                            size_t *used)
{
    size_t skip = n > 2 && s[2] == '_' ? 3 : 2, digits = 0;
    int64_t value = 0;
    TERN_TRY(tern_jinja__parse_int(pool, s + skip, n - skip, base, &value, &digits));
    *used = digits ? skip + digits : 1;
    *out = tern_jinja__int(value);
    return TERN_OK;
}

tern_status tern_jinja__lex_number(tern_jinja_pool *pool, const char *s, size_t n, bool after_dot,
                                   tern_jinja_value *out, size_t *used)
{
    size_t digits = count_digits(s, n, 0);
    const unsigned base = after_dot ? 10 : tern_jinja__base_of(s, n);
    *used = after_dot ? digits : fraction_end(s, n, digits);
    if (base != 10) TERN_TRY(prefixed(pool, s, n, base, out, used));
    if (*used < n && (s[*used] == '_' || tern_jinja__is_upper(s[*used]) || tern_jinja__is_lower(s[*used])))
        return tern_jinja__fail(pool, TERN_UNSUPPORTED, "number literal \"%.*s\"", (int)(*used < 40 ? *used + 1 : 40),
                                s);
    if (base != 10) return TERN_OK;
    if (*used == digits) {
        *out = tern_jinja__int(0);
        return tern_jinja__parse_int(pool, s, digits, 10, &out->integer, used);
    }
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
    for (bool point = false; at < s.n && (strchr("._", s.data[at]) || tern_jinja__is_digit(s.data[at])); at++) {
        if (s.data[at] == '_') continue;
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
        uint32_t digit = digit_value(s[*at]);
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
