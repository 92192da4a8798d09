/* Grammars that force calls of tools, in the form of a family. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "text/grammar/internal.h"
#include "text/grammar/json.h"

enum { MOST_TOOLS = 256 };

typedef struct maker {
    tern_grammar_tree tree;
    const tern_grammar_vocab *vocab;
    tern_tool_form form;
    const char *name;
} maker;

/* A mark of the form: a special token of the vocabulary, else text. */
static tern_status mark(maker *m, const char *text, uint32_t *node, tern_error *err)
{
    const int32_t id = m->vocab ? tern_token_find(m->vocab->tokenizer, text, strlen(text)) : -1;
    if (id >= 0 && tern_token_is_special(m->vocab->tokenizer, id))
        return tern_grammar_tree__token(&m->tree, (uint32_t)id, node, err);
    return tern_grammar_tree__text(&m->tree, text, node, err);
}

static bool has_mark(const maker *m, const char *text)
{
    return m->vocab && tern_token_find(m->vocab->tokenizer, text, strlen(text)) >= 0;
}

/* The words around the name and the arguments of a call; marks are words of their own. NULLs end the lists. */
typedef struct frame {
    const char *before[4], *between[4], *after[4];
    bool quoted;      /* the name is a JSON string */
    const char *next; /* between two calls; NULL: one call alone */
} frame;

static frame frame_of(const maker *m)
{
    switch (m->form) {
    case TERN_TOOLS_LLAMA3: return (frame){{"{\"name\": "}, {", \"parameters\": "}, {"}"}, true, "; "};
    case TERN_TOOLS_HERMES:
        return (frame){{"<tool_call>", "\n{\"name\": "}, {", \"arguments\": "}, {"}\n", "</tool_call>"}, true, "\n"};
    case TERN_TOOLS_MISTRAL:
        if (has_mark(m, "[ARGS]")) return (frame){{"[TOOL_CALLS]"}, {"[ARGS]"}, {NULL}, false, ""};
        return (frame){{"[TOOL_CALLS]", "[{\"name\": "}, {", \"arguments\": "}, {"}]"}, true, NULL};
    case TERN_TOOLS_GEMMA: return (frame){{"```json\n{\"name\": "}, {", \"parameters\": "}, {"}\n```"}, true, "\n"};
    default:
        return (frame){{"<|channel|>", "commentary to=functions."},
                       {" ", "<|constrain|>", "json", "<|message|>"},
                       {NULL},
                       false,
                       NULL};
    }
}

static tern_status marks(maker *m, const char *const *texts, tern_grammar_list *items, tern_error *err)
{
    uint32_t node;
    for (size_t i = 0; i < 4 && texts[i]; i++) {
        TERN_TRY(mark(m, texts[i], &node, err));
        TERN_TRY(tern_grammar_list__add(items, node, err));
    }
    return TERN_OK;
}

static tern_status named(maker *m, const char *name, bool quoted, tern_grammar_list *items, tern_error *err)
{
    tern_buf text = {0};
    uint32_t node = 0;
    tern_status status = quoted ? tern_grammar_json__quote(&text, name, strlen(name), err)
                                : tern_buf_add(&text, name, strlen(name), err);
    if (status == TERN_OK) status = tern_grammar_tree__bytes(&m->tree, text.data, text.size, &node, err);
    if (status == TERN_OK) status = tern_grammar_list__add(items, node, err);
    tern_buf_deinit(&text);
    return status;
}

