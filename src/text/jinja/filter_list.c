/* The filters of chat templates that work on sequences. */
#include "text/jinja/chars.h"
#include "text/jinja/filters.h"
#include "text/jinja/parse.h"
#include "text/jinja/text.h"

typedef const tern_jinja_value *operand;

/* An empty list with room for as many items as self has. */
static tern_status open_list(tern_jinja_render *r, operand self, const tern_jinja_list **items, tern_jinja_value *out,
                             tern_jinja_list **list)
{
    tern_jinja_value *storage;
    TERN_TRY(tern_jinja__iterate(r, self, items));
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, (*items)->n, out, &storage));
    TERN_TRY(tern_jinja__charge(&r->pool, (*items)->n));
    *list = (tern_jinja_list *)out->list;
    (*list)->n = 0;
    return TERN_OK;
}

tern_status tern_jinja__filter_list(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    const tern_jinja_list *items;
    tern_jinja_list *list;
    TERN_TRY(open_list(r, self, &items, out, &list));
    while (list->n < items->n) list->items[list->n] = items->items[list->n], list->n++;
    return TERN_OK;
}

static tern_status at_end(tern_jinja_render *r, operand self, bool last, tern_jinja_value *out)
{
    const tern_jinja_list *items;
    TERN_TRY(tern_jinja__iterate(r, self, &items));
    *out = tern_jinja__undefined(tern_jinja__words(last ? "last of an empty sequence" : "first of an empty sequence"));
    if (items->n > 0) *out = items->items[last ? items->n - 1 : 0];
    return TERN_OK;
}

tern_status tern_jinja__filter_first(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return at_end(r, self, false, out);
}

tern_status tern_jinja__filter_last(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    return at_end(r, self, true, out);
}

tern_status tern_jinja__filter_items(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    tern_jinja_args none = {0};
    tern_jinja_value *items;
    if (self->kind == TERN_JINJA_UNDEFINED) return tern_jinja__list(&r->pool, TERN_JINJA_LIST, 0, out, &items);
    return tern_jinja__call_method(r, self, tern_jinja__words("items"), &none, out);
}

/* The list of one attribute of each item. */
static tern_status pluck(tern_jinja_render *r, operand self, operand path, operand absent, tern_jinja_value *out)
{
    const tern_jinja_list *items;
    tern_jinja_list *list;
    TERN_TRY(open_list(r, self, &items, out, &list));
    for (; list->n < items->n; list->n++) {
        tern_jinja_value *at = &list->items[list->n];
        TERN_TRY(tern_jinja__path(r, &items->items[list->n], path, at));
        if (absent && at->kind == TERN_JINJA_UNDEFINED) *at = *absent;
    }
    return TERN_OK;
}

tern_status tern_jinja__filter_join(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_value plucked = *self;
    tern_jinja_str separator = {.data = ""};
    const tern_jinja_list *items;
    if (arg[0]) TERN_TRY(tern_jinja__str(r, arg[0], &separator));
    if (arg[1]) TERN_TRY(pluck(r, self, arg[1], NULL, &plucked));
    TERN_TRY(tern_jinja__iterate(r, &plucked, &items));
    return tern_jinja__join(r, items, separator, out);
}

tern_status tern_jinja__filter_reverse(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    (void)arg;
    tern_jinja_value minus_one = tern_jinja__int(-1);
    const operand bounds[3] = {NULL, NULL, &minus_one};
    const tern_jinja_list *items;
    if (self->kind == TERN_JINJA_STRING) return tern_jinja__slice_value(r, self, bounds, out);
    TERN_TRY(tern_jinja__iterate(r, self, &items));
    tern_jinja_value list = {.kind = TERN_JINJA_LIST, .list = items};
    return tern_jinja__slice_value(r, &list, bounds, out);
}

/* map("filter", a, b) or map(attribute="x"). */
tern_status tern_jinja__filter_map(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    if (arg[3]) return pluck(r, self, arg[3], arg[4], out);
    tern_jinja_str name;
    TERN_TRY(tern_jinja__string_arg(r, arg[0], "filter of map", tern_jinja__words(""), &name));
    const tern_jinja_filter *filter = tern_jinja__find_filter(name);
    if (!filter) return tern_jinja__unsupported(r, "filter \"%.*s\"", (int)(name.n < 60 ? name.n : 60), name.data);
    tern_jinja_value values[2] = {arg[1] ? *arg[1] : tern_jinja__none(), arg[2] ? *arg[2] : tern_jinja__none()};
    tern_jinja_args args = {.values = values, .n_positional = arg[2] ? 2 : arg[1] ? 1 : 0};
    const tern_jinja_list *items;
    tern_jinja_list *list;
    TERN_TRY(tern_jinja__enter_render(r));
    TERN_TRY(open_list(r, self, &items, out, &list));
    for (; list->n < items->n; list->n++)
        TERN_TRY(tern_jinja__call_filter(r, filter, &items->items[list->n], &args, &list->items[list->n]));
    r->depth--;
    return TERN_OK;
}

/* Which items a select or reject keeps: those whose attribute passes the test, or is true without one. */
typedef struct selection {
    operand attribute, test, argument;
    bool keep;
} selection;

