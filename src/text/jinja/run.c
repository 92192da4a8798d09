/* Rendering the statements of a chat template. */
#include "text/jinja/render.h"

#include <string.h>

static tern_status run_one(tern_jinja_render *r, const tern_jinja_node *node);

tern_status tern_jinja__enter_render(tern_jinja_render *r)
{
    TERN_TRY(tern_jinja__charge(&r->pool, 1));
    if (r->depth == TERN_JINJA_MAX_CALLS)
        return tern_jinja__fail(&r->pool, TERN_LIMIT, "recursion deeper than %d", (int)TERN_JINJA_MAX_CALLS);
    r->depth++;
    return TERN_OK;
}

tern_status tern_jinja__scope_open(tern_jinja_render *r, tern_jinja_scope *parent, tern_jinja_scope **scope)
{
    *scope = tern_jinja__alloc(&r->pool, 1, sizeof **scope);
    if (!*scope) return tern_jinja__status(&r->pool);
    (*scope)->parent = parent;
    return TERN_OK;
}

/* A step for every few variables passed: the next charge sees them. */
static tern_jinja_variable *find_here(tern_jinja_render *r, const tern_jinja_scope *scope, tern_jinja_str name)
{
    uint64_t passed = 0;
    tern_jinja_variable *v = scope->variables;
    for (; v && !tern_jinja__str_equal(v->name, name); v = v->next) passed++;
    r->pool.steps += passed / 8;
    return v;
}

tern_status tern_jinja__scope_set(tern_jinja_render *r, tern_jinja_scope *scope, tern_jinja_str name,
                                  const tern_jinja_value *value)
{
    tern_jinja_variable *v = find_here(r, scope, name);
    if (!v) {
        v = tern_jinja__alloc(&r->pool, 1, sizeof *v);
        if (!v) return tern_jinja__status(&r->pool);
        v->name = name;
        v->next = scope->variables;
        scope->variables = v;
    }
    v->value = *value;
    return TERN_OK;
}

const tern_jinja_value *tern_jinja__scope_find(tern_jinja_render *r, tern_jinja_str name)
{
    for (const tern_jinja_scope *scope = r->scope; scope; scope = scope->parent) {
        const tern_jinja_variable *v = find_here(r, scope, name);
        if (v) return &v->value;
    }
    return NULL;
}

tern_status tern_jinja__capture(tern_jinja_render *r, tern_jinja_scope *scope, const tern_jinja_node *statements,
                                tern_jinja_value *out)
{
    tern_jinja_rope text = {0}, *outer_text = r->out;
    tern_jinja_scope *outer_scope = r->scope;
    r->out = &text;
    r->scope = scope;
    tern_status status = tern_jinja__run(r, statements);
    r->out = outer_text;
    r->scope = outer_scope;
    return status == TERN_OK ? tern_jinja__rope_value(r, &text, out) : status;
}

static tern_status assign_attribute(tern_jinja_render *r, const tern_jinja_node *target, const tern_jinja_value *value)
{
    tern_jinja_value object;
    TERN_TRY(tern_jinja__eval(r, target->a, &object));
    if (object.kind != TERN_JINJA_NAMESPACE)
        return tern_jinja__bad(r, "cannot set attribute \"%.*s\" of %s, only of namespace()", (int)target->name.n,
                               target->name.data, tern_jinja__kind_words(object.kind));
    tern_jinja_value key = tern_jinja__string(target->name);
    return tern_jinja__dict_set(&r->pool, object.dict, &key, value);
}

static tern_status assign(tern_jinja_render *r, const tern_jinja_node *target, const tern_jinja_value *value)
{
    if (target->kind == TERN_JINJA_NAME) return tern_jinja__scope_set(r, r->scope, target->name, value);
    if (target->kind == TERN_JINJA_ATTR) return assign_attribute(r, target, value);
    const tern_jinja_list *items;
    TERN_TRY(tern_jinja__iterate(r, value, &items));
    size_t i = 0;
    for (const tern_jinja_node *t = target->list; t; t = t->next, i++)
        if (i < items->n) TERN_TRY(assign(r, t, &items->items[i]));
    if (i == items->n) return TERN_OK;
    return tern_jinja__bad(r, "cannot unpack %zu values into %zu names", items->n, i);
}

static tern_status run_if(tern_jinja_render *r, const tern_jinja_node *node)
{
    for (const tern_jinja_node *branch = node->list; branch; branch = branch->next) {
        tern_jinja_value condition = tern_jinja__bool(true);
        if (branch->a) TERN_TRY(tern_jinja__eval(r, branch->a, &condition));
        if (tern_jinja__truth(&condition)) return tern_jinja__run(r, branch->list);
    }
    return TERN_OK;
}

