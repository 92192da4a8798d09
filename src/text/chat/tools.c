/* Tool calls in what a model writes: where they begin and end in each form, and what is text for the reader. */
#include <string.h>

#include "base/alloc.h"
#include "text/chat/tools_internal.h"
#include "text/json_text.h"

static tern_span held(const tern_tool_parser *p)
{
    return (tern_span){(const uint8_t *)(p->held.data ? p->held.data : ""), p->held.size};
}

size_t tern_tools__find(tern_span text, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= text.size; i++)
        if (memcmp(text.data + i, word, n) == 0) return i;
    return text.size;
}

size_t tern_tools__begun(tern_span text, const char *word)
{
    size_t n = strlen(word) - 1;
    if (n > text.size) n = text.size;
    while (n && memcmp(text.data + text.size - n, word, n) != 0) n--;
    return n;
}

tern_status tern_tools__give(tern_tool_parser *p, size_t n, tern_buf *out, tern_error *err)
{
    if (out && n) TERN_TRY(tern_buf_add(out, p->held.data, n, err));
    if (n) memmove(p->held.data, p->held.data + n, p->held.size - n);
    p->held.size -= n;
    return TERN_OK;
}

/* The words that begin calls in a form, and those that end one (NULL: its JSON). */
typedef struct opener {
    tern_tool_form form;
    const char *open, *close;
} opener;

static const opener openers[] = {{TERN_TOOLS_LLAMA3, "<|python_tag|>", NULL},
                                 {TERN_TOOLS_HERMES, "<tool_call>", "</tool_call>"},
                                 {TERN_TOOLS_MISTRAL, "[TOOL_CALLS]", NULL},
                                 {TERN_TOOLS_GEMMA, "```tool_code", "```"},
                                 {TERN_TOOLS_GEMMA, "```json", "```"}};
enum { N_OPENERS = sizeof openers / sizeof *openers };

/* Text: gives what is before the next opener, or what cannot begin one. */
static tern_status in_content(tern_tool_parser *p, bool *more, tern_error *err)
{
    const opener *found = NULL;
    size_t at = p->held.size, begun = 0;
    for (size_t i = 0; i < N_OPENERS; i++) {
        if (openers[i].form != p->form) continue;
        const size_t place = tern_tools__find(held(p), openers[i].open),
                     n = tern_tools__begun(held(p), openers[i].open);
        if (n > begun) begun = n;
        if (place >= at) continue;
        at = place;
        found = &openers[i];
    }
    if (!found) return tern_tools__give(p, p->held.size - (p->finished ? 0 : begun), p->content, err);
    TERN_TRY(tern_tools__give(p, at, p->content, err));
    p->place = TERN_TOOL_CALL;
    p->close = found->close;
    *more = true;
    return TERN_OK;
}

/* The opener that what is held begins with. */
static size_t opener_size(const tern_tool_parser *p)
{
    for (size_t i = 0; i < N_OPENERS; i++) {
        const size_t n = strlen(openers[i].open);
        if (openers[i].form == p->form && p->held.size >= n && memcmp(p->held.data, openers[i].open, n) == 0) return n;
    }
    return 0;
}

/* A call that was none is text, and so is what follows it up to the next opener. */
static tern_status as_content(tern_tool_parser *p, size_t n, tern_error *err)
{
    TERN_TRY(tern_tools__give(p, n, p->content, err));
    p->place = TERN_TOOL_CONTENT;
    return TERN_OK;
}

static tern_span part(const tern_tool_parser *p, size_t from, size_t to)
{
    return (tern_span){held(p).data + from, to - from};
}

