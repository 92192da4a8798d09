/* Evaluating the expressions of a chat template. */
#include "text/jinja/render.h"

static tern_status eval_name(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    const tern_jinja_value *found = tern_jinja__scope_find(r, node->name);
    const tern_jinja_function *function = found ? NULL : tern_jinja__find_function(node->name);
    if (found) *out = *found;
    else if (function) *out = (tern_jinja_value){.kind = TERN_JINJA_FUNCTION, .function = function};
    else *out = tern_jinja__undefined(node->name);
    return TERN_OK;
}

static tern_status eval_items(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    size_t n = 0;
    for (const tern_jinja_node *i = node->list; i; i = i->next) n++;
    tern_jinja_value *items;
    TERN_TRY(tern_jinja__list(&r->pool, (tern_jinja_kind)node->op, n, out, &items));
    for (const tern_jinja_node *i = node->list; i; i = i->next) TERN_TRY(tern_jinja__eval(r, i, items++));
    return TERN_OK;
}

static tern_status eval_map(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    TERN_TRY(tern_jinja__dict(&r->pool, TERN_JINJA_DICT, out));
    for (const tern_jinja_node *i = node->list; i; i = i->next->next) {
        tern_jinja_value key, value;
        TERN_TRY(tern_jinja__eval(r, i, &key));
        TERN_TRY(tern_jinja__eval(r, i->next, &value));
        TERN_TRY(tern_jinja__dict_set(&r->pool, out->dict, &key, &value));
    }
    return TERN_OK;
}

static tern_status eval_attribute(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    tern_jinja_value object;
    TERN_TRY(tern_jinja__eval(r, node->a, &object));
    return tern_jinja__attribute(r, &object, node->name, out);
}

static tern_status eval_index(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    tern_jinja_value object, key;
    TERN_TRY(tern_jinja__eval(r, node->a, &object));
    TERN_TRY(tern_jinja__eval(r, node->b, &key));
    return tern_jinja__item(r, &object, &key, out);
}

static tern_status eval_slice(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    tern_jinja_value object, values[3];
    const tern_jinja_node *const nodes[3] = {node->b, node->c, node->d};
    const tern_jinja_value *bounds[3] = {NULL, NULL, NULL};
    TERN_TRY(tern_jinja__eval(r, node->a, &object));
    for (size_t i = 0; i < 3; i++) {
        if (!nodes[i]) continue;
        TERN_TRY(tern_jinja__eval(r, nodes[i], &values[i]));
        bounds[i] = &values[i];
    }
    return tern_jinja__slice_value(r, &object, bounds, out);
}

static tern_status eval_filter(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    tern_jinja_value self;
    tern_jinja_args args;
    TERN_TRY(tern_jinja__eval(r, node->a, &self));
    TERN_TRY(tern_jinja__eval_args(r, node->list, &args));
    r->pool.line = node->line;
    if (!node->filter) return tern_jinja__unknown(&r->pool, "filter", node->name);
    return tern_jinja__call_filter(r, node->filter, &self, &args, out);
}

static tern_status eval_test(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    tern_jinja_value self;
    tern_jinja_args args;
    bool holds = false;
    TERN_TRY(tern_jinja__eval(r, node->a, &self));
    TERN_TRY(tern_jinja__eval_args(r, node->list, &args));
    r->pool.line = node->line;
    if (!node->test) return tern_jinja__unknown(&r->pool, "test", node->name);
    TERN_TRY(tern_jinja__call_test(r, node->test, &self, &args, &holds));
    *out = tern_jinja__bool(holds != (bool)node->op);
    return TERN_OK;
}

static tern_status negate(tern_jinja_render *r, tern_jinja_value *v)
{
    if (v->kind == TERN_JINJA_FLOAT) {
        v->real = -v->real;
        return TERN_OK;
    }
    if (tern_jinja__as_int(v) == INT64_MIN) return tern_jinja__fail(&r->pool, TERN_LIMIT, "integer overflow");
    *v = tern_jinja__int(-tern_jinja__as_int(v));
    return TERN_OK;
}

