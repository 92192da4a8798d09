/* Thoughts of a model in a conversation. */
#include "apps/chat/thoughts.h"

#include <string.h>

#include "apps/chat/talk.h"
#include "base/bytes.h"

enum { TAIL_TOKENS = 32 };

static bool is_special(const tern_engine *engine, const char *text)
{
    tern_tokens ids = {0};
    tern_buf shown = {0};
    bool is = tern_engine_tokenize(engine, text, strlen(text), TERN_TOKENIZE_SPECIAL, &ids, NULL) == TERN_OK;
    is = is && ids.n == 1 && tern_engine_detokenize(engine, ids.ids, 1, false, &shown, NULL) == TERN_OK && !shown.size;
    tern_tokens_deinit(&ids);
    tern_buf_deinit(&shown);
    return is;
}

tern_status tern_chat_thoughts_open(tern_chat_thoughts *t, const tern_engine *engine, const tern_options *o,
                                    tern_error *err)
{
    tern_engine_info info = {.size = sizeof info};
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(tern_engine_describe(engine, &info, err));
    const char *source = o->template ? tern_chat_template_builtin(o->template) : info.chat_template;
    if (o->template && !source) TERN_GOTO(tern_chat_template_read(o->template, &text, err));
    if (text.data) source = text.data;
    t->marks = tern_thought_marks_of(source, tern_engine_tokenizer(engine));
    t->special = t->marks && is_special(engine, t->marks->close);
fail:
    tern_buf_deinit(&text);
    return status;
}

static void close_parser(tern_chat_thoughts *t)
{
    tern_tool_parser_close(t->parser);
    t->parser = NULL;
}

void tern_chat_thoughts_close(tern_chat_thoughts *t)
{
    close_parser(t);
    tern_buf_deinit(&t->text);
    tern_buf_deinit(&t->fresh);
    tern_buf_deinit(&t->thought);
    tern_tokens_deinit(&t->ending);
}

/* One token while thoughts are ended, any within them, the grammar's behind them. */
static tern_status mask(void *context, uint32_t *words, size_t n_words, tern_error *err)
{
    const tern_chat_thoughts *t = context;
    if (!t->ends && !t->thinks && t->inner) return t->inner->mask(t->inner->context, words, n_words, err);
    memset(words, t->ends ? 0 : 0xff, n_words * sizeof *words);
    if (!t->ends) return TERN_OK;
    const uint32_t id = (uint32_t)t->ending.ids[t->ending_at];
    words[id / 32] = 1u << id % 32;
    return TERN_OK;
}

static tern_status accept(void *context, int32_t id, tern_error *err)
{
    tern_chat_thoughts *t = context;
    if (t->ends) t->ends = ++t->ending_at < t->ending.n;
    else if (!t->thinks && t->inner) return t->inner->accept(t->inner->context, id, err);
    return TERN_OK;
}

static tern_status find_opened(const tern_chat_thoughts *t, const tern_engine *engine, const tern_tokens *prompt,
                               bool *opened, tern_error *err)
{
    const size_t n = prompt->n < TAIL_TOKENS ? prompt->n : TAIL_TOKENS;
    tern_buf text = {0};
    const tern_status status = tern_engine_detokenize(engine, prompt->ids + prompt->n - n, n, true, &text, err);
    *opened = status == TERN_OK && tern_thought_marks_opened(t->marks, text.data, text.size);
    tern_buf_deinit(&text);
    return status;
}

static tern_status tokenize_ending(tern_chat_thoughts *t, const tern_engine *engine, const tern_options *o,
                                   tern_tokens *out, tern_error *err)
{
    const char *message = o->thought_message && t->budget ? o->thought_message : "";
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(tern_buf_addf(&text, err, "%s%s", message, t->marks->ending));
    TERN_GOTO(tern_engine_tokenize(engine, text.data, text.size, TERN_TOKENIZE_SPECIAL, out, err));
fail:
    tern_buf_deinit(&text);
    return status;
}

tern_status tern_chat_thoughts_begin(tern_chat_thoughts *t, const tern_engine *engine, const tern_options *o,
                                     tern_tokens *prompt, tern_generate_params *params, tern_error *err)
{
    bool opened = false;
    close_parser(t);
    t->text.size = t->fresh.size = t->thought.size = 0;
    t->n = 0;
    t->ending.n = t->ending_at = 0;
    t->thinks = t->ends = false;
    t->budget = t->off ? 0 : o->thought_budget;
    if (!t->marks) return TERN_OK;
    TERN_TRY(find_opened(t, engine, prompt, &opened, err));
    if (t->budget != UINT32_MAX) TERN_TRY(tokenize_ending(t, engine, o, &t->ending, err));
    if (opened && t->budget == 0) {
        opened = false;
        TERN_TRY(tokenize_ending(t, engine, o, prompt, err));
    }
    TERN_TRY(tern_tool_parser_open(
        &t->parser, tern_tool_form_of(t->marks->open) == TERN_TOOLS_HARMONY ? TERN_TOOLS_HARMONY : TERN_TOOLS_NONE,
        err));
    tern_tool_parser_think(t->parser, t->marks, opened);
    t->thinks = opened;
    t->inner = params->filter;
    t->filter = (tern_token_filter){mask, accept, t};
    if (t->budget != UINT32_MAX || (t->inner && opened)) params->filter = &t->filter;
    params->show_special |= t->special;
    return TERN_OK;
}

static void count(tern_chat_thoughts *t)
{
    const bool thought = t->thinks;
    t->thinks = tern_tool_parser_is_thinking(t->parser);
    t->n += thought && t->thinks;
    if (t->thinks && t->n >= t->budget && t->ending.n && !t->ending_at) t->ends = true;
}

tern_status tern_chat_thoughts_read(tern_chat_thoughts *t, const char *text, size_t n, bool finished, tern_error *err)
{
    t->fresh.size = t->thought.size = 0;
    if (!t->parser) return n ? tern_buf_add(&t->fresh, text, n, err) : TERN_OK;
    if (finished) TERN_TRY(tern_tool_parser_finish(t->parser, &t->fresh, &t->thought, err));
    else TERN_TRY(tern_tool_parser_add(t->parser, n ? text : "", n, &t->fresh, &t->thought, err));
    if (!finished) count(t);
    return t->thought.size ? tern_buf_add(&t->text, t->thought.data, t->thought.size, err) : TERN_OK;
}
