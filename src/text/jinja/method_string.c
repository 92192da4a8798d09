/* The methods of strings in chat templates. */
#include "text/jinja/chars.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/text.h"

typedef const tern_jinja_value *operand;

static bool is_none_or_absent(operand v)
{
    return !v || v->kind == TERN_JINJA_NONE;
}

static tern_status string_strip(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return tern_jinja__strip(r, self->str, arg[0], true, true, out);
}

static tern_status string_lstrip(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return tern_jinja__strip(r, self->str, arg[0], true, false, out);
}

static tern_status string_rstrip(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return tern_jinja__strip(r, self->str, arg[0], false, true, out);
}

static tern_status string_upper(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return tern_jinja__change_case(r, self->str, TERN_JINJA_UPPER, out);
}

static tern_status string_lower(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return tern_jinja__change_case(r, self->str, TERN_JINJA_LOWER, out);
}

static tern_status string_title(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return tern_jinja__change_case(r, self->str, TERN_JINJA_TITLE, out);
}

static tern_status string_capitalize(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return tern_jinja__change_case(r, self->str, TERN_JINJA_CAPITAL, out);
}

static tern_status split(tern_jinja_render *r, operand self, const operand *arg, bool right, tern_jinja_value *out)
{
    tern_jinja_str separator;
    int64_t most;
    bool space = is_none_or_absent(arg[0]);
    TERN_TRY(tern_jinja__string_arg(r, space ? NULL : arg[0], "separator", tern_jinja__words(""), &separator));
    TERN_TRY(tern_jinja__int_arg(r, arg[1], "maxsplit", -1, &most));
    if (!space && separator.n == 0) return tern_jinja__bad(r, "split at an empty separator");
    return right ? tern_jinja__rsplit(r, self->str, separator, most, out)
                 : tern_jinja__split(r, self->str, separator, most, out);
}

static tern_status string_split(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return split(r, self, arg, false, out);
}

static tern_status string_rsplit(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return split(r, self, arg, true, out);
}

static tern_status string_splitlines(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return tern_jinja__splitlines(r, self->str, arg[0] && tern_jinja__truth(arg[0]), out);
}

/* Before, separator and after as a tuple. */
static tern_status partition(tern_jinja_render *r, operand self, operand arg, bool right, tern_jinja_value *out)
{
    tern_jinja_str separator, s = self->str;
    tern_jinja_value *items;
    if (!arg) return tern_jinja__bad(r, "partition needs a separator");
    TERN_TRY(tern_jinja__string_arg(r, arg, "separator", tern_jinja__words(""), &separator));
    if (separator.n == 0) return tern_jinja__bad(r, "partition at an empty separator");
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 16 * (1 + separator.n / 64)));
    size_t hit = right ? tern_jinja__str_rfind(s, separator) : tern_jinja__str_find(s, separator, 0);
    size_t from = hit != SIZE_MAX ? hit : right ? 0 : s.n, to = hit != SIZE_MAX ? hit + separator.n : from;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_TUPLE, 3, out, &items));
    items[0] = tern_jinja__string(tern_jinja__slice(s, 0, from));
    items[1] = tern_jinja__string(tern_jinja__slice(s, from, to));
    items[2] = tern_jinja__string(tern_jinja__slice(s, to, s.n));
    return TERN_OK;
}

static tern_status string_partition(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return partition(r, self, arg[0], false, out);
}

static tern_status string_rpartition(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return partition(r, self, arg[0], true, out);
}

static tern_status string_replace(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str from, to;
    int64_t most;
    if (!arg[0] || !arg[1]) return tern_jinja__bad(r, "replace needs two arguments");
    TERN_TRY(tern_jinja__string_arg(r, arg[0], "old", tern_jinja__words(""), &from));
    TERN_TRY(tern_jinja__string_arg(r, arg[1], "new", tern_jinja__words(""), &to));
    TERN_TRY(tern_jinja__int_arg(r, arg[2], "count", -1, &most));
    return tern_jinja__replace(r, self->str, from, to, most, out);
}

static bool has_affix(tern_jinja_str s, tern_jinja_str affix, bool at_end)
{
    if (affix.n > s.n) return false;
    size_t from = at_end ? s.n - affix.n : 0;
    return tern_jinja__str_equal(tern_jinja__slice(s, from, from + affix.n), affix);
}

