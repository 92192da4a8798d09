/* Matching of control tokens and user-defined symbols: leftmost, then longest. */
#include "text/tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "text/utf8.h"

tern_status tern_added__add(tern_added *added, tern_span text, int32_t id, unsigned flags, tern_error *err)
{
    if (text.size == 0) return TERN_OK;
    if (text.size > TERN_ADDED_MAX_BYTES)
        return tern_fail(err, TERN_LIMIT, "special token %d \"%s\": %zu bytes, at most %d expected", id,
                         tern_show(text).text, text.size, TERN_ADDED_MAX_BYTES);
    void *tokens = added->tokens;
    TERN_TRY(tern_grow(&tokens, &added->cap, added->n + 1, sizeof *added->tokens, err));
    added->tokens = tokens;
    added->tokens[added->n++] = (tern_added_token){.text = text, .id = id, .flags = flags};
    return TERN_OK;
}

static int by_text(const void *a, const void *b)
{
    tern_span x = ((const tern_added_token *)a)->text, y = ((const tern_added_token *)b)->text;
    int order = memcmp(x.data, y.data, x.size < y.size ? x.size : y.size);
    return order ? order : (x.size > y.size) - (x.size < y.size);
}

void tern_added__index(tern_added *added)
{
    if (added->n) qsort(added->tokens, added->n, sizeof *added->tokens, by_text);
    size_t at = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        added->first[byte] = (uint32_t)at;
        while (at < added->n && added->tokens[at].text.data[0] == byte) at++;
    }
    added->first[256] = (uint32_t)at;
}

/* The first token in [low, high) whose byte at `depth` is at least `byte`; all of them are longer than depth. */
static size_t lower_bound(const tern_added *added, size_t low, size_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (added->tokens[middle].text.data[depth] < byte) low = middle + 1;
        else high = middle;
    }
    return low;
}

const tern_added_token *tern_added__at(const tern_added *added, const uint8_t *p, size_t n, bool control)
{
    const tern_added_token *best = NULL;
    size_t low = added->first[p[0]], high = added->first[p[0] + 1u];
    for (size_t depth = 1; low < high; depth++) {
        for (; low < high && added->tokens[low].text.size == depth; low++)
            if (control || !(added->tokens[low].flags & TERN_ADDED_CONTROL)) best = &added->tokens[low];
        if (depth == n) break;
        low = lower_bound(added, low, high, depth, p[depth]);
        high = lower_bound(added, low, high, depth, p[depth] + 1u);
    }
    return best;
}

/* A word character at this place, as far as bytes can tell: anything beyond ASCII counts as one. */
static bool is_word(const uint8_t *text, size_t n, size_t at)
{
    if (at >= n) return false;
    uint8_t c = text[at];
    return c >= 0x80 || c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static size_t skip_space(const uint8_t *text, size_t n, size_t at)
{
    uint32_t code;
    for (unsigned length; (length = tern_utf8__decode(text + at, n - at, &code)) != 0; at += length)
        if (!tern_utf8__is_space(code)) break;
    return at;
}

/* Where the white space that ends at `end` begins; never before `from`. */
static size_t skip_space_back(const uint8_t *text, size_t from, size_t end)
{
    while (end > from) {
        size_t at = end - 1;
        uint32_t code = 0;
        while (at > from && (text[at] & 0xC0) == 0x80 && end - at < 4) at--;
        if (tern_utf8__decode(text + at, end - at, &code) != end - at || !tern_utf8__is_space(code)) break;
        end = at;
    }
    return end;
}

/* The longest token at p; control tokens only in the bytes before the first untrusted one. */
static const tern_added_token *trusted_at(const tern_added *added, const uint8_t *p, const uint8_t *untrusted, size_t n)
{
    size_t trusted = 0, most = n < TERN_ADDED_MAX_BYTES ? n : TERN_ADDED_MAX_BYTES;
    while (trusted < most && !untrusted[trusted]) trusted++;
    const tern_added_token *plain = tern_added__at(added, p, n, false);
    const tern_added_token *any = trusted ? tern_added__at(added, p, trusted, true) : NULL;
    return !plain || (any && any->text.size > plain->text.size) ? any : plain;
}

bool tern_added__next(const tern_added *added, const uint8_t *text, const uint8_t *untrusted, size_t n, size_t from,
                      bool control, tern_added_match *match)
{
    if (added->n == 0) return false;
    for (size_t at = from; at < n; at++) {
        if (added->first[text[at]] == added->first[text[at] + 1u]) continue;
        bool marked = control && untrusted;
        const tern_added_token *token = marked ? trusted_at(added, text + at, untrusted + at, n - at)
                                               : tern_added__at(added, text + at, n - at, control);
        if (!token) continue;
        size_t end = at + token->text.size;
        if (token->flags & TERN_ADDED_SINGLE_WORD && ((at && is_word(text, n, at - 1)) || is_word(text, n, end)))
            continue;
        match->id = token->id;
        match->start = token->flags & TERN_ADDED_LSTRIP ? skip_space_back(text, from, at) : at;
        match->end = token->flags & TERN_ADDED_RSTRIP ? skip_space(text, n, end) : end;
        return true;
    }
    return false;
}

void tern_added__deinit(tern_added *added)
{
    tern_free(added->tokens);
    *added = (tern_added){0};
}
