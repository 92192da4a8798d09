/* Calls in chat templates: arguments, macros, built-in functions. */
#include <string.h>

#include "text/jinja/render.h"

/* Arguments while they are counted and gathered. */
typedef struct gathering {
    tern_jinja_render *r;
    tern_jinja_args *args;
    tern_jinja_value stars[2]; /* the values of *x and **x */
    const tern_jinja_list *spread;
    const tern_jinja_dict *named;
} gathering;

static tern_status eval_star(gathering *g, const tern_jinja_node *argument)
{
    tern_jinja_value *value = &g->stars[argument->kind == TERN_JINJA_STARS];
    TERN_TRY(tern_jinja__eval(g->r, argument->a, value));
    if (argument->kind == TERN_JINJA_STAR) {
        TERN_TRY(tern_jinja__iterate(g->r, value, &g->spread));
        g->args->n_positional += g->spread->n;
        return TERN_OK;
    }
    if (value->kind != TERN_JINJA_DICT)
        return tern_jinja__bad(g->r, "argument after ** is %s, expected a dict", tern_jinja__kind_words(value->kind));
    g->named = value->dict;
    g->args->n_named += value->dict->n;
    return TERN_OK;
}

static tern_status count_arguments(gathering *g, const tern_jinja_node *list)
{
    for (const tern_jinja_node *i = list; i; i = i->next) {
        if (i->kind == TERN_JINJA_STAR || i->kind == TERN_JINJA_STARS) TERN_TRY(eval_star(g, i));
        else if (i->kind == TERN_JINJA_KEYWORD) g->args->n_named++;
        else g->args->n_positional++;
    }
    if (g->args->n_positional + g->args->n_named <= TERN_JINJA_MAX_CALL_ARGS) return TERN_OK;
    return tern_jinja__fail(&g->r->pool, TERN_LIMIT, "%zu arguments, at most %d",
                            g->args->n_positional + g->args->n_named, (int)TERN_JINJA_MAX_CALL_ARGS);
}

static tern_status add_named(gathering *g, size_t *n, tern_jinja_str name, const tern_jinja_value *value)
{
    for (size_t i = 0; i < *n; i++)
        if (tern_jinja__str_equal(g->args->names[i], name))
            return tern_jinja__bad(g->r, "two arguments \"%.*s\"", (int)(name.n < 60 ? name.n : 60), name.data);
    g->args->names[*n] = name;
    g->args->values[g->args->n_positional + (*n)++] = *value;
    return tern_jinja__charge(&g->r->pool, 1 + *n / 8);
}

static tern_status add_entries(gathering *g, size_t *named)
{
    for (size_t i = 0; g->named && i < g->named->n; i++) {
        const tern_jinja_entry *e = &g->named->entries[i];
        if (e->key.kind != TERN_JINJA_STRING)
            return tern_jinja__bad(g->r, "argument after **: a key is %s, expected a string",
                                   tern_jinja__kind_words(e->key.kind));
        TERN_TRY(add_named(g, named, e->key.str, &e->value));
    }
    return TERN_OK;
}

static tern_status gather(gathering *g, const tern_jinja_node *list, const tern_jinja_value *caller)
{
    size_t positional = 0, named = 0;
    tern_jinja_value value;
    for (const tern_jinja_node *i = list; i; i = i->next) {
        if (i->kind == TERN_JINJA_STAR) {
            for (size_t s = 0; s < g->spread->n; s++) g->args->values[positional++] = g->spread->items[s];
            TERN_TRY(tern_jinja__charge(&g->r->pool, g->spread->n));
        } else if (i->kind == TERN_JINJA_KEYWORD) {
            TERN_TRY(tern_jinja__eval(g->r, i->a, &value));
            TERN_TRY(add_named(g, &named, i->name, &value));
        } else if (i->kind != TERN_JINJA_STARS) {
            TERN_TRY(tern_jinja__eval(g->r, i, &g->args->values[positional++]));
        }
    }
    TERN_TRY(add_entries(g, &named));
    return caller ? add_named(g, &named, tern_jinja__words("caller"), caller) : TERN_OK;
}