/* The items for which the loop's "if" holds. */
static tern_status filter_items(tern_jinja_render *r, const tern_jinja_node *node, const tern_jinja_list **items)
{
    tern_jinja_value kept, condition, *at;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, (*items)->n, &kept, &at));
    tern_jinja_list *list = (tern_jinja_list *)kept.list;
    list->n = 0;
    for (size_t i = 0; i < (*items)->n; i++) {
        TERN_TRY(tern_jinja__scope_open(r, r->scope->parent, &r->scope));
        TERN_TRY(assign(r, node->a, &(*items)->items[i]));
        TERN_TRY(tern_jinja__eval(r, node->c, &condition));
        if (tern_jinja__truth(&condition)) at[list->n++] = (*items)->items[i];
    }
    *items = list;
    return TERN_OK;
}

static tern_status run_pass(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_loop *loop)
{
    TERN_TRY(tern_jinja__charge(&r->pool, 1));
    tern_jinja_value self = {.kind = TERN_JINJA_LOOP, .loop = loop};
    TERN_TRY(tern_jinja__scope_open(r, r->scope->parent, &r->scope));
    TERN_TRY(tern_jinja__scope_set(r, r->scope, tern_jinja__words("loop"), &self));
    TERN_TRY(assign(r, node->a, &loop->items->items[loop->index]));
    return tern_jinja__run(r, node->list);
}

static tern_status run_passes(tern_jinja_render *r, const tern_jinja_node *node, const tern_jinja_list *items,
                              size_t depth)
{
    if (node->c) TERN_TRY(filter_items(r, node, &items));
    if (items->n == 0) return tern_jinja__run(r, node->other);
    tern_jinja_loop *loop = tern_jinja__alloc(&r->pool, 1, sizeof *loop);
    if (!loop) return tern_jinja__status(&r->pool);
    *loop = (tern_jinja_loop){.items = items, .depth = depth, .node = node, .scope = r->scope->parent};
    for (; loop->index < items->n; loop->index++) {
        TERN_TRY(run_pass(r, node, loop));
        tern_jinja_jump jump = r->jump;
        r->jump = TERN_JINJA_GO_ON;
        if (jump == TERN_JINJA_DO_BREAK) break;
    }
    return TERN_OK;
}

/* The whole loop over these items, in a scope under `parent`. */
static tern_status run_items(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_scope *parent,
                             const tern_jinja_value *iterable, size_t depth)
{
    const tern_jinja_list *items;
    tern_jinja_scope *outer = r->scope;
    TERN_TRY(tern_jinja__iterate(r, iterable, &items));
    TERN_TRY(tern_jinja__scope_open(r, parent, &r->scope));
    tern_status status = run_passes(r, node, items, depth);
    r->scope = outer;
    return status;
}

static tern_status run_for(tern_jinja_render *r, const tern_jinja_node *node)
{
    tern_jinja_value iterable;
    TERN_TRY(tern_jinja__eval(r, node->b, &iterable));
    return run_items(r, node, r->scope, &iterable, 0);
}

tern_status tern_jinja__run_loop(tern_jinja_render *r, const tern_jinja_loop *loop, const tern_jinja_args *args,
                                 tern_jinja_value *out)
{
    tern_jinja_rope text = {0}, *outer = r->out;
    if (!loop->node->op) return tern_jinja__bad(r, "loop() in a loop that is not recursive");
    if (args->n_positional != 1 || args->n_named)
        return tern_jinja__bad(r, "loop() takes 1 argument, not %zu", args->n_positional + args->n_named);
    r->out = &text;
    tern_status status = run_items(r, loop->node, loop->scope, &args->values[0], loop->depth + 1);
    r->out = outer;
    return status == TERN_OK ? tern_jinja__rope_value(r, &text, out) : status;
}

static tern_status run_set(tern_jinja_render *r, const tern_jinja_node *node)
{
    tern_jinja_value value;
    TERN_TRY(tern_jinja__eval(r, node->b, &value));
    return assign(r, node->a, &value);
}

/* Applies the chain of filters, innermost first, to the text of the block. */
static tern_status apply_filters(tern_jinja_render *r, const tern_jinja_node *filter, tern_jinja_value *text)
{
    tern_jinja_args args;
    tern_jinja_value in = *text;
    if (!filter) return TERN_OK;
    TERN_TRY(apply_filters(r, filter->a, &in));
    TERN_TRY(tern_jinja__eval_args(r, filter->list, &args));
    if (!filter->filter) return tern_jinja__unknown(&r->pool, "filter", filter->name);
    return tern_jinja__call_filter(r, filter->filter, &in, &args, text);
}

