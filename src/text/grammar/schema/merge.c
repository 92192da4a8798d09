/* Plain schemas: the keywords of one schema in one form, and those of two that must both hold. */
#include <string.h>

#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"

/* How two values of a keyword are put together. */
enum rule { COUNT_LEAST, COUNT_MOST, LEAST, MOST, COLLECT, SCHEMA, OBJECT, OTHER };

static const struct {
    const char *key;
    enum rule rule;
} keys[] = {{"minLength", COUNT_LEAST},
            {"maxLength", COUNT_MOST},
            {"minItems", COUNT_LEAST},
            {"maxItems", COUNT_MOST},
            {"minProperties", COUNT_LEAST},
            {"maxProperties", COUNT_MOST},
            {"minimum", LEAST},
            {"exclusiveMinimum", LEAST},
            {"maximum", MOST},
            {"exclusiveMaximum", MOST},
            {"multipleOf", COLLECT},
            {"pattern", COLLECT},
            {"format", COLLECT},
            {"propertyNames", SCHEMA},
            {"properties", OBJECT},
            {"patternProperties", OBJECT},
            {"additionalProperties", SCHEMA},
            {"items", OTHER},
            {"prefixItems", OTHER},
            {"required", OTHER},
            {"uniqueItems", OTHER},
            {"enum", OTHER},
            {"type", OTHER}};

static int rule_of(const char *key)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].key, key) == 0) return (int)keys[i].rule;
    return -1;
}

/* Sets a member of an object that is being made; `value` is borrowed. */
static tern_status set(json_t *object, const char *key, const json_t *value, tern_error *err)
{
    return json_object_set(object, key, (json_t *)value) == 0 ? TERN_OK : tern_fail_alloc(err, 64);
}

static tern_status set_new(json_t *object, const char *key, json_t *value, tern_error *err)
{
    return value && json_object_set_new(object, key, value) == 0 ? TERN_OK : tern_fail_alloc(err, 64);
}

static unsigned type_named(const char *name)
{
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {{"object", TERN_SCHEMA_OBJECT},   {"array", TERN_SCHEMA_ARRAY},
                 {"string", TERN_SCHEMA_STRING},   {"number", TERN_SCHEMA_FRACTION | TERN_SCHEMA_INTEGER},
                 {"integer", TERN_SCHEMA_INTEGER}, {"boolean", TERN_SCHEMA_BOOLEAN},
                 {"null", TERN_SCHEMA_NULL}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) return types[i].bits;
    return 0;
}

unsigned tern_schema__types(const json_t *plain)
{
    const json_t *type = json_object_get(plain, "type");
    return type ? (unsigned)json_integer_value(type) : TERN_SCHEMA_ANY;
}

static tern_status read_type(const tern_schema *s, const json_t *schema, json_t *out, tern_error *err)
{
    const json_t *type = json_object_get(schema, "type");
    const bool array = json_is_array(type);
    const size_t n = array ? json_array_size(type) : 1;
    unsigned bits = 0;
    if (!type) return TERN_OK;
    if (n == 0 || n > 7)
        return tern_schema__fail(s, TERN_MALFORMED, "type", "a type, or an array of 1 to 7, expected", err);
    for (size_t i = 0; i < n; i++) {
        const unsigned found = type_named(json_string_value(array ? json_array_get(type, i) : type));
        if (!found) return tern_schema__fail(s, TERN_MALFORMED, "type", "a type of JSON Schema expected", err);
        bits |= found;
    }
    if (json_is_true(json_object_get(schema, "nullable"))) bits |= TERN_SCHEMA_NULL;
    return set_new(out, "type", json_integer((json_int_t)bits), err);
}

static tern_status fail_kind(const tern_schema *s, const char *key, const char *what, tern_error *err)
{
    return tern_schema__fail(s, TERN_MALFORMED, key, what, err);
}

