/* Reading what a person types: with line editing and a history on a terminal, line by line elsewhere. */
#ifndef TERN_APPS_CHAT_INPUT_H
#define TERN_APPS_CHAT_INPUT_H

#include <stdbool.h>

#include "base/error.h"
#include "tern/bytes.h"

typedef struct tern_chat_input {
    bool terminal;
    const char *prompt; /* the caller's, static */
    char *history_path; /* NULL: none is kept */
    tern_buf message;   /* the last one read */
    bool quoted;        /* it stood between quotes: text, whatever it begins with */
    bool stopped;       /* it was not typed: Ctrl-C at an empty line */
    bool dropped;       /* Ctrl-C behind something that was typed, which the history has */
    bool too_long;      /* it had more than TERN_CHAT_LINE_BYTES, and input ended there */
} tern_chat_input;

enum { TERN_CHAT_LINE_BYTES = 16 << 20 };

/* The history, of messages as they were typed, lies in `history`, or in $XDG_STATE_HOME/tern/history (~/.local/state
 * when not set); "" keeps none. */
tern_status tern_chat_input_open(tern_chat_input *input, const char *history, tern_error *err);
/* Writes the history, private and whole or not at all; what goes wrong there is no error. */
void tern_chat_input_close(tern_chat_input *input);
/* The next message, without the end of its last line: a line; several, of which each but the last ends with a
 * backslash; all that stands between two marks of three quotes; or, on a terminal, lines that
 * were pasted at once. Borrowed until the next call; NULL at the end of
 * input, after Ctrl-C and where memory is short. */
char *tern_chat_input_next(tern_chat_input *input);
/* The names that Tab completes at the start of a line, with their slash. `name_at` gives the i-th, NULL at the end. */
void tern_chat_input_complete(const char *(*name_at)(size_t i));

#endif
