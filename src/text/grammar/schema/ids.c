/* References of JSON Schema: $id and $anchor give places names, and each $ref becomes a pointer. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/bytes.h"
#include "base/map.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"

enum { MOST_URI = 1024 };

/* Places by their names: "URI" and "URI#anchor"; the values are numbers of pointers. */
typedef struct ids {
    tern_map by_name;
    tern_arena texts;
    const char **pointers;
    size_t n, cap;
    tern_buf pointer; /* of what is walked */
    bool collects;    /* names are collected, and no $ref is changed yet */
} ids;

static tern_status note(ids *x, const char *name, tern_error *err)
{
    bool added;
    const char *key = tern_arena_strndup(&x->texts, name, strlen(name));
    const char *pointer = tern_arena_strndup(&x->texts, x->pointer.data ? x->pointer.data : "", x->pointer.size);
    if (!key || !pointer) return tern_fail_alloc(err, strlen(name) + x->pointer.size);
    TERN_TRY(tern_grow((void **)&x->pointers, &x->cap, x->n + 1, sizeof *x->pointers, err));
    x->pointers[x->n] = pointer;
    return tern_map_add(&x->by_name, (tern_span){(const uint8_t *)key, strlen(key)}, (uint32_t)x->n++, &added, err);
}

static const char *find(const ids *x, const char *name, size_t n)
{
    uint32_t i;
    return tern_map_find(&x->by_name, (tern_span){(const uint8_t *)name, n}, &i) ? x->pointers[i] : NULL;
}

static bool is_absolute(const char *uri)
{
    const char *colon = strchr(uri, ':'), *slash = strpbrk(uri, "/?#");
    return colon && (!slash || colon < slash);
}

/* A reference from a base, without "." and ".." steps. false: it is too long. */
static bool resolve(const char *base, const char *ref, char out[MOST_URI])
{
    size_t n = strcspn(base, "#");
    if (is_absolute(ref)) {
        n = 0;
    } else if (ref[0] == '/') {
        const char *authority = strstr(base, "://");
        n = authority ? (size_t)(authority - base) + 3 + strcspn(authority + 3, "/#") : 0;
    } else if (ref[0] != '#' && ref[0]) {
        while (n && base[n - 1] != '/') n--;
    }
    if (n + strlen(ref) >= MOST_URI) return false;
    memcpy(out, base, n);
    memcpy(out + n, ref, strlen(ref) + 1);
    const size_t size = strlen(out);
    if (size && out[size - 1] == '#') out[size - 1] = 0;
    return true;
}

/* The pointer that a $ref stands for becomes its value; left as it is where nothing has the name. */
static tern_status point(ids *x, json_t *schema, const char *base, tern_error *err)
{
    char uri[MOST_URI];
    tern_buf pointer = {0};
    const char *ref = json_string_value(json_object_get(schema, "$ref")), *root = NULL;
    if (!ref || !resolve(base, ref, uri)) return TERN_OK;
    const size_t n = strcspn(uri, "#");
    const char *fragment = uri + n;
    root = fragment[0] == 0 || fragment[1] == '/' ? find(x, uri, n) : find(x, uri, strlen(uri));
    if (!root) return TERN_OK;
    tern_status status =
        tern_buf_addf(&pointer, err, "#%s%s", root, fragment[0] && fragment[1] == '/' ? fragment + 1 : "");
    if (status == TERN_OK && json_object_set_new(schema, "$ref", json_string(pointer.data)) != 0)
        status = tern_fail_alloc(err, pointer.size);
    tern_buf_deinit(&pointer);
    return status;
}

static tern_status walk(ids *x, json_t *schema, const char *base, tern_error *err);

/* One step down, to a schema. */
static tern_status walk_to(ids *x, json_t *schema, const char *key, const char *base, tern_error *err)
{
    const size_t before = x->pointer.size;
    TERN_TRY(tern_buf_add(&x->pointer, "/", 1, err));
    for (; *key; key++) {
        const char *escaped = *key == '~' ? "~0" : *key == '/' ? "~1" : NULL;
        TERN_TRY(tern_buf_add(&x->pointer, escaped ? escaped : key, escaped ? 2 : 1, err));
    }
    TERN_TRY(walk(x, schema, base, err));
    x->pointer.size = before;
    return TERN_OK;
}

static tern_status walk_members(ids *x, json_t *schemas, const char *base, tern_error *err)
{
    const char *key;
    json_t *value;
    size_t i;
    char number[24];
    json_object_foreach(schemas, key, value)
    {
        TERN_TRY(walk_to(x, value, key, base, err));
    }
    json_array_foreach(schemas, i, value)
    {
        snprintf(number, sizeof number, "%zu", i);
        TERN_TRY(walk_to(x, value, number, base, err));
    }
    return TERN_OK;
}

