/* Tool calls of Harmony, and how the forms are called and told apart. */
#include <stdio.h>
#include <string.h>

#include "text/chat/tools_internal.h"
#include "text/json_text.h"

static const char *const marks[] = {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>"};
enum { CHANNEL, MESSAGE, START, N_MARKS = 6 };

/* The next mark in the text: its place, or the size of the text without what may begin one. */
static size_t next_mark(tern_span text, bool finished, int *mark)
{
    size_t at = text.size, begun = 0;
    *mark = -1;
    for (int i = 0; i < N_MARKS; i++) {
        const size_t place = tern_tools__find(text, marks[i]), n = tern_tools__begun(text, marks[i]);
        if (n > begun) begun = n;
        if (place >= at) continue;
        at = place;
        *mark = i;
    }
    return *mark < 0 && !finished ? text.size - begun : at;
}

/* Reads a header: "assistant to=functions.f<|channel|>commentary <|constrain|>json". */
static void read_head(tern_tool_parser *p, size_t n)
{
    const tern_span head = {(const uint8_t *)p->held.data, n};
    const size_t to = tern_tools__find(head, "to=functions.");
    size_t length = 0;
    p->recipient[0] = 0;
    for (size_t i = to + 13; i < n && length + 1 < sizeof p->recipient; i++) {
        const uint8_t b = head.data[i];
        if (b <= ' ' || b == '<') break;
        p->recipient[length++] = (char)b;
    }
    p->recipient[length] = 0;
    p->place = TERN_TOOL_CONTENT;
    if (tern_tools__find(head, "<|channel|>analysis") < n) p->place = TERN_TOOL_REASON;
    if (length) p->place = TERN_TOOL_CALL;
}

static tern_status in_head(tern_tool_parser *p, bool *more, tern_error *err)
{
    const tern_span text = {(const uint8_t *)p->held.data, p->held.size};
    const size_t end = tern_tools__find(text, "<|message|>");
    if (end == text.size && p->finished) return tern_tools__give(p, end, NULL, err);
    if (end == text.size) return TERN_OK;
    read_head(p, end);
    *more = true;
    return tern_tools__give(p, end + strlen("<|message|>"), NULL, err);
}

/* A message to a tool up to its mark. */
static tern_status in_call(tern_tool_parser *p, size_t end, bool whole, tern_error *err)
{
    const tern_span name = {(const uint8_t *)p->recipient, strlen(p->recipient)}, id = {(const uint8_t *)"", 0};
    bool found;
    size_t first = 0;
    while (first < end && strchr(" \t\r\n", p->held.data[first])) first++;
    if (first < end && p->held.data[first] == '{') TERN_TRY(tern_tools__announce(p, name, first, err));
    p->end = end;
    if (!whole) return TERN_OK;
    TERN_TRY(tern_tools__take_named(p, name, id, (tern_span){(const uint8_t *)p->held.data, end}, &found, err));
    return tern_tools__give(p, end, found ? NULL : p->content, err);
}

tern_status tern_tools__harmony(tern_tool_parser *p, bool *more, tern_error *err)
{
    int mark;
    if (p->held.size == 0) return TERN_OK;
    if (p->place == TERN_TOOL_HEAD) return in_head(p, more, err);
    const size_t end = next_mark((tern_span){(const uint8_t *)p->held.data, p->held.size}, p->finished, &mark);
    if (p->place != TERN_TOOL_CALL)
        TERN_TRY(tern_tools__give(p, end, p->place == TERN_TOOL_REASON ? p->reasoning : p->content, err));
    else TERN_TRY(in_call(p, end, mark >= 0 || p->finished, err));
    if (mark < 0) return TERN_OK;
    *more = true;
    p->place = mark == CHANNEL || mark == START ? TERN_TOOL_HEAD : TERN_TOOL_CONTENT;
    if (mark == CHANNEL) return TERN_OK; /* which the header is to begin with */
    return tern_tools__give(p, strlen(marks[mark]), NULL, err);
}

tern_tool_form tern_tool_form_of(const char *chat_template)
{
    if (!chat_template) return TERN_TOOLS_NONE;
    if (strstr(chat_template, "<|channel|>")) return TERN_TOOLS_HARMONY;
    if (strstr(chat_template, "<tool_call>")) return TERN_TOOLS_HERMES;
    if (strstr(chat_template, "[TOOL_CALLS]")) return TERN_TOOLS_MISTRAL;
    if (strstr(chat_template, "<|start_header_id|>") && strstr(chat_template, "tools")) return TERN_TOOLS_LLAMA3;
    if (strstr(chat_template, "<start_of_turn>")) return TERN_TOOLS_GEMMA;
    return TERN_TOOLS_NONE;
}

const char *tern_tool_form_name(tern_tool_form form)
{
    static const char *const names[] = {"none", "llama3", "hermes", "mistral", "gemma", "harmony"};
    return (unsigned)form < sizeof names / sizeof *names ? names[form] : "unknown";
}