static tern_status passes(tern_jinja_render *r, const selection *s, operand item, bool *out)
{
    tern_jinja_value value = *item;
    tern_jinja_str name;
    if (s->attribute) TERN_TRY(tern_jinja__path(r, item, s->attribute, &value));
    if (!s->test) return *out = tern_jinja__truth(&value), TERN_OK;
    TERN_TRY(tern_jinja__string_arg(r, s->test, "test", tern_jinja__words(""), &name));
    const tern_jinja_test *test = tern_jinja__find_test(name);
    if (!test) return tern_jinja__unsupported(r, "test \"%.*s\"", (int)(name.n < 60 ? name.n : 60), name.data);
    tern_jinja_value argument = s->argument ? *s->argument : tern_jinja__none();
    tern_jinja_args args = {.values = &argument, .n_positional = s->argument ? 1 : 0};
    return tern_jinja__call_test(r, test, &value, &args, out);
}

static tern_status select_items(tern_jinja_render *r, operand self, selection s, tern_jinja_value *out)
{
    const tern_jinja_list *items;
    tern_jinja_list *list;
    TERN_TRY(open_list(r, self, &items, out, &list));
    for (size_t i = 0; i < items->n; i++) {
        bool pass = false;
        TERN_TRY(passes(r, &s, &items->items[i], &pass));
        if (pass == s.keep) list->items[list->n++] = items->items[i];
    }
    return TERN_OK;
}

tern_status tern_jinja__filter_select(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return select_items(r, self, (selection){.test = arg[0], .argument = arg[1], .keep = true}, out);
}

tern_status tern_jinja__filter_reject(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return select_items(r, self, (selection){.test = arg[0], .argument = arg[1], .keep = false}, out);
}

static tern_status select_attribute(tern_jinja_render *r, operand self, const operand *arg, bool keep,
                                    tern_jinja_value *out)
{
    if (!arg[0]) return tern_jinja__bad(r, "selectattr and rejectattr need the name of an attribute");
    return select_items(r, self, (selection){arg[0], arg[1], arg[2], keep}, out);
}

tern_status tern_jinja__filter_selectattr(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return select_attribute(r, self, arg, true, out);
}

tern_status tern_jinja__filter_rejectattr(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return select_attribute(r, self, arg, false, out);
}

/* What an item is sorted or told apart by: its attribute, in lower case unless case matters. */
static tern_status sort_key(tern_jinja_render *r, operand item, operand attribute, bool case_sensitive,
                            tern_jinja_value *key)
{
    *key = *item;
    if (attribute) TERN_TRY(tern_jinja__path(r, item, attribute, key));
    if (case_sensitive || key->kind != TERN_JINJA_STRING) return TERN_OK;
    return tern_jinja__change_case(r, key->str, TERN_JINJA_LOWER, key);
}

static tern_status sort_keys(tern_jinja_render *r, const tern_jinja_list *items, operand attribute, bool case_sensitive,
                             tern_jinja_value **keys)
{
    tern_jinja_value list;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, items->n, &list, keys));
    for (size_t i = 0; i < items->n; i++)
        TERN_TRY(sort_key(r, &items->items[i], attribute, case_sensitive, &(*keys)[i]));
    return TERN_OK;
}

/* Moves the last of n items down to its place; equal ones stay in order. */
static tern_status insert_last(tern_jinja_render *r, tern_jinja_value *items, tern_jinja_value *keys, size_t n,
                               bool reverse)
{
    tern_jinja_value item = items[n - 1], key = keys[n - 1];
    size_t at = n - 1;
    for (bool before = true; at > 0; at--) {
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(tern_jinja__compare(r, reverse ? '>' : '<', &key, &keys[at - 1], &before));
        if (!before) break;
        items[at] = items[at - 1];
        keys[at] = keys[at - 1];
    }
    items[at] = item;
    keys[at] = key;
    return TERN_OK;
}

tern_status tern_jinja__filter_sort(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    bool reverse = arg[0] && tern_jinja__truth(arg[0]), case_sensitive = arg[1] && tern_jinja__truth(arg[1]);
    tern_jinja_value *keys;
    TERN_TRY(tern_jinja__filter_list(r, self, NULL, out));
    TERN_TRY(sort_keys(r, out->list, arg[2], case_sensitive, &keys));
    for (size_t n = 2; n <= out->list->n; n++) TERN_TRY(insert_last(r, out->list->items, keys, n, reverse));
    return TERN_OK;
}

static bool seen_before(tern_jinja_render *r, const tern_jinja_value *keys, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (tern_jinja__equal(&r->pool, &keys[j], &keys[i])) return true;
    return false;
}

tern_status tern_jinja__filter_unique(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    const tern_jinja_list *items;
    tern_jinja_list *list;
    tern_jinja_value *keys;
    TERN_TRY(open_list(r, self, &items, out, &list));
    TERN_TRY(sort_keys(r, items, arg[1], arg[0] && tern_jinja__truth(arg[0]), &keys));
    for (size_t i = 0; i < items->n; i++) {
        if (!seen_before(r, keys, i)) list->items[list->n++] = items->items[i];
        TERN_TRY(tern_jinja__charge(&r->pool, 0));
    }
    return TERN_OK;
}
