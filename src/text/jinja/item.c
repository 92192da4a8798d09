/* Attributes, items, slices and iteration in chat templates. */
#include <string.h>

#include "text/jinja/chars.h"
#include "text/jinja/render.h"

static tern_status undefined_object(tern_jinja_render *r, const tern_jinja_value *object, tern_jinja_str name)
{
    tern_jinja_str what = object->str;
    return tern_jinja__bad(r, "\"%.*s\" is undefined, so it has no \"%.*s\"", (int)(what.n < 60 ? what.n : 60),
                           what.data, (int)(name.n < 60 ? name.n : 60), name.data);
}

static tern_jinja_value neighbour(const tern_jinja_loop *loop, bool previous)
{
    if (previous && loop->index > 0) return loop->items->items[loop->index - 1];
    if (!previous && loop->index + 1 < loop->items->n) return loop->items->items[loop->index + 1];
    return tern_jinja__undefined(tern_jinja__words(previous ? "loop.previtem" : "loop.nextitem"));
}

static tern_jinja_value loop_attribute(const tern_jinja_loop *loop, tern_jinja_str name)
{
    int64_t i = (int64_t)loop->index, n = (int64_t)loop->items->n;
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {{"index", i + 1},
                  {"index0", i},
                  {"revindex", n - i},
                  {"revindex0", n - i - 1},
                  {"length", n},
                  {"depth", (int64_t)loop->depth + 1},
                  {"depth0", (int64_t)loop->depth}};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        if (tern_jinja__str_is(name, counts[c].name)) return tern_jinja__int(counts[c].value);
    if (tern_jinja__str_is(name, "first")) return tern_jinja__bool(i == 0);
    if (tern_jinja__str_is(name, "last")) return tern_jinja__bool(i + 1 == n);
    if (tern_jinja__str_is(name, "previtem")) return neighbour(loop, true);
    if (tern_jinja__str_is(name, "nextitem")) return neighbour(loop, false);
    return tern_jinja__undefined(name);
}

/* A member of a tuple by name. */
static tern_jinja_value tuple_attribute(const tern_jinja_list *list, tern_jinja_str name)
{
    const char *word = list->name;
    for (size_t i = 0; word && i < list->n; i++) {
        size_t n = strcspn(word, " ");
        if (tern_jinja__str_equal(name, (tern_jinja_str){.data = word, .n = n})) return list->items[i];
        word += n + (word[n] == ' ');
    }
    return tern_jinja__undefined(name);
}

static tern_status macro_arguments(tern_jinja_render *r, const tern_jinja_node *parameters, tern_jinja_value *out)
{
    size_t n = 0;
    tern_jinja_value *items;
    for (const tern_jinja_node *p = parameters; p; p = p->next) n++;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_TUPLE, n, out, &items));
    for (const tern_jinja_node *p = parameters; p; p = p->next) *items++ = tern_jinja__string(p->name);
    return TERN_OK;
}

static tern_status macro_attribute(tern_jinja_render *r, const tern_jinja_node *macro, tern_jinja_str name,
                                   tern_jinja_value *out)
{
    if (tern_jinja__str_is(name, "arguments")) return macro_arguments(r, macro->a, out);
    if (tern_jinja__str_is(name, "name")) *out = tern_jinja__string(macro->name);
    if (tern_jinja__str_is(name, "caller")) *out = tern_jinja__bool(macro->op & TERN_JINJA_CALLER);
    if (tern_jinja__str_is(name, "catch_kwargs")) *out = tern_jinja__bool(macro->op & TERN_JINJA_KWARGS);
    if (tern_jinja__str_is(name, "catch_varargs")) *out = tern_jinja__bool(macro->op & TERN_JINJA_VARARGS);
    return TERN_OK;
}

