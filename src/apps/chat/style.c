/* Markdown's bold and code, styled while it streams. */
#include "apps/chat/style.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/app.h"

static const char bold_on[] = "\033[1m", dim_on[] = "\033[2m", code_on[] = "\033[36m", all_off[] = "\033[0m";

tern_chat_style tern_chat_style_of(bool terminal)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    const bool plain = (no_color && *no_color) || !term || !*term || strcmp(term, "dumb") == 0;
    return (tern_chat_style){.terminal = terminal, .colors = terminal && !plain};
}

const char *tern_chat_style_prompt(const tern_chat_style *s)
{
    return s->colors ? "\001\033[1;32m\002>\001\033[0m\002 " : "> "; /* \001 and \002: what takes no place */
}

void tern_chat_style_begin(tern_chat_style *s)
{
    *s = (tern_chat_style){.terminal = s->terminal, .colors = s->colors};
    if (!s->terminal) return;
    fputs(s->colors ? "\033[1;36m< \033[0m" : "< ", stdout);
    s->wrap = (tern_chat_wrap){.columns = tern_chat_wrap_columns(), .column = 2};
}

/* The styles of where the text is now. */
static bool apply(tern_chat_style *s)
{
    bool written = tern_chat_wrap_code(&s->wrap, all_off);
    if (s->bold) written = tern_chat_wrap_code(&s->wrap, bold_on) && written;
    if (s->code || s->block) written = tern_chat_wrap_code(&s->wrap, code_on) && written;
    s->wrap.verbatim = s->block;
    return written;
}

static bool write_mark(tern_chat_style *s)
{
    bool written = true;
    for (size_t i = 0; i < s->n; i++) written = tern_chat_wrap_text(&s->wrap, &s->mark, 1) && written;
    return written;
}

/* The style that n marks switch; NULL: they are text. `next` is the byte behind them: bold text begins with no
 * blank. */
static bool *switched(tern_chat_style *s, char next)
{
    if (s->mark == '`' && s->n >= 3 && !s->inner) return &s->block;
    if (s->block) return NULL;
    if (s->mark == '`') return &s->code;
    return s->n >= 2 && !s->code && (s->bold || !strchr(" \t\n", next)) ? &s->bold : NULL;
}

/* The marks so far are all: opening ones belong to what they open, closing ones to what they close. */
static bool end_marks(tern_chat_style *s, char next)
{
    if (s->n == 0) return true;
    bool *where = switched(s, next), written = true;
    const bool opens = where && !*where;
    if (where) *where = opens;
    if (opens) written = apply(s);
    written = write_mark(s) && written;
    if (where && !opens) written = apply(s) && written;
    s->n = 0;
    s->inner = true;
    return written;
}

/* Bold text and code in a line end with it. */
static bool end_line(tern_chat_style *s)
{
    const bool open = s->bold || s->code;
    s->bold = s->code = s->inner = false;
    return !open || apply(s);
}

bool tern_chat_style_think(tern_chat_style *s, const char *text, size_t n, bool folded)
{
    static const char begins[] = "(thinking: ", stands[] = "(thinking ...";
    bool written = true;
    if (!s->terminal || (folded && s->thinks)) return true;
    if (!s->thinks && s->colors) written = tern_chat_wrap_code(&s->wrap, dim_on);
    if (!s->thinks) {
        const char *words = folded ? stands : begins;
        written = tern_chat_wrap_text(&s->wrap, words, strlen(words)) && written;
    }
    s->thinks = true;
    return (folded ? tern_chat_wrap_flush(&s->wrap) : tern_chat_wrap_text(&s->wrap, text, n)) && written;
}

/* The answer begins on a line of its own. */
static bool end_thoughts(tern_chat_style *s)
{
    if (!s->thinks) return true;
    s->thinks = false;
    bool written = tern_chat_wrap_text(&s->wrap, ")\n", 2);
    if (s->colors) written = tern_chat_wrap_code(&s->wrap, all_off) && written;
    return written;
}

bool tern_chat_style_write(tern_chat_style *s, const char *text, size_t n)
{
    bool written = end_thoughts(s);
    size_t done = 0;
    if (!s->colors) return tern_chat_wrap_text(&s->wrap, text, n) && written;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        const bool mark = c == '*' || c == '`';
        if (!mark && s->n == 0 && c != '\n') {
            s->inner = s->inner || (c != ' ' && c != '\t');
            continue;
        }
        written = tern_chat_wrap_text(&s->wrap, text + done, i - done) && written;
        done = i;
        if (s->n && c != s->mark) written = end_marks(s, c) && written;
        if (c == '\n') written = end_line(s) && written;
        if (!mark) continue;
        s->mark = c;
        s->n++;
        done = i + 1;
    }
    return tern_chat_wrap_text(&s->wrap, text + done, n - done) && written;
}

void tern_chat_style_end(tern_chat_style *s)
{
    end_marks(s, '\n');
    end_thoughts(s);
    tern_chat_wrap_flush(&s->wrap);
    if (s->colors) tern_app_write(all_off, strlen(all_off));
}
