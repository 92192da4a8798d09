/* String operations of chat templates: strip, case, replace, split, join. */
#include "text/jinja/text.h"

#include <string.h>

#include "text/jinja/chars.h"
#include "text/jinja/format.h"

tern_status tern_jinja__string_arg(tern_jinja_render *r, const tern_jinja_value *arg, const char *what,
                                   tern_jinja_str absent, tern_jinja_str *out)
{
    *out = absent;
    if (!arg) return TERN_OK;
    if (arg->kind != TERN_JINJA_STRING)
        return tern_jinja__bad(r, "%s is %s, expected a string", what, tern_jinja__kind_words(arg->kind));
    *out = arg->str;
    return TERN_OK;
}

tern_status tern_jinja__int_arg(tern_jinja_render *r, const tern_jinja_value *arg, const char *what, int64_t absent,
                                int64_t *out)
{
    *out = absent;
    if (!arg) return TERN_OK;
    if (arg->kind != TERN_JINJA_INT && arg->kind != TERN_JINJA_BOOL)
        return tern_jinja__bad(r, "%s is %s, expected an integer", what, tern_jinja__kind_words(arg->kind));
    *out = tern_jinja__as_int(arg);
    return TERN_OK;
}

/* Bytes of characters out of `set` at the start of s. */
static size_t leading(tern_jinja_str s, tern_jinja_str set)
{
    size_t at = 0;
    uint32_t code;
    while (at < s.n) {
        size_t n = tern_jinja__char(s.data + at, s.n - at, &code);
        if (tern_jinja__str_find(set, tern_jinja__slice(s, at, at + n), 0) == SIZE_MAX) break;
        at += n;
    }
    return at;
}

static size_t trailing(tern_jinja_str s, tern_jinja_str set)
{
    size_t end = s.n;
    while (end > 0) {
        size_t start = end - 1;
        while (start > 0 && end - start < 4 && ((uint8_t)s.data[start] & 0xc0u) == 0x80u) start--;
        if (tern_jinja__str_find(set, tern_jinja__slice(s, start, end), 0) == SIZE_MAX) break;
        end = start;
    }
    return s.n - end;
}

tern_status tern_jinja__strip(tern_jinja_render *r, tern_jinja_str s, const tern_jinja_value *chars, bool left,
                              bool right, tern_jinja_value *out)
{
    tern_jinja_str set;
    bool space = !chars || chars->kind == TERN_JINJA_NONE;
    TERN_TRY(tern_jinja__string_arg(r, space ? NULL : chars, "characters to strip", tern_jinja__words(""), &set));
    TERN_TRY(tern_jinja__charge(&r->pool, space ? s.n / 64 : s.n / 64 * (1 + set.n / 8)));
    size_t from = !left ? 0 : space ? tern_jinja__leading_space(s.data, s.n) : leading(s, set);
    s = tern_jinja__slice(s, from, s.n);
    size_t cut = !right ? 0 : space ? tern_jinja__trailing_space(s.data, s.n) : trailing(s, set);
    *out = tern_jinja__string(tern_jinja__slice(s, 0, s.n - cut));
    return TERN_OK;
}

static bool is_letter(char c)
{
    return tern_jinja__is_upper(c) || tern_jinja__is_lower(c) || (uint8_t)c >= 0x80;
}

static bool parts_words(char c)
{
    return c != 0 && strchr("-({[< \t\n\r\f\v", c);
}

tern_status tern_jinja__change_case(tern_jinja_render *r, tern_jinja_str s, tern_jinja_case how, tern_jinja_value *out)
{
    char *data = tern_jinja__alloc(&r->pool, s.n, 1);
    if (!data) return tern_jinja__status(&r->pool);
    for (size_t i = 0; i < s.n; i++) {
        bool starts = i == 0 || (how == TERN_JINJA_TITLE && !is_letter(s.data[i - 1])) ||
                      (how == TERN_JINJA_HEADLINE && parts_words(s.data[i - 1]));
        bool upper = how == TERN_JINJA_UPPER || (how != TERN_JINJA_LOWER && starts);
        if (how == TERN_JINJA_SWAPPED) upper = tern_jinja__is_lower(s.data[i]);
        data[i] = upper ? tern_jinja__to_upper(s.data[i]) : tern_jinja__to_lower(s.data[i]);
    }
    s.data = data;
    *out = tern_jinja__string(s);
    return tern_jinja__charge(&r->pool, s.n / 16);
}

