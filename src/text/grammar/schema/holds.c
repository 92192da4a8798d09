/* Whether a value is valid by a schema: for enum and const beside other keywords, and for oneOf. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"

bool tern_schema__same(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b)) return false;
    if (!json_is_object(a) && !json_is_array(a)) return json_equal(a, b);
    if (json_object_size(a) != json_object_size(b) || json_array_size(a) != json_array_size(b)) return false;
    json_object_foreach((json_t *)a, key, member)
    {
        const json_t *other = json_object_get(b, key);
        if (!other || !tern_schema__same(member, other)) return false;
    }
    json_array_foreach((json_t *)a, i, member)
    {
        if (!tern_schema__same(member, json_array_get(b, i))) return false;
    }
    return true;
}

static unsigned type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return TERN_SCHEMA_OBJECT;
    case JSON_ARRAY: return TERN_SCHEMA_ARRAY;
    case JSON_STRING: return TERN_SCHEMA_STRING;
    case JSON_INTEGER: return TERN_SCHEMA_INTEGER;
    case JSON_REAL:
        return json_number_value(value) == floor(json_number_value(value)) ? TERN_SCHEMA_INTEGER : TERN_SCHEMA_FRACTION;
    case JSON_TRUE:
    case JSON_FALSE: return TERN_SCHEMA_BOOLEAN;
    case JSON_NULL: break;
    }
    return TERN_SCHEMA_NULL;
}

static bool number_holds(const json_t *plain, const json_t *value)
{
    const double v = json_number_value(value);
    const json_t *bound;
    size_t i;
    json_t *step;
    if ((bound = json_object_get(plain, "minimum")) && v < json_number_value(bound)) return false;
    if ((bound = json_object_get(plain, "maximum")) && v > json_number_value(bound)) return false;
    if ((bound = json_object_get(plain, "exclusiveMinimum")) && v <= json_number_value(bound)) return false;
    if ((bound = json_object_get(plain, "exclusiveMaximum")) && v >= json_number_value(bound)) return false;
    json_array_foreach(json_object_get(plain, "multipleOf"), i, step)
    {
        if (!tern_schema__is_multiple(v, json_number_value(step))) return false;
    }
    return true;
}

static tern_status text_holds(tern_schema *s, const json_t *plain, const json_t *value, bool *holds, tern_error *err)
{
    tern_language l = {0};
    uint32_t term;
    tern_status status;
    TERN_GOTO(tern_schema__begin_language(s, &l, err));
    TERN_GOTO(tern_schema__language(s, plain, &l, &term, err));
    status = tern_language__has(&l, term, json_string_value(value), json_string_length(value), holds, err);
fail:
    tern_schema__end_language(s, &l);
    return status;
}

static tern_status name_holds(tern_schema *s, const json_t *names, const char *name, bool *holds, tern_error *err)
{
    json_t *text = json_string(name);
    if (!text) return tern_fail_alloc(err, strlen(name));
    const tern_status status = tern_schema__holds(s, names, text, holds, err);
    json_decref(text);
    return status;
}

/* One member: by properties, or by the patterns that its name has, or as one of another name. */
static tern_status member_holds(tern_schema *s, const json_t *plain, const char *name, const json_t *value, bool *holds,
                                tern_error *err)
{
    const json_t *schema = json_object_get(json_object_get(plain, "properties"), name);
    const json_t *others = json_object_get(plain, "additionalProperties");
    const json_t *names = json_object_get(plain, "propertyNames");
    bool named = schema != NULL, matches;
    const char *pattern;
    json_t *theirs;
    if (schema) TERN_TRY(tern_schema__holds(s, schema, value, holds, err));
    if (names && *holds) TERN_TRY(name_holds(s, names, name, holds, err));
    json_object_foreach(json_object_get(plain, "patternProperties"), pattern, theirs)
    {
        if (!*holds) return TERN_OK;
        TERN_TRY(tern_schema__matches(s, pattern, name, &matches, err));
        named = named || matches;
        if (matches) TERN_TRY(tern_schema__holds(s, theirs, value, holds, err));
    }
    return *holds && others && !named ? tern_schema__holds(s, others, value, holds, err) : TERN_OK;
}

static tern_status object_holds(tern_schema *s, const json_t *plain, const json_t *value, bool *holds, tern_error *err)
{
    const size_t n = json_object_size(value);
    const char *name;
    json_t *member;
    size_t i;
    *holds = n >= tern_schema__count(plain, "minProperties", 0) &&
             n <= tern_schema__count(plain, "maxProperties", TERN_GRAMMAR_FOREVER);
    json_array_foreach(json_object_get(plain, "required"), i, member)
    {
        *holds = *holds && json_object_get(value, json_string_value(member));
    }
    json_object_foreach((json_t *)value, name, member)
    {
        if (*holds) TERN_TRY(member_holds(s, plain, name, member, holds, err));
    }
    return TERN_OK;
}

static tern_status array_holds(tern_schema *s, const json_t *plain, const json_t *value, bool *holds, tern_error *err)
{
    const json_t *first = json_object_get(plain, "prefixItems"), *rest = json_object_get(plain, "items");
    const size_t n = json_array_size(value);
    *holds = n >= tern_schema__count(plain, "minItems", 0) &&
             n <= tern_schema__count(plain, "maxItems", TERN_GRAMMAR_FOREVER);
    for (size_t i = 0; i < n && *holds; i++) {
        const json_t *schema = i < json_array_size(first) ? json_array_get(first, i) : rest;
        if (schema) TERN_TRY(tern_schema__holds(s, schema, json_array_get(value, i), holds, err));
        TERN_TRY(tern_schema__count_work(s, i / 8, err));
        for (size_t k = 0; k < i && *holds && json_object_get(plain, "uniqueItems"); k++)
            *holds = !tern_schema__same(json_array_get(value, i), json_array_get(value, k));
    }
    return TERN_OK;
}

tern_status tern_schema__plain_holds(tern_schema *s, const json_t *plain, const json_t *value, bool *holds,
                                     tern_error *err)
{
    const json_t *values = json_object_get(plain, "enum");
    size_t i;
    json_t *other;
    TERN_TRY(tern_schema__count_work(s, 1 + json_array_size(values) / 16, err));
    *holds = (tern_schema__types(plain) & type_of(value)) != 0;
    if (*holds && values) {
        *holds = false;
        json_array_foreach((json_t *)values, i, other)
        {
            if (!*holds) *holds = tern_schema__same(value, other);
        }
    }
    if (!*holds) return TERN_OK;
    if (json_is_number(value)) *holds = number_holds(plain, value);
    if (json_is_string(value)) return text_holds(s, plain, value, holds, err);
    if (json_is_object(value)) return object_holds(s, plain, value, holds, err);
    return json_is_array(value) ? array_holds(s, plain, value, holds, err) : TERN_OK;
}

tern_status tern_schema__holds(tern_schema *s, const json_t *schema, const json_t *value, bool *holds, tern_error *err)
{
    tern_schema_ways ways = {0};
    tern_status status;
    *holds = false;
    TERN_GOTO(tern_schema__flatten(s, schema, &ways, err));
    for (size_t i = 0; i < ways.n && !*holds; i++)
        TERN_GOTO(tern_schema__plain_holds(s, ways.items[i], value, holds, err));
fail:
    tern_free(ways.items);
    return status;
}
