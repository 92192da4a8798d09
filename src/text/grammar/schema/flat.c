/* Schemas that combine others, as lists of plain ones of which any may hold. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"

enum { MOST_DEPTH = 48 };

/* Keywords that are read here or in merge.c, and those that say nothing of what is valid. */
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
                                    "allOf",
                                    "$ref",
                                    "minLength",
                                    "maxLength",
                                    "pattern",
                                    "format",
                                    "minimum",
                                    "maximum",
                                    "exclusiveMinimum",
                                    "exclusiveMaximum",
                                    "multipleOf",
                                    "prefixItems",
                                    "additionalItems",
                                    "uniqueItems",
                                    "patternProperties",
                                    "propertyNames",
                                    "minProperties",
                                    "maxProperties",
                                    "nullable",
                                    "dependentRequired",
                                    "dependentSchemas",
                                    "dependencies",
                                    "unevaluatedProperties",
                                    "unevaluatedItems",
                                    "not",
                                    NULL};
static const char *const silent[] = {"title",
                                     "description",
                                     "default",
                                     "example",
                                     "examples",
                                     "$schema",
                                     "$id",
                                     "id",
                                     "$anchor",
                                     "$comment",
                                     "$vocabulary",
                                     "readOnly",
                                     "writeOnly",
                                     "deprecated",
                                     "$defs",
                                     "definitions",
                                     "discriminator",
                                     "externalDocs",
                                     "xml",
                                     "contentEncoding",
                                     "contentMediaType",
                                     "contentSchema",
                                     "markdownDescription",
                                     "enumDescriptions",
                                     "deprecationMessage",
                                     NULL};

static bool is_among(const char *const *names, const char *name)
{
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static tern_status check_keywords(const tern_schema *s, const json_t *schema, tern_error *err)
{
    const char *key;
    json_t *ignored;
    json_object_foreach((json_t *)schema, key, ignored)
    {
        if (!is_among(known, key) && !is_among(silent, key) && strncmp(key, "x-", 2) != 0)
            return tern_schema__fail(s, TERN_UNSUPPORTED, key, "this keyword is not supported", err);
    }
    return TERN_OK;
}

tern_status tern_schema__add_way(tern_schema *s, tern_schema_ways *ways, const json_t *plain, tern_error *err)
{
    if (ways->n >= TERN_SCHEMA_MAX_WAYS)
        return tern_schema__fail(s, TERN_LIMIT, NULL, "its alternatives combine in more than 256 ways", err);
    TERN_TRY(tern_grow((void **)&ways->items, &ways->cap, ways->n + 1, sizeof *ways->items, err));
    ways->items[ways->n++] = plain;
    return TERN_OK;
}

/* Each of `ways` with each of `other`, in the place of `ways`. */
static tern_status cross(tern_schema *s, tern_schema_ways *ways, const tern_schema_ways *other, tern_error *err)
{
    tern_schema_ways out = {0};
    const json_t *both;
    tern_status status = TERN_OK;
    for (size_t i = 0; i < ways->n; i++) {
        for (size_t k = 0; k < other->n; k++) {
            TERN_GOTO(tern_schema__merge(s, ways->items[i], other->items[k], &both, err));
            if (both) TERN_GOTO(tern_schema__add_way(s, &out, both, err));
        }
    }
    tern_free(ways->items);
    *ways = out;
    return TERN_OK;
fail:
    tern_free(out.items);
    return status;
}

static tern_status append(tern_schema *s, tern_schema_ways *ways, const tern_schema_ways *more, tern_error *err)
{
    for (size_t i = 0; i < more->n; i++) TERN_TRY(tern_schema__add_way(s, ways, more->items[i], err));
    return TERN_OK;
}

/* Asks for another schema as well: each way becomes those in which both hold. */
static tern_status apply(tern_schema *s, const json_t *schema, tern_schema_ways *ways, tern_error *err);

static tern_status add_ref(tern_schema *s, const json_t *schema, tern_schema_ways *ways, tern_error *err)
{
    const json_t *ref = json_object_get(schema, "$ref");
    if (!json_is_string(ref)) return tern_schema__fail(s, TERN_MALFORMED, "$ref", "a string expected", err);
    const json_t *target = tern_schema__resolve(s->document, json_string_value(ref));
    if (!target)
        return tern_schema__fail(s, TERN_UNSUPPORTED, "$ref", "a pointer, $id or $anchor of this document expected",
                                 err);
    return apply(s, target, ways, err);
}

static tern_status check_list(const tern_schema *s, const json_t *list, const char *key, tern_error *err)
{
    if (json_array_size(list)) return TERN_OK;
    return tern_schema__fail(s, TERN_MALFORMED, key, "an array of at least one schema expected", err);
}

static tern_status add_all_of(tern_schema *s, const json_t *list, tern_schema_ways *ways, tern_error *err)
{
    size_t i;
    json_t *schema;
    TERN_TRY(check_list(s, list, "allOf", err));
    const size_t before = tern_schema__enter(s, "allOf");
    json_array_foreach((json_t *)list, i, schema)
    {
        const size_t outer = tern_schema__enter_item(s, i);
        TERN_TRY(apply(s, schema, ways, err));
        tern_schema__leave(s, outer);
    }
    tern_schema__leave(s, before);
    return TERN_OK;
}

static tern_status add_any_of(tern_schema *s, const json_t *list, tern_schema_ways *ways, tern_error *err)
{
    tern_schema_ways all = {0}, one = {0};
    tern_status status = TERN_OK;
    TERN_TRY(check_list(s, list, "anyOf", err));
    const size_t before = tern_schema__enter(s, "anyOf");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const size_t outer = tern_schema__enter_item(s, i);
        one.n = 0;
        TERN_GOTO(append(s, &one, ways, err));
        TERN_GOTO(apply(s, json_array_get(list, i), &one, err));
        TERN_GOTO(append(s, &all, &one, err));
        tern_schema__leave(s, outer);
    }
    tern_schema__leave(s, before);
    tern_free(ways->items);
    *ways = all;
    all.items = NULL;
fail:
    tern_free(all.items);
    tern_free(one.items);
    return status;
}

