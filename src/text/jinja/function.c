/* The functions that chat templates may call. */
#include <stdio.h>

#include "text/jinja/text.h"

enum { MAX_RANGE = 100000 };

static tern_status bind(tern_jinja_render *r, const char *what, const char *params, const tern_jinja_args *args,
                        const tern_jinja_value *slots[TERN_JINJA_MAX_ARGS])
{
    TERN_TRY(tern_jinja__bind(r, what, params, args, slots));
    return slots[0] ? TERN_OK : tern_jinja__bad(r, "%s needs an argument", what);
}

static tern_status raise_exception(tern_jinja_render *r, const tern_jinja_args *args, tern_jinja_value *out)
{
    const tern_jinja_value *slots[TERN_JINJA_MAX_ARGS];
    tern_jinja_str message;
    (void)out;
    TERN_TRY(bind(r, "raise_exception", "message", args, slots));
    TERN_TRY(tern_jinja__str(r, slots[0], &message));
    return tern_jinja__bad(r, "%.*s", (int)(message.n < 400 ? message.n : 400), message.data);
}

/* How many numbers start, start + step, ... lie before end. */
static uint64_t range_count(int64_t start, int64_t end, int64_t step)
{
    if (step > 0 ? start >= end : start <= end) return 0;
    uint64_t distance = step > 0 ? (uint64_t)end - (uint64_t)start : (uint64_t)start - (uint64_t)end;
    uint64_t width = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    return (distance - 1) / width + 1;
}

/* "range(0, 3)", as Python prints it. */
static tern_status name_range(tern_jinja_render *r, int64_t start, int64_t end, int64_t step, tern_jinja_value *range)
{
    enum { SIZE = 80 };
    char *name = tern_jinja__alloc(&r->pool, SIZE, 1);
    if (!name) return tern_jinja__status(&r->pool);
    int n = snprintf(name, SIZE, "range(%lld, %lld", (long long)start, (long long)end);
    if (step != 1) n += snprintf(name + n, (size_t)(SIZE - n), ", %lld", (long long)step);
    snprintf(name + n, (size_t)(SIZE - n), ")");
    ((tern_jinja_list *)(uintptr_t)range->list)->name = name;
    return TERN_OK;
}

static tern_status range(tern_jinja_render *r, const tern_jinja_args *args, tern_jinja_value *out)
{
    const tern_jinja_value *slots[TERN_JINJA_MAX_ARGS];
    int64_t start, end, step;
    tern_jinja_value *items;
    TERN_TRY(bind(r, "range", "start stop step", args, slots));
    TERN_TRY(tern_jinja__int_arg(r, slots[1] ? slots[0] : NULL, "start of range", 0, &start));
    TERN_TRY(tern_jinja__int_arg(r, slots[1] ? slots[1] : slots[0], "end of range", 0, &end));
    TERN_TRY(tern_jinja__int_arg(r, slots[2], "step of range", 1, &step));
    if (step == 0) return tern_jinja__bad(r, "step of range is zero");
    uint64_t n = range_count(start, end, step);
    if (n > MAX_RANGE)
        return tern_jinja__fail(&r->pool, TERN_LIMIT, "range of %llu numbers, at most %d", (unsigned long long)n,
                                (int)MAX_RANGE);
    TERN_TRY(tern_jinja__charge(&r->pool, n));
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_RANGE, (size_t)n, out, &items));
    for (uint64_t i = 0; i < n; i++) items[i] = tern_jinja__int((int64_t)((uint64_t)start + i * (uint64_t)step));
    return name_range(r, start, end, step, out);
}

/* The entries of a dict, or of a list of pairs. */
static tern_status add_entries(tern_jinja_render *r, const tern_jinja_value *from, tern_jinja_dict *to)
{
    const tern_jinja_list *items, *pair;
    if (from->kind == TERN_JINJA_DICT) {
        for (size_t i = 0; i < from->dict->n; i++)
            TERN_TRY(tern_jinja__dict_set(&r->pool, to, &from->dict->entries[i].key, &from->dict->entries[i].value));
        return TERN_OK;
    }
    TERN_TRY(tern_jinja__iterate(r, from, &items));
    for (size_t i = 0; i < items->n; i++) {
        TERN_TRY(tern_jinja__iterate(r, &items->items[i], &pair));
        if (pair->n != 2) return tern_jinja__bad(r, "dict of items of %zu values, expected pairs", pair->n);
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(tern_jinja__dict_set(&r->pool, to, &pair->items[0], &pair->items[1]));
    }
    return TERN_OK;
}

