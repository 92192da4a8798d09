/* Arrays of JSON Schema: items by their places, their counts, and items that differ. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"

static const uint32_t NOTHING = TERN_SCHEMA_NOTHING;

/* Values of which each may be there once: states are the values that are there already, or (many of them) the next one
 * that may follow and how many are there. */
enum { MOST_ANY_ORDER = 6 };

/* "," and an item. */
static tern_status further(tern_schema *s, uint32_t item, uint32_t *node, tern_error *err)
{
    uint32_t items[2] = {0, item};
    TERN_TRY(tern_schema__spaced(s, " ", ",", " ", &items[0], err));
    return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 2, node, err);
}

/* least to most items with commas between them; `first`: none stands before. */
static tern_status repeated(tern_schema *s, uint32_t item, bool first, uint32_t least, uint32_t most, uint32_t *node,
                            tern_error *err)
{
    uint32_t items[2] = {item, 0};
    const uint32_t fewer = most == TERN_GRAMMAR_FOREVER || most == 0 ? most : most - 1;
    if (most == 0) return tern_grammar_tree__bytes(s->tree, "", 0, node, err);
    TERN_TRY(further(s, item, &items[1], err));
    if (!first) return tern_grammar_tree__repeat(s->tree, items[1], least, most, node, err);
    TERN_TRY(tern_grammar_tree__repeat(s->tree, items[1], least ? least - 1 : 0, fewer, &items[1], err));
    TERN_TRY(tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 2, node, err));
    return least ? TERN_OK : tern_grammar_tree__repeat(s->tree, *node, 0, 1, node, err);
}

/* The items up to the n-th, with schemas of their own, then `node`; of which least must be there. */
static tern_status prefix(tern_schema *s, const uint32_t *first, size_t n, uint32_t least, uint32_t *node,
                          tern_error *err)
{
    for (size_t i = n; i--;) {
        uint32_t items[2] = {first[i], *node};
        if (i) TERN_TRY(further(s, items[0], &items[0], err));
        TERN_TRY(tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 2, node, err));
        if (i >= least) TERN_TRY(tern_grammar_tree__repeat(s->tree, *node, 0, 1, node, err));
    }
    return TERN_OK;
}

/* The nodes of the first items, up to one that no value fits; *n of them. */
static tern_status add_first(tern_schema *s, const json_t *first, uint32_t *nodes, uint32_t *n, tern_error *err)
{
    const size_t before = tern_schema__enter(s, "prefixItems");
    const uint32_t most = *n;
    for (*n = 0; *n < most; ++*n) {
        const size_t outer = tern_schema__enter_item(s, *n);
        TERN_TRY(tern_schema__add(s, json_array_get(first, *n), &nodes[*n], err));
        tern_schema__leave(s, outer);
        if (nodes[*n] == NOTHING) break;
    }
    tern_schema__leave(s, before);
    return TERN_OK;
}

static tern_status add_rest(tern_schema *s, const json_t *rest, uint32_t *item, tern_error *err)
{
    const size_t before = tern_schema__enter(s, "items");
    if (rest) TERN_TRY(tern_schema__add(s, rest, item, err));
    else TERN_TRY(tern_grammar_tree__call(s->tree, s->value, item, err));
    tern_schema__leave(s, before);
    return TERN_OK;
}

/* The items, where `nodes` has room for the n first. */
static tern_status items_of(tern_schema *s, const json_t *plain, uint32_t *nodes, uint32_t n, uint32_t *node,
                            tern_error *err)
{
    const uint32_t least = tern_schema__count(plain, "minItems", 0);
    uint32_t most = tern_schema__count(plain, "maxItems", TERN_GRAMMAR_FOREVER), item = NOTHING, found = n;
    if (found > most) found = most;
    const uint32_t wanted = found;
    TERN_TRY(add_first(s, json_object_get(plain, "prefixItems"), nodes, &found, err));
    if (found == wanted && most > found) TERN_TRY(add_rest(s, json_object_get(plain, "items"), &item, err));
    if (item == NOTHING && most > found) most = found;
    if (least > most) return tern_schema__nothing(s, "minItems", "fewer items may be there", node);
    TERN_TRY(repeated(s, item, found == 0, least > found ? least - found : 0,
                      most == TERN_GRAMMAR_FOREVER ? most : most - found, node, err));
    return prefix(s, nodes, found, least, node, err);
}

