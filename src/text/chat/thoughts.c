/* Thoughts that a model writes before its answer: their marks, and where they begin and end. */
#include <string.h>

#include "text/chat/tools_internal.h"
#include "text/tokenizer/tokenizer.h"

/* A template that has `sign` in its text has the marks. */
static const struct {
    tern_thought_marks marks;
    const char *sign;
} known[] = {
    {{"<think>", "</think>", "\n</think>\n\n"}, "</think>"}, /* Qwen 3, DeepSeek R1, SmolLM3 */
    {{"<|channel|>analysis<|message|>", "<|end|>", "<|end|><|start|>assistant<|channel|>final<|message|>"},
     "<|channel|>analysis"},                                             /* GPT-OSS */
    {{"<|channel>thought", "<channel|>", "\n<channel|>"}, "<channel|>"}, /* Gemma 4 */
    {{"[THINK]", "[/THINK]", "[/THINK]"}, "[/THINK]"},                   /* Magistral */
    {{"<seed:think>", "</seed:think>", "</seed:think>"}, "</seed:think>"},
};
enum { N_KNOWN = sizeof known / sizeof *known };

static bool is_token(const tern_tokenizer *t, const char *text)
{
    return tern_token_find(t, text, strlen(text)) >= 0;
}

const tern_thought_marks *tern_thought_marks_of(const char *chat_template, const tern_tokenizer *tokenizer)
{
    for (size_t i = 0; chat_template && i < N_KNOWN; i++)
        if (strstr(chat_template, known[i].sign)) return &known[i].marks;
    for (size_t i = 0; tokenizer && i < N_KNOWN; i++)
        if (is_token(tokenizer, known[i].marks.open) && is_token(tokenizer, known[i].marks.close))
            return &known[i].marks;
    return NULL;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool tern_thought_marks_opened(const tern_thought_marks *marks, const char *prompt, size_t n)
{
    const size_t size = strlen(marks->open);
    while (n && is_blank(prompt[n - 1])) n--;
    return n >= size && memcmp(prompt + n - size, marks->open, size) == 0;
}

void tern_tool_parser_think(tern_tool_parser *parser, const tern_thought_marks *marks, bool opened)
{
    parser->marks = marks;
    if (marks && parser->form != TERN_TOOLS_HARMONY)
        parser->thoughts = opened ? TERN_THOUGHTS_OPENED : TERN_THOUGHTS_AWAITED;
}

bool tern_tool_parser_is_thinking(const tern_tool_parser *parser)
{
    if (parser->form == TERN_TOOLS_HARMONY) return parser->place == TERN_TOOL_REASON;
    return parser->thoughts == TERN_THOUGHTS_OPENED || parser->thoughts == TERN_THOUGHTS_INSIDE;
}

static tern_span rest(const tern_tool_parser *p, size_t from)
{
    return (tern_span){(const uint8_t *)p->held.data + from, p->held.size - from};
}

static size_t blanks(const tern_tool_parser *p)
{
    size_t n = 0;
    while (n < p->held.size && is_blank(p->held.data[n])) n++;
    return n;
}

/* Before any thoughts, or behind the mark in the prompt, which some models repeat. */
static tern_status at_open(tern_tool_parser *p, bool *more, tern_error *err)
{
    const size_t space = blanks(p), n = strlen(p->marks->open);
    const tern_span text = rest(p, space);
    const bool may = text.size == 0 || tern_tools__may_begin(text, p->marks->open);
    if (may && text.size < n && !p->finished) return TERN_OK;
    const bool opens = may && text.size >= n;
    *more = p->held.size > 0;
    if (p->thoughts == TERN_THOUGHTS_OPENED || opens) TERN_TRY(tern_tools__give(p, space + (opens ? n : 0), NULL, err));
    if (opens) p->thoughts = TERN_THOUGHTS_OPENED;
    else p->thoughts = p->thoughts == TERN_THOUGHTS_OPENED ? TERN_THOUGHTS_INSIDE : TERN_THOUGHTS_OVER;
    return TERN_OK;
}

/* Blanks at the end are held back: they may be the last before the mark. */
static tern_status inside(tern_tool_parser *p, bool *more, tern_error *err)
{
    const size_t end = tern_tools__find(rest(p, 0), p->marks->close);
    const bool closes = end < p->held.size;
    size_t n = closes || p->finished ? end : end - tern_tools__begun(rest(p, 0), p->marks->close);
    const size_t past = closes ? end + strlen(p->marks->close) : p->finished ? end : n;
    while (n && is_blank(p->held.data[n - 1])) n--;
    TERN_TRY(tern_tools__give(p, n, p->reasoning, err));
    if (!closes && !p->finished) return TERN_OK;
    TERN_TRY(tern_tools__give(p, past - n, NULL, err));
    *more = true;
    p->thoughts = closes ? TERN_THOUGHTS_CLOSED : TERN_THOUGHTS_OVER;
    return TERN_OK;
}

/* The blanks between thoughts and answer. */
static tern_status behind(tern_tool_parser *p, bool *more, tern_error *err)
{
    TERN_TRY(tern_tools__give(p, blanks(p), NULL, err));
    if (p->held.size == 0) return TERN_OK;
    *more = true;
    p->thoughts = TERN_THOUGHTS_AWAITED; /* an answer may begin with several */
    return TERN_OK;
}

tern_status tern_tools__think(tern_tool_parser *p, bool *more, tern_error *err)
{
    if (p->held.size == 0) return TERN_OK;
    if (p->thoughts == TERN_THOUGHTS_INSIDE) return inside(p, more, err);
    return p->thoughts == TERN_THOUGHTS_CLOSED ? behind(p, more, err) : at_open(p, more, err);
}