/* A method of the object as a value; *found: Python's type has the name, so that no key of a dict is asked. */
static tern_status bound_method(tern_jinja_render *r, const tern_jinja_value *object, tern_jinja_str name,
                                tern_jinja_value *out, bool *found)
{
    bool unsafe;
    const tern_jinja_filter *row = tern_jinja__find_method(object, name, &unsafe);
    *found = row || unsafe;
    if (!row) return TERN_OK;
    tern_jinja_method *method = tern_jinja__alloc(&r->pool, 1, sizeof *method);
    if (!method) return tern_jinja__status(&r->pool);
    *method = (tern_jinja_method){.self = *object, .row = row};
    *out = (tern_jinja_value){.kind = TERN_JINJA_METHOD, .method = method};
    return TERN_OK;
}

static void find_key(tern_jinja_render *r, const tern_jinja_dict *dict, tern_jinja_str name, tern_jinja_value *out)
{
    tern_jinja_value key = tern_jinja__string(name);
    const tern_jinja_value *found = tern_jinja__dict_find(&r->pool, dict, &key);
    if (found) *out = *found;
}

tern_status tern_jinja__attribute(tern_jinja_render *r, const tern_jinja_value *object, tern_jinja_str name,
                                  tern_jinja_value *out)
{
    bool method;
    if (object->kind == TERN_JINJA_UNDEFINED) return undefined_object(r, object, name);
    *out = tern_jinja__undefined(name);
    TERN_TRY(bound_method(r, object, name, out, &method));
    if (method) return TERN_OK;
    switch (object->kind) {
    case TERN_JINJA_LOOP: *out = loop_attribute(object->loop, name); break;
    case TERN_JINJA_TUPLE: *out = tuple_attribute(object->list, name); break;
    case TERN_JINJA_MACRO: return macro_attribute(r, object->macro->node, name, out);
    case TERN_JINJA_CYCLER:
        if (tern_jinja__str_is(name, "current")) *out = object->cycle->items->items[object->cycle->at];
        break;
    case TERN_JINJA_DICT:
    case TERN_JINJA_NAMESPACE: find_key(r, object->dict, name, out); break;
    default: break;
    }
    return TERN_OK;
}

/* Counts from the end when negative; false when out of range. */
static bool resolve_index(const tern_jinja_value *key, size_t n, size_t *index)
{
    int64_t i = tern_jinja__as_int(key);
    if (i < 0) i += (int64_t)n;
    *index = (size_t)i;
    return i >= 0 && (size_t)i < n;
}

static tern_status char_at(tern_jinja_render *r, tern_jinja_str s, const tern_jinja_value *key, tern_jinja_value *out)
{
    size_t index;
    uint32_t code;
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 16));
    if (!resolve_index(key, tern_jinja__char_count(s.data, s.n), &index)) return TERN_OK;
    size_t at = tern_jinja__char_offset(s.data, s.n, index);
    *out = tern_jinja__string(tern_jinja__slice(s, at, at + tern_jinja__char(s.data + at, s.n - at, &code)));
    return TERN_OK;
}

tern_status tern_jinja__item(tern_jinja_render *r, const tern_jinja_value *object, const tern_jinja_value *key,
                             tern_jinja_value *out)
{
    size_t index;
    bool whole = key->kind == TERN_JINJA_INT || key->kind == TERN_JINJA_BOOL;
    *out = tern_jinja__undefined(key->kind == TERN_JINJA_STRING ? key->str : tern_jinja__words("element out of range"));
    if (object->kind == TERN_JINJA_UNDEFINED) return undefined_object(r, object, out->str);
    if (object->kind == TERN_JINJA_DICT) {
        const tern_jinja_value *found = tern_jinja__dict_find(&r->pool, object->dict, key);
        if (found) *out = *found;
        if (found || key->kind != TERN_JINJA_STRING) return TERN_OK;
    }
    if (key->kind == TERN_JINJA_STRING) return tern_jinja__attribute(r, object, key->str, out);
    if (whole && object->kind == TERN_JINJA_STRING) return char_at(r, object->str, key, out);
    const bool indexed = tern_jinja__is_list(object) || object->kind == TERN_JINJA_RANGE;
    if (whole && indexed && resolve_index(key, object->list->n, &index)) *out = object->list->items[index];
    return TERN_OK;
}

