/* Objects of JSON Schema: their members in the order of the schema, and others after them. */
#include <string.h>

#include "base/alloc.h"
#include "format/json.h"
#include "text/grammar/schema.h"
#include "text/utf8.h"

typedef struct member {
    const char *name;
    const json_t *schema; /* NULL: any value */
    bool required;
    uint32_t node; /* name, colon and value */
} member;

typedef struct object {
    tern_schema *s;
    member *members;
    size_t n, cap;
    bool open;      /* members of other names may follow */
    uint32_t other; /* one of these */
} object;

/* The name in its quotes, the colon, the value. */
static tern_status pair(tern_schema *s, uint32_t name, uint32_t value, uint32_t *node, tern_error *err)
{
    uint32_t items[3] = {name, 0, value};
    TERN_TRY(tern_schema__spaced(s, " ", ":", " ", &items[1], err));
    return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 3, node, err);
}

static tern_status named(tern_schema *s, member *m, tern_error *err)
{
    tern_buf text = {0};
    uint32_t name, value = 0;
    tern_status status;
    TERN_GOTO(tern_grammar_json__quote(&text, m->name, strlen(m->name), err));
    TERN_GOTO(tern_grammar_tree__bytes(s->tree, text.data, text.size, &name, err));
    if (m->schema) {
        const size_t outer = tern_schema__enter(s, "properties");
        tern_schema__enter(s, m->name);
        TERN_GOTO(tern_schema__add(s, m->schema, &value, err));
        tern_schema__leave(s, outer);
    } else {
        TERN_GOTO(tern_grammar_tree__call(s->tree, s->value, &value, err));
    }
    status = pair(s, name, value, &m->node, err);
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status add_member(object *o, member m, tern_error *err)
{
    if (o->n >= TERN_SCHEMA_MAX_MEMBERS)
        return tern_schema__fail(o->s, TERN_LIMIT, "properties", "more than 1000 members", err);
    TERN_TRY(tern_grow((void **)&o->members, &o->cap, o->n + 1, sizeof *o->members, err));
    o->members[o->n++] = m;
    return TERN_OK;
}

static tern_status require(object *o, const json_t *name, bool closed, tern_error *err)
{
    if (!json_is_string(name))
        return tern_schema__fail(o->s, TERN_MALFORMED, "required", "an array of strings expected", err);
    for (size_t i = 0; i < o->n; i++) {
        if (strcmp(o->members[i].name, json_string_value(name)) != 0) continue;
        o->members[i].required = true;
        return TERN_OK;
    }
    if (closed)
        return tern_schema__fail(o->s, TERN_UNSUPPORTED, "required", "only names that are among the properties", err);
    return add_member(o, (member){.name = json_string_value(name), .required = true}, err);
}

static tern_status gather(object *o, const json_t *schema, tern_error *err)
{
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    const json_t *others = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *value;
    size_t i;
    if (properties && !json_is_object(properties))
        return tern_schema__fail(o->s, TERN_MALFORMED, "properties", "an object expected", err);
    if (required && !json_is_array(required))
        return tern_schema__fail(o->s, TERN_MALFORMED, "required", "an array of strings expected", err);
    json_object_foreach((json_t *)properties, key, value)
    {
        TERN_TRY(add_member(o, (member){.name = key, .schema = value}, err));
    }
    json_array_foreach((json_t *)required, i, value)
    {
        TERN_TRY(require(o, value, others && !json_is_true(others), err));
    }
    o->open = others ? !json_is_false(others) : o->n == 0 && !properties;
    return TERN_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const member *)a)->name, ((const member *)b)->name);
}

/* A plain name (no escapes) that is none of names[0 .. n), which are ordered and share their first `at` bytes: what
 * follows those bytes, with the quote at the end. */
