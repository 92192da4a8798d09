/* Members of the JSON objects of training data: null counts as absent, and a list may be written as its JSON text. */
#include <string.h>

#include "format/json.h"
#include "train/data/talk.h"

json_t *tern_train__unconst(const json_t *value)
{
    return (json_t *)(uintptr_t)value;
}

tern_status tern_train__found(const char *key, const json_t *found, const char *what, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "%s: %s found, %s expected", key, tern_json_kind(found), what);
}

static bool is_kind(const json_t *value, json_type kind)
{
    return value && json_typeof(value) == kind;
}

tern_status tern_train__nested(const json_t *object, const char *key, json_type kind, json_t **out, tern_error *err)
{
    const json_t *value = json_object_get(object, key);
    const char *what = kind == JSON_ARRAY ? "an array" : "an object";
    *out = NULL;
    if (json_is_string(value)) {
        const tern_status status = tern_json_parse(out, json_string_value(value), json_string_length(value), key, NULL);
        if (status == TERN_OUT_OF_MEMORY) return tern_fail_alloc(err, json_string_length(value));
        if (status != TERN_OK)
            return tern_fail(err, TERN_MALFORMED, "%s: a string that is not JSON found, %s or its JSON expected", key,
                             what);
    } else *out = json_incref(tern_train__unconst(value));
    if (is_kind(*out, kind)) return TERN_OK;
    tern_status status = tern_train__found(key, *out, what, err);
    json_decref(*out);
    *out = NULL;
    return status;
}

tern_status tern_train__list(const json_t *object, const char *key, json_t **out, tern_error *err)
{
    *out = NULL;
    if (!json_is_object(object))
        return tern_fail(err, TERN_MALFORMED, "%s found, an object expected", tern_json_kind(object));
    if (!tern_json_has(object, key)) return tern_fail(err, TERN_NOT_FOUND, "%s: missing", key);
    return tern_train__nested(object, key, JSON_ARRAY, out, err);
}

json_t *tern_train__without_nulls(const json_t *object)
{
    json_t *copy = json_object(), *value;
    const char *key;
    json_object_foreach(tern_train__unconst(object), key, value)
    {
        if (json_is_null(value) || json_object_set(copy, key, value) == 0) continue;
        json_decref(copy);
        return NULL;
    }
    return copy;
}