static tern_status add_items(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err)
{
    const size_t n = json_array_size(json_object_get(plain, "prefixItems"));
    if (n > TERN_SCHEMA_MAX_MEMBERS)
        return tern_schema__fail(s, TERN_LIMIT, "prefixItems", "more than 1000 schemas", err);
    if (json_object_get(plain, "uniqueItems") && tern_schema__count(plain, "maxItems", TERN_GRAMMAR_FOREVER) > 1)
        return tern_schema__unique(s, plain, node, err);
    uint32_t *nodes = tern_calloc(n + 1, sizeof *nodes);
    if (!nodes) return tern_fail_alloc(err, n * sizeof *nodes);
    const tern_status status = items_of(s, plain, nodes, (uint32_t)n, node, err);
    tern_free(nodes);
    return status;
}

tern_status tern_schema__array(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err)
{
    uint32_t items[3] = {NOTHING, NOTHING, NOTHING};
    TERN_TRY(add_items(s, plain, &items[1], err));
    *node = NOTHING;
    if (items[1] == NOTHING) return TERN_OK;
    TERN_TRY(tern_schema__spaced(s, NULL, "[", " ", &items[0], err));
    TERN_TRY(tern_schema__spaced(s, " ", "]", NULL, &items[2], err));
    return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 3, node, err);
}

/* Adds a value to a list that lacks it. */
static tern_status add_value(tern_schema *s, json_t *values, json_t *value, tern_error *err)
{
    size_t i;
    json_t *other;
    bool found = false;
    TERN_TRY(tern_schema__count_work(s, json_array_size(values) / 8 + 1, err));
    json_array_foreach(values, i, other)
    {
        found = found || tern_schema__same(other, value);
    }
    if (found) json_decref(value);
    else if (!value || json_array_append_new(values, value) != 0) return tern_fail_alloc(err, 64);
    return TERN_OK;
}

/* The whole numbers between two bounds; *few false: there are too many. */
static tern_status add_numbers(tern_schema *s, const json_t *plain, json_t *values, bool *few, tern_error *err)
{
    tern_schema_range r;
    bool none;
    TERN_TRY(tern_schema__range(s, plain, true, &r, &none, err));
    *few = none || (r.low && r.high && r.most - r.least < 256);
    for (int64_t n = r.least; *few && !none && n <= r.most; n++)
        if (n % (int64_t)r.step == 0) TERN_TRY(add_value(s, values, json_real((double)n), err));
    return TERN_OK;
}

/* The values of a plain schema, where they are few. */
static tern_status add_values(tern_schema *s, const json_t *plain, json_t *values, bool *few, tern_error *err)
{
    const unsigned types = tern_schema__types(plain);
    size_t i;
    json_t *value;
    bool holds;
    json_array_foreach(json_object_get(plain, "enum"), i, value)
    {
        TERN_TRY(tern_schema__plain_holds(s, plain, value, &holds, err));
        if (holds) TERN_TRY(add_value(s, values, json_incref(value), err));
    }
    if (json_object_get(plain, "enum")) return TERN_OK;
    *few = !(types & (TERN_SCHEMA_OBJECT | TERN_SCHEMA_ARRAY | TERN_SCHEMA_STRING | TERN_SCHEMA_FRACTION));
    if (!*few) return TERN_OK;
    if (types & TERN_SCHEMA_BOOLEAN) TERN_TRY(add_value(s, values, json_true(), err));
    if (types & TERN_SCHEMA_BOOLEAN) TERN_TRY(add_value(s, values, json_false(), err));
    if (types & TERN_SCHEMA_NULL) TERN_TRY(add_value(s, values, json_null(), err));
    return types & TERN_SCHEMA_INTEGER ? add_numbers(s, plain, values, few, err) : TERN_OK;
}

/* The values that items may have; *few false: they are not few. */
static tern_status find_values(tern_schema *s, const json_t *plain, json_t *values, bool *few, tern_error *err)
{
    const json_t *items = json_object_get(plain, "items");
    tern_schema_ways ways = {0};
    tern_status status = TERN_OK;
    *few = items && !json_array_size(json_object_get(plain, "prefixItems"));
    if (*few) TERN_GOTO(tern_schema__flatten(s, items, &ways, err));
    for (size_t i = 0; i < ways.n && *few; i++) TERN_GOTO(add_values(s, ways.items[i], values, few, err));
fail:
    tern_free(ways.items);
    return status;
}

/* An array under way. `rests[state]` is what may follow; `items` are the nodes of the values. */
typedef struct different {
    tern_schema *s;
    uint32_t n, least, most;
    const uint32_t *items;
    uint32_t *rests;
} different;