static tern_status in_closed(tern_tool_parser *p, bool *more, tern_error *err)
{
    const size_t open = opener_size(p);
    const size_t end = open + tern_tools__find(part(p, open, p->held.size), p->close);
    const size_t begun = end < p->held.size || p->finished ? 0 : tern_tools__begun(held(p), p->close);
    bool found;
    TERN_TRY(tern_tools__watch(p, open, end - begun, err));
    if (end == p->held.size && !p->finished) return TERN_OK;
    size_t past = end + strlen(p->close);
    if (past > p->held.size) past = p->held.size;
    TERN_TRY(tern_tools__take(p, part(p, open, end), &found, err));
    if (!found && p->name) TERN_TRY(tern_tools__take_announced(p, &found, err));
    *more = past > 0;
    if (!found) return as_content(p, past, err);
    p->place = TERN_TOOL_START; /* another may follow at once */
    return tern_tools__give(p, past, NULL, err);
}

/* Mistral's name[CALL_ID]id[ARGS]{...}: where the name and the id are; false: it is not of that kind. */
static bool find_args(const tern_tool_parser *p, size_t open, size_t json, tern_span *name, tern_span *id)
{
    static const char args[] = "[ARGS]", call_id[] = "[CALL_ID]";
    const size_t mark = open + tern_tools__find(part(p, open, json), args);
    const size_t name_end = open + tern_tools__find(part(p, open, mark), call_id);
    *id = (tern_span){(const uint8_t *)"", 0};
    if (name_end < mark) *id = tern_json__trim(part(p, name_end + strlen(call_id), mark));
    *name = tern_json__trim(part(p, open, name_end));
    return mark < json;
}

static tern_status take_args(tern_tool_parser *p, size_t open, size_t json, size_t end, bool *found, tern_error *err)
{
    tern_span name, id;
    *found = false;
    if (!find_args(p, open, json, &name, &id)) return TERN_OK;
    return tern_tools__take_named(p, name, id, part(p, json, end), found, err);
}

/* Announces a call that its JSON ends, which begins at `json` and came up to `end`. */
static tern_status watch_open(tern_tool_parser *p, size_t open, size_t json, size_t end, tern_error *err)
{
    tern_span name, id;
    if (json < p->held.size && p->held.data[json] == '{' && find_args(p, open, json, &name, &id))
        TERN_TRY(tern_tools__announce(p, name, json, err));
    return tern_tools__watch(p, json, end, err);
}

/* The answer ends within a call: what was announced stays one. */
static tern_status cut(tern_tool_parser *p, tern_error *err)
{
    bool found;
    if (!p->name) return as_content(p, p->held.size, err);
    TERN_TRY(tern_tools__take_announced(p, &found, err));
    return tern_tools__give(p, p->held.size, NULL, err);
}

bool tern_tools__may_begin(tern_span text, const char *word)
{
    const size_t n = strlen(word);
    return memcmp(text.data, word, text.size < n ? text.size : n) == 0;
}

/* Where JSON begins: its place, or the size of what is held. */
static size_t json_start(const tern_tool_parser *p, size_t from)
{
    for (size_t i = from; i < p->held.size; i++) {
        const tern_span rest = part(p, i, p->held.size);
        if (*rest.data == '{') return i;
        if (*rest.data == '[' && !tern_tools__may_begin(rest, "[ARGS]") && !tern_tools__may_begin(rest, "[CALL_ID]"))
            return i;
    }
    return p->held.size;
}

static bool is_between(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ';' || c == ',';
}

/* Calls that their JSON ends, one after the other. */
static tern_status in_open(tern_tool_parser *p, bool *more, tern_error *err)
{
    const size_t open = opener_size(p);
    const size_t json = json_start(p, open);
    const size_t n = tern_tools__json_end(part(p, json, p->held.size));
    bool found;
    TERN_TRY(watch_open(p, open, json, n ? json + n : p->held.size, err));
    if (n == 0) return p->finished ? cut(p, err) : TERN_OK;
    const size_t end = json + n;
    TERN_TRY(take_args(p, open, json, end, &found, err));
    if (!found) TERN_TRY(tern_tools__take(p, part(p, json, end), &found, err));
    if (!found && p->name) TERN_TRY(tern_tools__take_announced(p, &found, err));
    *more = true;
    if (!found) return as_content(p, end, err);
    p->place = TERN_TOOL_START; /* another may follow at once */
    return tern_tools__give(p, end, NULL, err);
}