/* A new object with one member, which it takes; kept. */
static tern_status wrap(tern_schema *s, const char *key, json_t *value, json_t **out, tern_error *err)
{
    *out = json_object();
    TERN_TRY(tern_schema__keep(s, *out, err));
    return value && json_object_set_new(*out, key, value) == 0 ? TERN_OK : tern_fail_alloc(err, 64);
}

/* {"required": [name, ...more]} */
static tern_status requiring(tern_schema *s, const char *name, const json_t *more, json_t **out, tern_error *err)
{
    json_t *names;
    TERN_TRY(wrap(s, "required", json_array(), out, err));
    names = json_object_get(*out, "required");
    if (json_array_append_new(names, json_string(name)) != 0) return tern_fail_alloc(err, 64);
    return !more || json_array_extend(names, (json_t *)more) == 0 ? TERN_OK : tern_fail_alloc(err, 64);
}

/* {"properties": {name: schema}} */
static tern_status with_property(tern_schema *s, const char *name, json_t *schema, json_t **out, tern_error *err)
{
    TERN_TRY(wrap(s, "properties", json_object(), out, err));
    if (schema && json_object_set_new(json_object_get(*out, "properties"), name, schema) == 0) return TERN_OK;
    return tern_fail_alloc(err, 64);
}

/* Without the member, or with it and what it depends on: names or a schema. */
static tern_status add_dependency(tern_schema *s, const char *name, const json_t *on, tern_schema_ways *ways,
                                  tern_error *err)
{
    tern_schema_ways both = {0}, with = {0};
    json_t *without, *present;
    tern_status status;
    const json_t *names = json_is_array(on) ? on : NULL;
    TERN_GOTO(with_property(s, name, json_false(), &without, err));
    TERN_GOTO(requiring(s, name, names, &present, err));
    TERN_GOTO(tern_schema__add_way(s, &with, present, err));
    if (!names) TERN_GOTO(apply(s, on, &with, err));
    TERN_GOTO(tern_schema__add_way(s, &both, without, err));
    TERN_GOTO(append(s, &both, &with, err));
    status = cross(s, ways, &both, err);
fail:
    tern_free(both.items);
    tern_free(with.items);
    return status;
}

