/* The values a chat template computes with: bounded memory, equality, dicts. */
#include "text/jinja/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { MAX_VALUE_DEPTH = 64, BYTES_A_STEP = 64 };

void *tern_jinja__alloc(tern_jinja_pool *p, size_t count, size_t bytes)
{
    size_t total = 0;
    bool fits = tern_size_mul(count, bytes, &total) && tern_size_add(total, 15, &total);
    total = total / 16 * 16; /* as the arena rounds it */
    if (!fits || total > p->max_bytes - p->used) {
        p->status = tern_jinja__fail(p, TERN_LIMIT, "needs more than %zu MiB of memory", p->max_bytes >> 20);
        return NULL;
    }
    void *block = tern_arena_alloc(&p->arena, count, bytes);
    if (!block) p->status = tern_fail_alloc(p->err, total);
    else p->used += total;
    return block;
}

tern_status tern_jinja__charge(tern_jinja_pool *p, uint64_t n)
{
    p->steps += n;
    if (p->steps <= p->max_steps) return TERN_OK;
    return tern_jinja__fail(p, TERN_LIMIT, "takes more than %llu steps", (unsigned long long)p->max_steps);
}

tern_status(tern_jinja__status)(const tern_jinja_pool *p)
{
    return p->status;
}

tern_status(tern_jinja__fail)(tern_jinja_pool *p, tern_status code, const char *format, ...)
{
    if (!p->err) return code;
    char message[sizeof p->err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return tern_fail(p->err, code, "chat template line %u: %s", p->line, message);
}

tern_status tern_jinja__unknown(tern_jinja_pool *p, const char *what, tern_jinja_str name)
{
    return tern_jinja__fail(p, TERN_UNSUPPORTED, "%s \"%.*s\"", what, (int)(name.n < 60 ? name.n : 60), name.data);
}

tern_jinja_value tern_jinja__undefined(tern_jinja_str name)
{
    return (tern_jinja_value){.kind = TERN_JINJA_UNDEFINED, .str = name};
}

tern_jinja_value tern_jinja__none(void)
{
    return (tern_jinja_value){.kind = TERN_JINJA_NONE};
}

tern_jinja_value tern_jinja__bool(bool flag)
{
    return (tern_jinja_value){.kind = TERN_JINJA_BOOL, .flag = flag};
}

tern_jinja_value tern_jinja__int(int64_t integer)
{
    return (tern_jinja_value){.kind = TERN_JINJA_INT, .integer = integer};
}

tern_jinja_value tern_jinja__float(double real)
{
    return (tern_jinja_value){.kind = TERN_JINJA_FLOAT, .real = real};
}

tern_jinja_value tern_jinja__string(tern_jinja_str str)
{
    return (tern_jinja_value){.kind = TERN_JINJA_STRING, .str = str};
}

tern_status tern_jinja__list(tern_jinja_pool *p, tern_jinja_kind kind, size_t n, tern_jinja_value *out,
                             tern_jinja_value **items)
{
    tern_jinja_list *list = tern_jinja__alloc(p, 1, sizeof *list);
    if (!list) return tern_jinja__status(p);
    list->items = tern_jinja__alloc(p, n, sizeof *list->items);
    if (!list->items) return tern_jinja__status(p);
    list->n = n;
    *items = list->items;
    *out = (tern_jinja_value){.kind = kind, .list = list};
    return TERN_OK;
}

bool tern_jinja__is_number(const tern_jinja_value *v)
{
    return v->kind == TERN_JINJA_BOOL || v->kind == TERN_JINJA_INT || v->kind == TERN_JINJA_FLOAT;
}

bool tern_jinja__is_list(const tern_jinja_value *v)
{
    return v->kind == TERN_JINJA_LIST || v->kind == TERN_JINJA_TUPLE;
}

bool tern_jinja__is_sized(const tern_jinja_value *v)
{
    return tern_jinja__is_list(v) || v->kind == TERN_JINJA_RANGE || v->kind == TERN_JINJA_VIEW;
}

double tern_jinja__as_float(const tern_jinja_value *v)
{
    return v->kind == TERN_JINJA_FLOAT ? v->real : (double)tern_jinja__as_int(v);
}

int64_t tern_jinja__as_int(const tern_jinja_value *v)
{
    return v->kind == TERN_JINJA_BOOL ? (int64_t)v->flag : v->integer;
}

bool tern_jinja__truth(const tern_jinja_value *v)
{
    switch (v->kind) {
    case TERN_JINJA_UNDEFINED:
    case TERN_JINJA_NONE: return false;
    case TERN_JINJA_BOOL:
    case TERN_JINJA_INT: return tern_jinja__as_int(v) != 0;
    case TERN_JINJA_FLOAT: return v->real != 0;
    case TERN_JINJA_STRING: return v->str.n != 0;
    case TERN_JINJA_LIST:
    case TERN_JINJA_TUPLE:
    case TERN_JINJA_RANGE:
    case TERN_JINJA_VIEW: return v->list->n != 0;
    case TERN_JINJA_DICT: return v->dict->n != 0;
    default: return true;
    }
}

const char *tern_jinja__kind_words(tern_jinja_kind kind)
{
    static const char *const words[] = {
        [TERN_JINJA_UNDEFINED] = "undefined", [TERN_JINJA_NONE] = "none",
        [TERN_JINJA_BOOL] = "boolean",        [TERN_JINJA_INT] = "integer",
        [TERN_JINJA_FLOAT] = "float",         [TERN_JINJA_STRING] = "string",
        [TERN_JINJA_LIST] = "list",           [TERN_JINJA_TUPLE] = "tuple",
        [TERN_JINJA_DICT] = "dict",           [TERN_JINJA_NAMESPACE] = "namespace",
        [TERN_JINJA_MACRO] = "macro",         [TERN_JINJA_FUNCTION] = "function",
        [TERN_JINJA_RANGE] = "range",         [TERN_JINJA_VIEW] = "view of a dict",
        [TERN_JINJA_GENERATOR] = "generator", [TERN_JINJA_METHOD] = "method",
        [TERN_JINJA_JOINER] = "joiner",       [TERN_JINJA_CYCLER] = "cycler",
        [TERN_JINJA_LOOP] = "loop",
    };
    return words[kind];
}

static bool equal_at(tern_jinja_pool *p, const tern_jinja_value *a, const tern_jinja_value *b, int depth);

static bool lists_equal(tern_jinja_pool *p, const tern_jinja_list *a, const tern_jinja_list *b, int depth)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!equal_at(p, &a->items[i], &b->items[i], depth)) return false;
    return true;
}

