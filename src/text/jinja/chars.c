/* Characters of UTF-8: decoding, counting, white space. */
#include "text/jinja/chars.h"

static bool is_continuation(char c)
{
    return ((uint8_t)c & 0xc0u) == 0x80u;
}

/* The length that a lead byte announces, its payload bits and the smallest code point of that length; 0 when it leads
 * nothing. */
static size_t lead(uint8_t byte, uint32_t *bits, uint32_t *least)
{
    if (byte >= 0xc2 && byte < 0xe0) return *bits = byte & 0x1fu, *least = 0x80, 2;
    if (byte >= 0xe0 && byte < 0xf0) return *bits = byte & 0x0fu, *least = 0x800, 3;
    if (byte >= 0xf0 && byte < 0xf5) return *bits = byte & 0x07u, *least = 0x10000, 4;
    return 0;
}

size_t tern_jinja__char(const char *s, size_t n, uint32_t *code)
{
    *code = (uint8_t)s[0];
    if (*code < 0x80) return 1;
    uint32_t bits = 0, least = 0;
    size_t length = lead((uint8_t)s[0], &bits, &least);
    if (length == 0 || length > n) return 1;
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(s[i])) return 1;
        bits = bits << 6 | ((uint8_t)s[i] & 0x3fu);
    }
    if (bits < least || bits > 0x10ffff || (bits >= 0xd800 && bits < 0xe000)) return 1;
    *code = bits;
    return length;
}

size_t tern_jinja__char_count(const char *s, size_t n)
{
    size_t count = 0;
    uint32_t code;
    for (size_t at = 0; at < n; count++) at += tern_jinja__char(s + at, n - at, &code);
    return count;
}

size_t tern_jinja__char_offset(const char *s, size_t n, size_t index)
{
    size_t at = 0;
    uint32_t code;
    for (; index > 0 && at < n; index--) at += tern_jinja__char(s + at, n - at, &code);
    return at;
}

bool tern_jinja__is_space(uint32_t code)
{
    if (code <= 0x20) return code == 0x20 || (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x1f);
    if (code >= 0x2000 && code <= 0x200a) return true;
    switch (code) {
    case 0x85:
    case 0xa0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000: return true;
    default: return false;
    }
}

/* White space outside ASCII must be a whole character: a lone byte 0x85 is not one. */
static bool space_at(const char *s, size_t n, size_t *length)
{
    uint32_t code;
    *length = tern_jinja__char(s, n, &code);
    return tern_jinja__is_space(code) && (code < 0x80 || *length > 1);
}

size_t tern_jinja__leading_space(const char *s, size_t n)
{
    size_t at = 0, length;
    while (at < n && space_at(s + at, n - at, &length)) at += length;
    return at;
}

size_t tern_jinja__trailing_space(const char *s, size_t n)
{
    size_t end = n, length;
    while (end > 0) {
        size_t start = end - 1;
        while (start > 0 && end - start < 4 && is_continuation(s[start])) start--;
        if (!space_at(s + start, end - start, &length) || length != end - start) break;
        end = start;
    }
    return n - end;
}

size_t tern_jinja__char_write(char out[4], uint32_t code)
{
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t leads[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(uint8_t)(0x80u | (code & 0x3fu));
    out[0] = (char)(uint8_t)(leads[n] | code);
    return n;
}