static tern_status add_dependencies(tern_schema *s, const json_t *schema, tern_schema_ways *ways, tern_error *err)
{
    static const char *const keys[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    const char *name;
    json_t *on;
    size_t k;
    for (size_t i = 0; i < 3; i++) {
        const size_t before = tern_schema__enter(s, keys[i]);
        json_object_foreach(json_object_get(schema, keys[i]), name, on)
        {
            const size_t outer = tern_schema__enter(s, name);
            json_t *item;
            json_array_foreach(on, k, item)
            {
                if (!json_is_string(item))
                    return tern_schema__fail(s, TERN_MALFORMED, NULL, "an array of strings expected", err);
            }
            TERN_TRY(add_dependency(s, name, on, ways, err));
            tern_schema__leave(s, outer);
        }
        tern_schema__leave(s, before);
    }
    return TERN_OK;
}

/* The alternatives of one schema of oneOf. They also require the keywords beside oneOf, and `more`. */
static tern_status branch(tern_schema *s, const json_t *beside, const json_t *schema, const json_t *more,
                          tern_schema_ways *out, tern_error *err)
{
    out->n = 0;
    TERN_TRY(tern_schema__add_way(s, out, beside, err));
    TERN_TRY(apply(s, schema, out, err));
    return more ? apply(s, more, out, err) : TERN_OK;
}

/* Makes each alternative of a invalid by all of b, with members left out where that does. */
static tern_status set_apart(tern_schema *s, tern_schema_ways *a, const tern_schema_ways *b, bool *apart,
                             tern_error *err)
{
    for (size_t i = 0; i < a->n && *apart; i++) {
        for (size_t k = 0; k < b->n && *apart; k++) {
            const json_t *without;
            TERN_TRY(tern_schema__is_apart(s, a->items[i], b->items[k], apart, &without, err));
            if (*apart || !without) continue;
            a->items[i] = without;
            *apart = true;
        }
    }
    return TERN_OK;
}

/* OpenAPI's discriminator: the value of its member for a schema of oneOf, which has the name or is mapped to. */
static tern_status discriminate(tern_schema *s, const json_t *schema, const json_t *branch_schema, const json_t **more,
                                tern_error *err)
{
    const json_t *discriminator = json_object_get(schema, "discriminator");
    const char *member = json_string_value(json_object_get(discriminator, "propertyName")), *key;
    const char *ref = json_string_value(json_object_get(branch_schema, "$ref"));
    json_t *values, *value, *property, *present;
    *more = NULL;
    if (!member || !ref) return TERN_OK;
    TERN_TRY(wrap(s, "enum", json_array(), &values, err));
    json_object_foreach(json_object_get(discriminator, "mapping"), key, value)
    {
        if (json_is_string(value) && strcmp(json_string_value(value), ref) == 0 &&
            json_array_append_new(json_object_get(values, "enum"), json_string(key)) != 0)
            return tern_fail_alloc(err, 64);
    }
    const char *name = strrchr(ref, '/');
    if (json_array_size(json_object_get(values, "enum")) == 0 &&
        json_array_append_new(json_object_get(values, "enum"), json_string(name ? name + 1 : ref)) != 0)
        return tern_fail_alloc(err, 64);
    TERN_TRY(with_property(s, member, json_incref(values), &property, err));
    TERN_TRY(requiring(s, member, NULL, &present, err));
    return tern_schema__both(s, property, present, more, err);
}

/* lists[0, n) are the alternatives of the schemas, lists[n, 2 * n) those that are apart from all others'. */
static tern_status branches(tern_schema *s, const json_t *schema, const json_t *beside, bool discriminated,
                            tern_schema_ways *lists, bool *apart, tern_error *err)
{
    const json_t *list = json_object_get(schema, "oneOf");
    const size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i), *more = NULL;
        if (discriminated) TERN_TRY(discriminate(s, schema, one, &more, err));
        const size_t outer = tern_schema__enter_item(s, i);
        TERN_TRY(branch(s, beside, one, more, &lists[i], err));
        lists[n + i].n = 0;
        TERN_TRY(append(s, &lists[n + i], &lists[i], err));
        tern_schema__leave(s, outer);
    }
    for (size_t i = 0; i < n && *apart; i++)
        for (size_t k = 0; k < n && *apart; k++)
            if (i != k) TERN_TRY(set_apart(s, &lists[n + i], &lists[k], apart, err));
    return TERN_OK;
}

/* One of `ways` with the schemas of oneOf, no two of which may hold at once. */
static tern_status add_one_of_beside(tern_schema *s, const json_t *schema, const json_t *beside, tern_schema_ways *out,
                                     tern_error *err)
{
    const json_t *list = json_object_get(schema, "oneOf");
    const size_t n = json_array_size(list);
    tern_schema_ways *lists = tern_calloc(2 * n, sizeof *lists);
    tern_status status = lists ? TERN_OK : tern_fail_alloc(err, n * sizeof *lists);
    bool apart = true;
    if (!lists) return status;
    TERN_GOTO(branches(s, schema, beside, false, lists, &apart, err));
    if (!apart && json_object_get(schema, "discriminator")) {
        apart = true;
        TERN_GOTO(branches(s, schema, beside, true, lists, &apart, err));
    }
    if (!apart)
        TERN_GOTO(tern_schema__fail(s, TERN_UNSUPPORTED, NULL,
                                    "several of its schemas may hold at once: anyOf expected, or a required member "
                                    "with another const in each",
                                    err));
    for (size_t i = 0; i < n; i++) TERN_GOTO(append(s, out, &lists[n + i], err));
fail:
    for (size_t i = 0; i < 2 * n; i++) tern_free(lists[i].items);
    tern_free(lists);
    return status;
}

static tern_status add_one_of(tern_schema *s, const json_t *schema, tern_schema_ways *ways, tern_error *err)
{
    tern_schema_ways out = {0};
    TERN_TRY(check_list(s, json_object_get(schema, "oneOf"), "oneOf", err));
    const size_t before = tern_schema__enter(s, "oneOf");
    tern_status status = TERN_OK;
    for (size_t i = 0; i < ways->n; i++) TERN_GOTO(add_one_of_beside(s, schema, ways->items[i], &out, err));
    tern_schema__leave(s, before);
    tern_free(ways->items);
    *ways = out;
    return TERN_OK;
fail:
    tern_free(out.items);
    return status;
}

