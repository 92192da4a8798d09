/* Lines of an answer that end between words, at the terminal's edge, while the text streams. */
#ifndef TERN_APPS_CHAT_WRAP_H
#define TERN_APPS_CHAT_WRAP_H

#include <stdbool.h>
#include <stddef.h>

/* Zero: text goes out as it comes. */
typedef struct tern_chat_wrap {
    unsigned columns; /* of the terminal; 0: lines are not broken */
    unsigned column;  /* where the line ends so far */
    unsigned blanks;  /* behind it, not written yet */
    unsigned width;   /* of the word */
    size_t n;
    char word[256]; /* held back until it ends */
    char codes[32]; /* escape sequences between the blanks and the word */
    bool verbatim;  /* a block of code: lines stay as they are */
} tern_chat_wrap;

/* Columns of the terminal on standard output; 0: it does not say. */
unsigned tern_chat_wrap_columns(void);

/* n bytes of an answer in any pieces. A blank at which a line is broken becomes a line break. A character is as wide
 * as East Asian Width says (Unicode UAX 11: W and F take two columns). False once writing failed. */
bool tern_chat_wrap_text(tern_chat_wrap *wrap, const char *text, size_t n);
/* An escape sequence, which takes no column. One inside a word ends the word. */
bool tern_chat_wrap_code(tern_chat_wrap *wrap, const char *code);
/* Writes the word that was held back. */
bool tern_chat_wrap_flush(tern_chat_wrap *wrap);

#endif
