/* The methods of strings and dicts, and of the loop variable, in chat templates. */
#include "text/jinja/chars.h"
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

static tern_status string_split(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str separator;
    int64_t most;
    bool space = is_none_or_absent(arg[0]);
    TERN_TRY(tern_jinja__string_arg(r, space ? NULL : arg[0], "separator", tern_jinja__words(""), &separator));
    TERN_TRY(tern_jinja__int_arg(r, arg[1], "maxsplit", -1, &most));
    if (!space && separator.n == 0) return tern_jinja__bad(r, "split at an empty separator");
    return tern_jinja__split(r, self->str, separator, most, out);
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

/* startswith and endswith: one string, or a tuple of which any may match. */
static tern_status match_affix(tern_jinja_render *r, operand self, operand arg, bool at_end, tern_jinja_value *out)
{
    tern_jinja_list one = {.items = (tern_jinja_value *)arg, .n = 1};
    const tern_jinja_list *affixes = arg && arg->kind == TERN_JINJA_TUPLE ? arg->list : &one;
    bool found = false;
    if (!arg) return tern_jinja__bad(r, "%s needs an argument", at_end ? "endswith" : "startswith");
    for (size_t i = 0; i < affixes->n && !found; i++) {
        tern_jinja_str affix;
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(
            tern_jinja__string_arg(r, &affixes->items[i], at_end ? "suffix" : "prefix", tern_jinja__words(""), &affix));
        TERN_TRY(tern_jinja__charge(&r->pool, affix.n / 64));
        found = has_affix(self->str, affix, at_end);
    }
    *out = tern_jinja__bool(found);
    return TERN_OK;
}

static tern_status string_startswith(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return match_affix(r, self, arg[0], false, out);
}

static tern_status string_endswith(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return match_affix(r, self, arg[0], true, out);
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

static tern_status string_find(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str needle;
    if (!arg[0]) return tern_jinja__bad(r, "find needs an argument");
    TERN_TRY(tern_jinja__string_arg(r, arg[0], "text to find", tern_jinja__words(""), &needle));
    TERN_TRY(tern_jinja__charge(&r->pool, self->str.n / 16));
    size_t at = tern_jinja__str_find(self->str, needle, 0);
    *out = tern_jinja__int(at == SIZE_MAX ? -1 : (int64_t)tern_jinja__char_count(self->str.data, at));
    return TERN_OK;
}

static tern_status string_count(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str needle;
    int64_t count = 0;
    TERN_TRY(tern_jinja__string_arg(r, arg[0], "text to count", tern_jinja__words(""), &needle));
    if (needle.n == 0) return tern_jinja__unsupported(r, "count of an empty string");
    TERN_TRY(tern_jinja__charge(&r->pool, self->str.n / 16));
    for (size_t at = 0; (at = tern_jinja__str_find(self->str, needle, at)) != SIZE_MAX; at += needle.n) count++;
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

static tern_status string_isdigit(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    bool digits = self->str.n > 0;
    for (size_t i = 0; i < self->str.n && digits; i++) digits = tern_jinja__is_digit(self->str.data[i]);
    *out = tern_jinja__bool(digits);
    return tern_jinja__charge(&r->pool, self->str.n / 16);
}

static tern_status dict_keys(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    tern_jinja_value *items;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, self->dict->n, out, &items));
    for (size_t i = 0; i < self->dict->n; i++) items[i] = self->dict->entries[i].key;
    return TERN_OK;
}

static tern_status dict_values(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    tern_jinja_value *items;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, self->dict->n, out, &items));
    for (size_t i = 0; i < self->dict->n; i++) items[i] = self->dict->entries[i].value;
    return TERN_OK;
}

static tern_status dict_items(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    tern_jinja_value *items, *pair;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, self->dict->n, out, &items));
    for (size_t i = 0; i < self->dict->n; i++) {
        TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_TUPLE, 2, &items[i], &pair));
        pair[0] = self->dict->entries[i].key;
        pair[1] = self->dict->entries[i].value;
    }
    return TERN_OK;
}

static tern_status dict_get(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    if (!arg[0]) return tern_jinja__bad(r, "get needs a key");
    const tern_jinja_value *found = tern_jinja__dict_find(&r->pool, self->dict, arg[0]);
    *out = found ? *found : arg[1] ? *arg[1] : tern_jinja__none();
    return TERN_OK;
}

typedef struct method_row {
    tern_jinja_kind kind;
    tern_jinja_filter method;
} method_row;

static const method_row methods[] = {
    {TERN_JINJA_STRING, {"capitalize", "", string_capitalize}},
    {TERN_JINJA_STRING, {"count", "sub", string_count}},
    {TERN_JINJA_STRING, {"endswith", "suffix", string_endswith}},
    {TERN_JINJA_STRING, {"find", "sub", string_find}},
    {TERN_JINJA_STRING, {"isdigit", "", string_isdigit}},
    {TERN_JINJA_STRING, {"join", "iterable", string_join}},
    {TERN_JINJA_STRING, {"lower", "", string_lower}},
    {TERN_JINJA_STRING, {"lstrip", "chars", string_lstrip}},
    {TERN_JINJA_STRING, {"removeprefix", "prefix", string_removeprefix}},
    {TERN_JINJA_STRING, {"removesuffix", "suffix", string_removesuffix}},
    {TERN_JINJA_STRING, {"replace", "old new count", string_replace}},
    {TERN_JINJA_STRING, {"rstrip", "chars", string_rstrip}},
    {TERN_JINJA_STRING, {"split", "sep maxsplit", string_split}},
    {TERN_JINJA_STRING, {"startswith", "prefix", string_startswith}},
    {TERN_JINJA_STRING, {"strip", "chars", string_strip}},
    {TERN_JINJA_STRING, {"title", "", string_title}},
    {TERN_JINJA_STRING, {"upper", "", string_upper}},
    {TERN_JINJA_DICT, {"get", "key default", dict_get}},
    {TERN_JINJA_DICT, {"items", "", dict_items}},
    {TERN_JINJA_DICT, {"keys", "", dict_keys}},
    {TERN_JINJA_DICT, {"values", "", dict_values}},
};

/* loop.cycle(a, b, ...) */
static tern_status cycle(tern_jinja_render *r, const tern_jinja_loop *loop, const tern_jinja_args *args,
                         tern_jinja_value *out)
{
    if (args->n_positional == 0) return tern_jinja__bad(r, "loop.cycle needs an argument");
    *out = args->values[loop->index % args->n_positional];
    return TERN_OK;
}

tern_status tern_jinja__call_method(tern_jinja_render *r, operand self, tern_jinja_str name,
                                    const tern_jinja_args *args, tern_jinja_value *out)
{
    if (self->kind == TERN_JINJA_LOOP && tern_jinja__str_is(name, "cycle")) return cycle(r, self->loop, args, out);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].kind == self->kind && tern_jinja__str_is(name, methods[i].method.name))
            return tern_jinja__call_filter(r, &methods[i].method, self, args, out);
    return tern_jinja__unsupported(r, "method \"%.*s\" of %s", (int)(name.n < 60 ? name.n : 60), name.data,
                                   tern_jinja__kind_words(self->kind));
}