/* `not` of nothing: no value fits. */
static tern_status add_not(tern_schema *s, const json_t *inner, tern_schema_ways *ways, tern_error *err)
{
    if (json_is_false(inner)) return TERN_OK;
    if (!json_is_true(inner) && !(json_is_object(inner) && json_object_size(inner) == 0))
        return tern_schema__fail(s, TERN_UNSUPPORTED, "not", "this keyword is supported with {} only", err);
    ways->n = 0;
    return tern_schema__nothing(s, "not", "no value fits", &(uint32_t){0});
}

/* Members that no schema beside or within has named. */
static tern_status add_unevaluated(tern_schema *s, const json_t *schema, const char *key, const char *other,
                                   tern_schema_ways *ways, tern_error *err)
{
    const json_t *value = json_object_get(schema, key);
    if (!value || json_is_true(value)) return TERN_OK;
    for (size_t i = 0; i < ways->n; i++) {
        if (json_object_get(ways->items[i], other)) continue;
        json_t *copy = json_copy((json_t *)ways->items[i]);
        TERN_TRY(tern_schema__keep(s, copy, err));
        if (json_object_set(copy, other, (json_t *)value) != 0) return tern_fail_alloc(err, 64);
        ways->items[i] = copy;
    }
    return TERN_OK;
}

static tern_status apply_keywords(tern_schema *s, const json_t *schema, tern_schema_ways *ways, tern_error *err)
{
    tern_schema_ways own = {0};
    const json_t *plain;
    TERN_TRY(check_keywords(s, schema, err));
    TERN_TRY(tern_schema__plain(s, schema, &plain, err));
    tern_status status = plain ? tern_schema__add_way(s, &own, plain, err) : TERN_OK;
    if (status == TERN_OK) status = cross(s, ways, &own, err);
    tern_free(own.items);
    TERN_TRY(status);
    if (json_object_get(schema, "not")) TERN_TRY(add_not(s, json_object_get(schema, "not"), ways, err));
    if (json_object_get(schema, "$ref")) TERN_TRY(add_ref(s, schema, ways, err));
    if (json_object_get(schema, "allOf")) TERN_TRY(add_all_of(s, json_object_get(schema, "allOf"), ways, err));
    if (json_object_get(schema, "anyOf")) TERN_TRY(add_any_of(s, json_object_get(schema, "anyOf"), ways, err));
    if (json_object_get(schema, "oneOf")) TERN_TRY(add_one_of(s, schema, ways, err));
    return add_dependencies(s, schema, ways, err);
}

/* The members that a schema has not named depend on itself alone. */
static tern_status apply_alone(tern_schema *s, const json_t *schema, tern_schema_ways *ways, tern_error *err)
{
    tern_schema_ways own = {0};
    tern_status status;
    TERN_GOTO(tern_schema__add_way(s, &own, s->any, err));
    TERN_GOTO(apply_keywords(s, schema, &own, err));
    TERN_GOTO(add_unevaluated(s, schema, "unevaluatedProperties", "additionalProperties", &own, err));
    TERN_GOTO(add_unevaluated(s, schema, "unevaluatedItems", "items", &own, err));
    status = cross(s, ways, &own, err);
fail:
    tern_free(own.items);
    return status;
}

static tern_status apply(tern_schema *s, const json_t *schema, tern_schema_ways *ways, tern_error *err)
{
    TERN_TRY(tern_schema__count_work(s, 1, err));
    if (json_is_true(schema)) return TERN_OK;
    if (json_is_false(schema)) {
        ways->n = 0;
        return tern_schema__nothing(s, NULL, "false: no value fits", &(uint32_t){0});
    }
    if (!json_is_object(schema)) return tern_schema__fail(s, TERN_MALFORMED, NULL, "an object expected", err);
    if (++s->depth > MOST_DEPTH + TERN_SCHEMA_MAX_DEPTH)
        return tern_schema__fail(s, TERN_LIMIT, NULL, "schemas that refer to each other without an end", err);
    const bool alone = json_object_get(schema, "unevaluatedProperties") || json_object_get(schema, "unevaluatedItems");
    TERN_TRY((alone ? apply_alone : apply_keywords)(s, schema, ways, err));
    s->depth--;
    return TERN_OK;
}

tern_status tern_schema__flatten(tern_schema *s, const json_t *schema, tern_schema_ways *ways, tern_error *err)
{
    TERN_TRY(tern_schema__add_way(s, ways, s->any, err));
    return apply(s, schema, ways, err);
}