/* At the beginning some forms have calls without an opener; between calls there is white space, which is dropped. */
static tern_status at_start(tern_tool_parser *p, bool *more, tern_error *err)
{
    size_t space = 0;
    const bool bare = p->form == TERN_TOOLS_LLAMA3 || p->form == TERN_TOOLS_GEMMA;
    while (space < p->held.size && is_between(p->held.data[space])) space++;
    if (p->n) {
        TERN_TRY(tern_tools__give(p, space, NULL, err));
        space = 0;
    }
    if (space == p->held.size && !p->finished) return TERN_OK;
    *more = p->held.size > 0;
    p->close = NULL;
    p->place = bare && space < p->held.size && p->held.data[space] == '{' ? TERN_TOOL_CALL : TERN_TOOL_CONTENT;
    return TERN_OK;
}

static tern_status decide(tern_tool_parser *p, bool *more, tern_error *err)
{
    *more = false;
    if (p->thoughts != TERN_THOUGHTS_OVER) return tern_tools__think(p, more, err);
    if (p->form == TERN_TOOLS_NONE) return tern_tools__give(p, p->held.size, p->content, err);
    if (p->form == TERN_TOOLS_HARMONY) return tern_tools__harmony(p, more, err);
    if (p->place == TERN_TOOL_START) return at_start(p, more, err);
    if (p->place == TERN_TOOL_CONTENT) return in_content(p, more, err);
    return p->close ? in_closed(p, more, err) : in_open(p, more, err);
}

static tern_status go_on(tern_tool_parser *p, tern_buf *content, tern_buf *reasoning, tern_error *err)
{
    p->content = content;
    p->reasoning = reasoning;
    for (bool more = true; more;) TERN_TRY(decide(p, &more, err));
    return TERN_OK;
}

tern_status tern_tool_parser_add(tern_tool_parser *parser, const char *text, size_t n, tern_buf *content,
                                 tern_buf *reasoning, tern_error *err)
{
    TERN_NEED(parser, err);
    TERN_NEED(content, err);
    if (n) TERN_NEED(text, err);
    if (n > TERN_TOOLS_MAX_HELD || parser->held.size + n > TERN_TOOLS_MAX_HELD)
        return tern_fail(err, TERN_LIMIT, "a tool call of more than %d bytes", TERN_TOOLS_MAX_HELD);
    if (n) TERN_TRY(tern_buf_add(&parser->held, text, n, err));
    return go_on(parser, content, reasoning, err);
}

tern_status tern_tool_parser_finish(tern_tool_parser *parser, tern_buf *content, tern_buf *reasoning, tern_error *err)
{
    TERN_NEED(parser, err);
    TERN_NEED(content, err);
    parser->finished = true;
    return go_on(parser, content, reasoning, err);
}

tern_status tern_tool_parser_open(tern_tool_parser **parser, tern_tool_form form, tern_error *err)
{
    TERN_NEED(parser, err);
    *parser = tern_calloc(1, sizeof **parser);
    if (!*parser) return tern_fail_alloc(err, sizeof **parser);
    (*parser)->form = form;
    return TERN_OK;
}

void tern_tool_parser_close(tern_tool_parser *parser)
{
    if (!parser) return;
    for (size_t i = 0; i < parser->n; i++) tern_tools__free_call(&parser->calls[i]);
    tern_free(parser->calls);
    tern_free(parser->name);
    tern_buf_deinit(&parser->held);
    tern_free(parser);
}

const tern_tool_call *tern_tool_parser_calls(const tern_tool_parser *parser, size_t *n)
{
    *n = parser->n;
    return parser->calls;
}
