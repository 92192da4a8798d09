/* Exports: finding the calls of tools in what a model writes, piece by piece. */
#include "web/web_tools.h"

#include <string.h>

#include "text/tokenizer/tokenizer.h"
#include "web/web.h"

TERN_WEB tern_status tern_web_tools_open(tern_tool_parser **parser, const tern_engine *engine);
TERN_WEB tern_status tern_web_tools_add(tern_tool_parser *parser, const char *text, size_t n, int last);
TERN_WEB void tern_web_tools_close(tern_tool_parser *parser);

tern_tool_form tern_web__tool_form(const tern_tokenizer *tokenizer)
{
    const char *source = tokenizer ? tern_tokenizer_chat_template(tokenizer) : NULL;
    const tern_tool_form form = tern_tool_form_of(source);
    return !source || (!strstr(source, "tools") && form != TERN_TOOLS_HARMONY) ? TERN_TOOLS_NONE : form;
}

tern_status tern_web_tools_open(tern_tool_parser **parser, const tern_engine *engine)
{
    return tern_tool_parser_open(parser, tern_web__tool_form(tern_engine_tokenizer(engine)), tern_web__error());
}

static json_t *calls_of(const tern_tool_parser *parser)
{
    size_t n;
    const tern_tool_call *calls = tern_tool_parser_calls(parser, &n);
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "id", calls[i].id, "name", calls[i].name, "arguments",
                                              calls[i].arguments));
    return list;
}

/* {content, reasoning, calls}: what n more bytes have brought of the first two, and all calls so far. */
tern_status tern_web_tools_add(tern_tool_parser *parser, const char *text, size_t n, int last)
{
    tern_error *err = tern_web__error();
    tern_buf content = {0}, reasoning = {0};
    tern_status status;
    TERN_GOTO(tern_tool_parser_add(parser, text, n, &content, &reasoning, err));
    if (last) TERN_GOTO(tern_tool_parser_finish(parser, &content, &reasoning, err));
    status = tern_web__answer(json_pack("{s:s%, s:s%, s:o}", "content", content.size ? content.data : "", content.size,
                                        "reasoning", reasoning.size ? reasoning.data : "", reasoning.size, "calls",
                                        calls_of(parser)),
                              err);
fail:
    tern_buf_deinit(&content);
    tern_buf_deinit(&reasoning);
    return status;
}

void tern_web_tools_close(tern_tool_parser *parser)
{
    tern_tool_parser_close(parser);
}
