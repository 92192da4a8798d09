/* JSON Schema to a grammar: keywords, types, references. */
#include "text/grammar/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/internal.h"

/* Keywords that are read, and those that say nothing of what is valid. */
static const char *const known[] = {"type",
                                    "properties",
                                    "required",
                                    "additionalProperties",
                                    "items",
                                    "minItems",
                                    "maxItems",
                                    "enum",
                                    "const",
                                    "anyOf",
                                    "oneOf",
                                    "$ref",
                                    "minLength",
                                    "maxLength",
                                    "pattern",
                                    "format",
                                    "minimum",
                                    "maximum",
                                    "exclusiveMinimum",
                                    "exclusiveMaximum",
                                    "prefixItems",
                                    NULL};
static const char *const silent[] = {"title", "description", "default",  "examples",   "$schema",
                                     "$id",   "$comment",    "readOnly", "deprecated", "writeOnly",
                                     "$defs", "definitions", NULL};
static const char *const types[] = {"object", "array", "string", "number", "integer", "boolean", "null", NULL};

static int find(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

/* The first key that is neither of `allowed` nor silent, or NULL. */
static const char *other_key(const json_t *schema, const char *const *allowed)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)schema, key, value)
    {
        if (find(allowed, key) < 0 && find(silent, key) < 0) return key;
    }
    return NULL;
}

static tern_status check_alone(const tern_schema *s, const json_t *schema, const char *key, tern_error *err)
{
    const char *const alone[] = {key, NULL};
    char what[64];
    const char *other = other_key(schema, alone);
    if (!other) return TERN_OK;
    snprintf(what, sizeof what, "this keyword beside %s is not supported", key);
    return tern_schema__fail(s, TERN_UNSUPPORTED, other, what, err);
}

/* The target of a pointer like "#/$defs/a~1b"; NULL where there is nothing. */
static const json_t *resolve(const json_t *at, const char *pointer)
{
    char key[256];
    for (pointer += pointer[0] == '#'; at && *pointer == '/';) {
        size_t n = 0;
        for (pointer++; *pointer && *pointer != '/'; pointer++) {
            if (n + 1 >= sizeof key) return NULL;
            key[n] = *pointer;
            if (*pointer == '~' && (pointer[1] == '0' || pointer[1] == '1')) key[n] = *++pointer == '0' ? '~' : '/';
            n++;
        }
        key[n] = 0;
        if (json_is_array(at)) {
            size_t index = 0;
            for (size_t i = 0; i < n && index < 1000000; i++)
                index = key[i] >= '0' && key[i] <= '9' ? index * 10 + (size_t)(key[i] - '0') : 1000000;
            at = n ? json_array_get(at, index) : NULL;
        } else {
            at = json_object_get(at, key);
        }
    }
    return *pointer ? NULL : at;
}

/* The rule of what a pointer points to, which is read later. */
static tern_status target_of(tern_schema *s, const char *pointer, uint32_t *rule, tern_error *err)
{
    const size_t n = strlen(pointer);
    bool added;
    if (tern_map_find(&s->rules, (tern_span){(const uint8_t *)pointer, n}, rule)) return TERN_OK;
    const json_t *schema = pointer[0] == '#' ? resolve(s->document, pointer) : NULL;
    if (!schema) return tern_schema__fail(s, TERN_UNSUPPORTED, "$ref", "a pointer into this document expected", err);
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
    TERN_TRY(check_alone(s, schema, "$ref", err));
    if (!json_is_string(ref) || json_string_length(ref) > 1024)
        return tern_schema__fail(s, TERN_MALFORMED, "$ref", "a short string expected", err);
    TERN_TRY(target_of(s, json_string_value(ref), &rule, err));
    return tern_grammar_tree__call(s->tree, rule, node, err);
}

static bool has_type(const json_t *value, const char *type)
{
    int64_t ignored;
    switch (find(types, type)) {
    case 0: return json_is_object(value);
    case 1: return json_is_array(value);
    case 2: return json_is_string(value);
    case 3: return json_is_number(value);
    case 4: return tern_json_int(value, &ignored);
    case 5: return json_is_boolean(value);
    default: return json_is_null(value);
    }
}

/* Whether `type`, where it is given, holds for a value. */
static bool fits(const json_t *schema, const json_t *value)
{
    const json_t *type = json_object_get(schema, "type");
    size_t i;
    json_t *item;
    if (json_is_string(type)) return has_type(value, json_string_value(type));
    json_array_foreach((json_t *)type, i, item)
    {
        if (json_is_string(item) && has_type(value, json_string_value(item))) return true;
    }
    return !type;
}

