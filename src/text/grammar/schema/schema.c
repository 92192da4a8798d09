/* JSON Schema to a grammar: references, alternatives, and plain schemas by their types. */
#include "text/grammar/schema/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/internal.h"

tern_status tern_schema__keep(tern_schema *s, json_t *fresh, tern_error *err)
{
    if (!fresh || json_array_append_new(s->made, fresh) != 0) return tern_fail_alloc(err, 64);
    return tern_schema__count_work(s, 1, err);
}

/* The rule of what a pointer points to, which is read later. */
static tern_status target_of(tern_schema *s, const char *pointer, uint32_t *rule, tern_error *err)
{
    const size_t n = strlen(pointer);
    bool added;
    if (tern_map_find(&s->rules, (tern_span){(const uint8_t *)pointer, n}, rule)) return TERN_OK;
    const json_t *schema = tern_schema__resolve(s->document, pointer);
    if (!schema)
        return tern_schema__fail(s, TERN_UNSUPPORTED, "$ref", "a pointer, $id or $anchor of this document expected",
                                 err);
    const char *name = tern_arena_strndup(&s->names, pointer, n);
    if (!name) return tern_fail_alloc(err, n);
    TERN_TRY(tern_grammar_tree__rule(s->tree, name, n, rule, err));
    TERN_TRY(tern_map_add(&s->rules, (tern_span){(const uint8_t *)name, n}, *rule, &added, err));
    TERN_TRY(tern_grow((void **)&s->targets, &s->cap_targets, s->n_targets + 1, sizeof *s->targets, err));
    s->targets[s->n_targets++] = (tern_schema_target){name, schema, *rule};
    return TERN_OK;
}

static tern_status add_ref(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    const json_t *ref = json_object_get(schema, "$ref");
    uint32_t rule;
    if (!json_is_string(ref) || json_string_length(ref) > 1024)
        return tern_schema__fail(s, TERN_MALFORMED, "$ref", "a short string expected", err);
    TERN_TRY(target_of(s, json_string_value(ref), &rule, err));
    return tern_grammar_tree__call(s->tree, rule, node, err);
}

tern_status tern_schema__any(tern_schema *s, tern_grammar_list *items, uint32_t *node, tern_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < items->n; i++)
        if (items->nodes[i] != TERN_SCHEMA_NOTHING) items->nodes[kept++] = items->nodes[i];
    items->n = kept;
    *node = TERN_SCHEMA_NOTHING;
    return kept ? tern_grammar_tree__join(s->tree, TERN_GRAMMAR_ANY, items, node, err) : TERN_OK;
}

