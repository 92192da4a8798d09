/* JSON of commands, and golden files, for the tests of commands. */
#include "apps/commands_cases.h"

const char *commands_text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("no string \"%s\"", key);
    return text;
}

double commands_number_at(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_number(v)) fail_msg("no number \"%s\"", key);
    return json_number_value(v);
}

json_t *commands_read_golden(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!root) fail_msg("%s: %s", path, error.text);
    return root;
}