/* The text of the node's body through its filters. */
static tern_status filtered_body(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *text)
{
    tern_jinja_scope *scope;
    TERN_TRY(tern_jinja__scope_open(r, r->scope, &scope));
    TERN_TRY(tern_jinja__capture(r, scope, node->list, text));
    return apply_filters(r, node->b, text);
}

static tern_status run_filter_block(tern_jinja_render *r, const tern_jinja_node *node)
{
    tern_jinja_value text;
    TERN_TRY(filtered_body(r, node, &text));
    return tern_jinja__print(r, &text, r->out);
}

static tern_status run_set_block(tern_jinja_render *r, const tern_jinja_node *node)
{
    tern_jinja_value text;
    TERN_TRY(filtered_body(r, node, &text));
    return assign(r, node->a, &text);
}

static tern_status make_macro(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    tern_jinja_macro *macro = tern_jinja__alloc(&r->pool, 1, sizeof *macro);
    if (!macro) return tern_jinja__status(&r->pool);
    *macro = (tern_jinja_macro){.node = node, .scope = r->scope};
    *out = (tern_jinja_value){.kind = TERN_JINJA_MACRO, .macro = macro};
    return TERN_OK;
}

static tern_status run_macro_definition(tern_jinja_render *r, const tern_jinja_node *node)
{
    tern_jinja_value value;
    TERN_TRY(make_macro(r, node, &value));
    return tern_jinja__scope_set(r, r->scope, node->name, &value);
}

static tern_status run_call_block(tern_jinja_render *r, const tern_jinja_node *node)
{
    tern_jinja_value caller, text;
    TERN_TRY(make_macro(r, node->a, &caller));
    TERN_TRY(tern_jinja__eval_call(r, node->b, &caller, &text));
    return tern_jinja__print(r, &text, r->out);
}

/* The values are those of the scope outside. */
static tern_status set_with(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_scope *inner)
{
    tern_jinja_scope *outer = r->scope;
    for (const tern_jinja_node *set = node->a; set; set = set->next) {
        tern_jinja_value value;
        TERN_TRY(tern_jinja__eval(r, set->b, &value));
        r->scope = inner;
        TERN_TRY(assign(r, set->a, &value));
        r->scope = outer;
    }
    return TERN_OK;
}

static tern_status run_with(tern_jinja_render *r, const tern_jinja_node *node)
{
    tern_jinja_scope *outer = r->scope, *inner;
    TERN_TRY(tern_jinja__scope_open(r, outer, &inner));
    TERN_TRY(set_with(r, node, inner));
    r->scope = inner;
    tern_status status = tern_jinja__run(r, node->list);
    r->scope = outer;
    return status;
}

static tern_status run_print(tern_jinja_render *r, const tern_jinja_node *node)
{
    tern_jinja_value value;
    TERN_TRY(tern_jinja__eval(r, node->a, &value));
    return tern_jinja__print(r, &value, r->out);
}

static tern_status run_one(tern_jinja_render *r, const tern_jinja_node *node)
{
    r->pool.line = node->line;
    switch (node->kind) {
    case TERN_JINJA_TEXT: return tern_jinja__emit(r, r->out, node->value.str);
    case TERN_JINJA_PRINT: return run_print(r, node);
    case TERN_JINJA_IF: return run_if(r, node);
    case TERN_JINJA_FOR: return run_for(r, node);
    case TERN_JINJA_SET: return run_set(r, node);
    case TERN_JINJA_SET_BLOCK: return run_set_block(r, node);
    case TERN_JINJA_MACRO_DEF: return run_macro_definition(r, node);
    case TERN_JINJA_CALL_BLOCK: return run_call_block(r, node);
    case TERN_JINJA_FILTER_BLOCK: return run_filter_block(r, node);
    case TERN_JINJA_WITH: return run_with(r, node);
    case TERN_JINJA_BLOCK: return tern_jinja__run(r, node->list);
    case TERN_JINJA_BREAK: r->jump = TERN_JINJA_DO_BREAK; return TERN_OK;
    case TERN_JINJA_CONTINUE: r->jump = TERN_JINJA_DO_CONTINUE; return TERN_OK;
    default: return tern_jinja__fail(&r->pool, TERN_INTERNAL, "statement of kind %d", (int)node->kind);
    }
}

tern_status tern_jinja__run(tern_jinja_render *r, const tern_jinja_node *statements)
{
    TERN_TRY(tern_jinja__enter_render(r));
    for (const tern_jinja_node *node = statements; node && r->jump == TERN_JINJA_GO_ON; node = node->next) {
        TERN_TRY(tern_jinja__charge(&r->pool, 1));
        TERN_TRY(run_one(r, node));
    }
    r->depth--;
    return TERN_OK;
}
