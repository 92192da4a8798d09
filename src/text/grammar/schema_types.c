/* The types of JSON Schema but objects: strings, numbers, arrays, and what any value is. */
#include <string.h>

#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/schema.h"

#define DATE                                                                                                           \
    "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"                 \
    "02-(?:0[1-9]|[12][0-9]))"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define UUID "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

static const char *const formats[][2] = {
    {"date", "^" DATE "$"}, {"time", "^" TIME "$"}, {"date-time", "^" DATE "T" TIME "$"}, {"uuid", "^" UUID "$"}};

static tern_status call(tern_schema *s, uint32_t rule, uint32_t *node, tern_error *err)
{
    return tern_grammar_tree__call(s->tree, rule, node, err);
}

tern_status tern_schema__spaced(tern_schema *s, const char *before, const char *sign, const char *after, uint32_t *node,
                                tern_error *err)
{
    uint32_t items[3], n = 0;
    if (before) TERN_TRY(call(s, s->space, &items[n++], err));
    TERN_TRY(tern_grammar_tree__text(s->tree, sign, &items[n++], err));
    if (after) TERN_TRY(call(s, s->space, &items[n++], err));
    return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, n, node, err);
}

static tern_status quoted(tern_schema *s, uint32_t inner, uint32_t *node, tern_error *err)
{
    uint32_t items[3] = {0, inner, 0};
    TERN_TRY(tern_grammar_tree__text(s->tree, "\"", &items[0], err));
    items[2] = items[0];
    return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 3, node, err);
}

static tern_status expression(tern_schema *s, const char *text, size_t n, uint32_t *node, tern_error *err)
{
    TERN_TRY(tern_grammar_regex__parse(s->tree, (tern_span){(const uint8_t *)text, n}, "pattern", true, node, err));
    return quoted(s, *node, node, err);
}

static tern_status add_format(tern_schema *s, const json_t *format, uint32_t *node, tern_error *err)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (json_is_string(format) && strcmp(json_string_value(format), formats[i][0]) == 0)
            return expression(s, formats[i][1], strlen(formats[i][1]), node, err);
    return tern_schema__fail(s, TERN_UNSUPPORTED, "format", "date, time, date-time or uuid expected", err);
}

static tern_status add_pattern(tern_schema *s, const json_t *pattern, uint32_t *node, tern_error *err)
{
    if (!json_is_string(pattern)) return tern_schema__fail(s, TERN_MALFORMED, "pattern", "a string expected", err);
    if (expression(s, json_string_value(pattern), json_string_length(pattern), node, err) != TERN_OK)
        return tern_error_prefix(err, "schema: %.200s/pattern", s->path);
    const size_t before = tern_schema__enter(s, "pattern");
    const tern_status status = tern_schema__label(s, *node, err);
    tern_schema__leave(s, before);
    return status;
}

tern_status tern_schema__text(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    uint32_t least, most;
    TERN_TRY(tern_schema__count(s, schema, "minLength", 0, &least, err));
    TERN_TRY(tern_schema__count(s, schema, "maxLength", TERN_GRAMMAR_FOREVER, &most, err));
    const bool counted = least > 0 || most != TERN_GRAMMAR_FOREVER;
    if (pattern && format)
        return tern_schema__fail(s, TERN_UNSUPPORTED, "format", "this keyword beside pattern is not supported", err);
    if ((pattern || format) && counted)
        return tern_schema__fail(s, TERN_UNSUPPORTED, least ? "minLength" : "maxLength",
                                 "this keyword beside pattern or format is not supported", err);
    if (least > most) return tern_schema__fail(s, TERN_MALFORMED, "maxLength", "at least minLength expected", err);
    if (pattern) return add_pattern(s, pattern, node, err);
    if (format) return add_format(s, format, node, err);
    if (!counted) return call(s, s->string, node, err);
    TERN_TRY(call(s, s->character, node, err));
    TERN_TRY(tern_grammar_tree__repeat(s->tree, *node, least, most, node, err));
    return quoted(s, *node, node, err);
}