static tern_status eval_unary(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    TERN_TRY(tern_jinja__eval(r, node->a, out));
    if (node->op == '!') {
        *out = tern_jinja__bool(!tern_jinja__truth(out));
        return TERN_OK;
    }
    if (!tern_jinja__is_number(out))
        return tern_jinja__bad(r, "sign before %s, expected a number", tern_jinja__kind_words(out->kind));
    if (node->op == '-') return negate(r, out);
    if (out->kind == TERN_JINJA_BOOL) *out = tern_jinja__int(out->flag);
    return TERN_OK;
}

static tern_status eval_binary(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    tern_jinja_value a, b;
    TERN_TRY(tern_jinja__eval(r, node->a, &a));
    if ((node->op == '&' && !tern_jinja__truth(&a)) || (node->op == '|' && tern_jinja__truth(&a))) {
        *out = a;
        return TERN_OK;
    }
    TERN_TRY(tern_jinja__eval(r, node->b, &b));
    r->pool.line = node->line;
    if (node->op != '&' && node->op != '|') return tern_jinja__binary(r, node->op, &a, &b, out);
    *out = b;
    return TERN_OK;
}

/* a < b < c: every neighbour pair, stopping at the first that does not hold. */
static tern_status eval_compare(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    tern_jinja_value left, right;
    bool holds = true;
    TERN_TRY(tern_jinja__eval(r, node->a, &left));
    for (const tern_jinja_node *next = node->list; next && holds; next = next->next) {
        TERN_TRY(tern_jinja__eval(r, next->a, &right));
        r->pool.line = next->line;
        TERN_TRY(tern_jinja__compare(r, next->op, &left, &right, &holds));
        left = right;
    }
    *out = tern_jinja__bool(holds);
    return TERN_OK;
}

static tern_status eval_condition(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    tern_jinja_value condition;
    TERN_TRY(tern_jinja__eval(r, node->a, &condition));
    if (tern_jinja__truth(&condition)) return tern_jinja__eval(r, node->b, out);
    if (node->c) return tern_jinja__eval(r, node->c, out);
    *out = tern_jinja__undefined(tern_jinja__words("else of an inline if"));
    return TERN_OK;
}

static tern_status eval_kind(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    r->pool.line = node->line;
    switch (node->kind) {
    case TERN_JINJA_CONST: *out = node->value; return TERN_OK;
    case TERN_JINJA_NAME: return eval_name(r, node, out);
    case TERN_JINJA_ITEMS: return eval_items(r, node, out);
    case TERN_JINJA_MAP: return eval_map(r, node, out);
    case TERN_JINJA_ATTR: return eval_attribute(r, node, out);
    case TERN_JINJA_INDEX: return eval_index(r, node, out);
    case TERN_JINJA_SLICE: return eval_slice(r, node, out);
    case TERN_JINJA_CALL: return tern_jinja__eval_call(r, node, NULL, out);
    case TERN_JINJA_FILTER: return eval_filter(r, node, out);
    case TERN_JINJA_TEST: return eval_test(r, node, out);
    case TERN_JINJA_UNARY: return eval_unary(r, node, out);
    case TERN_JINJA_BINARY: return eval_binary(r, node, out);
    case TERN_JINJA_COMPARE: return eval_compare(r, node, out);
    case TERN_JINJA_COND: return eval_condition(r, node, out);
    default: return tern_jinja__fail(&r->pool, TERN_INTERNAL, "expression of kind %d", (int)node->kind);
    }
}

tern_status tern_jinja__eval(tern_jinja_render *r, const tern_jinja_node *node, tern_jinja_value *out)
{
    TERN_TRY(tern_jinja__enter_render(r));
    TERN_TRY(eval_kind(r, node, out));
    r->depth--;
    return TERN_OK;
}
