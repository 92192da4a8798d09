/* The strings of chat templates, each byte with its origin, and ropes of them. */
#include <string.h>

#include "text/jinja/value.h"

tern_jinja_str tern_jinja__words(const char *words)
{
    return (tern_jinja_str){.data = words, .n = strlen(words)};
}

tern_jinja_str tern_jinja__slice(tern_jinja_str s, size_t from, size_t to)
{
    s.data += from;
    s.n = to - from;
    if (s.mask) s.mask += from;
    return s;
}

bool tern_jinja__str_equal(tern_jinja_str a, tern_jinja_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.data, b.data, a.n) == 0);
}

bool tern_jinja__str_is(tern_jinja_str s, const char *words)
{
    return tern_jinja__str_equal(s, tern_jinja__words(words));
}

int tern_jinja__str_compare(tern_jinja_str a, tern_jinja_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

bool tern_jinja__byte_untrusted(tern_jinja_str s, size_t at)
{
    return s.mask ? s.mask[at] != 0 : s.untrusted;
}

size_t tern_jinja__str_find(tern_jinja_str s, tern_jinja_str needle, size_t from)
{
    if (from > s.n || needle.n > s.n - from) return SIZE_MAX;
    if (needle.n == 0) return from;
    const char *hit = memmem(s.data + from, s.n - from, needle.data, needle.n);
    return hit ? (size_t)(hit - s.data) : SIZE_MAX;
}

size_t tern_jinja__str_rfind(tern_jinja_str s, tern_jinja_str needle)
{
    if (needle.n > s.n) return SIZE_MAX;
    for (size_t at = s.n - needle.n + 1; at-- > 0;)
        if (tern_jinja__str_equal(tern_jinja__slice(s, at, at + needle.n), needle)) return at;
    return SIZE_MAX;
}

tern_status tern_jinja__rope_add(tern_jinja_pool *p, tern_jinja_rope *rope, tern_jinja_str s)
{
    if (s.n == 0) return TERN_OK;
    tern_jinja_piece *piece = tern_jinja__alloc(p, 1, sizeof *piece);
    if (!piece) return tern_jinja__status(p);
    piece->str = s;
    if (rope->last) rope->last->next = piece;
    else rope->first = piece;
    rope->last = piece;
    rope->n += s.n;
    return TERN_OK;
}

void tern_jinja__str_mask(tern_jinja_str s, uint8_t *mask)
{
    if (s.mask) memcpy(mask, s.mask, s.n);
    else memset(mask, s.untrusted, s.n);
}

/* Whether all pieces have one origin; *untrusted says which (or "some" when mixed). */
static bool one_origin(const tern_jinja_rope *rope, bool *untrusted)
{
    bool trusted = false, other = false;
    for (const tern_jinja_piece *p = rope->first; p; p = p->next) {
        if (p->str.mask || !p->str.untrusted) trusted = true;
        if (p->str.mask || p->str.untrusted) other = true;
    }
    *untrusted = other;
    return !(trusted && other);
}

tern_status tern_jinja__rope_str(tern_jinja_pool *p, const tern_jinja_rope *rope, tern_jinja_str *out)
{
    if (rope->first == rope->last) {
        *out = rope->first ? rope->first->str : (tern_jinja_str){.data = ""};
        out->markup = false;
        return TERN_OK;
    }
    bool untrusted;
    bool uniform = one_origin(rope, &untrusted);
    char *data = tern_jinja__alloc(p, rope->n, 1);
    uint8_t *mask = !data || uniform ? NULL : tern_jinja__alloc(p, rope->n, 1);
    if (!data || (!uniform && !mask)) return tern_jinja__status(p);
    size_t at = 0;
    for (const tern_jinja_piece *piece = rope->first; piece; piece = piece->next) {
        memcpy(data + at, piece->str.data, piece->str.n);
        if (mask) tern_jinja__str_mask(piece->str, mask + at);
        at += piece->str.n;
    }
    *out = (tern_jinja_str){.data = data, .n = rope->n, .mask = mask, .untrusted = untrusted};
    return TERN_OK;
}