/* A bound under a key, moved by `by` where it is exclusive. */
static tern_status bound(const tern_schema *s, const json_t *schema, const char *key, int64_t by, int64_t *out,
                         bool *given, tern_error *err)
{
    const json_t *value = json_object_get(schema, key);
    int64_t n;
    if (!value) return TERN_OK;
    if (!tern_json_int(value, &n))
        return tern_schema__fail(s, TERN_UNSUPPORTED, key, "a whole number of at most 2^53 in size expected", err);
    n += by;
    if (!*given || (by > 0 && n > *out) || (by < 0 && n < *out)) *out = n;
    *given = true;
    return TERN_OK;
}

tern_status tern_schema__integer(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    const bool whole = type && strcmp(type, "integer") == 0;
    int64_t least = INT64_MIN, most = INT64_MAX;
    bool low = false, high = false;
    static const char *const keys[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    for (size_t i = 0; i < 4 && !whole; i++)
        if (json_object_get(schema, keys[i]))
            return tern_schema__fail(s, TERN_UNSUPPORTED, keys[i], "this keyword is supported with type integer only",
                                     err);
    TERN_TRY(bound(s, schema, "minimum", 0, &least, &low, err));
    TERN_TRY(bound(s, schema, "exclusiveMinimum", 1, &least, &low, err));
    TERN_TRY(bound(s, schema, "maximum", 0, &most, &high, err));
    TERN_TRY(bound(s, schema, "exclusiveMaximum", -1, &most, &high, err));
    if (least > most) return tern_schema__fail(s, TERN_MALFORMED, NULL, "a minimum above the maximum", err);
    if (low || high) return tern_grammar_json__integer(s->tree, least, most, node, err);
    if (!whole) return call(s, s->number, node, err);
    static const char integer[] = "-?(?:0|[1-9][0-9]*)";
    return tern_grammar_regex__parse(s->tree, (tern_span){(const uint8_t *)integer, sizeof integer - 1}, "integer",
                                     false, node, err);
}

/* "," and an item. */
static tern_status further(tern_schema *s, uint32_t item, uint32_t *node, tern_error *err)
{
    uint32_t items[2] = {0, item};
    TERN_TRY(tern_schema__spaced(s, " ", ",", " ", &items[0], err));
    return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 2, node, err);
}

/* least to most items with commas between them; `first`: none stands before. */
static tern_status repeated(tern_schema *s, uint32_t item, bool first, uint32_t least, uint32_t most, uint32_t *node,
                            tern_error *err)
{
    uint32_t items[2] = {item, 0};
    const uint32_t fewer = most == TERN_GRAMMAR_FOREVER || most == 0 ? most : most - 1;
    if (most == 0) return tern_grammar_tree__bytes(s->tree, "", 0, node, err);
    TERN_TRY(further(s, item, &items[1], err));
    if (!first) return tern_grammar_tree__repeat(s->tree, items[1], least, most, node, err);
    TERN_TRY(tern_grammar_tree__repeat(s->tree, items[1], least ? least - 1 : 0, fewer, &items[1], err));
    TERN_TRY(tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 2, node, err));
    return least ? TERN_OK : tern_grammar_tree__repeat(s->tree, *node, 0, 1, node, err);
}

/* The items after the first i, of which n_first have schemas of their own. */
static tern_status prefix(tern_schema *s, const json_t *first, size_t n_first, uint32_t least, uint32_t *node,
                          tern_error *err)
{
    const size_t before = tern_schema__enter(s, "prefixItems");
    for (size_t i = n_first; i--;) {
        uint32_t items[2] = {0, *node};
        const size_t outer = tern_schema__enter_item(s, i);
        TERN_TRY(tern_schema__add(s, json_array_get(first, i), &items[0], err));
        tern_schema__leave(s, outer);
        if (i) TERN_TRY(further(s, items[0], &items[0], err));
        TERN_TRY(tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 2, node, err));
        if (i >= least) TERN_TRY(tern_grammar_tree__repeat(s->tree, *node, 0, 1, node, err));
    }
    tern_schema__leave(s, before);
    return TERN_OK;
}

