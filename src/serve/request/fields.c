/* Tables of the members that an API's requests have. */
#include "serve/request/fields.h"

#include <math.h>
#include <string.h>

#include "base/show.h"
#include "format/json.h"

tern_status tern_fields_fail(const char *name, const json_t *value, const char *what, tern_error *err)
{
    if (json_is_number(value))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %.16g found, %s expected", name, json_number_value(value),
                         what);
    if (json_is_string(value))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: \"%s\" found, %s expected", name,
                         tern_show_z(json_string_value(value)).text, what);
    if (!value) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: none found, %s expected", name, what);
    if (json_is_array(value) && json_array_size(value) == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: an empty list found, %s expected", name, what);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: a value of the kind %s found, %s expected", name,
                     tern_json_kind(value), what);
}

static bool is_word_of(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = words; at && *at; at += at[strcspn(at, "|")] ? strcspn(at, "|") + 1 : strcspn(at, "|"))
        if (strcspn(at, "|") == n && memcmp(at, word, n) == 0) return true;
    return false;
}

static bool says_nothing(const tern_field *f, const json_t *value)
{
    if (json_is_string(value) && is_word_of(f->neutral, json_string_value(value))) return true;
    if (json_is_boolean(value)) return is_word_of(f->neutral, "true") == json_is_true(value);
    if (json_is_number(value) && json_number_value(value) >= f->min && json_number_value(value) <= f->max) return true;
    if (json_is_string(value)) return json_string_length(value) == 0;
    if (json_is_array(value)) return json_array_size(value) == 0;
    if (json_is_object(value)) return json_object_size(value) == 0;
    return false;
}

static tern_status read_number(const tern_field *f, const json_t *value, double *out, tern_error *err)
{
    const double v = json_number_value(value);
    const bool whole = f->kind != TERN_FIELD_F32;
    const double max = f->max > f->min ? f->max : f->kind == TERN_FIELD_U32 ? 4294967295.0 : 9007199254740992.0;
    char what[80];
    if (json_is_number(value) && v >= f->min && v <= max && (!whole || floor(v) == v)) {
        *out = v;
        return TERN_OK;
    }
    snprintf(what, sizeof what, "a %snumber from %.16g to %.16g", whole ? "whole " : "", f->min, max);
    return tern_fields_fail(f->name, value, what, err);
}

static tern_status read_text(const tern_field *f, const json_t *value, const char **out, tern_error *err)
{
    if (!json_is_string(value)) return tern_fields_fail(f->name, value, "a string", err);
    *out = json_string_value(value);
    if (strlen(*out) == json_string_length(value)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: a NUL character found, none expected", f->name);
}

static tern_status read_inner(const tern_field *f, const json_t *value, void *into, tern_error *err)
{
    if (!json_is_object(value)) return tern_fields_fail(f->name, value, "an object", err);
    if (tern_fields_read((const tern_field *const[]){f->inner, NULL}, value, into, err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "%s", f->name);
}

static tern_status read_field(const tern_field *f, const json_t *value, void *into, tern_error *err)
{
    char *const to = (char *)into + f->at;
    double number = 0;
    switch (f->kind) {
    case TERN_FIELD_F32:
        TERN_TRY(read_number(f, value, &number, err));
        *(float *)(void *)to = (float)number;
        return TERN_OK;
    case TERN_FIELD_U32:
        TERN_TRY(read_number(f, value, &number, err));
        *(uint32_t *)(void *)to = (uint32_t)number;
        return TERN_OK;
    case TERN_FIELD_U64:
        TERN_TRY(read_number(f, value, &number, err));
        *(uint64_t *)(void *)to = (uint64_t)number;
        return TERN_OK;
    case TERN_FIELD_BOOL:
        if (!json_is_boolean(value)) return tern_fields_fail(f->name, value, "true or false", err);
        *(bool *)to = json_is_true(value);
        return TERN_OK;
    case TERN_FIELD_TEXT: return read_text(f, value, (const char **)(void *)to, err);
    case TERN_FIELD_READ: return f->read(into, value, err);
    case TERN_FIELD_OBJECT: return read_inner(f, value, into, err);
    case TERN_FIELD_REFUSED:
        if (says_nothing(f, value)) return TERN_OK;
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: not supported%s%s", f->name, f->why ? ", " : "",
                         f->why ? f->why : "");
    case TERN_FIELD_IGNORED: break;
    }
    return TERN_OK;
}

const tern_field *tern_fields_find(const tern_field *const *tables, const char *name)
{
    for (; *tables; tables++)
        for (const tern_field *f = *tables; f->name; f++)
            if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

tern_status tern_fields_read(const tern_field *const *tables, const json_t *object, void *into, tern_error *err)
{
    const char *key;
    const json_t *value;
    if (!json_is_object(object)) return tern_fields_fail("the body", object, "an object", err);
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const tern_field *f = tern_fields_find(tables, key);
        if (json_is_null(value)) continue;
        if (!f) return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: an unknown field", tern_show_z(key).text);
        TERN_TRY(read_field(f, value, into, err));
    }
    return TERN_OK;
}