/* dict(other, a=1) and namespace(other, a=1). */
static tern_status build(tern_jinja_render *r, tern_jinja_kind kind, const tern_jinja_args *args, tern_jinja_value *out)
{
    TERN_TRY(tern_jinja__dict(&r->pool, kind, out));
    if (args->n_positional > 1)
        return tern_jinja__bad(r, "dict and namespace take at most 1 argument without a name, not %zu",
                               args->n_positional);
    if (args->n_positional) TERN_TRY(add_entries(r, &args->values[0], out->dict));
    for (size_t i = 0; i < args->n_named; i++) {
        tern_jinja_value key = tern_jinja__string(args->names[i]);
        TERN_TRY(tern_jinja__dict_set(&r->pool, out->dict, &key, &args->values[args->n_positional + i]));
    }
    return TERN_OK;
}

static tern_status dict(tern_jinja_render *r, const tern_jinja_args *args, tern_jinja_value *out)
{
    return build(r, TERN_JINJA_DICT, args, out);
}

static tern_status make_namespace(tern_jinja_render *r, const tern_jinja_args *args, tern_jinja_value *out)
{
    return build(r, TERN_JINJA_NAMESPACE, args, out);
}

static tern_status strftime_now(tern_jinja_render *r, const tern_jinja_args *args, tern_jinja_value *out)
{
    const tern_jinja_value *slots[TERN_JINJA_MAX_ARGS];
    tern_jinja_str format;
    tern_jinja_rope rope = {0};
    TERN_TRY(bind(r, "strftime_now", "format", args, slots));
    TERN_TRY(tern_jinja__string_arg(r, slots[0], "format", tern_jinja__words(""), &format));
    TERN_TRY(tern_jinja__strftime(r, format, &rope));
    return tern_jinja__rope_value(r, &rope, out);
}

static tern_status make_cycle(tern_jinja_render *r, tern_jinja_kind kind, const tern_jinja_list *items,
                              tern_jinja_value *out)
{
    tern_jinja_cycle *cycle = tern_jinja__alloc(&r->pool, 1, sizeof *cycle);
    if (!cycle) return tern_jinja__status(&r->pool);
    cycle->items = items;
    *out = (tern_jinja_value){.kind = kind, .cycle = cycle};
    return TERN_OK;
}

/* cycler(a, b, ...) */
static tern_status cycler(tern_jinja_render *r, const tern_jinja_args *args, tern_jinja_value *out)
{
    tern_jinja_value items;
    if (args->n_positional == 0 || args->n_named) return tern_jinja__bad(r, "cycler needs items without names");
    TERN_TRY(tern_jinja__rest_of(r, args, 0, &items));
    return make_cycle(r, TERN_JINJA_CYCLER, items.list, out);
}

/* joiner(sep=", ") */
static tern_status joiner(tern_jinja_render *r, const tern_jinja_args *args, tern_jinja_value *out)
{
    const tern_jinja_value *slots[TERN_JINJA_MAX_ARGS];
    tern_jinja_value list, *items;
    TERN_TRY(tern_jinja__bind(r, "joiner", "sep", args, slots));
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, 2, &list, &items));
    items[0] = tern_jinja__string(tern_jinja__words(""));
    items[1] = slots[0] ? *slots[0] : tern_jinja__string(tern_jinja__words(", "));
    return make_cycle(r, TERN_JINJA_JOINER, list.list, out);
}

static const tern_jinja_function functions[] = {
    {"cycler", cycler},
    {"dict", dict},
    {"joiner", joiner},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
};

const tern_jinja_function *tern_jinja__find_function(tern_jinja_str name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (tern_jinja__str_is(name, functions[i].name)) return &functions[i];
    return NULL;
}
