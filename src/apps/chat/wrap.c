/* Lines of an answer that end between words. */
#include "apps/chat/wrap.h"

#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/app.h"

enum { TAB = 8, ESCAPED = 4 }; /* a control character is shown as \xNN */

unsigned tern_chat_wrap_columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* Columns of the character that begins with the lead byte c and goes on with the byte `next`: the blocks of Unicode in
 * which nearly all are wide. */
static unsigned width_of(unsigned char c, unsigned char next)
{
    if (c < 0x20 || c == 0x7f) return ESCAPED;
    if (c < 0x80) return 1;
    if (c < 0xc0) return 0;                     /* goes on with the one before */
    if (c == 0xf0) return next >= 0x9f ? 2 : 1; /* emoji, and CJK beyond the first plane */
    return (c >= 0xe3 && c <= 0xec) || (c == 0xe2 && next >= 0xba) || (c == 0xed && next < 0x9f) ? 2 : 1;
}

bool tern_chat_wrap_flush(tern_chat_wrap *w)
{
    bool written = true;
    if (w->columns && !w->verbatim && w->column && w->width && w->column + w->blanks + w->width > w->columns) {
        written = tern_app_write("\n", 1);
        w->column = w->blanks = 0;
    }
    w->column += w->blanks + w->width;
    for (; w->blanks; w->blanks--) written = tern_app_write(" ", 1) && written;
    written = tern_app_write(w->codes, strlen(w->codes)) && written;
    written = tern_app_write_text(w->word, w->n) && written;
    w->codes[0] = 0;
    w->width = 0;
    w->n = 0;
    return written;
}

/* A byte of a word; a wide character may stand alone on a line, since its scripts have no blanks. */
static bool add(tern_chat_wrap *w, char c, char next)
{
    const unsigned width = width_of((unsigned char)c, (unsigned char)next);
    const bool full = w->n == sizeof w->word, wide = width == 2;
    const bool written = (!full && !wide) || tern_chat_wrap_flush(w);
    w->word[w->n++] = c;
    w->width += width;
    return written;
}

bool tern_chat_wrap_text(tern_chat_wrap *w, const char *text, size_t n)
{
    bool written = true;
    if (w->columns == 0) return tern_app_write_text(text, n);
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (c != ' ' && c != '\n' && c != '\t') {
            written = add(w, c, i + 1 < n ? text[i + 1] : 0) && written;
            continue;
        }
        if (w->n || c != ' ') written = tern_chat_wrap_flush(w) && written;
        if (c == ' ') {
            w->blanks++;
            continue;
        }
        written = tern_app_write(&c, 1) && written;
        w->column = c == '\n' ? 0 : (w->column / TAB + 1) * TAB;
    }
    return written;
}

bool tern_chat_wrap_code(tern_chat_wrap *w, const char *code)
{
    const size_t n = strlen(code), held = strlen(w->codes);
    if (w->n == 0 && w->blanks && held + n < sizeof w->codes) {
        memcpy(w->codes + held, code, n + 1);
        return true;
    }
    const bool written = tern_chat_wrap_flush(w);
    return tern_app_write(code, n) && written;
}
