/* UTF-8 code points in untrusted bytes. */
#include "text/utf8.h"

/* Length of the sequence that this byte starts, 0 if none, and the range of its second byte (Unicode, table 3-7). */
static unsigned lead(uint8_t byte, uint8_t *low, uint8_t *high)
{
    *low = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    *high = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    if (byte < 0x80) return 1;
    if (byte < 0xC2 || byte > 0xF4) return 0;
    return byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

static bool is_tail(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

unsigned tern_utf8__decode(const uint8_t *p, size_t n, uint32_t *code)
{
    uint8_t low, high;
    if (n == 0) return 0;
    unsigned length = lead(p[0], &low, &high);
    if (length == 0 || length > n) return 0;
    if (length == 1) {
        *code = p[0];
        return 1;
    }
    if (p[1] < low || p[1] > high) return 0;
    uint32_t value = p[0] & (0x7Fu >> length);
    for (unsigned i = 1; i < length; i++) {
        if (!is_tail(p[i])) return 0;
        value = value << 6 | (p[i] & 0x3Fu);
    }
    *code = value;
    return length;
}

bool tern_utf8__is_prefix(const uint8_t *p, size_t n)
{
    uint8_t low, high;
    if (n == 0 || lead(p[0], &low, &high) <= n) return false;
    if (n > 1 && (p[1] < low || p[1] > high)) return false;
    return n < 3 || is_tail(p[2]);
}

size_t tern_utf8__valid_run(const uint8_t *p, size_t n)
{
    size_t at = 0;
    uint32_t code;
    while (at < n) {
        unsigned length = p[at] < 0x80 ? 1 : tern_utf8__decode(p + at, n - at, &code);
        if (length == 0) break;
        at += length;
    }
    return at;
}

unsigned tern_utf8__encode(uint8_t out[4], uint32_t code)
{
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    unsigned length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (unsigned i = length - 1; i > 0; i--, code >>= 6) out[i] = (uint8_t)(0x80 | (code & 0x3F));
    out[0] = (uint8_t)(0xF00u >> length | code);
    return length;
}

bool tern_utf8__is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
           code == 0x3000;
}
