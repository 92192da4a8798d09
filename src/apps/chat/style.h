/* How a conversation looks on a terminal: a mark before each speaker, colours, bold text and code as they stream. */
#ifndef TERN_APPS_CHAT_STYLE_H
#define TERN_APPS_CHAT_STYLE_H

#include <stdbool.h>
#include <stddef.h>

#include "apps/chat/wrap.h"

/* Zero: text as it comes. */
typedef struct tern_chat_style {
    bool terminal; /* someone reads along: speakers have marks */
    bool colors;   /* and the terminal has styles */
    bool bold, code, block,
        inner;   /* where the text is: **bold**, `code`, a block of code; behind a line's first word */
    bool thinks; /* thoughts were written, or the line that stands for them */
    char mark;   /* '*' or '`', of which `n` may still be followed by more */
    size_t n;
    tern_chat_wrap wrap;
} tern_chat_style;

/* Colours unless NO_COLOR is set and not empty, or TERM is missing or "dumb" (https://no-color.org). */
tern_chat_style tern_chat_style_of(bool terminal);
/* The prompt for what a person types, by what libedit's prompts hold; static storage. */
const char *tern_chat_style_prompt(const tern_chat_style *style);

/* An answer: its mark, then its bytes in any pieces, then what was held back; all styles end there. Without a terminal
 * exactly its bytes. On a terminal that says how wide it is, lines break between words, except in blocks of code. With
 * styles, escape sequences stand around what Markdown marks as bold or code; the marks themselves stay, so that no byte
 * of the text is lost. False once anything failed. */
void tern_chat_style_begin(tern_chat_style *style);
bool tern_chat_style_write(tern_chat_style *style, const char *text, size_t n);
void tern_chat_style_end(tern_chat_style *style);
/* Thoughts before the answer, dimmed, on a terminal alone; `folded`: a line in their place. */
bool tern_chat_style_think(tern_chat_style *style, const char *text, size_t n, bool folded);

#endif