static tern_status eval_arguments(tern_jinja_render *r, const tern_jinja_node *list, const tern_jinja_value *caller,
                                  tern_jinja_args *args)
{
    gathering g = {.r = r, .args = args};
    *args = (tern_jinja_args){.n_named = caller != NULL};
    if (!list && !caller) return TERN_OK;
    TERN_TRY(count_arguments(&g, list));
    args->values = tern_jinja__alloc(&r->pool, args->n_positional + args->n_named, sizeof *args->values);
    if (!args->values) return tern_jinja__status(&r->pool);
    args->names = tern_jinja__alloc(&r->pool, args->n_named, sizeof *args->names);
    if (!args->names) return tern_jinja__status(&r->pool);
    return gather(&g, list, caller);
}

tern_status tern_jinja__eval_args(tern_jinja_render *r, const tern_jinja_node *list, tern_jinja_args *args)
{
    return eval_arguments(r, list, NULL, args);
}

tern_status tern_jinja__rest_of(tern_jinja_render *r, const tern_jinja_args *args, size_t from, tern_jinja_value *out)
{
    tern_jinja_value *items;
    size_t n = args->n_positional > from ? args->n_positional - from : 0;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_TUPLE, n, out, &items));
    if (n) memcpy(items, args->values + from, n * sizeof *items);
    return TERN_OK;
}

/* Position of a word in "a b c", or SIZE_MAX; *count is how many words there are. */
static size_t word_index(const char *words, tern_jinja_str name, size_t *count)
{
    size_t found = SIZE_MAX;
    for (*count = 0; *words; ++*count) {
        size_t n = strcspn(words, " ");
        if (tern_jinja__str_equal(name, (tern_jinja_str){.data = words, .n = n})) found = *count;
        words += n + (words[n] == ' ');
    }
    return found;
}

tern_status tern_jinja__bind(tern_jinja_render *r, const char *what, const char *params, const tern_jinja_args *args,
                             const tern_jinja_value *slots[TERN_JINJA_MAX_ARGS])
{
    size_t count;
    memset(slots, 0, TERN_JINJA_MAX_ARGS * sizeof *slots);
    word_index(params, tern_jinja__words(""), &count);
    if (args->n_positional > count)
        return tern_jinja__bad(r, "%s takes at most %zu arguments, not %zu", what, count, args->n_positional);
    for (size_t i = 0; i < args->n_positional; i++) slots[i] = &args->values[i];
    for (size_t i = 0; i < args->n_named; i++) {
        size_t slot = word_index(params, args->names[i], &count);
        if (slot == SIZE_MAX || slots[slot])
            return tern_jinja__unsupported(r, "argument \"%.*s\" of %s", (int)args->names[i].n, args->names[i].data,
                                           what);
        slots[slot] = &args->values[args->n_positional + i];
    }
    return TERN_OK;
}

tern_status tern_jinja__call_filter(tern_jinja_render *r, const tern_jinja_filter *filter, const tern_jinja_value *self,
                                    const tern_jinja_args *args, tern_jinja_value *out)
{
    const tern_jinja_value *slots[TERN_JINJA_MAX_ARGS];
    TERN_TRY(tern_jinja__charge(&r->pool, 1));
    if (filter->apply_open) return filter->apply_open(r, self, args, out);
    if (!filter->apply)
        return tern_jinja__unsupported(r, "method \"%s\" of %s", filter->name, tern_jinja__kind_words(self->kind));
    TERN_TRY(tern_jinja__bind(r, filter->name, filter->params, args, slots));
    return filter->apply(r, self, slots, out);
}

tern_status tern_jinja__call_test(tern_jinja_render *r, const tern_jinja_test *test, const tern_jinja_value *self,
                                  const tern_jinja_args *args, bool *out)
{
    const tern_jinja_value *slots[TERN_JINJA_MAX_ARGS];
    TERN_TRY(tern_jinja__charge(&r->pool, 1));
    TERN_TRY(tern_jinja__bind(r, test->name, test->params, args, slots));
    if (*test->params && !slots[0]) return tern_jinja__bad(r, "test %s needs an argument", test->name);
    return test->apply(r, self, slots[0], out);
}