static const tern_jinja_value *find_at(tern_jinja_pool *p, const tern_jinja_dict *d, const tern_jinja_value *key,
                                       int depth)
{
    for (size_t i = 0; i < d->n; i++)
        if (equal_at(p, &d->entries[i].key, key, depth)) return &d->entries[i].value;
    return NULL;
}

static bool dicts_equal(tern_jinja_pool *p, const tern_jinja_dict *a, const tern_jinja_dict *b, int depth)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const tern_jinja_value *other = find_at(p, b, &a->entries[i].key, depth);
        if (!other || !equal_at(p, &a->entries[i].value, other, depth)) return false;
    }
    return true;
}

static bool numbers_equal(const tern_jinja_value *a, const tern_jinja_value *b)
{
    if (a->kind == TERN_JINJA_FLOAT || b->kind == TERN_JINJA_FLOAT)
        return tern_jinja__as_float(a) == tern_jinja__as_float(b);
    return tern_jinja__as_int(a) == tern_jinja__as_int(b);
}

static bool equal_at(tern_jinja_pool *p, const tern_jinja_value *a, const tern_jinja_value *b, int depth)
{
    if (depth > MAX_VALUE_DEPTH) p->steps = p->max_steps; /* the caller's next charge fails */
    if (++p->steps > p->max_steps) return false;
    if (tern_jinja__is_number(a) && tern_jinja__is_number(b)) return numbers_equal(a, b);
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case TERN_JINJA_STRING:
        if (a->str.n == b->str.n) p->steps += a->str.n / BYTES_A_STEP;
        return tern_jinja__str_equal(a->str, b->str);
    case TERN_JINJA_LIST:
    case TERN_JINJA_TUPLE:
    case TERN_JINJA_RANGE: return lists_equal(p, a->list, b->list, depth + 1);
    case TERN_JINJA_VIEW: return a->list == b->list;
    case TERN_JINJA_DICT: return dicts_equal(p, a->dict, b->dict, depth + 1);
    case TERN_JINJA_NAMESPACE: return a->dict == b->dict;
    case TERN_JINJA_MACRO: return a->macro == b->macro;
    case TERN_JINJA_FUNCTION: return a->function == b->function;
    case TERN_JINJA_METHOD: return a->method == b->method;
    case TERN_JINJA_GENERATOR:
    case TERN_JINJA_JOINER:
    case TERN_JINJA_CYCLER: return a->cycle == b->cycle;
    case TERN_JINJA_LOOP: return a->loop == b->loop;
    default: return true; /* undefined, none */
    }
}