/* Writes what may follow where `count` items are there: the end, or any of the values that `allowed` has. */
static tern_status write_rest(different *d, uint32_t count, const uint32_t *states, uint32_t *node, tern_error *err)
{
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    uint32_t rule, parts[2];
    if (count >= d->least) {
        TERN_GOTO(tern_grammar_tree__bytes(d->s->tree, "", 0, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    for (uint32_t i = 0; i < d->n && count < d->most; i++) {
        if (states[i] == NOTHING || d->rests[states[i]] == NOTHING) continue;
        parts[0] = d->items[i];
        parts[1] = d->rests[states[i]];
        if (count) TERN_GOTO(further(d->s, parts[0], &parts[0], err));
        TERN_GOTO(tern_grammar_tree__join_n(d->s->tree, TERN_GRAMMAR_ALL, parts, 2, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    TERN_GOTO(tern_schema__any(d->s, &items, node, err));
    if (*node == NOTHING) goto fail;
    TERN_GOTO(tern_schema__rule(d->s, "different", true, *node, &rule, err));
    status = tern_grammar_tree__call(d->s->tree, rule, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

/* In any order: a state is the set of values that are there. */
static tern_status in_any_order(different *d, uint32_t *states, tern_error *err)
{
    for (uint32_t set = 1u << d->n; set--;) {
        for (uint32_t i = 0; i < d->n; i++) states[i] = set >> i & 1 ? NOTHING : set | 1u << i;
        TERN_TRY(write_rest(d, (uint32_t)__builtin_popcount(set), states, &d->rests[set], err));
    }
    return TERN_OK;
}

/* In the order of the values: a state is the next one that may follow, and how many are there, as far as it matters. */
static tern_status in_order(different *d, uint32_t n_counts, uint32_t *states, tern_error *err)
{
    for (uint32_t from = d->n + 1; from--;) {
        for (uint32_t count = 0; count < n_counts; count++) {
            const uint32_t more = count + 1 < n_counts ? count + 1 : count;
            for (uint32_t i = 0; i < d->n; i++) states[i] = i < from ? NOTHING : (i + 1) * n_counts + more;
            TERN_TRY(write_rest(d, count, states, &d->rests[from * n_counts + count], err));
        }
    }
    return TERN_OK;
}

static tern_status write_different(different *d, uint32_t *node, tern_error *err)
{
    const bool any_order = d->n <= MOST_ANY_ORDER;
    const uint32_t n_counts = (d->most < d->n ? d->most : d->least ? d->least : 1) + 1;
    const uint32_t n_states = any_order ? 1u << d->n : (d->n + 1) * n_counts;
    if ((uint64_t)n_states * d->n > 16 * TERN_SCHEMA_MAX_LISTED)
        return tern_schema__fail(d->s, TERN_LIMIT, "uniqueItems", "more values and counts than can be listed", err);
    uint32_t *states = tern_calloc(d->n + (size_t)1, sizeof *states);
    d->rests = tern_calloc(n_states, sizeof *d->rests);
    tern_status status = states && d->rests ? TERN_OK : tern_fail_alloc(err, n_states * sizeof *d->rests);
    if (status == TERN_OK) status = any_order ? in_any_order(d, states, err) : in_order(d, n_counts, states, err);
    if (status == TERN_OK) *node = d->rests[0];
    tern_free(states);
    tern_free(d->rests);
    return status;
}

static tern_status write_values(tern_schema *s, const json_t *values, uint32_t *nodes, tern_error *err)
{
    tern_buf text = {0};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < json_array_size(values); i++) {
        text.size = 0;
        TERN_GOTO(tern_grammar_json__print(&text, json_array_get(values, i), err));
        TERN_GOTO(tern_grammar_tree__bytes(s->tree, text.data, text.size, &nodes[i], err));
    }
fail:
    tern_buf_deinit(&text);
    return status;
}

tern_status tern_schema__unique(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err)
{
    json_t *values = json_array();
    bool few;
    TERN_TRY(tern_schema__keep(s, values, err));
    TERN_TRY(find_values(s, plain, values, &few, err));
    if (!few)
        return tern_schema__fail(s, TERN_UNSUPPORTED, "uniqueItems",
                                 "it is supported for items of few values: an enum, booleans, or whole numbers between "
                                 "bounds less than 256 apart",
                                 err);
    different d = {.s = s,
                   .n = (uint32_t)json_array_size(values),
                   .least = tern_schema__count(plain, "minItems", 0),
                   .most = tern_schema__count(plain, "maxItems", TERN_GRAMMAR_FOREVER)};
    if (d.least > d.n || d.least > d.most)
        return tern_schema__nothing(s, "minItems", "fewer different items may be there", node);
    uint32_t *items = tern_calloc(d.n + (size_t)1, sizeof *items);
    if (!items) return tern_fail_alloc(err, d.n * sizeof *items);
    d.items = items;
    tern_status status = write_values(s, values, items, err);
    if (status == TERN_OK) status = write_different(&d, node, err);
    tern_free(items);
    return status;
}
