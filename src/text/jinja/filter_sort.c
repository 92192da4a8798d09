/* The filters of chat templates that order, group and add up items. */
#include "text/jinja/filters.h"
#include "text/jinja/text.h"

typedef const tern_jinja_value *operand;

/* The key that an item is sorted or compared by: its attribute, in lower case unless case matters. */
static tern_status one_key(tern_jinja_render *r, operand item, operand attribute, bool case_sensitive,
                           tern_jinja_value *key)
{
    *key = *item;
    if (attribute) TERN_TRY(tern_jinja__path(r, item, attribute, NULL, key));
    if (case_sensitive || key->kind != TERN_JINJA_STRING) return TERN_OK;
    return tern_jinja__change_case(r, key->str, TERN_JINJA_LOWER, key);
}

static tern_status one_keys(tern_jinja_render *r, const tern_jinja_list *items, operand attribute, bool case_sensitive,
                            tern_jinja_value **keys)
{
    tern_jinja_value list;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, items->n, &list, keys));
    for (size_t i = 0; i < items->n; i++)
        TERN_TRY(one_key(r, &items->items[i], attribute, case_sensitive, &(*keys)[i]));
    return TERN_OK;
}

/* A list for each item, of the keys of "a,b": those that are equal have no order, which undefined ones lack. */
static tern_status key_lists(tern_jinja_render *r, const tern_jinja_list *items, operand attribute, bool case_sensitive,
                             tern_jinja_value **keys)
{
    tern_jinja_value list, names, *parts, *name;
    const bool text = attribute && attribute->kind == TERN_JINJA_STRING;
    if (text) TERN_TRY(tern_jinja__split(r, attribute->str, tern_jinja__words(","), -1, &names));
    else TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, 1, &names, &name));
    if (attribute && !text) *name = *attribute;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, items->n, &list, keys));
    for (size_t i = 0; i < items->n; i++) {
        TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, names.list->n, &(*keys)[i], &parts));
        for (size_t k = 0; k < names.list->n; k++)
            TERN_TRY(one_key(r, &items->items[i], attribute ? &names.list->items[k] : NULL, case_sensitive, &parts[k]));
    }
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

static bool is_set(operand arg)
{
    return arg && tern_jinja__truth(arg);
}

/* NULL for an argument that is none. */
static operand given(operand arg)
{
    return arg && arg->kind != TERN_JINJA_NONE ? arg : NULL;
}

/* A sorted copy, and its keys. */
static tern_status sorted(tern_jinja_render *r, operand self, operand attribute, bool case_sensitive, bool reverse,
                          tern_jinja_value *out, tern_jinja_value **keys)
{
    TERN_TRY(tern_jinja__filter_list(r, self, NULL, out));
    TERN_TRY(key_lists(r, out->list, given(attribute), case_sensitive, keys));
    for (size_t n = 2; n <= out->list->n; n++) TERN_TRY(insert_last(r, out->list->items, *keys, n, reverse));
    return TERN_OK;
}

tern_status tern_jinja__filter_sort(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_value *keys;
    return sorted(r, self, arg[2], is_set(arg[1]), is_set(arg[0]), out, &keys);
}

/* dictsort(case_sensitive, by="key" or "value", reverse) */
tern_status tern_jinja__filter_dictsort(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_str by;
    tern_jinja_value items, *keys;
    if (self->kind != TERN_JINJA_DICT)
        return tern_jinja__bad(r, "dictsort of %s, expected a dict", tern_jinja__kind_words(self->kind));
    TERN_TRY(tern_jinja__string_arg(r, arg[1], "by", tern_jinja__words("key"), &by));
    const bool value = tern_jinja__str_is(by, "value");
    if (!value && !tern_jinja__str_is(by, "key"))
        return tern_jinja__bad(r, "dictsort by \"%.*s\", expected \"key\" or \"value\"", (int)(by.n < 60 ? by.n : 60),
                               by.data);
    TERN_TRY(tern_jinja__filter_items(r, self, NULL, &items));
    const tern_jinja_value at = tern_jinja__int(value);
    return sorted(r, &items, &at, is_set(arg[0]), is_set(arg[2]), out, &keys);
}

