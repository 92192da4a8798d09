/* State that all exports share: the message of the last failure, options in JSON, results in JSON. */
#include "web/web.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/json.h"
#include "tern.h"

TERN_WEB const char *tern_web_version(void);
TERN_WEB const char *tern_web_message(void);
TERN_WEB const char *tern_web_status_words(tern_status code);
TERN_WEB const char *tern_web_result(void);

static tern_error last;
static char *result;

tern_error *tern_web__error(void)
{
    tern_json_use_allocator();
    last = (tern_error){0};
    return &last;
}

const char *tern_web_version(void)
{
    return tern_version();
}

/* The error of the last call that failed; until the next call. */
const char *tern_web_message(void)
{
    return last.message;
}

const char *tern_web_status_words(tern_status code)
{
    return tern_status_words(code);
}

/* JSON, of the last call that gives a result; until the next one. */
const char *tern_web_result(void)
{
    return result ? result : "null";
}

tern_status tern_web__answer(json_t *value, tern_error *err)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (!text) return tern_fail_alloc(err, 0);
    tern_free(result);
    result = text; /* jansson allocates with tern_alloc */
    return TERN_OK;
}

static tern_status wrong(const tern_web_option *o, const json_t *value, const char *expected, tern_error *err)
{
    char *found = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    tern_fail(err, TERN_INVALID_ARGUMENT, "option %s: %s found, %s expected", o->name,
              found ? tern_show_z(found).text : "?", expected);
    tern_free(found);
    return TERN_INVALID_ARGUMENT;
}

static tern_status read_whole(const tern_web_option *o, const json_t *value, tern_error *err)
{
    const bool wide = o->type == TERN_WEB_U64;
    const double limit = wide ? 9007199254740991.0 : 4294967295.0, x = json_number_value(value);
    if (!json_is_number(value) || !(x >= 0 && x <= limit) || x != (double)(uint64_t)x)
        return wrong(o, value, wide ? "a whole number from 0 to 2^53 - 1" : "a whole number from 0 to 2^32 - 1", err);
    if (wide) *(uint64_t *)o->out = (uint64_t)x;
    else *(uint32_t *)o->out = (uint32_t)x;
    return TERN_OK;
}

static tern_status read_option(const tern_web_option *o, json_t *value, tern_error *err)
{
    switch (o->type) {
    case TERN_WEB_U32:
    case TERN_WEB_U64: return read_whole(o, value, err);
    case TERN_WEB_F32:
        if (!json_is_number(value)) return wrong(o, value, "a number", err);
        *(float *)o->out = (float)json_number_value(value);
        return TERN_OK;
    case TERN_WEB_F64:
        if (!json_is_number(value)) return wrong(o, value, "a number", err);
        *(double *)o->out = json_number_value(value);
        return TERN_OK;
    case TERN_WEB_BOOL:
        if (!json_is_boolean(value)) return wrong(o, value, "true or false", err);
        *(bool *)o->out = json_is_true(value);
        return TERN_OK;
    case TERN_WEB_STRING:
        if (!json_is_string(value)) return wrong(o, value, "text", err);
        *(const char **)o->out = json_string_value(value);
        return TERN_OK;
    case TERN_WEB_ANY: *(json_t **)o->out = value; return TERN_OK;
    }
    return TERN_OK;
}

static const tern_web_option *find_option(const tern_web_option *options, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(options[i].name, name) == 0) return &options[i];
    return NULL;
}

tern_status tern_web__read_options(const char *json, const tern_web_option *options, size_t n, json_t **root,
                                   tern_error *err)
{
    json_error_t at;
    const char *key;
    json_t *value;
    *root = json ? json_loads(json, JSON_REJECT_DUPLICATES, &at) : json_object();
    if (!*root) return tern_fail(err, TERN_INVALID_ARGUMENT, "options: %s", json ? at.text : "out of memory");
    tern_status status =
        json_is_object(*root) ? TERN_OK : tern_fail(err, TERN_INVALID_ARGUMENT, "options: an object expected");
    json_object_foreach(*root, key, value)
    {
        const tern_web_option *o = find_option(options, n, key);
        if (status != TERN_OK) break;
        if (!o) status = tern_fail(err, TERN_INVALID_ARGUMENT, "option %s is unknown", tern_show_z(key).text);
        else if (!json_is_null(value)) status = read_option(o, value, err);
    }
    if (status != TERN_OK) {
        json_decref(*root);
        *root = NULL;
    }
    return status;
}
