/* The keys that a terminal sends while a line is typed: Ctrl-C, Alt-Enter, pasted text. */
#ifndef TERN_APPS_CHAT_KEYS_H
#define TERN_APPS_CHAT_KEYS_H

#include <stdbool.h>

/* Once in a program, before libedit is used: its keys, and a terminal that keeps what was typed ahead when Ctrl-C stops
 * an answer. */
void tern_chat_keys_open(void);
/* The terminal as it was. */
void tern_chat_keys_close(void);

/* A line with libedit's editing; free() it. NULL at the end of input, and where a signal ended it. *stopped: Ctrl-C
 * ended it, and what had been typed is the line. */
char *tern_chat_keys_line(const char *prompt, bool *stopped);
/* Whether the terminal says that pasted text goes on (bracketed paste). */
bool tern_chat_keys_pasting(void);

#endif
