/* Lines from a terminal or a pipe. */
#include "apps/chat_input.h"

#include <editline/readline.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

enum { MAX_HISTORY = 1000 };

static char *default_history(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (state && *state == '/') path = tern_path_join(state, "tern/history");
    else if (home && *home == '/') path = tern_path_join(home, ".local/state/tern/history");
    return path;
}

tern_status tern_chat_input_open(tern_chat_input *input, const char *history, tern_error *err)
{
    *input = (tern_chat_input){.terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    input->prompt = "> ";
    if (!input->terminal) return TERN_OK;
    using_history();
    rl_parse_and_bind((char[]){"bind -s ^[^M '\\\\^M'"}); /* Alt-Enter: a line that goes on */
    rl_parse_and_bind((char[]){"bind -s ^[^J '\\\\^M'"});
    if (history && !*history) return TERN_OK;
    input->history_path = history ? tern_strdup(history) : default_history();
    if (history && !input->history_path) return tern_fail_alloc(err, strlen(history));
    stifle_history(MAX_HISTORY);
    if (input->history_path) read_history(input->history_path);
    return TERN_OK;
}

/* A history that cannot be written is no reason to trouble anyone. */
static void write_private(const char *path)
{
    tern_temp temp = {0};
    mode_t mask = umask(077);
    if (tern_temp_file(&temp, path, NULL) == TERN_OK && write_history(temp.path) == 0)
        tern_temp_commit(&temp, path, NULL);
    tern_temp_abort(&temp);
    umask(mask);
}

void tern_chat_input_close(tern_chat_input *input)
{
    if (input->history_path) {
        tern_folders_make(input->history_path);
        write_private(input->history_path);
    }
    tern_free(input->history_path);
    tern_buf_deinit(&input->message);
    *input = (tern_chat_input){0};
}

static char *read_pipe(tern_chat_input *input)
{
    tern_buf line = {0};
    tern_status status = TERN_OK;
    int c = EOF;
    while (status == TERN_OK && (c = getc(stdin)) != EOF && c != '\n' && !input->too_long) {
        const char byte = (char)c;
        input->too_long = line.size == TERN_CHAT_LINE_BYTES;
        status = tern_buf_add(&line, &byte, 1, NULL);
    }
    char *text = NULL;
    if (status == TERN_OK && !input->too_long && (c == '\n' || line.size)) text = strdup(line.data ? line.data : "");
    tern_buf_deinit(&line);
    return text;
}

/* Adds a line, after a line break where one is open; false at the end of input. */
static bool add_line(tern_chat_input *input, const char *prompt, bool more)
{
    char *line = input->terminal ? readline(prompt) : read_pipe(input);
    bool added = line && (!more || tern_buf_add(&input->message, "\n", 1, NULL) == TERN_OK);
    if (added) added = tern_buf_add(&input->message, line, strlen(line) + 1, NULL) == TERN_OK;
    if (added) input->message.size--; /* the NUL stays behind it */
    if (input->message.size > TERN_CHAT_LINE_BYTES) input->too_long = true;
    if (added && input->terminal && *line) add_history(line);
    free(line);
    return added && !input->too_long;
}

static bool ends(const tern_buf *message, const char *mark, size_t from)
{
    const size_t n = strlen(mark);
    return message->size >= from + n && memcmp(message->data + message->size - n, mark, n) == 0;
}

static void drop_end(tern_buf *message, size_t n)
{
    message->size -= n;
    message->data[message->size] = 0;
}

/* Something that was typed or pasted waits to be read. */
static bool waits(const tern_chat_input *input)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return input->terminal && poll(&in, 1, 0) == 1 && (in.revents & POLLIN);
}

/* Lines that come at once are pasted: one message. Lines that were typed while an answer was written are not. */
static void add_pasted(tern_chat_input *input)
{
    while (waits(input) && add_line(input, "... ", true)) continue;
}

static const char quotes[] = "\"\"\"";

char *tern_chat_input_next(tern_chat_input *input)
{
    tern_buf *message = &input->message;
    message->size = 0;
    const bool ahead = waits(input);
    if (!add_line(input, input->prompt, false)) return NULL;
    input->quoted = strncmp(message->data, quotes, 3) == 0;
    if (input->quoted) {
        while (!ends(message, quotes, 3))
            if (!add_line(input, "... ", true)) return NULL;
        drop_end(message, 3);
        return message->data + 3 + (message->data[3] == '\n');
    }
    while (ends(message, "\\", 0)) {
        drop_end(message, 1);
        if (!add_line(input, "... ", true)) return NULL;
    }
    if (!ahead && *message->data != '/') add_pasted(input);
    return input->too_long ? NULL : message->data;
}

static const char *(*command_at)(size_t i);

/* readline's form: called again and again, `state` 0 at first. */
static char *next_command(const char *text, int state)
{
    static size_t i;
    if (!state) i = 0;
    for (const char *name; (name = command_at(i));) {
        char word[80];
        i++;
        snprintf(word, sizeof word, "/%s", name);
        if (strncmp(word, text, strlen(text)) == 0) return strdup(word);
    }
    return NULL;
}

/* Else libedit's own: names of files. */
static char **complete(const char *text, int start, int end)
{
    (void)end;
    return start == 0 && *text == '/' ? rl_completion_matches(text, next_command) : NULL;
}

void tern_chat_input_complete(const char *(*name_at)(size_t i))
{
    command_at = name_at;
    rl_attempted_completion_function = complete;
}
