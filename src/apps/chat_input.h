/* Reading what a person types: with line editing and a history on a terminal, line by line elsewhere. */
#ifndef TERN_APPS_CHAT_INPUT_H
#define TERN_APPS_CHAT_INPUT_H

#include <stdbool.h>

#include "base/error.h"

typedef struct tern_chat_input {
    bool terminal;
    char *history_path; /* NULL: none is kept */
    char *line;         /* the last line read */
    bool too_long;      /* a line of a pipe had more than TERN_CHAT_LINE_BYTES, and input ended there */
} tern_chat_input;

enum { TERN_CHAT_LINE_BYTES = 16 << 20 };

/* The history lies in `history`, or in $XDG_STATE_HOME/tern/history (~/.local/state when not set); "" keeps none. */
tern_status tern_chat_input_open(tern_chat_input *input, const char *history, tern_error *err);
/* Writes the history, private and whole or not at all; what goes wrong there is no error. */
void tern_chat_input_close(tern_chat_input *input);
/* The next line without its end, borrowed until the next call; NULL at the end of input or after Ctrl-C. */
const char *tern_chat_input_next(tern_chat_input *input);

#endif