static tern_status check_count(const tern_schema *s, const char *key, const json_t *value, bool least, tern_error *err)
{
    if (!json_is_number(value) || !(json_number_value(value) >= 0) ||
        json_number_value(value) != (double)(uint64_t)json_number_value(value))
        return fail_kind(s, key, "a whole number of at least 0 expected", err);
    if (least && json_number_value(value) > TERN_GRAMMAR_MAX_REPEAT)
        return tern_schema__fail(s, TERN_LIMIT, key, "at most 100000 expected", err);
    return TERN_OK;
}

static bool are_strings(const json_t *array)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)array, i, item)
    {
        if (!json_is_string(item)) return false;
    }
    return json_is_array(array);
}

/* Whether a keyword's value is of the kind that it needs. */
static tern_status check(const tern_schema *s, const char *key, const json_t *value, enum rule rule, tern_error *err)
{
    switch (rule) {
    case COUNT_LEAST:
    case COUNT_MOST: return check_count(s, key, value, rule == COUNT_LEAST, err);
    case LEAST:
    case MOST: return json_is_number(value) ? TERN_OK : fail_kind(s, key, "a number expected", err);
    case COLLECT:
        if (strcmp(key, "multipleOf") != 0)
            return json_is_string(value) ? TERN_OK : fail_kind(s, key, "a string expected", err);
        if (json_is_number(value) && json_number_value(value) > 0) return TERN_OK;
        return fail_kind(s, key, "a number above 0 expected", err);
    case SCHEMA:
        if (json_is_object(value) || json_is_boolean(value)) return TERN_OK;
        return fail_kind(s, key, "a schema expected", err);
    case OBJECT: return json_is_object(value) ? TERN_OK : fail_kind(s, key, "an object expected", err);
    case OTHER: break;
    }
    if (strcmp(key, "required") == 0 && !are_strings(value))
        return fail_kind(s, key, "an array of strings expected", err);
    if (strcmp(key, "enum") == 0 && json_array_size(value) == 0)
        return fail_kind(s, key, "an array of at least one value expected", err);
    if (strcmp(key, "prefixItems") == 0 && !json_is_array(value))
        return fail_kind(s, key, "an array of schemas expected", err);
    return TERN_OK;
}

