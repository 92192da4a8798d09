/* The filters of chat templates that work on sequences. */
#include "text/jinja/chars.h"
#include "text/jinja/filters.h"
#include "text/jinja/parse.h"
#include "text/jinja/text.h"

typedef const tern_jinja_value *operand;

tern_status tern_jinja__open_list(tern_jinja_render *r, operand self, const tern_jinja_list **items,
                                  tern_jinja_value *out, tern_jinja_list **list)
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
    TERN_TRY(tern_jinja__open_list(r, self, &items, out, &list));
    while (list->n < items->n) list->items[list->n] = items->items[list->n], list->n++;
    return TERN_OK;
}

tern_status tern_jinja__to_generator(tern_jinja_render *r, tern_jinja_value *list)
{
    tern_jinja_cycle *items = tern_jinja__alloc(&r->pool, 1, sizeof *items);
    if (!items) return tern_jinja__status(&r->pool);
    items->items = list->list;
    *list = (tern_jinja_value){.kind = TERN_JINJA_GENERATOR, .cycle = items};
    return TERN_OK;
}

/* The first item of a generator, which then has it no longer; *taken: there was one. */
static bool take_first(operand self, tern_jinja_value *out)
{
    tern_jinja_cycle *items = self->kind == TERN_JINJA_GENERATOR ? self->cycle : NULL;
    if (!items || items->at == items->items->n) return false;
    *out = items->items->items[items->at++];
    return true;
}

static tern_status at_end(tern_jinja_render *r, operand self, bool last, tern_jinja_value *out)
{
    const tern_jinja_list *items;
    if (last && self->kind == TERN_JINJA_GENERATOR) return tern_jinja__bad(r, "a generator has no last item");
    if (take_first(self, out)) return TERN_OK;
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
    bool unsafe;
    if (self->kind == TERN_JINJA_DICT) {
        const tern_jinja_filter *row = tern_jinja__find_method(self, tern_jinja__words("items"), &unsafe);
        TERN_TRY(tern_jinja__call_filter(r, row, self, &none, out));
        return tern_jinja__to_generator(r, out);
    }
    if (self->kind != TERN_JINJA_UNDEFINED)
        return tern_jinja__bad(r, "items of %s, expected a dict", tern_jinja__kind_words(self->kind));
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, 0, out, &items));
    return tern_jinja__to_generator(r, out);
}

tern_status tern_jinja__pluck(tern_jinja_render *r, operand self, operand path, operand absent, tern_jinja_value *out)
{
    const tern_jinja_list *items;
    tern_jinja_list *list;
    TERN_TRY(tern_jinja__open_list(r, self, &items, out, &list));
    for (; list->n < items->n; list->n++)
        TERN_TRY(tern_jinja__path(r, &items->items[list->n], path, absent, &list->items[list->n]));
    return TERN_OK;
}

tern_status tern_jinja__filter_join(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    tern_jinja_value plucked = *self;
    tern_jinja_str separator = {.data = ""};
    const tern_jinja_list *items;
    if (arg[0]) TERN_TRY(tern_jinja__str(r, arg[0], &separator));
    if (arg[1]) TERN_TRY(tern_jinja__pluck(r, self, arg[1], NULL, &plucked));
    TERN_TRY(tern_jinja__iterate(r, &plucked, &items));
    separator.markup = false;
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
    TERN_TRY(tern_jinja__slice_value(r, &list, bounds, out));
    return self->kind == TERN_JINJA_GENERATOR ? TERN_OK : tern_jinja__to_generator(r, out);
}

static tern_status count_of(tern_jinja_render *r, operand arg, const char *what, int64_t *n)
{
    if (!arg) return tern_jinja__bad(r, "%s needs a number", what);
    TERN_TRY(tern_jinja__int_arg(r, arg, what, 0, n));
    if (*n < 1 || *n > 100000)
        return tern_jinja__unsupported(r, "%s of %lld, expected 1 to 100000", what, (long long)*n);
    return TERN_OK;
}

/* items[from, to) and `fills` times the value that fills. */
static tern_status part_of(tern_jinja_render *r, const tern_jinja_list *items, size_t from, size_t to, operand fill,
                           size_t fills, tern_jinja_value *out)
{
    tern_jinja_value *part;
    TERN_TRY(tern_jinja__charge(&r->pool, 1 + to - from + fills));
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, to - from + fills, out, &part));
    for (size_t i = from; i < to; i++) *part++ = items->items[i];
    for (; fills; fills--) *part++ = *fill;
    return TERN_OK;
}

static bool fills(operand fill)
{
    return fill && fill->kind != TERN_JINJA_NONE;
}

/* batch(n, fill): lists of n items. */
tern_status tern_jinja__filter_batch(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    int64_t n;
    const tern_jinja_list *items;
    tern_jinja_value *parts;
    TERN_TRY(count_of(r, arg[0], "batch", &n));
    TERN_TRY(tern_jinja__iterate(r, self, &items));
    const size_t size = (size_t)n, count = (items->n + size - 1) / size;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, count, out, &parts));
    for (size_t i = 0; i < count; i++) {
        const size_t from = i * size, to = items->n - from < size ? items->n : from + size;
        TERN_TRY(part_of(r, items, from, to, arg[1], fills(arg[1]) ? size - (to - from) : 0, &parts[i]));
    }
    return tern_jinja__to_generator(r, out);
}

/* slice(n, fill): n lists whose lengths differ by one at most. */
tern_status tern_jinja__filter_slice(tern_jinja_render *r, operand self, const operand *arg, tern_jinja_value *out)
{
    int64_t n;
    const tern_jinja_list *items;
    tern_jinja_value *parts;
    TERN_TRY(count_of(r, arg[0], "slice", &n));
    TERN_TRY(tern_jinja__iterate(r, self, &items));
    const size_t count = (size_t)n, size = items->n / count, longer = items->n % count;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, count, out, &parts));
    for (size_t i = 0, from = 0; i < count; i++) {
        const size_t to = from + size + (i < longer);
        TERN_TRY(part_of(r, items, from, to, arg[1], fills(arg[1]) && i >= longer, &parts[i]));
        from = to;
    }
    return tern_jinja__to_generator(r, out);
}