/* The bytes of s between two characters, as find(x, start, end) counts them; false where start is behind the end. */
static tern_status window(tern_jinja_render *r, tern_jinja_str s, const operand bounds[2], size_t *skipped,
                          tern_jinja_str *out, bool *inside)
{
    int64_t from, to;
    *out = s;
    *skipped = 0;
    *inside = true;
    if (is_none_or_absent(bounds[0]) && is_none_or_absent(bounds[1])) return TERN_OK;
    const int64_t n = (int64_t)tern_jinja__char_count(s.data, s.n);
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 16));
    TERN_TRY(tern_jinja__int_arg(r, is_none_or_absent(bounds[0]) ? NULL : bounds[0], "start", 0, &from));
    TERN_TRY(tern_jinja__int_arg(r, is_none_or_absent(bounds[1]) ? NULL : bounds[1], "end", n, &to));
    from = from < -n ? 0 : from < 0 ? from + n : from;
    to = to < -n ? 0 : to < 0 ? to + n : to > n ? n : to;
    *inside = from <= to;
    if (!*inside) return TERN_OK;
    *skipped = (size_t)from;
    size_t start = tern_jinja__char_offset(s.data, s.n, (size_t)from);
    *out = tern_jinja__slice(s, start, tern_jinja__char_offset(s.data, s.n, (size_t)to));
    return TERN_OK;
}

/* startswith and endswith: one string, or a tuple of which any may match. */
static tern_status match_affix(tern_jinja_render *r, operand self, const operand *args, bool at_end,
                               tern_jinja_value *out)
{
    const tern_jinja_value *arg = args[0];
    tern_jinja_str s;
    size_t skipped;
    bool inside;
    tern_jinja_list one = {.items = (tern_jinja_value *)arg, .n = 1};
    const tern_jinja_list *affixes = arg && arg->kind == TERN_JINJA_TUPLE ? arg->list : &one;
    bool found = false;
    if (!arg) return tern_jinja__bad(r, "%s needs an argument", at_end ? "endswith" : "startswith");
    TERN_TRY(window(r, self->str, args + 1, &skipped, &s, &inside));
    for (size_t i = 0; i < affixes->n && inside && !found; i++) {
        tern_jinja_str affix;
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(
            tern_jinja__string_arg(r, &affixes->items[i], at_end ? "suffix" : "prefix", tern_jinja__words(""), &affix));
        TERN_TRY(tern_jinja__charge(&r->pool, affix.n / 64));
        found = has_affix(s, affix, at_end);
    }
    *out = tern_jinja__bool(found);
    return TERN_OK;
}

static tern_status string_startswith(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return match_affix(r, self, arg, false, out);
}

static tern_status string_endswith(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return match_affix(r, self, arg, true, out);
}

static tern_status remove_affix(tern_jinja_render *r, operand self, operand arg, bool at_end, tern_jinja_value *out)
{
    tern_jinja_str affix, s = self->str;
    TERN_TRY(tern_jinja__string_arg(r, arg, at_end ? "suffix" : "prefix", tern_jinja__words(""), &affix));
    *out = *self;
    TERN_TRY(tern_jinja__charge(&r->pool, affix.n / 64));
    if (has_affix(s, affix, at_end))
        out->str = at_end ? tern_jinja__slice(s, 0, s.n - affix.n) : tern_jinja__slice(s, affix.n, s.n);
    return TERN_OK;
}

static tern_status string_removeprefix(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return remove_affix(r, self, arg[0], false, out);
}

static tern_status string_removesuffix(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return remove_affix(r, self, arg[0], true, out);
}

/* The character at which `arg` is found first or last, or -1. */
static tern_status find(tern_jinja_render *r, operand self, const operand *arg, bool right, int64_t *out)
{
    tern_jinja_str needle, s;
    size_t skipped;
    bool inside;
    *out = -1;
    if (!arg[0]) return tern_jinja__bad(r, "find needs an argument");
    TERN_TRY(tern_jinja__string_arg(r, arg[0], "text to find", tern_jinja__words(""), &needle));
    TERN_TRY(window(r, self->str, arg + 1, &skipped, &s, &inside));
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 16 * (1 + needle.n / 64)));
    if (!inside) return TERN_OK;
    size_t at = right ? tern_jinja__str_rfind(s, needle) : tern_jinja__str_find(s, needle, 0);
    if (at != SIZE_MAX) *out = (int64_t)(skipped + tern_jinja__char_count(s.data, at));
    return TERN_OK;
}

