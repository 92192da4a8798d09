/* Objects of JSON Schema: their members in the order of the schema, and others after them. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"
#include "text/utf8.h"

enum { MOST_PATTERNS = 4 };
static const uint32_t NOTHING = TERN_SCHEMA_NOTHING;
static const uint32_t FOREVER = TERN_GRAMMAR_FOREVER;

typedef struct member {
    const char *name;
    const json_t *schema; /* NULL: any value */
    bool required;
    uint32_t node; /* name, colon and value; NOTHING: it cannot be there */
} member;

typedef struct object {
    tern_schema *s;
    const json_t *plain;
    member *members;
    size_t n, cap;
    tern_map places;      /* of the members by their names */
    bool open;            /* members of names that no keyword has may follow */
    uint32_t other;       /* one that is not among the members; NOTHING: there is none */
    uint32_t least, most; /* members in all */
    uint32_t n_counts;    /* counts of members that are told apart: 0 to n_counts - 1, or more */
} object;

/* The name in its quotes, the colon, the value. */
static tern_status pair(tern_schema *s, uint32_t name, uint32_t value, uint32_t *node, tern_error *err)
{
    uint32_t items[3] = {name, 0, value};
    *node = NOTHING;
    if (name == NOTHING || value == NOTHING) return TERN_OK;
    TERN_TRY(tern_schema__spaced(s, " ", ":", " ", &items[1], err));
    return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 3, node, err);
}

/* The node of a schema under a key; NULL: any value. */
static tern_status value_of(tern_schema *s, const char *key, const char *name, const json_t *schema, uint32_t *node,
                            tern_error *err)
{
    if (!schema) return tern_grammar_tree__call(s->tree, s->value, node, err);
    const size_t before = tern_schema__enter(s, key);
    if (name) tern_schema__enter(s, name);
    TERN_TRY(tern_schema__add(s, schema, node, err));
    tern_schema__leave(s, before);
    return TERN_OK;
}

static tern_status write_member(tern_schema *s, member *m, tern_error *err)
{
    tern_buf text = {0};
    uint32_t name = 0, value = NOTHING;
    tern_status status;
    TERN_GOTO(tern_grammar_json__quote(&text, m->name, strlen(m->name), err));
    TERN_GOTO(tern_grammar_tree__bytes(s->tree, text.data, text.size, &name, err));
    TERN_GOTO(value_of(s, "properties", m->name, m->schema, &value, err));
    status = pair(s, name, value, &m->node, err);
fail:
    tern_buf_deinit(&text);
    return status;
}

static member *find_member(object *o, const char *name)
{
    uint32_t i;
    return tern_map_find(&o->places, (tern_span){(const uint8_t *)name, strlen(name)}, &i) ? &o->members[i] : NULL;
}

/* The schemas that patterns, and the keyword for other names, have for a name. *named: a pattern has it. */
static tern_status asked(object *o, const char *name, const json_t **schema, bool *named, tern_error *err)
{
    const char *pattern;
    json_t *theirs;
    bool matches;
    json_object_foreach(json_object_get(o->plain, "patternProperties"), pattern, theirs)
    {
        TERN_TRY(tern_schema__matches(o->s, pattern, name, &matches, err));
        if (matches) TERN_TRY(tern_schema__both(o->s, *schema, theirs, schema, err));
        *named = *named || matches;
    }
    return TERN_OK;
}

/* A member with all that is asked of it: none where propertyNames forbids its name. */
static tern_status add_member(object *o, member m, bool listed, tern_error *err)
{
    const json_t *names = json_object_get(o->plain, "propertyNames");
    bool named = listed, holds = true, added;
    if (o->n >= TERN_SCHEMA_MAX_MEMBERS)
        return tern_schema__fail(o->s, TERN_LIMIT, "properties", "more than 1000 members", err);
    TERN_TRY(asked(o, m.name, &m.schema, &named, err));
    if (!named) m.schema = json_object_get(o->plain, "additionalProperties");
    if (names) {
        json_t *text = json_string(m.name);
        if (!text) return tern_fail_alloc(err, strlen(m.name));
        const tern_status status = tern_schema__holds(o->s, names, text, &holds, err);
        json_decref(text);
        TERN_TRY(status);
    }
    m.node = NOTHING;
    if (holds) TERN_TRY(write_member(o->s, &m, err));
    TERN_TRY(tern_grow((void **)&o->members, &o->cap, o->n + 1, sizeof *o->members, err));
    TERN_TRY(
        tern_map_add(&o->places, (tern_span){(const uint8_t *)m.name, strlen(m.name)}, (uint32_t)o->n, &added, err));
    o->members[o->n++] = m;
    return TERN_OK;
}

