/* Tools: told to the model by its template, forced by a grammar, found in what it writes. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "serve/server.h"

bool tern_calls_wanted(const tern_answer *a)
{
    if (!a->request.n_messages || a->request.raw) return false;
    if (tern_api_request_wants_calls(&a->request)) return true;
    return a->host->tool_form == TERN_TOOLS_HARMONY && !a->request.constrained;
}

/* The beginning of the answer, which the client knows: what it opens goes on. */
static tern_status read_continued(const tern_answer *a, tern_completion *c, tern_error *err)
{
    if (!a->request.continues) return TERN_OK;
    const tern_chat_message *last = &a->request.messages[a->request.n_messages - 1];
    return tern_calls_read(c, last->content, last->n_content, false, err);
}

tern_status tern_calls_open(tern_answer *a, tern_completion *c, tern_error *err)
{
    char salt[48];
    const bool calls = tern_calls_wanted(a), thoughts = tern_thoughts_wanted(a);
    if (!calls && !thoughts) return TERN_OK;
    TERN_TRY(tern_tool_parser_open(&c->parser, calls ? a->host->tool_form : TERN_TOOLS_NONE, err));
    if (thoughts) tern_tool_parser_think(c->parser, a->host->marks, a->opened);
    snprintf(salt, sizeof salt, "%s %u", a->id, c->index);
    if (a->request.stream && tern_api_request_wants_calls(&a->request)) tern_tool_parser_announce(c->parser, salt);
    TERN_TRY(read_continued(a, c, err));
    c->thinks = tern_tool_parser_is_thinking(c->parser);
    return TERN_OK;
}

tern_status tern_calls_read(tern_completion *c, const char *text, size_t n, bool ended, tern_error *err)
{
    c->fresh.size = c->thought.size = 0;
    if (!c->parser) return tern_buf_add(&c->fresh, text ? text : "", n, err);
    if (ended) return tern_tool_parser_finish(c->parser, &c->fresh, &c->thought, err);
    return tern_tool_parser_add(c->parser, text ? text : "", n, &c->fresh, &c->thought, err);
}

const tern_tool_call *tern_calls_of(const tern_answer *a, const tern_completion *c, size_t *n)
{
    *n = 0;
    if (!c->parser || !tern_api_request_wants_calls(&a->request)) return NULL;
    const tern_tool_call *calls = tern_tool_parser_calls(c->parser, n);
    if (a->request.serial && *n > 1) *n = 1;
    return calls;
}

/* Up to n bytes of its arguments. */
static void show_part(tern_answer *a, tern_completion *c, const tern_tool_partial *call, const tern_tool_call *whole)
{
    const size_t before = c->n_shown < call->n_arguments ? c->n_shown : call->n_arguments;
    const tern_call_part part = {.i = c->n_calls,
                                 .id = call->id,
                                 .name = call->name,
                                 .text = call->arguments + before,
                                 .n = call->n_arguments - before,
                                 .first = !c->in_call,
                                 .whole = whole};
    if (!part.first && !part.n && !whole) return;
    a->route->dialect->call(a, c, &part);
    c->in_call = !whole;
    c->n_shown = whole ? 0 : call->n_arguments;
}

void tern_calls_show(tern_answer *a, tern_completion *c)
{
    tern_tool_partial part;
    size_t n;
    const tern_tool_call *calls = tern_calls_of(a, c, &n);
    if (!a->route->dialect->call || !c->parser || !tern_api_request_wants_calls(&a->request)) return;
    for (; c->n_calls < n; c->n_calls++) {
        const tern_tool_call *call = &calls[c->n_calls];
        part = (tern_tool_partial){call->id, call->name, call->arguments, strlen(call->arguments)};
        show_part(a, c, &part, call);
    }
    if ((a->request.serial && n > 0) || !tern_tool_parser_partial(c->parser, &part)) return;
    show_part(a, c, &part, NULL);
}

/* Numbers of parsed documents are real; whole ones are written without a point again. */
static json_t *whole_numbers(json_t *value)
{
    int64_t whole;
    size_t i;
    const char *key;
    json_t *member;
    if (json_is_real(value) && tern_json_int(value, &whole)) return json_integer(whole);
    if (json_is_array(value)) {
        json_array_foreach(value, i, member) json_array_set_new(value, i, whole_numbers(member));
    } else if (json_is_object(value)) {
        json_object_foreach(value, key, member) json_object_set_new(value, key, whole_numbers(member));
    }
    return json_incref(value);
}

json_t *tern_calls_arguments(const tern_tool_call *call)
{
    json_t *root = NULL;
    if (tern_json_parse(&root, call->arguments, strlen(call->arguments), "arguments", NULL) != TERN_OK)
        return json_object();
    json_t *whole = whole_numbers(root);
    tern_json_free(root);
    return whole;
}

/* Tells once that the template knows no tools. */
static void note_generic(tern_host *host)
{
    if (!host->generic_tools || atomic_exchange(&host->told_generic, true)) return;
    fprintf(stderr, "tern: note: the chat template of %s has no tools: messages tell the model of them\n",
            tern_show_z(host->name).text);
}

tern_status tern_calls_grammar(tern_answer *a, tern_host *host, tern_error *err)
{
    const tern_api_request *request = &a->request;
    char *tools = json_dumps(request->tools, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!tools) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    const tern_status status = tern_grammar_open_tools(&a->grammar, host->vocab, host->tool_form, tools, strlen(tools),
                                                       json_string_value(request->tool_choice), !request->serial, err);
    tern_free(tools);
    return status == TERN_OK ? status : tern_error_prefix(err, "tools");
}

tern_status tern_calls_prompt(const tern_answer *a, tern_host *host, tern_tokens *ids, tern_error *err)
{
    if (tern_api_request_wants_calls(&a->request)) note_generic(host);
    char *text = tern_api_request_template_variables(&a->request, host->generic_tools);
    if (!text) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    const tern_status status =
        tern_engine_chat_prompt_json(host->engine, host->chat_template, text, strlen(text), ids, err);
    tern_free(text);
    return status;
}