static tern_status found_at(tern_jinja_render *r, operand self, const operand *arg, bool right, bool must,
                            tern_jinja_value *out)
{
    *out = tern_jinja__int(0);
    TERN_TRY(find(r, self, arg, right, &out->integer));
    return must && out->integer < 0 ? tern_jinja__bad(r, "index: the text is not in the string") : TERN_OK;
}

static tern_status string_find(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return found_at(r, self, arg, false, false, out);
}

static tern_status string_rfind(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return found_at(r, self, arg, true, false, out);
}

static tern_status string_index(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return found_at(r, self, arg, false, true, out);
}

static tern_status string_rindex(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return found_at(r, self, arg, true, true, out);
}

static tern_status string_count(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str needle, s;
    size_t skipped;
    bool inside;
    int64_t count = 0;
    if (!arg[0]) return tern_jinja__bad(r, "count needs an argument");
    TERN_TRY(tern_jinja__string_arg(r, arg[0], "text to count", tern_jinja__words(""), &needle));
    TERN_TRY(window(r, self->str, arg + 1, &skipped, &s, &inside));
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 16));
    if (inside && needle.n == 0) count = (int64_t)tern_jinja__char_count(s.data, s.n) + 1;
    for (size_t at = 0; inside && needle.n && (at = tern_jinja__str_find(s, needle, at)) != SIZE_MAX; at += needle.n)
        count++;
    *out = tern_jinja__int(count);
    return TERN_OK;
}

static tern_status string_join(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    const tern_jinja_list *items;
    tern_jinja_str part;
    if (!arg[0]) return tern_jinja__bad(r, "join needs an argument");
    TERN_TRY(tern_jinja__iterate(r, arg[0], &items));
    for (size_t i = 0; i < items->n; i++)
        TERN_TRY(tern_jinja__string_arg(r, &items->items[i], "item to join", tern_jinja__words(""), &part));
    return tern_jinja__join(r, items, self->str, out);
}

static tern_status justify(tern_jinja_render *r, operand self, const operand *arg, char align, tern_jinja_value *out)
{
    int64_t width;
    tern_jinja_str fill;
    if (!arg[0]) return tern_jinja__bad(r, "ljust, rjust and center need a width");
    TERN_TRY(tern_jinja__int_arg(r, arg[0], "width", 0, &width));
    TERN_TRY(tern_jinja__string_arg(r, arg[1], "character to fill with", tern_jinja__words(" "), &fill));
    if (tern_jinja__char_count(fill.data, fill.n) != 1)
        return tern_jinja__bad(r, "the text to fill with must be one character");
    return tern_jinja__justify(r, self->str, width, fill, align, out);
}

static tern_status string_ljust(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return justify(r, self, arg, '<', out);
}

static tern_status string_rjust(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return justify(r, self, arg, '>', out);
}

static tern_status string_center(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return justify(r, self, arg, 'c', out);
}

static tern_status string_zfill(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_rope rope = {0};
    tern_jinja_spec spec = {.fill = tern_jinja__words("0"), .align = '='};
    if (!arg[0]) return tern_jinja__bad(r, "zfill needs a width");
    TERN_TRY(tern_jinja__int_arg(r, arg[0], "width", 0, &spec.width));
    const bool sign = self->str.n && (self->str.data[0] == '-' || self->str.data[0] == '+');
    TERN_TRY(tern_jinja__pad(r, &rope, self->str, sign, &spec));
    return tern_jinja__rope_value(r, &rope, out);
}

static tern_status string_swapcase(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return tern_jinja__change_case(r, self->str, TERN_JINJA_SWAPPED, out);
}

static tern_status all_are(tern_jinja_render *r, operand self, tern_jinja_property property, tern_jinja_value *out)
{
    bool all = false;
    TERN_TRY(tern_jinja__all_are(r, self->str, property, &all));
    *out = tern_jinja__bool(all);
    return TERN_OK;
}

static tern_status string_isalpha(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return all_are(r, self, TERN_JINJA_ALPHA, out);
}

static tern_status string_isalnum(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return all_are(r, self, TERN_JINJA_ALNUM, out);
}