static tern_status other_name(object *o, const member *names, size_t n, size_t at, uint32_t *node, tern_error *err)
{
    static const tern_grammar_range special[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
    tern_grammar_range *codes = tern_alloc((n + 3) * sizeof *codes);
    tern_grammar_list items = {0};
    uint32_t parts[3];
    tern_status status = codes ? TERN_OK : tern_fail_alloc(err, (n + 3) * sizeof *codes);
    size_t n_codes = 3;
    if (!codes) return status;
    memcpy(codes, special, sizeof special);
    for (size_t i = 0, end; i < n; i = end) {
        uint32_t code = 0;
        uint8_t utf8[4];
        const char *rest = names[i].name + at;
        end = i + 1;
        if (*rest == 0) continue;
        const unsigned size = tern_utf8__decode((const uint8_t *)rest, strlen(rest), &code);
        while (end < n && strncmp(names[end].name + at, rest, size) == 0) end++;
        codes[n_codes++] = (tern_grammar_range){code, code};
        if (code < 0x20 || code == '"' || code == '\\') continue;
        TERN_GOTO(tern_grammar_tree__bytes(o->s->tree, utf8, tern_utf8__encode(utf8, code), &parts[0], err));
        TERN_GOTO(other_name(o, names + i, end - i, at + size, &parts[1], err));
        TERN_GOTO(tern_grammar_tree__join_n(o->s->tree, TERN_GRAMMAR_ALL, parts, 2, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    TERN_GOTO(tern_grammar_tree__class(o->s->tree, codes, n_codes, true, &parts[0], err));
    TERN_GOTO(tern_grammar_tree__class(o->s->tree, special, 3, true, &parts[1], err));
    TERN_GOTO(tern_grammar_tree__repeat(o->s->tree, parts[1], 0, TERN_GRAMMAR_FOREVER, &parts[1], err));
    TERN_GOTO(tern_grammar_tree__text(o->s->tree, "\"", &parts[2], err));
    if (n == 0 || names[0].name[at]) TERN_GOTO(tern_grammar_list__add(&items, parts[2], err));
    TERN_GOTO(tern_grammar_tree__join_n(o->s->tree, TERN_GRAMMAR_ALL, parts, 3, node, err));
    TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    status = tern_grammar_tree__join(o->s->tree, TERN_GRAMMAR_ANY, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    tern_free(codes);
    return status;
}

/* A name that no member has. */
static tern_status other_names(object *o, uint32_t *node, tern_error *err)
{
    uint32_t items[2];
    if (o->n == 0) return tern_grammar_tree__call(o->s->tree, o->s->string, node, err);
    member *sorted = tern_alloc(o->n * sizeof *sorted);
    if (!sorted) return tern_fail_alloc(err, o->n * sizeof *sorted);
    memcpy(sorted, o->members, o->n * sizeof *sorted);
    qsort(sorted, o->n, sizeof *sorted, by_name);
    for (size_t i = 0; i < o->n; i++)
        if (strlen(sorted[i].name) > 512) sorted[i].name = ""; /* longer than what is looked at */
    qsort(sorted, o->n, sizeof *sorted, by_name);
    tern_status status = tern_grammar_tree__text(o->s->tree, "\"", &items[0], err);
    if (status == TERN_OK) status = other_name(o, sorted, o->n, 0, &items[1], err);
    if (status == TERN_OK) status = tern_grammar_tree__join_n(o->s->tree, TERN_GRAMMAR_ALL, items, 2, node, err);
    tern_free(sorted);
    return status;
}

static tern_status other_member(object *o, const json_t *schema, tern_error *err)
{
    const json_t *others = json_object_get(schema, "additionalProperties");
    uint32_t name, value;
    TERN_TRY(other_names(o, &name, err));
    if (others && !json_is_true(others)) {
        const size_t before = tern_schema__enter(o->s, "additionalProperties");
        TERN_TRY(tern_schema__add(o->s, others, &value, err));
        tern_schema__leave(o->s, before);
    } else {
        TERN_TRY(tern_grammar_tree__call(o->s->tree, o->s->value, &value, err));
    }
    return pair(o->s, name, value, &o->other, err);
}

/* A rule of a node, and a call of it: what stands in two places is written once. */
static tern_status share(object *o, uint32_t node, uint32_t *out, tern_error *err)
{
    uint32_t rule;
    TERN_TRY(tern_grammar_tree__rule(o->s->tree, "members", 7, &rule, err));
    tern_grammar_tree__define(o->s->tree, rule, node);
    return tern_grammar_tree__call(o->s->tree, rule, out, err);
}

/* The members that may follow all members, where one stands before (more) and where none does (first). */
static tern_status follow(object *o, uint32_t *more, uint32_t *first, tern_error *err)
{
    tern_grammar_tree *t = o->s->tree;
    uint32_t items[2];
    if (!o->open) {
        TERN_TRY(tern_grammar_tree__bytes(t, "", 0, more, err));
        *first = *more;
        return TERN_OK;
    }
    TERN_TRY(share(o, o->other, &items[1], err));
    TERN_TRY(tern_schema__spaced(o->s, " ", ",", " ", &items[0], err));
    TERN_TRY(tern_grammar_tree__join_n(t, TERN_GRAMMAR_ALL, items, 2, more, err));
    TERN_TRY(tern_grammar_tree__repeat(t, *more, 0, TERN_GRAMMAR_FOREVER, more, err));
    TERN_TRY(share(o, *more, more, err));
    items[0] = items[1];
    items[1] = *more;
    TERN_TRY(tern_grammar_tree__join_n(t, TERN_GRAMMAR_ALL, items, 2, first, err));
    return tern_grammar_tree__repeat(t, *first, 0, 1, first, err);
}

/* Puts a member before what follows it. */
static tern_status precede(object *o, const member *m, uint32_t *more, uint32_t *first, tern_error *err)
{
    tern_grammar_tree *t = o->s->tree;
    uint32_t body, comma, with[3], both[2];
    TERN_TRY(share(o, m->node, &body, err));
    TERN_TRY(tern_schema__spaced(o->s, " ", ",", " ", &comma, err));
    with[0] = comma;
    with[1] = body;
    with[2] = *more;
    TERN_TRY(tern_grammar_tree__join_n(t, TERN_GRAMMAR_ALL, with + 1, 2, &both[0], err));
    both[1] = *first;
    if (m->required) *first = both[0];
    else TERN_TRY(tern_grammar_tree__join_n(t, TERN_GRAMMAR_ANY, both, 2, first, err));
    TERN_TRY(tern_grammar_tree__join_n(t, TERN_GRAMMAR_ALL, with, 3, &both[0], err));
    both[1] = *more;
    if (m->required) *more = both[0];
    else TERN_TRY(tern_grammar_tree__join_n(t, TERN_GRAMMAR_ANY, both, 2, more, err));
    TERN_TRY(share(o, *more, more, err));
    return share(o, *first, first, err);
}

static tern_status build(object *o, const json_t *schema, uint32_t *node, tern_error *err)
{
    uint32_t items[3], more;
    TERN_TRY(gather(o, schema, err));
    for (size_t i = 0; i < o->n; i++) TERN_TRY(named(o->s, &o->members[i], err));
    if (o->open) TERN_TRY(other_member(o, schema, err));
    TERN_TRY(follow(o, &more, &items[1], err));
    for (size_t i = o->n; i--;) TERN_TRY(precede(o, &o->members[i], &more, &items[1], err));
    TERN_TRY(tern_schema__spaced(o->s, NULL, "{", " ", &items[0], err));
    TERN_TRY(tern_schema__spaced(o->s, " ", "}", NULL, &items[2], err));
    return tern_grammar_tree__join_n(o->s->tree, TERN_GRAMMAR_ALL, items, 3, node, err);
}

tern_status tern_schema__object(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    object o = {.s = s};
    tern_status status = build(&o, schema, node, err);
    tern_free(o.members);
    return status;
}
