/* Thoughts of a model in a conversation: told apart from answers, shown or folded, and ended by their budget. */
#ifndef TERN_APPS_CHAT_THOUGHTS_H
#define TERN_APPS_CHAT_THOUGHTS_H

#include "apps/app.h"

typedef struct tern_chat_thoughts {
    const tern_thought_marks *marks; /* NULL: the model has none that are known */
    bool special;                    /* they are special tokens */
    bool folded;                     /* a line stands for them */
    bool off;                        /* there should be none, whatever their budget is */

    /* The answer under way: */
    tern_tool_parser *parser;
    tern_buf text, fresh, thought; /* all thoughts so far; of the last piece: answer and thoughts */
    bool thinks;
    uint32_t n;         /* tokens of thoughts */
    uint32_t budget;    /* UINT32_MAX: no limit */
    tern_tokens ending; /* that end thoughts which used it up, from `ending_at` on */
    size_t ending_at;
    bool ends; /* its tokens come next */
    tern_token_filter filter;
    const tern_token_filter *inner; /* the grammar's; NULL: any text */
} tern_chat_thoughts;

/* Finds the marks in the template that the flags name, or the model has. */
tern_status tern_chat_thoughts_open(tern_chat_thoughts *thoughts, const tern_engine *engine,
                                    const tern_options *options, tern_error *err);
void tern_chat_thoughts_close(tern_chat_thoughts *thoughts);

/* Before an answer to the prompt, which gets the end of thoughts where there should be none. `params` gets a filter
 * where a budget or a grammar needs it. */
tern_status tern_chat_thoughts_begin(tern_chat_thoughts *thoughts, const tern_engine *engine,
                                     const tern_options *options, tern_tokens *prompt, tern_generate_params *params,
                                     tern_error *err);
/* Takes n bytes of a piece; `finished`: no more come. `fresh` and `thought` are what is new. */
tern_status tern_chat_thoughts_read(tern_chat_thoughts *thoughts, const char *text, size_t n, bool finished,
                                    tern_error *err);

#endif