static tern_status group_of(tern_jinja_render *r, operand key, const tern_jinja_value *items, size_t n,
                            tern_jinja_value *out)
{
    tern_jinja_value *pair, *members;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_TUPLE, 2, out, &pair));
    ((tern_jinja_list *)(uintptr_t)out->list)->name = "grouper list";
    pair[0] = *key;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, n, &pair[1], &members));
    for (size_t i = 0; i < n; i++) members[i] = items[i];
    return tern_jinja__charge(&r->pool, n);
}

/* groupby(attribute, default, case_sensitive): pairs of a key and the items that have it. */
tern_status tern_jinja__filter_groupby(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_value list, plucked, *keys, *groups;
    const bool exact = is_set(arg[2]);
    if (!arg[0]) return tern_jinja__bad(r, "groupby needs an attribute");
    TERN_TRY(tern_jinja__filter_list(r, self, NULL, &list));
    TERN_TRY(tern_jinja__pluck(r, &list, arg[0], given(arg[1]), &plucked));
    TERN_TRY(one_keys(r, plucked.list, NULL, exact, &keys));
    for (size_t n = 2; n <= list.list->n; n++) TERN_TRY(insert_last(r, list.list->items, keys, n, false));
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, list.list->n, out, &groups));
    tern_jinja_list *made = (tern_jinja_list *)(uintptr_t)out->list;
    made->n = 0;
    for (size_t from = 0, to; from < list.list->n; from = to) {
        tern_jinja_value key = keys[from];
        for (to = from + 1; to < list.list->n && tern_jinja__equal(&r->pool, &keys[to], &key); to++) continue;
        if (!exact) TERN_TRY(tern_jinja__path(r, &list.list->items[from], arg[0], given(arg[1]), &key));
        TERN_TRY(group_of(r, &key, &list.list->items[from], to - from, &groups[made->n++]));
    }
    return TERN_OK;
}

/* min and max(case_sensitive, attribute) */
static tern_status extreme(tern_jinja_render *r, operand self, const operand *arg, int op, tern_jinja_value *out)
{
    const tern_jinja_list *items;
    tern_jinja_value *keys;
    size_t best = 0;
    TERN_TRY(tern_jinja__iterate(r, self, &items));
    *out = tern_jinja__undefined(tern_jinja__words("least or greatest of an empty sequence"));
    if (items->n == 0) return TERN_OK;
    TERN_TRY(one_keys(r, items, given(arg[1]), is_set(arg[0]), &keys));
    for (size_t i = 1; i < items->n; i++) {
        bool better = false;
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(tern_jinja__compare(r, op, &keys[i], &keys[best], &better));
        if (better) best = i;
    }
    *out = items->items[best];
    return TERN_OK;
}

tern_status tern_jinja__filter_min(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return extreme(r, self, arg, '<', out);
}

tern_status tern_jinja__filter_max(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    return extreme(r, self, arg, '>', out);
}

/* sum(attribute, start=0) */
tern_status tern_jinja__filter_sum(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_value plucked = *self, sum = arg[1] ? *arg[1] : tern_jinja__int(0);
    const tern_jinja_list *items;
    if (sum.kind == TERN_JINJA_STRING) return tern_jinja__bad(r, "sum of strings, expected numbers or lists");
    if (given(arg[0])) TERN_TRY(tern_jinja__pluck(r, self, arg[0], NULL, &plucked));
    TERN_TRY(tern_jinja__iterate(r, &plucked, &items));
    for (size_t i = 0; i < items->n; i++) {
        const tern_jinja_value before = sum;
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(tern_jinja__binary(r, '+', &before, &items->items[i], &sum));
    }
    *out = sum;
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
    TERN_TRY(tern_jinja__open_list(r, self, &items, out, &list));
    TERN_TRY(one_keys(r, items, given(arg[1]), is_set(arg[0]), &keys));
    for (size_t i = 0; i < items->n; i++) {
        if (!tern_jinja__is_hashable(&keys[i]))
            return tern_jinja__bad(r, "unique of %s", tern_jinja__kind_words(keys[i].kind));
        if (!seen_before(r, keys, i)) list->items[list->n++] = items->items[i];
        TERN_TRY(tern_jinja__charge(&r->pool, 0));
    }
    return tern_jinja__to_generator(r, out);
}