static bool is_among(const char *const *names, const char *name)
{
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static tern_status walk_keyword(ids *x, const char *key, json_t *value, const char *base, tern_error *err)
{
    static const char *const one[] = {"items", "additionalItems",  "additionalProperties",  "propertyNames",
                                      "not",   "unevaluatedItems", "unevaluatedProperties", NULL};
    static const char *const many[] = {
        "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies", "allOf", "anyOf",
        "oneOf",      "prefixItems",       "items", NULL};
    const size_t before = x->pointer.size;
    if (json_is_object(value) && is_among(one, key)) return walk_to(x, value, key, base, err);
    if (!is_among(many, key)) return TERN_OK;
    TERN_TRY(tern_buf_addf(&x->pointer, err, "/%s", key));
    TERN_TRY(walk_members(x, value, base, err));
    x->pointer.size = before;
    return TERN_OK;
}

static tern_status note_names(ids *x, const json_t *schema, const char *base, const char *own, tern_error *err)
{
    const char *anchor = json_string_value(json_object_get(schema, "$anchor"));
    char uri[MOST_URI];
    if (!x->collects) return TERN_OK;
    if (own) TERN_TRY(note(x, own, err));
    if (!anchor || strlen(anchor) + 2 > sizeof uri) return TERN_OK;
    snprintf(uri, sizeof uri, "#%s", anchor);
    char whole[MOST_URI];
    return resolve(base, uri, whole) ? note(x, whole, err) : TERN_OK;
}

/* Draft 4 has `id` in the place of `$id`; "#name" is an anchor there. */
static tern_status walk(ids *x, json_t *schema, const char *base, tern_error *err)
{
    const char *key, *id = json_string_value(json_object_get(schema, "$id"));
    char own[MOST_URI];
    json_t *value;
    if (!json_is_object(schema)) return TERN_OK;
    if (!id) id = json_string_value(json_object_get(schema, "id"));
    const bool named = id && resolve(base, id, own);
    TERN_TRY(note_names(x, schema, named && id[0] != '#' ? own : base, named ? own : NULL, err));
    if (named && id[0] != '#') base = own;
    if (!x->collects) TERN_TRY(point(x, schema, base, err));
    json_object_foreach(schema, key, value)
    {
        TERN_TRY(walk_keyword(x, key, value, base, err));
    }
    return TERN_OK;
}

tern_status tern_schema__resolve_ids(const json_t *document, json_t **copy, tern_error *err)
{
    ids x = {.collects = true};
    tern_status status;
    *copy = json_deep_copy(document);
    if (!*copy) return tern_fail_alloc(err, 64);
    TERN_GOTO(note(&x, "", err));
    TERN_GOTO(walk(&x, *copy, "", err));
    x.collects = false;
    status = walk(&x, *copy, "", err);
fail:
    tern_map_deinit(&x.by_name);
    tern_arena_deinit(&x.texts);
    tern_buf_deinit(&x.pointer);
    tern_free(x.pointers);
    return status;
}

/* The byte of two hexadecimal digits; -1: there are none. */
static int byte_of(const char *digits)
{
    if (strspn(digits, "0123456789abcdefABCDEF") < 2) return -1;
    const char pair[3] = {digits[0], digits[1], 0};
    return (int)strtoul(pair, NULL, 16);
}

/* One step of a pointer, with its escapes undone: ~0, ~1 and %HH. */
static const char *step(const char *pointer, char *key, size_t most)
{
    size_t n = 0;
    int byte;
    for (; *pointer && *pointer != '/'; pointer++) {
        if (n + 1 >= most) return NULL;
        key[n] = *pointer;
        if (*pointer == '~' && (pointer[1] == '0' || pointer[1] == '1')) key[n] = *++pointer == '0' ? '~' : '/';
        else if (*pointer == '%' && (byte = byte_of(pointer + 1)) >= 0) {
            key[n] = (char)byte;
            pointer += 2;
        }
        n++;
    }
    key[n] = 0;
    return pointer;
}

static size_t index_of(const char *key)
{
    size_t index = 0;
    for (; *key && index < 1000000; key++)
        index = *key >= '0' && *key <= '9' ? index * 10 + (size_t)(*key - '0') : 1000000;
    return index;
}

json_t *tern_schema__resolve(json_t *at, const char *pointer)
{
    char key[MOST_URI];
    if (*pointer++ != '#') return NULL;
    while (at && *pointer == '/') {
        pointer = step(pointer + 1, key, sizeof key);
        if (!pointer) return NULL;
        at = json_is_array(at) ? json_array_get(at, key[0] ? index_of(key) : SIZE_MAX) : json_object_get(at, key);
    }
    return *pointer ? NULL : at;
}