/* `const`, or the values of `enum`. */
static tern_status add_values(tern_schema *s, const json_t *schema, const char *key, uint32_t *node, tern_error *err)
{
    const char *const allowed[] = {key, "type", NULL};
    const json_t *values = json_object_get(schema, key);
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    size_t i = 0;
    const bool one = strcmp(key, "const") == 0;
    const char *other = other_key(schema, allowed);
    if (other) return tern_schema__fail(s, TERN_UNSUPPORTED, other, "this keyword beside values is not supported", err);
    if (!one && json_array_size(values) == 0)
        return tern_schema__fail(s, TERN_MALFORMED, key, "an array of at least one value expected", err);
    for (; i < (one ? 1 : json_array_size(values)); i++) {
        const json_t *value = one ? values : json_array_get(values, i);
        if (!fits(schema, value)) continue;
        TERN_GOTO(tern_grammar_json__value(s->tree, value, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    if (items.n) status = tern_grammar_tree__join(s->tree, TERN_GRAMMAR_ANY, &items, node, err);
    else status = tern_schema__fail(s, TERN_MALFORMED, key, "a value of the given type expected", err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

static tern_status add_choices(tern_schema *s, const json_t *schema, const char *key, uint32_t *node, tern_error *err)
{
    const json_t *choices = json_object_get(schema, key);
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    TERN_TRY(check_alone(s, schema, key, err));
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
    status = tern_grammar_tree__join(s->tree, TERN_GRAMMAR_ANY, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

static tern_status add_type(tern_schema *s, const json_t *schema, const char *type, uint32_t *node, tern_error *err)
{
    uint32_t items[2];
    switch (find(types, type)) {
    case 0: return tern_schema__object(s, schema, node, err);
    case 1: return tern_schema__array(s, schema, node, err);
    case 2: return tern_schema__text(s, schema, node, err);
    case 3:
    case 4: return tern_schema__integer(s, schema, node, err);
    case 5:
        TERN_TRY(tern_grammar_tree__text(s->tree, "true", &items[0], err));
        TERN_TRY(tern_grammar_tree__text(s->tree, "false", &items[1], err));
        return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ANY, items, 2, node, err);
    case 6: return tern_grammar_tree__text(s->tree, "null", node, err);
    default: return tern_schema__fail(s, TERN_MALFORMED, "type", "a type of JSON Schema expected", err);
    }
}

/* The type that keywords speak of where none is given; NULL: any. */
static const char *type_of(const json_t *schema)
{
    static const char *const keys[][2] = {
        {"properties", "object"}, {"required", "object"},         {"additionalProperties", "object"},
        {"items", "array"},       {"prefixItems", "array"},       {"minItems", "array"},
        {"maxItems", "array"},    {"minLength", "string"},        {"maxLength", "string"},
        {"pattern", "string"},    {"format", "string"},           {"minimum", "number"},
        {"maximum", "number"},    {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(schema, keys[i][0])) return keys[i][1];
    return NULL;
}

static tern_status add_types(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    const json_t *type = json_object_get(schema, "type");
    uint32_t items[8], n = 0;
    if (!type) {
        const char *found = type_of(schema);
        if (found) return add_type(s, schema, found, node, err);
        return tern_grammar_tree__call(s->tree, s->value, node, err);
    }
    if (json_is_string(type)) return add_type(s, schema, json_string_value(type), node, err);
    if (json_array_size(type) == 0 || json_array_size(type) > 7)
        return tern_schema__fail(s, TERN_MALFORMED, "type", "a type, or an array of 1 to 7, expected", err);
    for (; n < json_array_size(type); n++) {
        const json_t *item = json_array_get(type, n);
        TERN_TRY(add_type(s, schema, json_is_string(item) ? json_string_value(item) : "", &items[n], err));
    }
    return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ANY, items, n, node, err);
}

static tern_status add_keywords(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    const char *other = other_key(schema, known);
    if (other) return tern_schema__fail(s, TERN_UNSUPPORTED, other, "this keyword is not supported", err);
    if (json_object_get(schema, "$ref")) return add_ref(s, schema, node, err);
    if (json_object_get(schema, "const")) return add_values(s, schema, "const", node, err);
    if (json_object_get(schema, "enum")) return add_values(s, schema, "enum", node, err);
    if (json_object_get(schema, "anyOf")) return add_choices(s, schema, "anyOf", node, err);
    if (json_object_get(schema, "oneOf")) return add_choices(s, schema, "oneOf", node, err);
    return add_types(s, schema, node, err);
}

tern_status tern_schema__add(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    if (json_is_true(schema)) return tern_grammar_tree__call(s->tree, s->value, node, err);
    if (json_is_false(schema)) return tern_schema__fail(s, TERN_UNSUPPORTED, NULL, "false is not supported here", err);
    if (!json_is_object(schema)) return tern_schema__fail(s, TERN_MALFORMED, NULL, "an object expected", err);
    if (++s->depth > TERN_SCHEMA_MAX_DEPTH)
        return tern_schema__fail(s, TERN_LIMIT, NULL, "nested deeper than 64 schemas", err);
    tern_status status = add_keywords(s, schema, node, err);
    if (status == TERN_OK && !s->tree->nodes[*node].label) status = tern_schema__label(s, *node, err);
    s->depth--;
    return status;
}

static tern_status add_all(tern_schema *s, const char *at, uint32_t *node, tern_error *err)
{
    uint32_t rule = 0;
    TERN_TRY(tern_schema__basics(s, err));
    TERN_TRY(target_of(s, at, &rule, err));
    for (; s->n_done < s->n_targets; s->n_done++) {
        const tern_schema_target target = s->targets[s->n_done];
        uint32_t body = 0;
        tern_schema__leave(s, 0);
        s->n_path = (size_t)snprintf(s->path, 1100, "%s", target.pointer + 1);
        TERN_TRY(tern_schema__add(s, target.schema, &body, err));
        tern_grammar_tree__define(s->tree, target.rule, body);
    }
    return tern_grammar_tree__call(s->tree, rule, node, err);
}

tern_status tern_grammar_schema__add(tern_grammar_tree *tree, const json_t *document, const char *at, uint32_t *node,
                                     tern_error *err)
{
    tern_schema *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    s->tree = tree;
    s->document = document;
    tern_status status = add_all(s, at, node, err);
    tern_map_deinit(&s->rules);
    tern_arena_deinit(&s->names);
    tern_free(s->targets);
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