static tern_status add_choices(tern_schema *s, const json_t *schema, const char *key, uint32_t *node, tern_error *err)
{
    const json_t *choices = json_object_get(schema, key);
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    if (json_array_size(choices) == 0)
        return tern_schema__fail(s, TERN_MALFORMED, key, "an array of at least one schema expected", err);
    const size_t before = tern_schema__enter(s, key);
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const size_t outer = tern_schema__enter_item(s, i);
        TERN_GOTO(tern_schema__add(s, json_array_get(choices, i), node, err));
        tern_schema__leave(s, outer);
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    tern_schema__leave(s, before);
    status = tern_schema__any(s, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

/* Any of several types, as bits. */
static tern_status add_types(tern_schema *s, const json_t *plain, unsigned types, uint32_t *node, tern_error *err)
{
    static const char *const words[] = {"true", "false", "null"};
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    for (unsigned bit = 1; bit <= TERN_SCHEMA_NULL; bit *= 2) {
        *node = TERN_SCHEMA_NOTHING;
        if (!(types & bit)) continue;
        if (bit == TERN_SCHEMA_OBJECT) TERN_GOTO(tern_schema__object(s, plain, node, err));
        if (bit == TERN_SCHEMA_ARRAY) TERN_GOTO(tern_schema__array(s, plain, node, err));
        if (bit == TERN_SCHEMA_STRING) TERN_GOTO(tern_schema__text(s, plain, node, err));
        if (bit == TERN_SCHEMA_INTEGER)
            TERN_GOTO(tern_schema__number(s, plain, !(types & TERN_SCHEMA_FRACTION), node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
        for (size_t i = bit == TERN_SCHEMA_NULL ? 2 : 0; i < 3 && bit >= TERN_SCHEMA_BOOLEAN; i++) {
            if (bit == TERN_SCHEMA_BOOLEAN && i == 2) continue;
            TERN_GOTO(tern_grammar_tree__text(s->tree, words[i], node, err));
            TERN_GOTO(tern_grammar_list__add(&items, *node, err));
        }
    }
    status = tern_schema__any(s, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

unsigned tern_schema__written_types(const json_t *plain)
{
    static const struct {
        const char *key;
        unsigned type;
    } keys[] = {{"properties", TERN_SCHEMA_OBJECT},
                {"required", TERN_SCHEMA_OBJECT},
                {"additionalProperties", TERN_SCHEMA_OBJECT},
                {"patternProperties", TERN_SCHEMA_OBJECT},
                {"propertyNames", TERN_SCHEMA_OBJECT},
                {"minProperties", TERN_SCHEMA_OBJECT},
                {"maxProperties", TERN_SCHEMA_OBJECT},
                {"items", TERN_SCHEMA_ARRAY},
                {"prefixItems", TERN_SCHEMA_ARRAY},
                {"minItems", TERN_SCHEMA_ARRAY},
                {"maxItems", TERN_SCHEMA_ARRAY},
                {"uniqueItems", TERN_SCHEMA_ARRAY},
                {"minLength", TERN_SCHEMA_STRING},
                {"maxLength", TERN_SCHEMA_STRING},
                {"pattern", TERN_SCHEMA_STRING},
                {"format", TERN_SCHEMA_STRING},
                {"minimum", TERN_SCHEMA_FRACTION | TERN_SCHEMA_INTEGER},
                {"maximum", TERN_SCHEMA_FRACTION | TERN_SCHEMA_INTEGER},
                {"exclusiveMinimum", TERN_SCHEMA_FRACTION | TERN_SCHEMA_INTEGER},
                {"exclusiveMaximum", TERN_SCHEMA_FRACTION | TERN_SCHEMA_INTEGER},
                {"multipleOf", TERN_SCHEMA_FRACTION | TERN_SCHEMA_INTEGER}};
    if (json_object_get(plain, "type")) return tern_schema__types(plain);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(plain, keys[i].key)) return keys[i].type;
    return TERN_SCHEMA_ANY;
}

static tern_status add_plain(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err)
{
    const unsigned types = tern_schema__written_types(plain);
    if (json_object_get(plain, "enum")) return tern_schema__values(s, plain, node, err);
    if (types == TERN_SCHEMA_ANY && json_object_size(plain) == 0)
        return tern_grammar_tree__call(s->tree, s->value, node, err);
    return add_types(s, plain, types, node, err);
}

static tern_status add_flat(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    tern_schema_ways ways = {0};
    tern_grammar_list items = {0};
    tern_status status;
    TERN_GOTO(tern_schema__flatten(s, schema, &ways, err));
    for (size_t i = 0; i < ways.n; i++) {
        TERN_GOTO(add_plain(s, ways.items[i], node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    status = tern_schema__any(s, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    tern_free(ways.items);
    return status;
}

/* Whether the schema has the key, and beside it only what says nothing. */
static bool is_alone(const json_t *schema, const char *key)
{
    static const char *const silent[] = {"title",    "description",   "default",    "example",  "examples",
                                         "$comment", "discriminator", "deprecated", "readOnly", "writeOnly",
                                         "$defs",    "definitions",   "$schema",    "$id",      "id",
                                         "$anchor"};
    const char *other;
    json_t *ignored;
    size_t i;
    json_object_foreach((json_t *)schema, other, ignored)
    {
        if (strcmp(other, key) == 0 || strncmp(other, "x-", 2) == 0) continue;
        for (i = 0; i < sizeof silent / sizeof *silent && strcmp(silent[i], other) != 0; i++) {}
        if (i == sizeof silent / sizeof *silent) return false;
    }
    return json_object_get(schema, key) != NULL;
}

/* Whether no value is valid by two schemas of oneOf, as they are. */
static tern_status are_apart(tern_schema *s, const json_t *choices, bool *apart, tern_error *err)
{
    const size_t n = json_array_size(choices);
    tern_schema_ways *lists = tern_calloc(n + 1, sizeof *lists);
    tern_status status = lists ? TERN_OK : tern_fail_alloc(err, n * sizeof *lists);
    *apart = true;
    if (!lists) return status;
    for (size_t i = 0; i < n; i++) TERN_GOTO(tern_schema__flatten(s, json_array_get(choices, i), &lists[i], err));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (size_t a = 0; a < lists[i].n && i != k; a++)
                for (size_t b = 0; b < lists[k].n && *apart; b++)
                    TERN_GOTO(tern_schema__is_apart(s, lists[i].items[a], lists[k].items[b], apart, NULL, err));
fail:
    for (size_t i = 0; i < n; i++) tern_free(lists[i].items);
    tern_free(lists);
    return status;
}

static tern_status add_keywords(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    bool apart;
    if (is_alone(schema, "$ref")) return add_ref(s, schema, node, err);
    if (is_alone(schema, "anyOf")) return add_choices(s, schema, "anyOf", node, err);
    if (is_alone(schema, "oneOf")) {
        const size_t before = tern_schema__enter(s, "oneOf");
        TERN_TRY(are_apart(s, json_object_get(schema, "oneOf"), &apart, err));
        tern_schema__leave(s, before);
        if (apart) return add_choices(s, schema, "oneOf", node, err);
    }
    return add_flat(s, schema, node, err);
}

/* A name for what a schema is: its text where it was made from others, so that what refers to itself is found again;
 * else its place in memory. NULL, with nothing in err: it is not worth a rule. */
static tern_status name_of(tern_schema *s, const json_t *schema, char **name, tern_error *err)
{
    static const char *const keys[] = {"allOf",
                                       "properties",
                                       "items",
                                       "prefixItems",
                                       "anyOf",
                                       "oneOf",
                                       "enum",
                                       "additionalProperties",
                                       "patternProperties",
                                       "pattern",
                                       "format"};
    char place[32];
    bool worth = false;
    *name = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) worth = worth || json_object_get(schema, keys[i]);
    if (!worth && !(json_object_get(schema, "$ref") && !is_alone(schema, "$ref"))) return TERN_OK;
    if (json_object_get(schema, "allOf") || json_object_get(schema, "$ref")) {
        char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!text) return tern_fail_alloc(err, 64);
        *name = tern_arena_strndup(&s->names, text, strlen(text));
        const size_t n = strlen(text);
        tern_free(text);
        TERN_TRY(tern_schema__count_work(s, n / 16, err));
    } else {
        const int n = snprintf(place, sizeof place, "@%p", (const void *)schema);
        *name = tern_arena_strndup(&s->names, place, (size_t)n);
    }
    return *name ? TERN_OK : tern_fail_alloc(err, sizeof place);
}

/* Writes a schema as a rule, under a name. */
static tern_status add_shared(tern_schema *s, const json_t *schema, const char *name, uint32_t *node, tern_error *err)
{
    const tern_span key = {(const uint8_t *)name, strlen(name)};
    uint32_t i, body;
    bool added;
    if (tern_map_find(&s->rules, key, &i)) {
        *node = TERN_SCHEMA_NOTHING;
        return s->shared[i].nothing ? TERN_OK : tern_grammar_tree__call(s->tree, s->shared[i].rule, node, err);
    }
    i = (uint32_t)s->n_shared;
    TERN_TRY(tern_grow((void **)&s->shared, &s->cap_shared, s->n_shared + 1, sizeof *s->shared, err));
    TERN_TRY(tern_schema__rule(s, "schema", false, 0, &s->shared[i].rule, err));
    s->shared[i].nothing = false;
    s->n_shared++;
    TERN_TRY(tern_map_add(&s->rules, key, i, &added, err));
    TERN_TRY(add_keywords(s, schema, node, err));
    s->shared[i].nothing = *node == TERN_SCHEMA_NOTHING;
    body = *node;
    if (s->shared[i].nothing) TERN_TRY(tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ANY, NULL, 0, &body, err));
    else if (!s->tree->nodes[body].label) TERN_TRY(tern_schema__label(s, body, err));
    tern_grammar_tree__define(s->tree, s->shared[i].rule, body);
    return s->shared[i].nothing ? TERN_OK : tern_grammar_tree__call(s->tree, s->shared[i].rule, node, err);
}

tern_status tern_schema__add(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    char *name;
    *node = TERN_SCHEMA_NOTHING;
    if (json_is_true(schema)) return tern_grammar_tree__call(s->tree, s->value, node, err);
    if (json_is_false(schema)) return tern_schema__nothing(s, NULL, "false: no value fits", node);
    if (!json_is_object(schema)) return tern_schema__fail(s, TERN_MALFORMED, NULL, "an object expected", err);
    if (++s->depth > TERN_SCHEMA_MAX_DEPTH)
        return tern_schema__fail(s, TERN_LIMIT, NULL, "nested deeper than 64 schemas", err);
    TERN_TRY(name_of(s, schema, &name, err));
    TERN_TRY(name ? add_shared(s, schema, name, node, err) : add_keywords(s, schema, node, err));
    if (*node != TERN_SCHEMA_NOTHING && !s->tree->nodes[*node].label) TERN_TRY(tern_schema__label(s, *node, err));
    s->depth--;
    return TERN_OK;
}

/* The rule of a target. Where no value fits it, it can never end. */
static tern_status add_target(tern_schema *s, const tern_schema_target *target, tern_error *err)
{
    uint32_t body = 0;
    tern_schema__leave(s, 0);
    s->n_path = (size_t)snprintf(s->path, 1100, "%s", target->pointer + 1);
    TERN_TRY(tern_schema__add(s, target->schema, &body, err));
    if (body == TERN_SCHEMA_NOTHING)
        return tern_fail(err, TERN_MALFORMED, "%s", s->why[0] ? s->why : "schema: no value fits");
    tern_grammar_tree__define(s->tree, target->rule, body);
    return TERN_OK;
}

static tern_status add_all(tern_schema *s, const char *at, uint32_t *node, tern_error *err)
{
    uint32_t rule = 0;
    TERN_TRY(tern_schema__basics(s, err));
    TERN_TRY(target_of(s, at, &rule, err));
    for (; s->n_done < s->n_targets; s->n_done++) {
        const tern_schema_target target = s->targets[s->n_done];
        TERN_TRY(add_target(s, &target, err));
    }
    return tern_grammar_tree__call(s->tree, rule, node, err);
}

tern_status tern_grammar_schema__add(tern_grammar_tree *tree, const json_t *document, const char *at, uint32_t *node,
                                     tern_error *err)
{
    tern_schema *s = tern_calloc(1, sizeof *s);
    tern_status status = TERN_OK;
    if (!s) return tern_fail_alloc(err, sizeof *s);
    tern_json_use_allocator();
    s->tree = tree;
    s->made = json_array();
    if (!s->made) TERN_GOTO(tern_fail_alloc(err, 64));
    s->any = json_object();
    TERN_GOTO(tern_schema__keep(s, (json_t *)s->any, err));
    TERN_GOTO(tern_schema__resolve_ids(document, &s->document, err));
    status = add_all(s, at, node, err);
fail:
    tern_map_deinit(&s->rules);
    tern_arena_deinit(&s->names);
    tern_free(s->targets);
    tern_free(s->shared);
    json_decref(s->made);
    json_decref(s->document);
    tern_free(s);
    return status;
}

tern_status tern_grammar__parse_schema(tern_grammar_tree *tree, tern_span source, tern_error *err)
{
    json_t *document = NULL;
    uint32_t node;
    tern_status status;
    TERN_GOTO(tern_json_parse(&document, source.data, source.size, "schema", err));
    TERN_GOTO(tern_grammar_tree__rule(tree, "root", 4, &tree->root, err));
    TERN_GOTO(tern_grammar_schema__add(tree, document, "#", &node, err));
    tern_grammar_tree__define(tree, tree->root, node);
fail:
    tern_json_free(document);
    return status;
}