bool tern_jinja__all_in_case(tern_jinja_render *r, tern_jinja_str s, bool upper)
{
    bool found = false;
    r->pool.steps += s.n / 16;
    for (size_t i = 0; i < s.n; i++) {
        if (upper ? tern_jinja__is_lower(s.data[i]) : tern_jinja__is_upper(s.data[i])) return false;
        if (upper ? tern_jinja__is_upper(s.data[i]) : tern_jinja__is_lower(s.data[i])) found = true;
    }
    return found;
}

tern_status tern_jinja__replace(tern_jinja_render *r, tern_jinja_str s, tern_jinja_str from, tern_jinja_str to,
                                int64_t most, tern_jinja_value *out)
{
    tern_jinja_rope rope = {0};
    size_t at = 0;
    uint32_t code;
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 64));
    for (size_t hit; most != 0 && (hit = tern_jinja__str_find(s, from, at)) != SIZE_MAX; most--) {
        TERN_TRY(tern_jinja__emit(r, &rope, tern_jinja__slice(s, at, hit)));
        TERN_TRY(tern_jinja__emit_escaped(r, &rope, to, s.markup));
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        at = hit + from.n;
        if (from.n) continue;
        if (hit == s.n) break; /* an empty string is before every character and at the end */
        at += tern_jinja__char(s.data + at, s.n - at, &code);
        TERN_TRY(tern_jinja__emit(r, &rope, tern_jinja__slice(s, hit, at)));
    }
    TERN_TRY(tern_jinja__emit(r, &rope, tern_jinja__slice(s, at, s.n)));
    TERN_TRY(tern_jinja__rope_value(r, &rope, out));
    out->str.markup = s.markup;
    return TERN_OK;
}

/* Takes the next part off *rest, up to the separator; without one, all of it. */
static tern_jinja_str take_part(tern_jinja_str *rest, tern_jinja_str separator, bool *last)
{
    size_t hit = tern_jinja__str_find(*rest, separator, 0);
    *last = hit == SIZE_MAX;
    tern_jinja_str part = tern_jinja__slice(*rest, 0, *last ? rest->n : hit);
    *rest = tern_jinja__slice(*rest, *last ? rest->n : hit + separator.n, rest->n);
    return part;
}

/* Takes the next word off *rest, whose leading white space has gone. */
static tern_jinja_str take_word(tern_jinja_str *rest, bool *last)
{
    size_t n = 0;
    uint32_t code;
    while (n < rest->n && tern_jinja__leading_space(rest->data + n, rest->n - n) == 0)
        n += tern_jinja__char(rest->data + n, rest->n - n, &code);
    tern_jinja_str word = tern_jinja__slice(*rest, 0, n);
    n += tern_jinja__leading_space(rest->data + n, rest->n - n);
    *rest = tern_jinja__slice(*rest, n, rest->n);
    *last = rest->n == 0;
    return word;
}

static tern_status add_part(tern_jinja_render *r, tern_jinja_dict *parts, tern_jinja_str part)
{
    tern_jinja_value key = tern_jinja__int((int64_t)parts->n), value = tern_jinja__string(part);
    if (parts->n < parts->cap) return parts->entries[parts->n++] = (tern_jinja_entry){key, value}, TERN_OK;
    size_t cap = parts->cap ? parts->cap * 2 : 8;
    tern_jinja_entry *entries = tern_jinja__alloc(&r->pool, cap, sizeof *entries);
    if (!entries) return tern_jinja__status(&r->pool);
    if (parts->n) memcpy(entries, parts->entries, parts->n * sizeof *entries);
    parts->entries = entries;
    parts->cap = cap;
    return add_part(r, parts, part);
}

static tern_status split_parts(tern_jinja_render *r, tern_jinja_str s, tern_jinja_str separator, int64_t most,
                               tern_jinja_dict *parts)
{
    bool words = separator.n == 0, last = false;
    if (words) s = tern_jinja__slice(s, tern_jinja__leading_space(s.data, s.n), s.n);
    if (words && s.n == 0) return TERN_OK;
    for (; most != 0 && !last; most--) {
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(add_part(r, parts, words ? take_word(&s, &last) : take_part(&s, separator, &last)));
    }
    if (last) return TERN_OK;
    return add_part(r, parts, s);
}

/* The parts as a list, in their order or reversed. */
static tern_status list_parts(tern_jinja_render *r, const tern_jinja_dict *parts, bool reversed, tern_jinja_value *out)
{
    tern_jinja_value *items;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, parts->n, out, &items));
    for (size_t i = 0; i < parts->n; i++) items[reversed ? parts->n - 1 - i : i] = parts->entries[i].value;
    return TERN_OK;
}

tern_status tern_jinja__split(tern_jinja_render *r, tern_jinja_str s, tern_jinja_str separator, int64_t most,
                              tern_jinja_value *out)
{
    tern_jinja_dict parts = {0};
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 16));
    TERN_TRY(split_parts(r, s, separator, most, &parts));
    return list_parts(r, &parts, false, out);
}

