/* JSON as the values of a template: what callers hand to one beside plain messages. */
#include <string.h>

#include "text/jinja/render.h"

static tern_jinja_str text_of(const char *text, size_t n)
{
    return (tern_jinja_str){.data = text, .n = n, .untrusted = n > 0};
}

static tern_status list_of(tern_jinja_pool *p, const json_t *json, tern_jinja_value *out)
{
    tern_jinja_value *items;
    size_t n = json_array_size(json);
    TERN_TRY(tern_jinja__list(p, TERN_JINJA_LIST, n, out, &items));
    for (size_t i = 0; i < n; i++) TERN_TRY(tern_jinja__of_json(p, json_array_get(json, i), &items[i]));
    return TERN_OK;
}

static tern_status dict_of(tern_jinja_pool *p, const json_t *json, tern_jinja_value *out)
{
    const char *key;
    json_t *member;
    TERN_TRY(tern_jinja__dict(p, TERN_JINJA_DICT, out));
    json_object_foreach((json_t *)(uintptr_t)json, key, member)
    {
        tern_jinja_value name = tern_jinja__string(text_of(key, strlen(key))), value;
        TERN_TRY(tern_jinja__of_json(p, member, &value));
        TERN_TRY(tern_jinja__dict_set(p, out->dict, &name, &value));
    }
    return TERN_OK;
}

tern_status tern_jinja__of_json(tern_jinja_pool *p, const json_t *json, tern_jinja_value *out)
{
    int64_t whole;
    TERN_TRY(tern_jinja__charge(p, 1));
    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_OBJECT: return dict_of(p, json, out);
    case JSON_ARRAY: return list_of(p, json, out);
    case JSON_STRING: *out = tern_jinja__string(text_of(json_string_value(json), json_string_length(json))); break;
    case JSON_TRUE:
    case JSON_FALSE: *out = tern_jinja__bool(json_is_true(json)); break;
    case JSON_INTEGER:
    case JSON_REAL:
        *out = tern_json_int(json, &whole) ? tern_jinja__int(whole) : tern_jinja__float(json_number_value(json));
        break;
    case JSON_NULL: *out = tern_jinja__none(); break;
    }
    return TERN_OK;
}
