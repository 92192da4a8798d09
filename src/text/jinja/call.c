/* Calls in chat templates: arguments, macros, built-in functions. */
#include <string.h>

#include "text/jinja/render.h"

tern_status tern_jinja__eval_args(tern_jinja_render *r, const tern_jinja_node *list, tern_jinja_args *args)
{
    *args = (tern_jinja_args){0};
    for (const tern_jinja_node *i = list; i; i = i->next) {
        if (i->kind == TERN_JINJA_KEYWORD) args->n_named++;
        else args->n_positional++;
    }
    if (!list) return TERN_OK;
    args->values = tern_jinja__alloc(&r->pool, args->n_positional + args->n_named, sizeof *args->values);
    if (!args->values) return tern_jinja__status(&r->pool);
    args->names = tern_jinja__alloc(&r->pool, args->n_named, sizeof *args->names);
    if (!args->names) return tern_jinja__status(&r->pool);
    size_t at = 0;
    for (const tern_jinja_node *i = list; i; i = i->next, at++) {
        if (i->kind == TERN_JINJA_KEYWORD) args->names[at - args->n_positional] = i->name;
        TERN_TRY(tern_jinja__eval(r, i->kind == TERN_JINJA_KEYWORD ? i->a : i, &args->values[at]));
    }
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

/* The argument for one macro parameter, or NULL; counts those that were used. */
static const tern_jinja_value *find_argument(const tern_jinja_args *args, size_t position, tern_jinja_str name,
                                             size_t *used)
{
    const tern_jinja_value *found = position < args->n_positional ? &args->values[position] : NULL;
    for (size_t i = 0; i < args->n_named && !found; i++)
        if (tern_jinja__str_equal(args->names[i], name)) found = &args->values[args->n_positional + i];
    *used += found != NULL;
    return found;
}

static tern_status bind_macro(tern_jinja_render *r, const tern_jinja_macro *macro, const tern_jinja_args *args)
{
    size_t position = 0, used = 0;
    for (const tern_jinja_node *p = macro->node->a; p; p = p->next, position++) {
        const tern_jinja_value *argument = find_argument(args, position, p->name, &used);
        tern_jinja_value value = tern_jinja__undefined(p->name);
        if (argument) value = *argument;
        else if (p->a) TERN_TRY(tern_jinja__eval(r, p->a, &value));
        TERN_TRY(tern_jinja__scope_set(r, r->scope, p->name, &value));
    }
    if (used == args->n_positional + args->n_named) return TERN_OK;
    return tern_jinja__bad(r, "macro \"%.*s\" does not take these %zu arguments", (int)macro->node->name.n,
                           macro->node->name.data, args->n_positional + args->n_named);
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

static tern_status call_value(tern_jinja_render *r, const tern_jinja_value *callee, const tern_jinja_args *args,
                              tern_jinja_value *out)
{
    if (callee->kind == TERN_JINJA_MACRO) return call_macro(r, callee->macro, args, out);
    if (callee->kind == TERN_JINJA_FUNCTION) return callee->function->call(r, args, out);
    if (callee->kind != TERN_JINJA_UNDEFINED)
        return tern_jinja__bad(r, "cannot call %s", tern_jinja__kind_words(callee->kind));
    return tern_jinja__unsupported(r, "function \"%.*s\"", (int)(callee->str.n < 60 ? callee->str.n : 60),
                                   callee->str.data);
}

/* object.name(...): a macro kept in a namespace, else a method of the object. */
static tern_status call_attribute(tern_jinja_render *r, const tern_jinja_node *callee, const tern_jinja_args *args,
                                  tern_jinja_value *out)
{
    tern_jinja_value object, member;
    TERN_TRY(tern_jinja__eval(r, callee->a, &object));
    TERN_TRY(tern_jinja__attribute(r, &object, callee->name, &member));
    r->pool.line = callee->line;
    if (member.kind == TERN_JINJA_MACRO || member.kind == TERN_JINJA_FUNCTION) return call_value(r, &member, args, out);
    return tern_jinja__call_method(r, &object, callee->name, args, out);
}

tern_status tern_jinja__eval_call(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    tern_jinja_args args;
    tern_jinja_value callee;
    TERN_TRY(tern_jinja__eval_args(r, node->list, &args));
    if (node->a->kind == TERN_JINJA_ATTR) return call_attribute(r, node->a, &args, out);
    TERN_TRY(tern_jinja__eval(r, node->a, &callee));
    r->pool.line = node->line;
    return call_value(r, &callee, &args, out);
}
