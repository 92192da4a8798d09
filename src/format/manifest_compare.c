/* Whether a manifest says what the model's own file says. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "format/manifest.h"

/* A value for a message: numbers and short texts as they are, else the kind. */
static tern_shown shown(const json_t *v)
{
    tern_shown out;
    if (json_is_string(v)) {
        const tern_shown text = tern_show((tern_span){(const uint8_t *)json_string_value(v), json_string_length(v)});
        snprintf(out.text, sizeof out.text, "\"%.90s\"", text.text);
    } else if (json_is_number(v)) {
        snprintf(out.text, sizeof out.text, "%.9g", json_number_value(v));
    } else {
        snprintf(out.text, sizeof out.text, "%s", tern_json_kind(v));
    }
    return out;
}

static tern_status differ(const json_t *found, const json_t *expected, const char *path, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "%s: %s found, %s expected, as the model's file says", path,
                     shown(found).text, shown(expected).text);
}

static bool same_number(double a, double b)
{
    return a == b || (float)a == (float)b;
}

static tern_status compare_lists(const json_t *found, const json_t *expected, const char *path, tern_error *err)
{
    const size_t n = json_array_size(expected);
    if (!json_is_array(found)) return differ(found, expected, path, err);
    if (json_array_size(found) != n)
        return tern_fail(err, TERN_MALFORMED, "%s: %zu items found, %zu expected, as the model's file says", path,
                         json_array_size(found), n);
    for (size_t i = 0; i < n; i++) {
        char below[160];
        snprintf(below, sizeof below, "%.128s[%zu]", path, i);
        TERN_TRY(tern_manifest_compare(json_array_get(found, i), json_array_get(expected, i), below, err));
    }
    return TERN_OK;
}

tern_status tern_manifest_compare(const json_t *found, const json_t *expected, const char *path, tern_error *err)
{
    const char *key;
    json_t *v;
    if (json_is_array(expected)) return compare_lists(found, expected, path, err);
    if (json_is_number(expected) && json_is_number(found))
        return same_number(json_number_value(found), json_number_value(expected)) ? TERN_OK
                                                                                  : differ(found, expected, path, err);
    if (!json_is_object(expected)) return json_equal(found, expected) ? TERN_OK : differ(found, expected, path, err);
    if (!json_is_object(found)) return differ(found, expected, path, err);
    json_object_foreach((json_t *)(uintptr_t)expected, key, v)
    {
        char below[160];
        snprintf(below, sizeof below, "%.96s%s%.60s", path, *path ? "." : "", key);
        if (!json_object_get(found, key))
            return tern_fail(err, TERN_MALFORMED, "%s: missing, %s expected, as the model's file says", below,
                             shown(v).text);
        TERN_TRY(tern_manifest_compare(json_object_get(found, key), v, below, err));
    }
    return TERN_OK;
}
