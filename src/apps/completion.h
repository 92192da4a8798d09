/* Scripts by which shells complete commands, flags and values: made from the tables of flags, on standard output. */
#ifndef TERN_APPS_COMPLETION_H
#define TERN_APPS_COMPLETION_H

#include "apps/app.h"

void tern_completion_bash(void);
void tern_completion_zsh(void);
void tern_completion_fish(void);

/* The words that a flag's value can be, with blanks between; "" where any text is one. */
typedef struct tern_completion_words {
    char text[512];
} tern_completion_words;
tern_completion_words tern_completion_values(const tern_flag *flag);
/* Whether the value is a path. */
bool tern_completion_is_path(const tern_flag *flag);
/* Whether it is a model: a path, or a name of `tern list --names`. */
bool tern_completion_is_model(const tern_flag *flag);
/* The command of this program that prints the words which a command takes, one a line; NULL: files, if any. */
const char *tern_completion_words_of(const tern_command *command);
/* Prints a text for a place between single quotes: `special` characters get a backslash, the quote what `quote` says,
 * and no more than the first sentence's part before a semicolon is shown. */
void tern_completion_quoted(const char *text, const char *special, const char *quote);

#endif