/* Takes the named argument out of `rest`. */
static bool take_named(tern_jinja_args *rest, tern_jinja_str name, tern_jinja_value *value)
{
    for (size_t i = 0; i < rest->n_named; i++) {
        if (!tern_jinja__str_equal(rest->names[i], name)) continue;
        *value = rest->values[i];
        size_t after = --rest->n_named - i;
        memmove(rest->values + i, rest->values + i + 1, after * sizeof *rest->values);
        memmove(rest->names + i, rest->names + i + 1, after * sizeof *rest->names);
        return true;
    }
    return false;
}

/* Sets the parameters, *n of them; arguments that are left over stay in `rest`. */
static tern_status bind_parameters(tern_jinja_render *r, const tern_jinja_macro *macro, const tern_jinja_args *args,
                                   tern_jinja_args *rest, size_t *n)
{
    for (const tern_jinja_node *p = macro->node->a; p; p = p->next, ++*n) {
        tern_jinja_value value = tern_jinja__undefined(p->name);
        if (*n < args->n_positional) value = args->values[*n];
        else if (!take_named(rest, p->name, &value) && p->a) TERN_TRY(tern_jinja__eval(r, p->a, &value));
        TERN_TRY(tern_jinja__scope_set(r, r->scope, p->name, &value));
    }
    return TERN_OK;
}

static tern_status set_extra(tern_jinja_render *r, const char *name, const tern_jinja_value *value)
{
    return tern_jinja__scope_set(r, r->scope, tern_jinja__words(name), value);
}

static tern_status bind_caller(tern_jinja_render *r, const tern_jinja_macro *macro, tern_jinja_args *rest)
{
    tern_jinja_str name = tern_jinja__words("caller");
    for (const tern_jinja_node *p = macro->node->a; p; p = p->next)
        if (tern_jinja__str_equal(p->name, name)) return TERN_OK;
    tern_jinja_value value = tern_jinja__undefined(name);
    take_named(rest, name, &value);
    return set_extra(r, "caller", &value);
}

static tern_status bind_kwargs(tern_jinja_render *r, tern_jinja_args *rest)
{
    tern_jinja_value dict;
    TERN_TRY(tern_jinja__dict(&r->pool, TERN_JINJA_DICT, &dict));
    for (size_t i = 0; i < rest->n_named; i++) {
        tern_jinja_value key = tern_jinja__string(rest->names[i]);
        TERN_TRY(tern_jinja__dict_set(&r->pool, dict.dict, &key, &rest->values[i]));
    }
    rest->n_named = 0;
    return set_extra(r, "kwargs", &dict);
}

/* caller, kwargs and varargs, for a macro that reads them. */
static tern_status bind_extras(tern_jinja_render *r, const tern_jinja_macro *macro, const tern_jinja_args *args,
                               tern_jinja_args *rest, size_t n)
{
    tern_jinja_value more;
    const int extras = macro->node->op;
    tern_jinja_str name = macro->node->name;
    if (extras & TERN_JINJA_CALLER) TERN_TRY(bind_caller(r, macro, rest));
    if (extras & TERN_JINJA_KWARGS) TERN_TRY(bind_kwargs(r, rest));
    if (rest->n_named)
        return tern_jinja__bad(r, "macro \"%.*s\" takes no argument \"%.*s\"", (int)name.n, name.data,
                               (int)rest->names[0].n, rest->names[0].data);
    if (extras & TERN_JINJA_VARARGS) {
        TERN_TRY(tern_jinja__rest_of(r, args, n, &more));
        return set_extra(r, "varargs", &more);
    }
    if (args->n_positional <= n) return TERN_OK;
    return tern_jinja__bad(r, "macro \"%.*s\" takes at most %zu arguments, not %zu", (int)name.n, name.data, n,
                           args->n_positional);
}

