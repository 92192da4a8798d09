/* Whether two plain schemas have no value in common, as oneOf needs it: what is written for one must not be valid by
 * the other. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"

enum { MOST_DEPTH = 6 };

static tern_status are_apart(tern_schema *s, const json_t *a, const json_t *b, unsigned depth, bool *apart,
                             const json_t **without, tern_error *err);

/* For any two schemas. */
static tern_status schemas_apart(tern_schema *s, const json_t *a, const json_t *b, unsigned depth, bool *apart,
                                 tern_error *err)
{
    tern_schema_ways x = {0}, y = {0};
    tern_status status = TERN_OK;
    *apart = depth < MOST_DEPTH;
    if (!*apart) return TERN_OK;
    TERN_GOTO(tern_schema__flatten(s, a, &x, err));
    TERN_GOTO(tern_schema__flatten(s, b, &y, err));
    for (size_t i = 0; i < x.n; i++)
        for (size_t k = 0; k < y.n && *apart; k++)
            TERN_GOTO(are_apart(s, x.items[i], y.items[k], depth + 1, apart, NULL, err));
fail:
    tern_free(x.items);
    tern_free(y.items);
    return status;
}

/* Whether no value of an enum is valid by a plain schema. */
static tern_status values_apart(tern_schema *s, const json_t *listed, const json_t *plain, bool *apart, tern_error *err)
{
    size_t i;
    json_t *value;
    bool holds = false, both;
    json_array_foreach(json_object_get(listed, "enum"), i, value)
    {
        if (holds) break;
        TERN_TRY(tern_schema__plain_holds(s, listed, value, &holds, err));
        if (!holds) continue;
        TERN_TRY(tern_schema__plain_holds(s, plain, value, &both, err));
        holds = both;
    }
    *apart = !holds;
    return TERN_OK;
}

static double bound(const json_t *plain, const char *key, double missing)
{
    const json_t *value = json_object_get(plain, key);
    return value ? json_number_value(value) : missing;
}

static bool below(const json_t *a, const json_t *b)
{
    const double least = fmax(bound(b, "minimum", -INFINITY), bound(b, "exclusiveMinimum", -INFINITY));
    const double most = fmin(bound(a, "maximum", INFINITY), bound(a, "exclusiveMaximum", INFINITY));
    const bool open =
        bound(a, "exclusiveMaximum", INFINITY) <= most || bound(b, "exclusiveMinimum", -INFINITY) >= least;
    return most < least || (most == least && open && isfinite(most));
}

/* Whether the least count of one is above the most of the other. */
static bool counts_apart(const json_t *a, const json_t *b, const char *least, const char *most)
{
    return tern_schema__count(a, most, TERN_GRAMMAR_FOREVER) < tern_schema__count(b, least, 0) ||
           tern_schema__count(b, most, TERN_GRAMMAR_FOREVER) < tern_schema__count(a, least, 0);
}

static bool is_required(const json_t *plain, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(plain, "required"), i, item)
    {
        if (strcmp(json_string_value(item), name) == 0) return true;
    }
    return false;
}

static const json_t *property(const json_t *plain, const char *name)
{
    return json_object_get(json_object_get(plain, "properties"), name);
}

/* Whether a schema's object is never written with a member of that name. */
static bool lacks(const json_t *plain, const char *name)
{
    const json_t *others = json_object_get(plain, "additionalProperties");
    if (json_is_false(property(plain, name))) return true;
    if (property(plain, name) || is_required(plain, name) || json_object_get(plain, "patternProperties")) return false;
    return others ? json_is_false(others) : json_object_get(plain, "properties") != NULL;
}

/* Whether an object with a member of that name is invalid. */
static bool forbids(const json_t *plain, const char *name)
{
    if (json_is_false(property(plain, name))) return true;
    return json_is_false(json_object_get(plain, "additionalProperties")) && !property(plain, name) &&
           !json_object_get(plain, "patternProperties");
}

/* A copy of a schema without a member. */
static tern_status leave_out(tern_schema *s, const json_t *plain, const char *name, const json_t **out, tern_error *err)
{
    json_t *copy = json_copy((json_t *)plain);
    TERN_TRY(tern_schema__keep(s, copy, err));
    json_t *given = json_object_get(copy, "properties");
    json_t *members = given ? json_copy(given) : json_object();
    if (!members || json_object_set_new(members, name, json_false()) != 0 ||
        json_object_set_new(copy, "properties", members) != 0)
        return tern_fail_alloc(err, 64);
    *out = copy;
    return TERN_OK;
}