/* Takes the last word off *rest, whose trailing white space has gone. */
static tern_jinja_str take_last_word(tern_jinja_str *rest, bool *last)
{
    size_t from = rest->n;
    while (from > 0 && tern_jinja__trailing_space(rest->data, from) == 0) from--;
    tern_jinja_str word = tern_jinja__slice(*rest, from, rest->n);
    *rest = tern_jinja__slice(*rest, 0, from - tern_jinja__trailing_space(rest->data, from));
    *last = rest->n == 0;
    return word;
}

static tern_jinja_str take_last_part(tern_jinja_str *rest, tern_jinja_str separator, bool *last)
{
    size_t hit = tern_jinja__str_rfind(*rest, separator);
    *last = hit == SIZE_MAX;
    tern_jinja_str part = tern_jinja__slice(*rest, *last ? 0 : hit + separator.n, rest->n);
    *rest = tern_jinja__slice(*rest, 0, *last ? 0 : hit);
    return part;
}

tern_status tern_jinja__rsplit(tern_jinja_render *r, tern_jinja_str s, tern_jinja_str separator, int64_t most,
                               tern_jinja_value *out)
{
    tern_jinja_dict parts = {0};
    bool words = separator.n == 0, last = false;
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 16 * (1 + separator.n / 64)));
    if (words) s = tern_jinja__slice(s, 0, s.n - tern_jinja__trailing_space(s.data, s.n));
    if (words && s.n == 0) return list_parts(r, &parts, true, out);
    for (; most != 0 && !last; most--) {
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(add_part(r, &parts, words ? take_last_word(&s, &last) : take_last_part(&s, separator, &last)));
    }
    if (!last) TERN_TRY(add_part(r, &parts, s));
    return list_parts(r, &parts, true, out);
}

/* Bytes of the line end at s, or 0: those of Python's splitlines(). */
static size_t line_end(const char *s, size_t n)
{
    uint32_t code;
    size_t length = tern_jinja__char(s, n, &code);
    if (code == '\r') return n > 1 && s[1] == '\n' ? 2 : 1;
    if (code == '\n' || code == '\v' || code == '\f' || (code >= 0x1c && code <= 0x1e)) return 1;
    return length > 1 && (code == 0x85 || code == 0x2028 || code == 0x2029) ? length : 0;
}

tern_status tern_jinja__splitlines(tern_jinja_render *r, tern_jinja_str s, bool ends, tern_jinja_value *out)
{
    tern_jinja_dict parts = {0};
    uint32_t code;
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 8));
    for (size_t from = 0, at = 0; from < s.n; from = at) {
        size_t end = 0;
        while (at < s.n && !(end = line_end(s.data + at, s.n - at)))
            at += tern_jinja__char(s.data + at, s.n - at, &code);
        TERN_TRY(add_part(r, &parts, tern_jinja__slice(s, from, ends ? at + end : at)));
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        at += end;
    }
    return list_parts(r, &parts, false, out);
}

tern_status tern_jinja__justify(tern_jinja_render *r, tern_jinja_str s, int64_t width, tern_jinja_str fill, char align,
                                tern_jinja_value *out)
{
    tern_jinja_rope rope = {0};
    tern_jinja_spec spec = {.fill = fill, .align = align, .width = width};
    int64_t pad = width - (int64_t)tern_jinja__char_count(s.data, s.n);
    if (align == 'c') { /* an odd space is on the left only if the width is odd */
        TERN_TRY(tern_jinja__fill(r, &rope, fill, pad <= 0 ? 0 : pad / 2 + (pad & width & 1)));
        spec.align = '<';
        spec.width -= pad <= 0 ? 0 : pad / 2 + (pad & width & 1);
    }
    TERN_TRY(tern_jinja__pad(r, &rope, s, 0, &spec));
    TERN_TRY(tern_jinja__rope_value(r, &rope, out));
    out->str.markup = s.markup;
    return TERN_OK;
}

tern_status tern_jinja__join(tern_jinja_render *r, const tern_jinja_list *list, tern_jinja_str separator,
                             tern_jinja_value *out)
{
    tern_jinja_rope rope = {0};
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0) TERN_TRY(tern_jinja__emit(r, &rope, separator));
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        if (list->items[i].kind != TERN_JINJA_STRING) TERN_TRY(tern_jinja__print(r, &list->items[i], &rope));
        else TERN_TRY(tern_jinja__emit_escaped(r, &rope, list->items[i].str, separator.markup));
    }
    TERN_TRY(tern_jinja__rope_value(r, &rope, out));
    out->str.markup = separator.markup;
    return TERN_OK;
}