/* Python's slice.indices for n items: start, and how many steps. */
typedef struct slice_range {
    int64_t start, step;
    size_t count;
} slice_range;

static int64_t clamp_bound(int64_t i, int64_t n, int64_t least, int64_t most)
{
    if (i < 0 && __builtin_add_overflow(i, n, &i)) i = least;
    return i < least ? least : i > most ? most : i;
}

static bool given(const tern_jinja_value *bound)
{
    return bound && bound->kind != TERN_JINJA_NONE;
}

static slice_range resolve_slice(const tern_jinja_value *const bounds[3], int64_t n)
{
    int64_t step = given(bounds[2]) ? tern_jinja__as_int(bounds[2]) : 1;
    int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    int64_t start = step < 0 ? most : least, end = step < 0 ? least : most;
    if (given(bounds[0])) start = clamp_bound(tern_jinja__as_int(bounds[0]), n, least, most);
    if (given(bounds[1])) end = clamp_bound(tern_jinja__as_int(bounds[1]), n, least, most);
    int64_t distance = step < 0 ? start - end : end - start;
    uint64_t width = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
    size_t count = distance > 0 ? (size_t)(((uint64_t)distance - 1) / width + 1) : 0;
    return (slice_range){.start = start, .step = step, .count = count};
}

static tern_status slice_list(tern_jinja_render *r, const tern_jinja_value *v, slice_range range, tern_jinja_value *out)
{
    tern_jinja_value *items;
    TERN_TRY(tern_jinja__charge(&r->pool, range.count));
    TERN_TRY(tern_jinja__list(&r->pool, v->kind, range.count, out, &items));
    for (size_t i = 0; i < range.count; i++) items[i] = v->list->items[range.start + (int64_t)i * range.step];
    return TERN_OK;
}

/* Characters one by one, since the step is not 1. */
static tern_status pick_chars(tern_jinja_render *r, tern_jinja_str s, slice_range range, tern_jinja_value *out)
{
    tern_jinja_value whole = tern_jinja__string(s);
    const tern_jinja_list *chars;
    tern_jinja_rope rope = {0};
    TERN_TRY(tern_jinja__iterate(r, &whole, &chars));
    for (size_t i = 0; i < range.count; i++)
        TERN_TRY(tern_jinja__emit(r, &rope, chars->items[range.start + (int64_t)i * range.step].str));
    return tern_jinja__rope_value(r, &rope, out);
}

static tern_status slice_string(tern_jinja_render *r, tern_jinja_str s, const tern_jinja_value *const bounds[3],
                                tern_jinja_value *out)
{
    TERN_TRY(tern_jinja__charge(&r->pool, s.n / 16));
    slice_range range = resolve_slice(bounds, (int64_t)tern_jinja__char_count(s.data, s.n));
    if (range.count == 0) return *out = tern_jinja__string(tern_jinja__words("")), TERN_OK;
    if (range.step != 1) return pick_chars(r, s, range, out);
    size_t from = tern_jinja__char_offset(s.data, s.n, (size_t)range.start);
    size_t length = tern_jinja__char_offset(s.data + from, s.n - from, range.count);
    *out = tern_jinja__string(tern_jinja__slice(s, from, from + length));
    return TERN_OK;
}

tern_status tern_jinja__slice_value(tern_jinja_render *r, const tern_jinja_value *object,
                                    const tern_jinja_value *const bounds[3], tern_jinja_value *out)
{
    if (object->kind == TERN_JINJA_UNDEFINED) return undefined_object(r, object, tern_jinja__words("slice"));
    for (size_t i = 0; i < 3; i++)
        if (given(bounds[i]) && bounds[i]->kind != TERN_JINJA_INT && bounds[i]->kind != TERN_JINJA_BOOL)
            return tern_jinja__bad(r, "slice bound is %s, expected an integer",
                                   tern_jinja__kind_words(bounds[i]->kind));
    if (given(bounds[2]) && tern_jinja__as_int(bounds[2]) == 0) return tern_jinja__bad(r, "slice step is zero");
    if (object->kind == TERN_JINJA_STRING) return slice_string(r, object->str, bounds, out);
    if (tern_jinja__is_list(object) || object->kind == TERN_JINJA_RANGE)
        return slice_list(r, object, resolve_slice(bounds, (int64_t)object->list->n), out);
    return tern_jinja__bad(r, "cannot slice %s", tern_jinja__kind_words(object->kind));
}

