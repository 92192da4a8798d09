/* Where in a JSON Schema something stands, for messages, and the counts that stand there. */
#include <stdio.h>
#include <string.h>

#include "base/show.h"
#include "text/grammar/schema/schema.h"

static size_t push(tern_schema *s, const char *text)
{
    const size_t before = s->n_path;
    for (; *text && s->n_path + 3 < sizeof s->path; text++) {
        if (*text == '~' || *text == '/') {
            s->path[s->n_path++] = '~';
            s->path[s->n_path++] = *text == '~' ? '0' : '1';
        } else {
            s->path[s->n_path++] = *text;
        }
    }
    s->path[s->n_path] = 0;
    return before;
}

size_t tern_schema__enter(tern_schema *s, const char *key)
{
    const size_t before = s->n_path;
    if (s->n_path + 3 < sizeof s->path) s->path[s->n_path++] = '/';
    push(s, key);
    return before;
}

size_t tern_schema__enter_item(tern_schema *s, size_t index)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", index);
    return tern_schema__enter(s, number);
}

void tern_schema__leave(tern_schema *s, size_t before)
{
    s->n_path = before;
    s->path[before] = 0;
}

/* The end of the path. */
static tern_shown place_of(const tern_schema *s)
{
    char place[sizeof(tern_shown)];
    const size_t from = s->n_path > 60 ? s->n_path - 60 : 0;
    snprintf(place, sizeof place, "%s%s", from ? "..." : "", s->path + from);
    return tern_show_z(place);
}

tern_status tern_schema__label(tern_schema *s, uint32_t node, tern_error *err)
{
    char label[sizeof(tern_shown) + 16];
    const tern_shown where = place_of(s);
    snprintf(label, sizeof label, "schema: %s", where.text[0] ? where.text : "its top");
    return tern_grammar_tree__label(s->tree, node, label, err);
}

tern_status tern_schema__fail(const tern_schema *s, tern_status code, const char *key, const char *what,
                              tern_error *err)
{
    const tern_shown where = place_of(s);
    if (!key) return tern_fail(err, code, "schema: %s: %s", where.text[0] ? where.text : "at its top", what);
    return tern_fail(err, code, "schema: %s/%s: %s", where.text, tern_show_z(key).text, what);
}

tern_status tern_schema__nothing(tern_schema *s, const char *key, const char *what, uint32_t *node)
{
    const tern_shown where = place_of(s);
    *node = TERN_SCHEMA_NOTHING;
    if (s->why[0]) return TERN_OK;
    snprintf(s->why, sizeof s->why, "schema: %.100s%s%s: %s", where.text[0] || key ? where.text : "at its top",
             key ? "/" : "", key ? key : "", what);
    return TERN_OK;
}

tern_status tern_schema__count_work(tern_schema *s, size_t n, tern_error *err)
{
    s->work += n;
    if (s->work <= TERN_SCHEMA_MAX_WORK) return TERN_OK;
    return tern_schema__fail(s, TERN_LIMIT, NULL, "more than 262144 keywords, with those that alternatives repeat",
                             err);
}

uint32_t tern_schema__count(const json_t *plain, const char *key, uint32_t missing)
{
    const json_t *value = json_object_get(plain, key);
    if (!value) return missing;
    return json_number_value(value) < TERN_GRAMMAR_MAX_REPEAT ? (uint32_t)json_number_value(value)
                                                              : TERN_GRAMMAR_MAX_REPEAT;
}
