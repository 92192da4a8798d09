/* The filters of chat templates that apply other filters and tests to each item: map, select and their relatives. */
#include "text/jinja/filters.h"
#include "text/jinja/parse.h"
#include "text/jinja/text.h"

typedef const tern_jinja_value *operand;

/* An empty generator, as none, false, 0 and other empty values give. */
static tern_status nothing(tern_jinja_render *r, tern_jinja_value *out)
{
    tern_jinja_value *items;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, 0, out, &items));
    return tern_jinja__to_generator(r, out);
}

/* The arguments behind the first `n` positional ones. */
static tern_jinja_args behind(const tern_jinja_args *args, size_t n)
{
    return (tern_jinja_args){.values = args->values + n,
                             .names = args->names,
                             .n_positional = args->n_positional - n,
                             .n_named = args->n_named};
}

/* map(attribute="x", default=y) */
static tern_status map_attribute(tern_jinja_render *r, operand self, const tern_jinja_args *args, tern_jinja_value *out)
{
    const tern_jinja_value *slots[TERN_JINJA_MAX_ARGS];
    TERN_TRY(tern_jinja__bind(r, "map", "attribute default", args, slots));
    if (!slots[0]) return tern_jinja__bad(r, "map needs a filter or an attribute");
    const bool absent = slots[1] && slots[1]->kind != TERN_JINJA_NONE;
    TERN_TRY(tern_jinja__pluck(r, self, slots[0], absent ? slots[1] : NULL, out));
    return tern_jinja__to_generator(r, out);
}

/* map("filter", arguments of the filter) */
static tern_status map_filter(tern_jinja_render *r, operand self, const tern_jinja_args *args, tern_jinja_value *out)
{
    tern_jinja_str name;
    const tern_jinja_list *items;
    tern_jinja_list *list;
    TERN_TRY(tern_jinja__string_arg(r, &args->values[0], "filter of map", tern_jinja__words(""), &name));
    const tern_jinja_filter *filter = tern_jinja__find_filter(name);
    if (!filter) return tern_jinja__unknown(&r->pool, "filter", name);
    const tern_jinja_args rest = behind(args, 1);
    TERN_TRY(tern_jinja__open_list(r, self, &items, out, &list));
    TERN_TRY(tern_jinja__enter_render(r));
    for (; list->n < items->n; list->n++)
        TERN_TRY(tern_jinja__call_filter(r, filter, &items->items[list->n], &rest, &list->items[list->n]));
    r->depth--;
    return tern_jinja__to_generator(r, out);
}

tern_status tern_jinja__filter_map(tern_jinja_render *r, operand self, const tern_jinja_args *args,
                                   tern_jinja_value *out)
{
    if (!tern_jinja__truth(self)) return nothing(r, out);
    return args->n_positional ? map_filter(r, self, args, out) : map_attribute(r, self, args, out);
}

/* Which items a select or reject keeps: those that pass the test, or are true without one. */
typedef struct selection {
    operand attribute; /* or NULL */
    const tern_jinja_test *test;
    tern_jinja_args args;
    bool keep;
} selection;

static tern_status passes(tern_jinja_render *r, const selection *s, operand item, bool *out)
{
    tern_jinja_value value = *item;
    if (s->attribute) TERN_TRY(tern_jinja__path(r, item, s->attribute, NULL, &value));
    if (!s->test) return *out = tern_jinja__truth(&value), TERN_OK;
    return tern_jinja__call_test(r, s->test, &value, &s->args, out);
}

static tern_status select_items(tern_jinja_render *r, operand self, const selection *s, tern_jinja_value *out)
{
    const tern_jinja_list *items;
    tern_jinja_list *list;
    TERN_TRY(tern_jinja__open_list(r, self, &items, out, &list));
    for (size_t i = 0; i < items->n; i++) {
        bool pass = false;
        TERN_TRY(passes(r, s, &items->items[i], &pass));
        if (pass == s->keep) list->items[list->n++] = items->items[i];
    }
    return tern_jinja__to_generator(r, out);
}

/* Positional arguments: the attribute if the filter has one, the test's name, the test's arguments. */
static tern_status choose(tern_jinja_render *r, operand self, const tern_jinja_args *args, bool attribute, bool keep,
                          tern_jinja_value *out)
{
    selection s = {.keep = keep};
    tern_jinja_str name;
    const size_t at = attribute;
    if (!tern_jinja__truth(self)) return nothing(r, out);
    if (attribute && args->n_positional == 0)
        return tern_jinja__bad(r, "selectattr and rejectattr need the name of an attribute");
    if (attribute) s.attribute = &args->values[0];
    if (args->n_positional > at) {
        TERN_TRY(tern_jinja__string_arg(r, &args->values[at], "test", tern_jinja__words(""), &name));
        s.test = tern_jinja__find_test(name);
        if (!s.test) return tern_jinja__unknown(&r->pool, "test", name);
        s.args = behind(args, at + 1);
    }
    return select_items(r, self, &s, out);
}

tern_status tern_jinja__filter_select(tern_jinja_render *r, operand self, const tern_jinja_args *args,
                                      tern_jinja_value *out)
{
    return choose(r, self, args, false, true, out);
}

tern_status tern_jinja__filter_reject(tern_jinja_render *r, operand self, const tern_jinja_args *args,
                                      tern_jinja_value *out)
{
    return choose(r, self, args, false, false, out);
}

tern_status tern_jinja__filter_selectattr(tern_jinja_render *r, operand self, const tern_jinja_args *args,
                                          tern_jinja_value *out)
{
    return choose(r, self, args, true, true, out);
}

tern_status tern_jinja__filter_rejectattr(tern_jinja_render *r, operand self, const tern_jinja_args *args,
                                          tern_jinja_value *out)
{
    return choose(r, self, args, true, false, out);
}