/* Draft 4 and OpenAPI 3.0: `exclusiveMinimum: true` makes `minimum` exclusive. */
static tern_status read_bounds(const json_t *schema, json_t *out, tern_error *err)
{
    static const char *const pairs[][2] = {{"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}};
    for (size_t i = 0; i < 2; i++) {
        const json_t *flag = json_object_get(schema, pairs[i][1]), *bound = json_object_get(schema, pairs[i][0]);
        if (!json_is_boolean(flag)) continue;
        if (json_is_true(flag) && bound) {
            TERN_TRY(set(out, pairs[i][1], bound, err));
            json_object_del(out, pairs[i][0]);
        }
    }
    return TERN_OK;
}

/* Up to draft 2019-09: `items` as an array, `additionalItems` after it. */
static tern_status read_items(tern_schema *s, const json_t *schema, json_t *out, tern_error *err)
{
    const json_t *items = json_object_get(schema, "items"), *more = json_object_get(schema, "additionalItems");
    if (!items) return TERN_OK;
    if (!json_is_array(items)) {
        if (json_is_object(items) || json_is_boolean(items)) return set(out, "items", items, err);
        return fail_kind(s, "items", "a schema expected", err);
    }
    TERN_TRY(set(out, "prefixItems", items, err));
    return more ? set(out, "items", more, err) : TERN_OK;
}

static tern_status set_one(json_t *out, const char *key, const json_t *value, tern_error *err)
{
    json_t *values = json_array();
    if (values && json_array_append(values, (json_t *)value) != 0) {
        json_decref(values);
        values = NULL;
    }
    return set_new(out, key, values, err);
}

static tern_status read_keyword(tern_schema *s, const char *key, const json_t *value, json_t *out, tern_error *err)
{
    const int rule = rule_of(key);
    if (rule < 0 || strcmp(key, "type") == 0 || strcmp(key, "items") == 0) return TERN_OK;
    if ((rule == LEAST || rule == MOST) && json_is_boolean(value)) return TERN_OK; /* see read_bounds */
    if (strcmp(key, "uniqueItems") == 0 && !json_is_true(value)) return TERN_OK;
    TERN_TRY(check(s, key, value, (enum rule)rule, err));
    return rule == COLLECT ? set_one(out, key, value, err) : set(out, key, value, err);
}

static tern_status read_all(tern_schema *s, const json_t *schema, json_t *out, tern_error *err)
{
    const char *key;
    json_t *value;
    TERN_TRY(tern_schema__count_work(s, json_object_size(schema), err));
    json_object_foreach((json_t *)schema, key, value)
    {
        TERN_TRY(read_keyword(s, key, value, out, err));
    }
    TERN_TRY(read_type(s, schema, out, err));
    TERN_TRY(read_bounds(schema, out, err));
    return read_items(s, schema, out, err);
}

/* A new schema. */
static tern_status make(tern_schema *s, json_t **out, tern_error *err)
{
    *out = json_object();
    return tern_schema__keep(s, *out, err);
}

tern_status tern_schema__plain(tern_schema *s, const json_t *schema, const json_t **plain, tern_error *err)
{
    const json_t *value = json_object_get(schema, "const");
    json_t *out, *one;
    TERN_TRY(make(s, &out, err));
    TERN_TRY(read_all(s, schema, out, err));
    *plain = out;
    if (!value) return TERN_OK;
    TERN_TRY(make(s, &one, err));
    TERN_TRY(set_one(one, "enum", value, err));
    return tern_schema__merge(s, out, one, plain, err);
}

/* The schemas that a schema consists of: those of an allOf that stands alone, or itself; those that `list` lacks. */
static tern_status add_parts(tern_schema *s, json_t *list, const json_t *schema, tern_error *err)
{
    const json_t *all = json_object_size(schema) == 1 ? json_object_get(schema, "allOf") : NULL;
    for (size_t i = 0; i < (all ? json_array_size(all) : 1); i++) {
        json_t *part = all ? json_array_get(all, i) : (json_t *)schema, *other;
        bool found = false;
        size_t k;
        TERN_TRY(tern_schema__count_work(s, json_array_size(list) + 1, err));
        json_array_foreach(list, k, other)
        {
            found = found || json_equal(other, part);
        }
        if (!found && json_array_append(list, part) != 0) return tern_fail_alloc(err, 64);
    }
    return TERN_OK;
}

tern_status tern_schema__both(tern_schema *s, const json_t *a, const json_t *b, const json_t **both, tern_error *err)
{
    json_t *out, *list = json_array();
    if (!list) return tern_fail_alloc(err, 64);
    TERN_TRY(tern_schema__keep(s, list, err));
    *both = a ? a : b;
    if (!a || !b || a == b || json_is_true(b) || json_is_false(a)) return TERN_OK;
    *both = b;
    if (json_is_true(a) || json_is_false(b)) return TERN_OK;
    TERN_TRY(add_parts(s, list, a, err));
    TERN_TRY(add_parts(s, list, b, err));
    *both = json_array_get(list, 0);
    if (json_array_size(list) == 1) return TERN_OK;
    TERN_TRY(make(s, &out, err));
    *both = out;
    return set(out, "allOf", list, err);
}

/* The schema that a plain schema has for a member that it does not name; NULL: none. */
static tern_status asked_of_others(tern_schema *s, const json_t *plain, const char *name, const json_t **asked,
                                   tern_error *err)
{
    const json_t *patterns = json_object_get(plain, "patternProperties");
    const char *pattern;
    json_t *ignored;
    bool matches = false;
    *asked = NULL;
    json_object_foreach((json_t *)patterns, pattern, ignored)
    {
        TERN_TRY(tern_schema__matches(s, pattern, name, &matches, err));
        if (matches) return TERN_OK; /* the pattern asks for itself, later */
    }
    *asked = json_object_get(plain, "additionalProperties");
    return TERN_OK;
}

/* The members of `from`, with what `other` asks of those it does not name. */
static tern_status merge_properties(tern_schema *s, const json_t *from, const json_t *other, json_t *out,
                                    tern_error *err)
{
    const json_t *theirs = json_object_get(other, "properties");
    const char *name;
    json_t *schema;
    json_object_foreach((json_t *)json_object_get(from, "properties"), name, schema)
    {
        const json_t *asked = json_object_get(theirs, name), *both;
        TERN_TRY(tern_schema__count_work(s, 1, err));
        if (json_object_get(out, name)) continue;
        if (!asked) TERN_TRY(asked_of_others(s, other, name, &asked, err));
        TERN_TRY(tern_schema__both(s, schema, asked, &both, err));
        TERN_TRY(set(out, name, both, err));
    }
    return TERN_OK;
}

static bool asks_of_others(const json_t *plain)
{
    const json_t *others = json_object_get(plain, "additionalProperties");
    return others && !json_is_true(others);
}

/* Patterns of both; names of a pattern that one schema does not have are `additional` to it. */
static tern_status merge_patterns(tern_schema *s, const json_t *from, const json_t *other, json_t *out, tern_error *err)
{
    const json_t *theirs = json_object_get(other, "patternProperties");
    const char *pattern;
    json_t *schema;
    json_object_foreach((json_t *)json_object_get(from, "patternProperties"), pattern, schema)
    {
        const json_t *asked = json_object_get(theirs, pattern), *both;
        TERN_TRY(tern_schema__count_work(s, 1, err));
        if (json_object_get(out, pattern)) continue;
        if (!asked && asks_of_others(other)) {
            if (theirs || json_object_get(other, "properties"))
                return tern_schema__fail(s, TERN_UNSUPPORTED, "patternProperties",
                                         "beside additionalProperties of another schema of allOf this is not supported",
                                         err);
            asked = json_object_get(other, "additionalProperties");
        }
        TERN_TRY(tern_schema__both(s, schema, asked, &both, err));
        TERN_TRY(set(out, pattern, both, err));
    }
    return TERN_OK;
}

static tern_status merge_object(tern_schema *s, const json_t *a, const json_t *b, const char *key, json_t *out,
                                tern_error *err)
{
    const bool named = strcmp(key, "properties") == 0;
    json_t *members = json_object();
    TERN_TRY(set_new(out, key, members, err));
    TERN_TRY((named ? merge_properties : merge_patterns)(s, a, b, members, err));
    return (named ? merge_properties : merge_patterns)(s, b, a, members, err);
}

/* Items by their places: what one has no schema for falls to its `items`. */
static tern_status merge_prefix(tern_schema *s, const json_t *a, const json_t *b, json_t *out, tern_error *err)
{
    const json_t *first[] = {json_object_get(a, "prefixItems"), json_object_get(b, "prefixItems")};
    const json_t *rest[] = {json_object_get(a, "items"), json_object_get(b, "items")};
    json_t *items = json_array();
    TERN_TRY(set_new(out, "prefixItems", items, err));
    for (size_t i = 0; i < json_array_size(first[0]) || i < json_array_size(first[1]); i++) {
        const json_t *one = json_array_get(first[0], i), *other = json_array_get(first[1], i), *both;
        TERN_TRY(tern_schema__count_work(s, 1, err));
        TERN_TRY(tern_schema__both(s, one ? one : rest[0], other ? other : rest[1], &both, err));
        if (json_array_append(items, (json_t *)both) != 0) return tern_fail_alloc(err, 64);
    }
    return TERN_OK;
}

/* The items of array a, then those of b that a lacks (`all`); or those that both have. */
static tern_status merge_lists(tern_schema *s, const json_t *a, const json_t *b, bool all, json_t *out, tern_error *err)
{
    size_t i, k;
    json_t *x, *y;
    if (all && json_array_extend(out, (json_t *)a) != 0) return tern_fail_alloc(err, 64);
    json_array_foreach((json_t *)b, i, y)
    {
        bool found = false;
        TERN_TRY(tern_schema__count_work(s, json_array_size(a) / 8 + 1, err));
        json_array_foreach((json_t *)a, k, x)
        {
            if (!found) found = tern_schema__same(x, y);
        }
        if (found != all && json_array_append(out, y) != 0) return tern_fail_alloc(err, 64);
    }
    return TERN_OK;
}

static tern_status merge_list(tern_schema *s, const json_t *x, const json_t *y, const char *key, bool all, json_t *out,
                              bool *fits, tern_error *err)
{
    json_t *list = json_array();
    TERN_TRY(set_new(out, key, list, err));
    TERN_TRY(merge_lists(s, x, y, all, list, err));
    *fits = *fits && json_array_size(list) > 0;
    return TERN_OK;
}

/* A keyword that both have. */
static tern_status merge_values(tern_schema *s, const char *key, const json_t *x, const json_t *y, json_t *out,
                                bool *fits, tern_error *err)
{
    const int rule = rule_of(key);
    const bool smaller = json_number_value(x) < json_number_value(y);
    const json_t *both;
    switch (rule) {
    case COUNT_LEAST:
    case LEAST: return set(out, key, smaller ? y : x, err);
    case COUNT_MOST:
    case MOST: return set(out, key, smaller ? x : y, err);
    case COLLECT: return merge_list(s, x, y, key, true, out, fits, err);
    default: break;
    }
    if (strcmp(key, "required") == 0) return merge_list(s, x, y, key, true, out, &(bool){true}, err);
    if (strcmp(key, "enum") == 0) return merge_list(s, x, y, key, false, out, fits, err);
    if (strcmp(key, "uniqueItems") == 0) return set(out, key, x, err);
    if (strcmp(key, "type") == 0) {
        const json_int_t types = json_integer_value(x) & json_integer_value(y);
        *fits = *fits && types != 0;
        return set_new(out, key, json_integer(types), err);
    }
    TERN_TRY(tern_schema__both(s, x, y, &both, err));
    return set(out, key, both, err);
}

static tern_status merge_keyword(tern_schema *s, const json_t *a, const json_t *b, const char *key, json_t *out,
                                 bool *fits, tern_error *err)
{
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    if (json_object_get(out, key)) return TERN_OK;
    if (strcmp(key, "properties") == 0 || strcmp(key, "patternProperties") == 0)
        return merge_object(s, a, b, key, out, err);
    if (strcmp(key, "prefixItems") == 0) return merge_prefix(s, a, b, out, err);
    if (x && y) return merge_values(s, key, x, y, out, fits, err);
    return set(out, key, x ? x : y, err);
}

tern_status tern_schema__merge(tern_schema *s, const json_t *a, const json_t *b, const json_t **both, tern_error *err)
{
    const char *key;
    json_t *ignored, *out;
    bool fits = true;
    *both = json_object_size(a) ? a : b;
    if (!json_object_size(a) || !json_object_size(b)) return TERN_OK;
    TERN_TRY(make(s, &out, err));
    TERN_TRY(tern_schema__count_work(s, json_object_size(a) + json_object_size(b), err));
    json_object_foreach((json_t *)a, key, ignored)
    {
        TERN_TRY(merge_keyword(s, a, b, key, out, &fits, err));
    }
    json_object_foreach((json_t *)b, key, ignored)
    {
        TERN_TRY(merge_keyword(s, a, b, key, out, &fits, err));
    }
    *both = fits ? out : NULL;
    if (!fits) tern_schema__nothing(s, "allOf", "schemas that contradict each other", &(uint32_t){0});
    return TERN_OK;
}