static tern_status bind_macro(tern_jinja_render *r, const tern_jinja_macro *macro, const tern_jinja_args *args)
{
    size_t n = 0;
    tern_jinja_args rest = {.n_named = args->n_named};
    rest.values = tern_jinja__alloc(&r->pool, args->n_named, sizeof *rest.values);
    rest.names = tern_jinja__alloc(&r->pool, args->n_named, sizeof *rest.names);
    if (!rest.values || !rest.names) return tern_jinja__status(&r->pool);
    if (args->n_named) {
        memcpy(rest.values, args->values + args->n_positional, args->n_named * sizeof *rest.values);
        memcpy(rest.names, args->names, args->n_named * sizeof *rest.names);
    }
    TERN_TRY(bind_parameters(r, macro, args, &rest, &n));
    return bind_extras(r, macro, args, &rest, n);
}

static tern_status call_macro(tern_jinja_render *r, const tern_jinja_macro *macro, const tern_jinja_args *args,
                              tern_jinja_value *out)
{
    tern_jinja_scope *caller = r->scope, *scope;
    tern_jinja_jump jump = r->jump;
    TERN_TRY(tern_jinja__scope_open(r, macro->scope, &scope));
    r->scope = scope;
    TERN_TRY(bind_macro(r, macro, args));
    r->scope = caller;
    TERN_TRY(tern_jinja__capture(r, scope, macro->node->list, out));
    r->jump = jump;
    return TERN_OK;
}

/* joiner(): "" at first, then the separator. */
static tern_status call_joiner(tern_jinja_render *r, tern_jinja_cycle *joiner, const tern_jinja_args *args,
                               tern_jinja_value *out)
{
    if (args->n_positional || args->n_named) return tern_jinja__bad(r, "a joiner takes no arguments");
    *out = joiner->items->items[joiner->at];
    joiner->at = 1;
    return TERN_OK;
}

tern_status tern_jinja__call_value(tern_jinja_render *r, const tern_jinja_value *callee, const tern_jinja_args *args,
                                   tern_jinja_value *out)
{
    switch (callee->kind) {
    case TERN_JINJA_MACRO: return call_macro(r, callee->macro, args, out);
    case TERN_JINJA_FUNCTION: return callee->function->call(r, args, out);
    case TERN_JINJA_METHOD: return tern_jinja__call_filter(r, callee->method->row, &callee->method->self, args, out);
    case TERN_JINJA_JOINER: return call_joiner(r, callee->cycle, args, out);
    case TERN_JINJA_LOOP: return tern_jinja__run_loop(r, callee->loop, args, out);
    case TERN_JINJA_UNDEFINED: return tern_jinja__unknown(&r->pool, "function", callee->str);
    default: return tern_jinja__bad(r, "cannot call %s", tern_jinja__kind_words(callee->kind));
    }
}

/* object.name(...): a method of its type, else what the attribute holds. */
static tern_status call_attribute(tern_jinja_render *r, const tern_jinja_value *object, tern_jinja_str name,
                                  const tern_jinja_args *args, tern_jinja_value *out)
{
    bool unsafe;
    tern_jinja_value member;
    const tern_jinja_filter *row = tern_jinja__find_method(object, name, &unsafe);
    if (row) return tern_jinja__call_filter(r, row, object, args, out);
    TERN_TRY(tern_jinja__attribute(r, object, name, &member));
    if (member.kind != TERN_JINJA_UNDEFINED) return tern_jinja__call_value(r, &member, args, out);
    return tern_jinja__unsupported(r, "method \"%.*s\" of %s", (int)(name.n < 60 ? name.n : 60), name.data,
                                   tern_jinja__kind_words(object->kind));
}

tern_status tern_jinja__eval_call(tern_jinja_render *r, const tern_jinja_node *node, const tern_jinja_value *caller,
                                  tern_jinja_value *out)
{
    tern_jinja_args args;
    tern_jinja_value callee;
    const bool attribute = node->a->kind == TERN_JINJA_ATTR;
    TERN_TRY(tern_jinja__eval(r, attribute ? node->a->a : node->a, &callee));
    TERN_TRY(eval_arguments(r, node->list, caller, &args));
    r->pool.line = node->line;
    if (attribute) return call_attribute(r, &callee, node->a->name, &args, out);
    return tern_jinja__call_value(r, &callee, &args, out);
}
