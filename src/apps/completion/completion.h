/* Scripts by which shells complete commands, flags and values: made from the tables of flags, on standard output. */
#ifndef TERN_APPS_COMPLETION_COMPLETION_H
#define TERN_APPS_COMPLETION_COMPLETION_H

#include "apps/app.h"

void tern_completion_bash(void);
void tern_completion_zsh(void);
void tern_completion_fish(void);

/* The words that a flag's value can be, with blanks between; "" where any text is one. A value that may also be a path
 * (a template) has both. */
typedef struct tern_completion_words {
    char text[768];
} tern_completion_words;
tern_completion_words tern_completion_values(const tern_flag *flag);
/* Whether the value is a path. */
bool tern_completion_is_path(const tern_flag *flag);
/* Whether it is a model: a path, or a name of `tern list --names`. */
bool tern_completion_is_model(const tern_flag *flag);
/* The command that prints the values of an argument, one a line, in any shell; NULL: there are none. */
const char *tern_completion_words_of(const tern_command *command);
/* Whether it takes files, or folders, that no flag names. */
bool tern_completion_takes_files(const tern_command *command);
/* Prints a text for a place between single quotes: `special` characters get a backslash, the quote what `quote` says,
 * and no more than the first sentence's part before a semicolon is shown. */
void tern_completion_quoted(const char *text, const char *special, const char *quote);

#endif
