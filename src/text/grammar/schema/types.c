/* The grammar of any JSON value, and the parts that all are made of. */
#include <string.h>

#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"

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

tern_status tern_schema__rule(tern_schema *s, const char *name, bool apart, uint32_t node, uint32_t *rule,
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
    TERN_GOTO(tern_schema__rule(s, "value", true, 0, &s->value, err));
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
    /* up to 18 digits and exponents to 199: a double holds it, and any parser takes it */
    static const char number[] = "-?(?:0|[1-9][0-9]{0,17})(?:\\.[0-9]{1,18})?(?:[eE][+-]?1?[0-9]{1,2})?";
    uint32_t items[3], node;
    TERN_TRY(tern_grammar_json__space(s->tree, &node, err));
    TERN_TRY(tern_schema__rule(s, "space", true, node, &s->space, err));
    TERN_TRY(tern_grammar_json__char(s->tree, &node, err));
    TERN_TRY(tern_schema__rule(s, "character", false, node, &s->character, err));
    TERN_TRY(call(s, s->character, &node, err));
    TERN_TRY(tern_grammar_tree__repeat(s->tree, node, 0, TERN_GRAMMAR_FOREVER, &node, err));
    items[1] = node;
    TERN_TRY(tern_grammar_tree__text(s->tree, "\"", &items[0], err));
    items[2] = items[0];
    TERN_TRY(tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, items, 3, &node, err));
    TERN_TRY(tern_schema__rule(s, "string", true, node, &s->string, err));
    TERN_TRY(tern_grammar_regex__parse(s->tree, (tern_span){(const uint8_t *)number, sizeof number - 1}, "number",
                                       false, &node, err));
    TERN_TRY(tern_schema__rule(s, "number", true, node, &s->number, err));
    return add_value(s, err);
}
