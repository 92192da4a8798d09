/* Raw JSON strings and arrays. */
#include "text/json_text.h"

#include <string.h>

#include "base/show.h"
#include "text/utf8.h"

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

tern_span tern_json__trim(tern_span raw)
{
    while (raw.size && is_space(raw.data[0])) raw.data++, raw.size--;
    while (raw.size && is_space(raw.data[raw.size - 1])) raw.size--;
    return raw;
}

static tern_status fail_string(tern_span raw, const char *why, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "JSON string %s: %s", tern_show(raw).text, why);
}

/* Four hexadecimal digits, or UINT32_MAX. */
static uint32_t hex4(const uint8_t *p)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i], lower = c | 0x20;
        uint32_t digit = c >= '0' && c <= '9'           ? c - (uint32_t)'0'
                         : lower >= 'a' && lower <= 'f' ? lower - (uint32_t)'a' + 10
                                                        : 16;
        if (digit > 15) return UINT32_MAX;
        value = value << 4 | digit;
    }
    return value;
}

/* \uXXXX at p, or a pair of them; bytes read, or 0. */
static size_t unicode_escape(const uint8_t *p, size_t n, uint32_t *code)
{
    uint32_t high = n >= 6 ? hex4(p + 2) : UINT32_MAX;
    *code = high;
    if (high == UINT32_MAX || (high >= 0xDC00 && high < 0xE000)) return 0;
    if (high < 0xD800 || high >= 0xE000) return 6;
    uint32_t low = n >= 12 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8) : UINT32_MAX;
    if (low < 0xDC00 || low >= 0xE000) return 0;
    *code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    return 12;
}

/* The escape sequence at p: bytes read, or 0. */
static size_t escape(const uint8_t *p, size_t n, uint32_t *code)
{
    static const char NAMES[] = "\"\\/bfnrt", VALUES[] = "\"\\/\b\f\n\r\t";
    if (n < 2) return 0;
    if (p[1] == 'u') return unicode_escape(p, n, code);
    const char *name = memchr(NAMES, p[1], sizeof NAMES - 1);
    if (!name) return 0;
    *code = (uint8_t)VALUES[name - NAMES];
    return 2;
}

tern_status tern_json__unescape(tern_span raw, tern_buf *out, tern_error *err)
{
    raw = tern_json__trim(raw);
    if (raw.size < 2 || raw.data[0] != '"' || raw.data[raw.size - 1] != '"') return fail_string(raw, "no string", err);
    const uint8_t *p = raw.data + 1;
    size_t n = raw.size - 2;
    TERN_TRY(tern_buf_add(out, "", 0, err));
    while (n) {
        size_t plain = 0;
        while (plain < n && p[plain] != '\\' && p[plain] != '"' && p[plain] >= 0x20) plain++;
        if (tern_utf8__valid_run(p, plain) != plain) return fail_string(raw, "not UTF-8", err);
        TERN_TRY(tern_buf_add(out, p, plain, err));
        p += plain;
        n -= plain;
        if (n == 0) break;
        uint32_t code = 0;
        uint8_t bytes[4];
        size_t taken = *p == '\\' ? escape(p, n, &code) : 0;
        if (taken == 0) return fail_string(raw, "bad escape or control character", err);
        TERN_TRY(tern_buf_add(out, bytes, tern_utf8__encode(bytes, code), err));
        p += taken;
        n -= taken;
    }
    return TERN_OK;
}

tern_status tern_json__number(tern_span raw, uint32_t *out, tern_error *err)
{
    raw = tern_json__trim(raw);
    uint32_t value = 0;
    bool good = raw.size > 0 && raw.size <= 9;
    for (size_t i = 0; good && i < raw.size; i++) {
        good = raw.data[i] >= '0' && raw.data[i] <= '9';
        value = value * 10 + (raw.data[i] - '0');
    }
    if (!good) return tern_fail(err, TERN_MALFORMED, "%s: a whole number expected", tern_show(raw).text);
    *out = value;
    return TERN_OK;
}

/* Bytes of the value at the start of s, up to the comma or bracket that ends it. */
static size_t value_size(tern_span s)
{
    size_t at = 0, depth = 0;
    for (; at < s.size; at++) {
        uint8_t c = s.data[at];
        if (c == '"')
            for (at++; at < s.size && s.data[at] != '"'; at++) at += s.data[at] == '\\';
        else if (c == '[' || c == '{') depth++;
        else if (depth == 0 && (c == ',' || c == ']' || c == '}')) break;
        else if (c == ']' || c == '}') depth--;
    }
    return at < s.size ? at : s.size;
}

tern_status tern_json__next_item(tern_json_items *items, bool *more, tern_span *item, tern_error *err)
{
    tern_span *rest = &items->rest;
    *rest = tern_json__trim(*rest);
    bool first = !items->started;
    items->started = true;
    if (first && (rest->size < 2 || rest->data[0] != '[' || rest->data[rest->size - 1] != ']'))
        return tern_fail(err, TERN_MALFORMED, "%s: an array expected", tern_show(*rest).text);
    if (first) {
        *rest = tern_json__trim((tern_span){rest->data + 1, rest->size - 1});
        if (rest->size == 1) {
            *more = false;
            return TERN_OK;
        }
    }
    *more = rest->size > 1;
    if (!*more) return TERN_OK;
    size_t n = value_size(*rest);
    *item = tern_json__trim((tern_span){rest->data, n});
    if (n == rest->size || item->size == 0)
        return tern_fail(err, TERN_MALFORMED, "JSON array: a value expected at %s", tern_show(*rest).text);
    bool comma = rest->data[n] == ',';
    if (!comma && n + 1 != rest->size)
        return tern_fail(err, TERN_MALFORMED, "JSON array: ',' expected at %s",
                         tern_show((tern_span){rest->data + n, rest->size - n}).text);
    rest->data += comma ? n + 1 : n;
    rest->size -= comma ? n + 1 : n;
    return TERN_OK;
}