/* By a member that b must have and a lacks, or could be written without. */
static tern_status by_missing(tern_schema *s, const json_t *a, const json_t *b, bool *apart, const json_t **without,
                              tern_error *err)
{
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(b, "required"), i, name)
    {
        TERN_TRY(tern_schema__count_work(s, 1 + json_array_size(json_object_get(a, "required")) / 4, err));
        if (lacks(a, json_string_value(name))) *apart = true;
        if (*apart || !without || *without || is_required(a, json_string_value(name))) continue;
        TERN_TRY(leave_out(s, a, json_string_value(name), without, err));
    }
    return TERN_OK;
}

/* By a member that a must have, and that b forbids or wants otherwise. */
static tern_status by_present(tern_schema *s, const json_t *a, const json_t *b, unsigned depth, bool *apart,
                              tern_error *err)
{
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(a, "required"), i, name)
    {
        const char *text = json_string_value(name);
        if (*apart) return TERN_OK;
        const json_t *x = json_object_get(property(a, text), "const"), *y = json_object_get(property(b, text), "const");
        *apart = forbids(b, text) || (x && y && !tern_schema__same(x, y));
        if (!*apart && !(x && y) && property(a, text) && property(b, text))
            TERN_TRY(schemas_apart(s, property(a, text), property(b, text), depth, apart, err));
    }
    return TERN_OK;
}

static tern_status objects_apart(tern_schema *s, const json_t *a, const json_t *b, unsigned depth, bool *apart,
                                 const json_t **without, tern_error *err)
{
    *apart = counts_apart(a, b, "minProperties", "maxProperties");
    if (!*apart) TERN_TRY(by_present(s, a, b, depth, apart, err));
    return *apart ? TERN_OK : by_missing(s, a, b, apart, without, err);
}

/* Whether no string has the patterns, formats and lengths of both. */
static tern_status texts_apart(tern_schema *s, const json_t *a, const json_t *b, bool *apart, tern_error *err)
{
    tern_language l = {0};
    uint32_t x, y;
    tern_status status;
    *apart = counts_apart(a, b, "minLength", "maxLength");
    if (*apart || !(json_object_get(a, "pattern") || json_object_get(a, "format")) ||
        !(json_object_get(b, "pattern") || json_object_get(b, "format")))
        return TERN_OK;
    TERN_GOTO(tern_schema__begin_language(s, &l, err));
    TERN_GOTO(tern_schema__language(s, a, &l, &x, err));
    TERN_GOTO(tern_schema__language(s, b, &l, &y, err));
    TERN_GOTO(tern_language__both(&l, x, y, &x, err));
    status = tern_language__is_nothing(&l, x, apart, err);
fail:
    tern_schema__end_language(s, &l);
    return status;
}

static tern_status types_apart(tern_schema *s, const json_t *a, const json_t *b, unsigned types, unsigned depth,
                               bool *apart, const json_t **without, tern_error *err)
{
    *apart = !(types & (TERN_SCHEMA_BOOLEAN | TERN_SCHEMA_NULL));
    if (*apart && types & (TERN_SCHEMA_FRACTION | TERN_SCHEMA_INTEGER)) *apart = below(a, b) || below(b, a);
    if (*apart && types & TERN_SCHEMA_ARRAY) *apart = counts_apart(a, b, "minItems", "maxItems");
    if (*apart && types & TERN_SCHEMA_STRING) TERN_TRY(texts_apart(s, a, b, apart, err));
    if (*apart && types & TERN_SCHEMA_OBJECT) return objects_apart(s, a, b, depth, apart, without, err);
    return TERN_OK;
}

static tern_status are_apart(tern_schema *s, const json_t *a, const json_t *b, unsigned depth, bool *apart,
                             const json_t **without, tern_error *err)
{
    const unsigned types = tern_schema__written_types(a) & tern_schema__types(b);
    TERN_TRY(tern_schema__count_work(s, 1, err));
    if (json_object_get(a, "enum")) return values_apart(s, a, b, apart, err);
    *apart = types == 0;
    if (*apart) return TERN_OK;
    if (json_object_get(b, "enum")) return values_apart(s, b, a, apart, err);
    return types_apart(s, a, b, types, depth, apart, without, err);
}

tern_status tern_schema__is_apart(tern_schema *s, const json_t *a, const json_t *b, bool *apart, const json_t **without,
                                  tern_error *err)
{
    if (without) *without = NULL;
    return are_apart(s, a, b, 0, apart, without, err);
}