static tern_status string_isdecimal(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return all_are(r, self, TERN_JINJA_DECIMAL, out);
}

static tern_status string_isdigit(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return all_are(r, self, TERN_JINJA_DIGIT, out);
}

static tern_status string_isnumeric(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return all_are(r, self, TERN_JINJA_NUMERIC, out);
}

static tern_status string_isspace(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    const tern_jinja_str s = self->str;
    *out = tern_jinja__bool(s.n > 0 && tern_jinja__leading_space(s.data, s.n) == s.n);
    return tern_jinja__charge(&r->pool, s.n / 16);
}

static tern_status string_isascii(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    bool ascii = true;
    for (size_t i = 0; i < self->str.n && ascii; i++) ascii = (uint8_t)self->str.data[i] < 0x80;
    *out = tern_jinja__bool(ascii);
    return tern_jinja__charge(&r->pool, self->str.n / 16);
}

static tern_status string_isupper(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    *out = tern_jinja__bool(tern_jinja__all_in_case(r, self->str, true));
    return TERN_OK;
}

static tern_status string_islower(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    *out = tern_jinja__bool(tern_jinja__all_in_case(r, self->str, false));
    return TERN_OK;
}

const tern_jinja_filter tern_jinja__string_methods[] = {
    {.name = "capitalize", .params = "", .apply = string_capitalize},
    {.name = "casefold", .params = "", .apply = string_lower},
    {.name = "center", .params = "width fillchar", .apply = string_center},
    {.name = "count", .params = "sub start end", .apply = string_count},
    {.name = "encode"},
    {.name = "endswith", .params = "suffix start end", .apply = string_endswith},
    {.name = "expandtabs"},
    {.name = "find", .params = "sub start end", .apply = string_find},
    {.name = "format", .apply_open = tern_jinja__format},
    {.name = "format_map"},
    {.name = "index", .params = "sub start end", .apply = string_index},
    {.name = "isalnum", .params = "", .apply = string_isalnum},
    {.name = "isalpha", .params = "", .apply = string_isalpha},
    {.name = "isascii", .params = "", .apply = string_isascii},
    {.name = "isdecimal", .params = "", .apply = string_isdecimal},
    {.name = "isdigit", .params = "", .apply = string_isdigit},
    {.name = "isidentifier"},
    {.name = "islower", .params = "", .apply = string_islower},
    {.name = "isnumeric", .params = "", .apply = string_isnumeric},
    {.name = "isprintable"},
    {.name = "isspace", .params = "", .apply = string_isspace},
    {.name = "istitle"},
    {.name = "isupper", .params = "", .apply = string_isupper},
    {.name = "join", .params = "iterable", .apply = string_join},
    {.name = "ljust", .params = "width fillchar", .apply = string_ljust},
    {.name = "lower", .params = "", .apply = string_lower},
    {.name = "lstrip", .params = "chars", .apply = string_lstrip},
    {.name = "maketrans"},
    {.name = "partition", .params = "sep", .apply = string_partition},
    {.name = "removeprefix", .params = "prefix", .apply = string_removeprefix},
    {.name = "removesuffix", .params = "suffix", .apply = string_removesuffix},
    {.name = "replace", .params = "old new count", .apply = string_replace},
    {.name = "rfind", .params = "sub start end", .apply = string_rfind},
    {.name = "rindex", .params = "sub start end", .apply = string_rindex},
    {.name = "rjust", .params = "width fillchar", .apply = string_rjust},
    {.name = "rpartition", .params = "sep", .apply = string_rpartition},
    {.name = "rsplit", .params = "sep maxsplit", .apply = string_rsplit},
    {.name = "rstrip", .params = "chars", .apply = string_rstrip},
    {.name = "split", .params = "sep maxsplit", .apply = string_split},
    {.name = "splitlines", .params = "keepends", .apply = string_splitlines},
    {.name = "startswith", .params = "prefix start end", .apply = string_startswith},
    {.name = "strip", .params = "chars", .apply = string_strip},
    {.name = "swapcase", .params = "", .apply = string_swapcase},
    {.name = "title", .params = "", .apply = string_title},
    {.name = "translate"},
    {.name = "upper", .params = "", .apply = string_upper},
    {.name = "zfill", .params = "width", .apply = string_zfill},
    {0},
};
