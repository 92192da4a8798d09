/* The keys that a terminal sends while a line is typed: Ctrl-C, Alt-Enter, pasted text.
 *
 * libedit reads through a function of ours (rl_getc_function): it takes out the marks that a terminal puts around what
 * is pasted (bracketed paste, https://invisible-island.net/xterm/ctlseqs/ctlseqs.html), and what stands between them is
 * text, whatever it is. */
#include "apps/chat/keys.h"

#include <editline/readline.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "apps/app.h"

enum { CTRL_C = 3, QUOTE = 22, ESCAPE = 27, MARK_BYTES = 6, MARK_MS = 100 };

static const char paste_begins[] = "\033[200~", paste_ends[] = "\033[201~";

static struct {
    bool pasting, stopped, marks; /* marks: the terminal is asked to send them */
    bool saved;
    struct termios modes;   /* of the terminal, as it was */
    char ahead[MARK_BYTES]; /* bytes that were read to see whether they are a mark */
    size_t n_ahead;
    int quoted; /* what follows QUOTE; 0: nothing */
} keys;

/* One byte, waiting for at most so many ms (-1: for ever); false at the end, after a signal, or then. */
static bool read_byte(char *byte, int ms)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        const int n = poll(&in, 1, ms);
        const ssize_t got = n == 1 ? read(STDIN_FILENO, byte, 1) : n;
        if (n == 1 && got == 1) return true;
        if (got == 0 || errno != EINTR || tern_app_interrupted()) return false;
    }
}

static bool next_byte(char *byte)
{
    if (keys.n_ahead == 0) return read_byte(byte, -1);
    *byte = keys.ahead[0];
    memmove(keys.ahead, keys.ahead + 1, --keys.n_ahead);
    return true;
}

/* Whether `text`, of which the first byte has come, follows; what was read to see it stays to be read. */
static bool follows(const char *text)
{
    size_t n = 1;
    for (; n < MARK_BYTES; n++) {
        if (n > keys.n_ahead && !read_byte(&keys.ahead[keys.n_ahead], MARK_MS)) return false;
        if (n > keys.n_ahead) keys.n_ahead++;
        if (keys.ahead[n - 1] != text[n]) return false;
    }
    keys.n_ahead = 0;
    return true;
}

/* The next byte that is none of a mark; false at the end. */
static bool typed_byte(char *byte)
{
    for (;;) {
        if (!next_byte(byte)) return false;
        if (*byte != ESCAPE || !follows(keys.pasting ? paste_ends : paste_begins)) return true;
        keys.pasting = !keys.pasting;
    }
}

/* The next character of the user's encoding; what is none is left out. */
static bool typed_char(wchar_t *c)
{
    mbstate_t state = {0};
    char byte;
    while (typed_byte(&byte)) {
        const size_t n = mbrtowc(c, &byte, 1, &state);
        if (n == (size_t)-2) continue;
        if (n != (size_t)-1) return true;
        state = (mbstate_t){0};
    }
    return false;
}

/* libedit's form: a character, or -1 at the end. */
static int getc_for_libedit(FILE *unused)
{
    wchar_t c = (wchar_t)keys.quoted;
    (void)unused;
    if (keys.quoted) {
        keys.quoted = 0;
        return (int)c;
    }
    if (!typed_char(&c)) return -1;
    if (c == CTRL_C && !keys.pasting) {
        keys.stopped = true;
        return '\r';
    }
    if (!keys.pasting || c >= ' ' || c == '\r' || c == '\n') return (int)c;
    keys.quoted = (int)c;
    return QUOTE;
}

/* Ctrl-C as a signal while an answer is written, which throws away nothing that was typed; else as a key. */
static void set_modes(bool signal)
{
    struct termios modes = keys.modes;
    if (!keys.saved) return;
    modes.c_lflag |= NOFLSH;
    if (!signal) modes.c_cc[VINTR] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
}

void tern_chat_keys_open(void)
{
    const char *term = getenv("TERM");
    keys.marks = term && *term && strcmp(term, "dumb") != 0;
    keys.saved = tcgetattr(STDIN_FILENO, &keys.modes) == 0;
    set_modes(true);
    rl_getc_function = getc_for_libedit;
    using_history();
    rl_parse_and_bind((char[]){"bind -s ^[^M '\\\\^M'"}); /* Alt-Enter: a line that goes on */
    rl_parse_and_bind((char[]){"bind -s ^[^J '\\\\^M'"});
}

void tern_chat_keys_close(void)
{
    if (keys.saved) tcsetattr(STDIN_FILENO, TCSADRAIN, &keys.modes);
    keys.saved = false;
}

static void begin_line(bool begin)
{
    set_modes(!begin);
    if (keys.marks) fputs(begin ? "\033[?2004h" : "\033[?2004l", stdout);
    fflush(stdout);
}

char *tern_chat_keys_line(const char *prompt, bool *stopped)
{
    keys.stopped = false;
    begin_line(true);
    char *line = readline(prompt);
    begin_line(false);
    *stopped = keys.stopped;
    return line;
}

bool tern_chat_keys_pasting(void)
{
    return keys.pasting;
}