bool tern_jinja__equal(tern_jinja_pool *p, const tern_jinja_value *a, const tern_jinja_value *b)
{
    return equal_at(p, a, b, 0);
}

tern_status tern_jinja__dict(tern_jinja_pool *p, tern_jinja_kind kind, tern_jinja_value *out)
{
    tern_jinja_dict *d = tern_jinja__alloc(p, 1, sizeof *d);
    if (!d) return tern_jinja__status(p);
    *out = (tern_jinja_value){.kind = kind, .dict = d};
    return TERN_OK;
}

const tern_jinja_value *tern_jinja__dict_find(tern_jinja_pool *p, const tern_jinja_dict *d, const tern_jinja_value *key)
{
    return find_at(p, d, key, 0);
}

static tern_status grow_dict(tern_jinja_pool *p, tern_jinja_dict *d)
{
    size_t cap = d->cap ? d->cap * 2 : 4;
    tern_jinja_entry *entries = tern_jinja__alloc(p, cap, sizeof *entries);
    if (!entries) return tern_jinja__status(p);
    if (d->n) memcpy(entries, d->entries, d->n * sizeof *entries);
    d->entries = entries;
    d->cap = cap;
    return TERN_OK;
}

bool tern_jinja__is_hashable(const tern_jinja_value *key)
{
    bool hashable = key->kind != TERN_JINJA_LIST && key->kind != TERN_JINJA_DICT;
    for (size_t i = 0; key->kind == TERN_JINJA_TUPLE && i < key->list->n && hashable; i++)
        hashable = key->list->items[i].kind != TERN_JINJA_LIST && key->list->items[i].kind != TERN_JINJA_DICT;
    return hashable;
}

tern_status tern_jinja__dict_set(tern_jinja_pool *p, tern_jinja_dict *d, const tern_jinja_value *key,
                                 const tern_jinja_value *value)
{
    if (!tern_jinja__is_hashable(key))
        return tern_jinja__fail(p, TERN_INVALID_ARGUMENT, "%s as a key of a dict", tern_jinja__kind_words(key->kind));
    for (size_t i = 0; i < d->n; i++) {
        if (!tern_jinja__equal(p, &d->entries[i].key, key)) continue;
        d->entries[i].value = *value;
        return TERN_OK;
    }
    if (d->n == d->cap) TERN_TRY(grow_dict(p, d));
    d->entries[d->n++] = (tern_jinja_entry){.key = *key, .value = *value};
    return TERN_OK;
}