static tern_status items_of(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    const json_t *first = json_object_get(schema, "prefixItems"), *rest = json_object_get(schema, "items");
    uint32_t least, most, item = 0;
    TERN_TRY(tern_schema__count(s, schema, "minItems", 0, &least, err));
    TERN_TRY(tern_schema__count(s, schema, "maxItems", TERN_GRAMMAR_FOREVER, &most, err));
    if (first && !json_is_array(first))
        return tern_schema__fail(s, TERN_MALFORMED, "prefixItems", "an array of schemas expected", err);
    if (json_array_size(first) > TERN_SCHEMA_MAX_MEMBERS)
        return tern_schema__fail(s, TERN_LIMIT, "prefixItems", "more than 1000 schemas", err);
    uint32_t n = (uint32_t)json_array_size(first);
    if (json_is_false(rest)) {
        if (most > n) most = n;
    } else {
        const size_t before = tern_schema__enter(s, "items");
        if (rest) TERN_TRY(tern_schema__add(s, rest, &item, err));
        else TERN_TRY(call(s, s->value, &item, err));
        tern_schema__leave(s, before);
    }
    if (least > most) return tern_schema__fail(s, TERN_MALFORMED, "minItems", "at most maxItems expected", err);
    if (n > most) n = most;
    TERN_TRY(repeated(s, item, n == 0, least > n ? least - n : 0, most == TERN_GRAMMAR_FOREVER ? most : most - n, node,
                      err));
    return prefix(s, first, n, least, node, err);
}

tern_status tern_schema__array(tern_schema *s, const json_t *schema, uint32_t *node, tern_error *err)
{
    uint32_t items[3];
    TERN_TRY(tern_schema__spaced(s, NULL, "[", " ", &items[0], err));
    TERN_TRY(items_of(s, schema, &items[1], err));
    TERN_TRY(tern_schema__spaced(s, " ", "]", NULL, &items[2], err));
    return tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 3, node, err);
}

static tern_status add_rule(tern_schema *s, const char *name, bool apart, uint32_t node, uint32_t *rule,
                            tern_error *err)
{
    TERN_TRY(tern_grammar_tree__rule(s->tree, name, strlen(name), rule, err));
    tern_grammar_tree__define(s->tree, *rule, node);
    s->tree->rules[*rule].apart = apart;
    return TERN_OK;
}

/* Any value: the rule is there before its body, which has it inside. */
static tern_status add_value(tern_schema *s, tern_error *err)
{
    static const char *const words[] = {"true", "false", "null"};
    uint32_t items[7], node;
    json_t *nothing = json_object();
    tern_status status = nothing ? TERN_OK : tern_fail_alloc(err, 64);
    if (status != TERN_OK) return status;
    TERN_GOTO(add_rule(s, "value", true, 0, &s->value, err));
    TERN_GOTO(tern_schema__object(s, nothing, &items[0], err));
    TERN_GOTO(tern_schema__array(s, nothing, &items[1], err));
    TERN_GOTO(call(s, s->string, &items[2], err));
    TERN_GOTO(call(s, s->number, &items[3], err));
    for (size_t i = 0; i < 3; i++) TERN_GOTO(tern_grammar_tree__text(s->tree, words[i], &items[4 + i], err));
    TERN_GOTO(tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ANY, items, 7, &node, err));
    tern_grammar_tree__define(s->tree, s->value, node);
fail:
    json_decref(nothing);
    return status;
}

tern_status tern_schema__basics(tern_schema *s, tern_error *err)
{
    static const char number[] = "-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?";
    uint32_t node;
    tern_json_use_allocator();
    TERN_TRY(tern_grammar_json__space(s->tree, &node, err));
    TERN_TRY(add_rule(s, "space", true, node, &s->space, err));
    TERN_TRY(tern_grammar_json__char(s->tree, &node, err));
    TERN_TRY(add_rule(s, "character", false, node, &s->character, err));
    TERN_TRY(call(s, s->character, &node, err));
    TERN_TRY(tern_grammar_tree__repeat(s->tree, node, 0, TERN_GRAMMAR_FOREVER, &node, err));
    TERN_TRY(quoted(s, node, &node, err));
    TERN_TRY(add_rule(s, "string", true, node, &s->string, err));
    TERN_TRY(tern_grammar_regex__parse(s->tree, (tern_span){(const uint8_t *)number, sizeof number - 1}, "number",
                                       false, &node, err));
    TERN_TRY(add_rule(s, "number", true, node, &s->number, err));
    return add_value(s, err);
}