/* Where propertyNames lists all names: they are members, if any other may be there. */
static tern_status add_listed_names(object *o, bool *listed, tern_error *err)
{
    const json_t *names = json_object_get(o->plain, "propertyNames");
    tern_schema_ways ways = {0};
    tern_status status = TERN_OK;
    size_t i;
    json_t *name;
    *listed = false;
    if (!names || json_object_get(o->plain, "patternProperties")) return TERN_OK;
    TERN_GOTO(tern_schema__flatten(o->s, names, &ways, err));
    *listed = true;
    for (size_t k = 0; k < ways.n; k++) *listed = *listed && json_object_get(ways.items[k], "enum");
    for (size_t k = 0; k < ways.n && *listed && o->open; k++) {
        json_array_foreach(json_object_get(ways.items[k], "enum"), i, name)
        {
            if (json_is_string(name) && !find_member(o, json_string_value(name)))
                TERN_GOTO(add_member(o, (member){.name = json_string_value(name)}, false, err));
        }
    }
fail:
    tern_free(ways.items);
    return status;
}

static tern_status gather(object *o, tern_error *err)
{
    const json_t *properties = json_object_get(o->plain, "properties"), *others;
    const char *key;
    json_t *value;
    size_t i;
    bool listed;
    others = json_object_get(o->plain, "additionalProperties");
    json_object_foreach((json_t *)properties, key, value)
    {
        TERN_TRY(add_member(o, (member){.name = key, .schema = value}, true, err));
    }
    json_array_foreach(json_object_get(o->plain, "required"), i, value)
    {
        if (!find_member(o, json_string_value(value)))
            TERN_TRY(add_member(o, (member){.name = json_string_value(value)}, false, err));
        find_member(o, json_string_value(value))->required = true;
    }
    o->open =
        others ? !json_is_false(others) : o->n == 0 && !properties && !json_object_get(o->plain, "patternProperties");
    TERN_TRY(add_listed_names(o, &listed, err));
    if (listed) o->open = false;
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
static tern_status plain_names(object *o, uint32_t *node, tern_error *err)
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

/* A name that no member has, with some of the patterns and without the others. */
static tern_status other_names(object *o, const char *const *patterns, const bool *with, size_t n, uint32_t *node,
                               tern_error *err)
{
    const json_t *names = json_object_get(o->plain, "propertyNames");
    if (n == 0 && !names) return plain_names(o, node, err);
    const char **taken = tern_calloc(o->n + 1, sizeof *taken);
    if (!taken) return tern_fail_alloc(err, o->n * sizeof *taken);
    for (size_t i = 0; i < o->n; i++) taken[i] = o->members[i].name;
    const tern_schema_names asked_for = {names, patterns, with, n, taken, o->n};
    const tern_status status = tern_schema__names(o->s, &asked_for, node, err);
    tern_free(taken);
    return status;
}

/* Members with the patterns whose bits are in `which`, and no other. */
static tern_status matching(object *o, const char *const *patterns, size_t n, unsigned which, uint32_t *node,
                            tern_error *err)
{
    bool with[MOST_PATTERNS];
    const json_t *schema = NULL;
    uint32_t name, value;
    const char *key = which ? "patternProperties" : "additionalProperties";
    for (size_t i = 0; i < n; i++) {
        with[i] = which >> i & 1;
        if (!with[i]) continue;
        TERN_TRY(tern_schema__both(
            o->s, schema, json_object_get(json_object_get(o->plain, "patternProperties"), patterns[i]), &schema, err));
    }
    if (!which) schema = json_object_get(o->plain, "additionalProperties");
    TERN_TRY(other_names(o, patterns, with, n, &name, err));
    *node = NOTHING;
    if (name == NOTHING) return TERN_OK;
    TERN_TRY(value_of(o->s, key, which && !(which & (which - 1)) ? patterns[__builtin_ctz(which)] : NULL, schema,
                      &value, err));
    return pair(o->s, name, value, node, err);
}

/* The members that may follow those with names of their own. */
static tern_status add_others(object *o, tern_error *err)
{
    const char *patterns[MOST_PATTERNS], *pattern;
    const json_t *given = json_object_get(o->plain, "patternProperties");
    json_t *ignored;
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    size_t n = 0;
    if (json_object_size(given) > MOST_PATTERNS)
        return tern_schema__fail(o->s, TERN_LIMIT, "patternProperties", "more than 4 patterns", err);
    json_object_foreach((json_t *)given, pattern, ignored)
    {
        patterns[n++] = pattern;
    }
    for (unsigned which = o->open ? 0 : 1; which < 1u << n; which++) {
        TERN_GOTO(matching(o, patterns, n, which, &o->other, err));
        TERN_GOTO(tern_grammar_list__add(&items, o->other, err));
    }
    status = tern_schema__any(o->s, &items, &o->other, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

/* A rule of a node, and a call of it: what stands in two places is written once. */
static tern_status share(object *o, uint32_t node, uint32_t *out, tern_error *err)
{
    uint32_t rule;
    *out = NOTHING;
    if (node == NOTHING) return TERN_OK;
    TERN_TRY(tern_grammar_tree__rule(o->s->tree, "members", 7, &rule, err));
    tern_grammar_tree__define(o->s->tree, rule, node);
    return tern_grammar_tree__call(o->s->tree, rule, out, err);
}

static tern_status join(object *o, const uint32_t *parts, size_t n, uint32_t *out, tern_error *err)
{
    *out = NOTHING;
    for (size_t i = 0; i < n; i++)
        if (parts[i] == NOTHING) return TERN_OK;
    return tern_grammar_tree__join_n(o->s->tree, TERN_GRAMMAR_ALL, parts, n, out, err);
}

/* Either of two nodes, unless it is NOTHING. */
static tern_status either(object *o, uint32_t a, uint32_t b, uint32_t *out, tern_error *err)
{
    const uint32_t both[] = {a, b};
    *out = a == NOTHING ? b : a;
    if (a == NOTHING || b == NOTHING) return TERN_OK;
    return tern_grammar_tree__join_n(o->s->tree, TERN_GRAMMAR_ANY, both, 2, out, err);
}

/* A comma where members stand before, then a member, then `rest`. */
static tern_status put_before(object *o, bool comma, uint32_t body, uint32_t rest, uint32_t *out, tern_error *err)
{
    uint32_t parts[3] = {0, body, rest};
    if (comma) TERN_TRY(tern_schema__spaced(o->s, " ", ",", " ", &parts[0], err));
    return join(o, comma ? parts : parts + 1, comma ? 3 : 2, out, err);
}

/* Writes what may follow all members that have names, where `count` of them are there. Two of the others may have one
 * name, so that only the first of them is counted for minProperties. */
static tern_status end_of(object *o, uint32_t count, uint32_t other, uint32_t *out, tern_error *err)
{
    uint32_t more = 0, nothing = NOTHING;
    if (count >= o->least) TERN_TRY(tern_grammar_tree__bytes(o->s->tree, "", 0, &nothing, err));
    *out = nothing;
    if (other == NOTHING || count >= o->most || count + 1 < o->least) return TERN_OK;
    TERN_TRY(tern_grammar_tree__bytes(o->s->tree, "", 0, &more, err));
    TERN_TRY(put_before(o, true, other, more, &more, err));
    TERN_TRY(
        tern_grammar_tree__repeat(o->s->tree, more, 0, o->most == FOREVER ? FOREVER : o->most - count - 1, &more, err));
    TERN_TRY(put_before(o, count > 0, other, more, &more, err));
    return either(o, nothing, more, out, err);
}

/* Puts a member before what follows it: rests[count] is what may follow where `count` members are there. */
static tern_status precede(object *o, const member *m, uint32_t *rests, tern_error *err)
{
    uint32_t body, with;
    TERN_TRY(share(o, m->node, &body, err));
    for (uint32_t count = 0; count < o->n_counts; count++) {
        const uint32_t after = count + 1 < o->n_counts ? count + 1 : count;
        const bool fits = count < o->most;
        TERN_TRY(put_before(o, count > 0, body, fits ? rests[after] : NOTHING, &with, err));
        if (m->required) rests[count] = with;
        else TERN_TRY(either(o, with, rests[count], &rests[count], err));
    }
    for (uint32_t count = 0; count < o->n_counts; count++) TERN_TRY(share(o, rests[count], &rests[count], err));
    return TERN_OK;
}

/* The counts that matter: none, where the members that must be there, and all that may be, are enough. */
static tern_status read_counts(object *o, tern_error *err)
{
    uint32_t required = 0, possible = 0;
    for (size_t i = 0; i < o->n; i++) {
        required += o->members[i].required;
        possible += o->members[i].node != NOTHING;
    }
    o->least = tern_schema__count(o->plain, "minProperties", 0);
    o->most = tern_schema__count(o->plain, "maxProperties", FOREVER);
    if (o->least <= required) o->least = 0;
    if (o->other == NOTHING && o->most >= possible) o->most = FOREVER;
    if (o->other != NOTHING && o->least > possible + 1)
        return tern_schema__fail(o->s, TERN_UNSUPPORTED, "minProperties",
                                 "it is supported up to one more than the members that have names", err);
    o->n_counts = (o->most != FOREVER ? o->most : o->least > 1 ? o->least : 1) + 1;
    if ((uint64_t)o->n_counts * (o->n + 1) <= TERN_SCHEMA_MAX_LISTED) return TERN_OK;
    if (o->most != FOREVER && o->n == 0) return TERN_OK;
    return tern_schema__fail(o->s, TERN_LIMIT, o->most != FOREVER ? "maxProperties" : "minProperties",
                             "more than 4096 counts of members", err);
}

static tern_status chain(object *o, uint32_t *rests, uint32_t *node, tern_error *err)
{
    uint32_t items[3], other;
    TERN_TRY(share(o, o->other, &other, err));
    for (uint32_t count = 0; count < o->n_counts; count++) {
        TERN_TRY(end_of(o, count, other, &rests[count], err));
        TERN_TRY(share(o, rests[count], &rests[count], err));
    }
    for (size_t i = o->n; i--;) TERN_TRY(precede(o, &o->members[i], rests, err));
    items[1] = rests[0];
    TERN_TRY(tern_schema__spaced(o->s, NULL, "{", " ", &items[0], err));
    TERN_TRY(tern_schema__spaced(o->s, " ", "}", NULL, &items[2], err));
    return join(o, items, 3, node, err);
}

/* Notes which member is missing, where one is. */
static void explain(object *o, uint32_t *node)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->members[i].required && o->members[i].node == NOTHING)
            tern_schema__nothing(o->s, "required", "a member that no value fits, or that may not be there", node);
    tern_schema__nothing(o->s, NULL, "fewer members may be there than must be", node);
}

static tern_status build(object *o, uint32_t *node, tern_error *err)
{
    uint32_t *rests;
    tern_status status;
    TERN_TRY(gather(o, err));
    TERN_TRY(add_others(o, err));
    TERN_TRY(read_counts(o, err));
    rests = tern_calloc(o->n_counts, sizeof *rests);
    if (!rests) return tern_fail_alloc(err, o->n_counts * sizeof *rests);
    status = chain(o, rests, node, err);
    if (status == TERN_OK && *node == NOTHING) explain(o, node);
    tern_free(rests);
    return status;
}

tern_status tern_schema__object(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err)
{
    object o = {.s = s, .plain = plain};
    tern_status status = build(&o, node, err);
    tern_free(o.members);
    tern_map_deinit(&o.places);
    return status;
}
