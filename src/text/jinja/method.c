/* The methods of lists, tuples, dicts, cyclers and the loop variable in chat templates, and how all methods are found.
 */
#include "text/jinja/methods.h"
#include "text/jinja/text.h"

typedef const tern_jinja_value *operand;

static tern_status dict_view(tern_jinja_render *r, operand self, const char *name, tern_jinja_value *out,
                             tern_jinja_value **items)
{
    TERN_TRY(tern_jinja__charge(&r->pool, self->dict->n));
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_VIEW, self->dict->n, out, items));
    ((tern_jinja_list *)(uintptr_t)out->list)->name = name;
    return TERN_OK;
}

static tern_status dict_keys(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    tern_jinja_value *items;
    TERN_TRY(dict_view(r, self, "dict_keys", out, &items));
    for (size_t i = 0; i < self->dict->n; i++) items[i] = self->dict->entries[i].key;
    return TERN_OK;
}

static tern_status dict_values(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    tern_jinja_value *items;
    TERN_TRY(dict_view(r, self, "dict_values", out, &items));
    for (size_t i = 0; i < self->dict->n; i++) items[i] = self->dict->entries[i].value;
    return TERN_OK;
}

static tern_status dict_items(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    tern_jinja_value *items, *pair;
    TERN_TRY(dict_view(r, self, "dict_items", out, &items));
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

/* No value is ever changed, so that a copy is the value itself. */
static tern_status same_value(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)r;
    (void)arg;
    *out = *self;
    return TERN_OK;
}

static tern_status list_count(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    int64_t n = 0;
    if (!arg[0]) return tern_jinja__bad(r, "count needs an argument");
    for (size_t i = 0; i < self->list->n; i++) n += tern_jinja__equal(&r->pool, &self->list->items[i], arg[0]);
    *out = tern_jinja__int(n);
    return tern_jinja__charge(&r->pool, 0);
}

static tern_status list_index(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    int64_t from, to, n = (int64_t)self->list->n;
    if (!arg[0]) return tern_jinja__bad(r, "index needs an argument");
    TERN_TRY(tern_jinja__int_arg(r, arg[1], "start", 0, &from));
    TERN_TRY(tern_jinja__int_arg(r, arg[2], "end", n, &to));
    from = from < -n ? 0 : from < 0 ? from + n : from;
    to = to < -n ? 0 : to < 0 ? to + n : to > n ? n : to;
    for (int64_t i = from; i < to; i++)
        if (tern_jinja__equal(&r->pool, &self->list->items[i], arg[0])) return *out = tern_jinja__int(i), TERN_OK;
    TERN_TRY(tern_jinja__charge(&r->pool, 0));
    return tern_jinja__bad(r, "index: the value is not in the %s", tern_jinja__kind_words(self->kind));
}

/* loop.cycle(a, b, ...) */
static tern_status loop_cycle(tern_jinja_render *r, operand self, const tern_jinja_args *args, tern_jinja_value *out)
{
    if (args->n_positional == 0) return tern_jinja__bad(r, "loop.cycle needs an argument");
    *out = args->values[self->loop->index % args->n_positional];
    return TERN_OK;
}

/* loop.changed(a, b, ...): whether these are other values than at the last call. */
static tern_status loop_changed(tern_jinja_render *r, operand self, const tern_jinja_args *args, tern_jinja_value *out)
{
    tern_jinja_value *seen = tern_jinja__alloc(&r->pool, 1, sizeof *seen);
    const tern_jinja_value *before = self->loop->changed;
    if (!seen) return tern_jinja__status(&r->pool);
    TERN_TRY(tern_jinja__rest_of(r, args, 0, seen));
    *out = tern_jinja__bool(!before || !tern_jinja__equal(&r->pool, before, seen));
    self->loop->changed = seen;
    return tern_jinja__charge(&r->pool, args->n_positional);
}

static tern_status cycler_next(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)r;
    (void)arg;
    tern_jinja_cycle *cycle = self->cycle;
    *out = cycle->items->items[cycle->at];
    cycle->at = (cycle->at + 1) % cycle->items->n;
    return TERN_OK;
}

static tern_status cycler_reset(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)r;
    (void)arg;
    self->cycle->at = 0;
    *out = tern_jinja__none();
    return TERN_OK;
}

static const tern_jinja_filter dict_methods[] = {
    {.name = "copy", .params = "", .apply = same_value},
    {.name = "fromkeys"},
    {.name = "get", .params = "key default", .apply = dict_get},
    {.name = "items", .params = "", .apply = dict_items},
    {.name = "keys", .params = "", .apply = dict_keys},
    {.name = "values", .params = "", .apply = dict_values},
    {0},
};
static const tern_jinja_filter list_methods[] = {
    {.name = "copy", .params = "", .apply = same_value},
    {.name = "count", .params = "value", .apply = list_count},
    {.name = "index", .params = "value start end", .apply = list_index},
    {0},
};
static const tern_jinja_filter cycler_methods[] = {
    {.name = "next", .params = "", .apply = cycler_next},
    {.name = "reset", .params = "", .apply = cycler_reset},
    {0},
};
static const tern_jinja_filter loop_methods[] = {
    {.name = "changed", .apply_open = loop_changed},
    {.name = "cycle", .apply_open = loop_cycle},
    {0},
};

/* The methods of a kind, and those that would change a value, which Jinja's sandbox keeps away. */
static const tern_jinja_filter *methods_of(tern_jinja_kind kind, const char *const **unsafe)
{
    static const char *const none[] = {NULL};
    static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    static const char *const of_lists[] = {"append", "clear",   "extend", "insert", "pop",
                                           "remove", "reverse", "sort",   NULL};
    static const tern_jinja_filter nothing;
    *unsafe = kind == TERN_JINJA_DICT ? of_dicts : kind == TERN_JINJA_LIST ? of_lists : none;
    switch (kind) {
    case TERN_JINJA_STRING: return tern_jinja__string_methods;
    case TERN_JINJA_DICT: return dict_methods;
    case TERN_JINJA_LIST: return list_methods;
    case TERN_JINJA_TUPLE:
    case TERN_JINJA_RANGE: return list_methods + 1;
    case TERN_JINJA_CYCLER: return cycler_methods;
    case TERN_JINJA_LOOP: return loop_methods;
    default: return &nothing;
    }
}

const tern_jinja_filter *tern_jinja__find_method(operand self, tern_jinja_str name, bool *unsafe)
{
    const char *const *kept;
    const tern_jinja_filter *row = methods_of(self->kind, &kept);
    *unsafe = false;
    for (; *kept; kept++) *unsafe |= tern_jinja__str_is(name, *kept);
    for (; row->name; row++)
        if (tern_jinja__str_is(name, row->name)) return row;
    return NULL;
}