static tern_status path_step(tern_jinja_render *r, tern_jinja_str part, tern_jinja_value *at)
{
    tern_jinja_value key = tern_jinja__string(part), object = *at;
    bool digits = part.n > 0 && part.n < 10;
    int64_t index = 0;
    for (size_t i = 0; i < part.n && digits; i++) {
        digits = tern_jinja__is_digit(part.data[i]);
        index = index * 10 + (part.data[i] - '0');
    }
    if (digits) key = tern_jinja__int(index);
    return tern_jinja__item(r, &object, &key, at);
}

tern_status tern_jinja__path(tern_jinja_render *r, const tern_jinja_value *object, const tern_jinja_value *path,
                             const tern_jinja_value *absent, tern_jinja_value *out)
{
    if (path->kind != TERN_JINJA_STRING) {
        TERN_TRY(tern_jinja__item(r, object, path, out));
        if (absent && out->kind == TERN_JINJA_UNDEFINED) *out = *absent;
        return TERN_OK;
    }
    *out = *object;
    for (size_t from = 0; from <= path->str.n;) {
        size_t to = tern_jinja__str_find(path->str, tern_jinja__words("."), from);
        if (to == SIZE_MAX) to = path->str.n;
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(path_step(r, tern_jinja__slice(path->str, from, to), out));
        if (absent && out->kind == TERN_JINJA_UNDEFINED) *out = *absent;
        from = to + 1;
    }
    return TERN_OK;
}

static tern_status list_chars(tern_jinja_render *r, tern_jinja_str s, const tern_jinja_list **out)
{
    tern_jinja_value list, *items;
    uint32_t code;
    TERN_TRY(tern_jinja__charge(&r->pool, s.n));
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, tern_jinja__char_count(s.data, s.n), &list, &items));
    for (size_t at = 0; at < s.n;) {
        size_t n = tern_jinja__char(s.data + at, s.n - at, &code);
        *items++ = tern_jinja__string(tern_jinja__slice(s, at, at + n));
        at += n;
    }
    *out = list.list;
    return TERN_OK;
}

static tern_status list_keys(tern_jinja_render *r, const tern_jinja_dict *dict, const tern_jinja_list **out)
{
    tern_jinja_value list, *items;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, dict->n, &list, &items));
    for (size_t i = 0; i < dict->n; i++) items[i] = dict->entries[i].key;
    *out = list.list;
    return TERN_OK;
}

static tern_status take_rest(tern_jinja_render *r, tern_jinja_cycle *items, const tern_jinja_list **out)
{
    tern_jinja_list *rest = tern_jinja__alloc(&r->pool, 1, sizeof *rest);
    if (!rest) return tern_jinja__status(&r->pool);
    *rest = (tern_jinja_list){.items = items->items->items + items->at, .n = items->items->n - items->at};
    items->at = items->items->n;
    *out = rest;
    return TERN_OK;
}

tern_status tern_jinja__iterate(tern_jinja_render *r, const tern_jinja_value *v, const tern_jinja_list **out)
{
    static const tern_jinja_list nothing;
    *out = &nothing;
    if (v->kind == TERN_JINJA_UNDEFINED) return TERN_OK;
    if (v->kind == TERN_JINJA_STRING) return list_chars(r, v->str, out);
    if (v->kind == TERN_JINJA_DICT) return list_keys(r, v->dict, out);
    if (v->kind == TERN_JINJA_GENERATOR) return take_rest(r, v->cycle, out);
    if (!tern_jinja__is_sized(v)) return tern_jinja__bad(r, "cannot loop over %s", tern_jinja__kind_words(v->kind));
    *out = v->list;
    return TERN_OK;
}