/* One call of one tool. */
static tern_status add_call(maker *m, const char *name, const json_t *parameters, uint32_t *node, tern_error *err)
{
    const frame f = frame_of(m);
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    TERN_GOTO(marks(m, f.before, &items, err));
    TERN_GOTO(named(m, name, f.quoted, &items, err));
    TERN_GOTO(marks(m, f.between, &items, err));
    TERN_GOTO(tern_grammar_schema__add(&m->tree, parameters, "#", node, err));
    TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    TERN_GOTO(marks(m, f.after, &items, err));
    status = tern_grammar_tree__join(&m->tree, TERN_GRAMMAR_ALL, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

/* A tool's name and parameters: those of its member `function`, where it has one. */
static tern_status read_tool(const json_t *tool, size_t i, const char **name, const json_t **parameters,
                             tern_error *err)
{
    const json_t *function = json_object_get(tool, "function");
    const json_t *inner = json_is_object(function) ? function : tool;
    *name = json_string_value(json_object_get(inner, "name"));
    *parameters = json_object_get(inner, "parameters");
    if (!*parameters) *parameters = json_object_get(inner, "input_schema");
    if (*name && **name && strlen(*name) < 256) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "tools: /%zu: a name of 1 to 255 bytes expected", i);
}

/* The schema of a call's arguments, which are an object whatever the tool says; the caller releases it. */
static tern_status arguments_of(const json_t *parameters, json_t **schema, tern_error *err)
{
    static const char *const constraints[] = {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"};
    *schema = NULL;
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return tern_fail(err, TERN_MALFORMED, "parameters: an object expected");
    const json_t *type = json_object_get(parameters, "type");
    if (json_is_string(type) && strcmp(json_string_value(type), "object") != 0)
        return tern_fail(err, TERN_MALFORMED, "parameters: type \"%s\" found, \"object\" expected",
                         tern_show_z(json_string_value(type)).text);
    *schema = json_is_object(parameters) ? json_copy((json_t *)(uintptr_t)parameters)
                                         : json_pack("{s:{}}", "properties"); /* a tool without any */
    if (!*schema) return tern_fail_alloc(err, 64);
    for (size_t i = 0; i < sizeof constraints / sizeof *constraints; i++)
        if (json_object_get(*schema, constraints[i])) return TERN_OK;
    return json_object_set_new(*schema, "type", json_string("object")) == 0 ? TERN_OK : tern_fail_alloc(err, 64);
}

static tern_status add_tool(maker *m, const char *name, const json_t *parameters, uint32_t *node, tern_error *err)
{
    char within[sizeof(tern_shown) + 8];
    json_t *schema;
    snprintf(within, sizeof within, "tool %s: ", tern_show_z(name).text);
    m->tree.within = within;
    tern_status status = arguments_of(parameters, &schema, err);
    if (status == TERN_OK) status = add_call(m, name, schema, node, err);
    m->tree.within = NULL;
    json_decref(schema);
    if (status != TERN_OK) tern_error_prefix(err, "tool %s", tern_show_z(name).text);
    return status;
}

static tern_status add_tools(maker *m, const json_t *tools, tern_grammar_list *items, tern_error *err)
{
    const json_t *parameters;
    const char *name;
    uint32_t node;
    if (!json_is_array(tools) || json_array_size(tools) == 0 || json_array_size(tools) > MOST_TOOLS)
        return tern_fail(err, TERN_MALFORMED, "tools: an array of 1 to %d tools expected", MOST_TOOLS);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        TERN_TRY(read_tool(json_array_get(tools, i), i, &name, &parameters, err));
        if (m->name && strcmp(m->name, name) != 0) continue;
        TERN_TRY(add_tool(m, name, parameters, &node, err));
        TERN_TRY(tern_grammar_list__add(items, node, err));
    }
    if (items->n) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND, "tools: no tool is called %s", tern_show_z(m->name ? m->name : "").text);
}

/* One call, or with `parallel` more of them. */
static tern_status add_calls(maker *m, tern_grammar_list *items, bool parallel, tern_error *err)
{
    const char *next = frame_of(m).next;
    uint32_t calls[2], rule;
    TERN_TRY(tern_grammar_tree__rule(&m->tree, "root", 4, &m->tree.root, err));
    TERN_TRY(tern_grammar_tree__rule(&m->tree, "call", 4, &rule, err));
    TERN_TRY(tern_grammar_tree__join(&m->tree, TERN_GRAMMAR_ANY, items, &calls[0], err));
    tern_grammar_tree__define(&m->tree, rule, calls[0]);
    TERN_TRY(tern_grammar_tree__call(&m->tree, rule, &calls[1], err));
    calls[0] = calls[1];
    if (parallel && next) {
        uint32_t more[2] = {0, calls[1]};
        TERN_TRY(tern_grammar_tree__text(&m->tree, next, &more[0], err));
        TERN_TRY(tern_grammar_tree__join_n(&m->tree, TERN_GRAMMAR_ALL, more, 2, &calls[1], err));
        TERN_TRY(tern_grammar_tree__repeat(&m->tree, calls[1], 0, TERN_GRAMMAR_FOREVER, &calls[1], err));
        TERN_TRY(tern_grammar_tree__join_n(&m->tree, TERN_GRAMMAR_ALL, calls, 2, &calls[0], err));
    }
    tern_grammar_tree__define(&m->tree, m->tree.root, calls[0]);
    return TERN_OK;
}

tern_status tern_grammar_open_tools(tern_grammar **grammar, const tern_grammar_vocab *vocab, tern_tool_form form,
                                    const char *tools, size_t n, const char *name, bool parallel, tern_error *err)
{
    maker m = {.vocab = vocab, .form = form, .name = name};
    tern_grammar_list items = {0};
    json_t *root = NULL;
    tern_status status;
    TERN_NEED(grammar, err);
    *grammar = NULL;
    TERN_NEED(tools, err);
    if (form <= TERN_TOOLS_NONE || form > TERN_TOOLS_HARMONY)
        return tern_fail(err, TERN_UNSUPPORTED, "calls of tools in the form %s", tern_tool_form_name(form));
    if (n > TERN_GRAMMAR_MAX_SOURCE)
        return tern_fail(err, TERN_LIMIT, "tools of %zu bytes: at most %d expected", n, TERN_GRAMMAR_MAX_SOURCE);
    TERN_GOTO(tern_json_parse(&root, tools, n, "tools", err));
    TERN_GOTO(add_tools(&m, root, &items, err));
    TERN_GOTO(add_calls(&m, &items, parallel, err));
    status = tern_grammar__make(grammar, vocab, &m.tree, err);
fail:
    tern_json_free(root);
    tern_grammar_list__deinit(&items);
    tern_grammar_tree__deinit(&m.tree);
    return status;
}
