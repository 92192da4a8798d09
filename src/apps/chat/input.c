/* Lines from a terminal or a pipe. */
#include "apps/chat/input.h"

#include <editline/readline.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/chat/keys.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/output.h"

enum { MAX_HISTORY = 1000 };

static char *default_history(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (state && *state == '/') path = tern_path_join(state, "tern/history");
    else if (home && *home == '/') path = tern_path_join(home, ".local/state/tern/history");
    return path;
}

/* Only a history is replaced by one: another file of the default's name is left alone, one that was named is an error.
 */
static tern_status check_history(tern_chat_input *input, const char *named, tern_error *err)
{
    const tern_output output = {.path = input->history_path, .ours = "_HiStOrY_V2_\n"};
    if (!input->history_path || tern_output_check(&output, named ? err : NULL) == TERN_OK) return TERN_OK;
    tern_free(input->history_path);
    input->history_path = NULL; /* closing writes none */
    return named ? TERN_INVALID_ARGUMENT : TERN_OK;
}

tern_status tern_chat_input_open(tern_chat_input *input, const char *history, tern_error *err)
{
    *input = (tern_chat_input){.terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    input->prompt = "> ";
    if (!input->terminal) return TERN_OK;
    tern_chat_keys_open();
    if (history && !*history) return TERN_OK;
    input->history_path = history ? tern_strdup(history) : default_history();
    if (history && !input->history_path) return tern_fail_alloc(err, strlen(history));
    TERN_TRY(check_history(input, history, err));
    stifle_history(MAX_HISTORY);
    if (input->history_path) read_history(input->history_path);
    return TERN_OK;
}

/* A history that cannot be written is not worth a message. */
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
    if (input->terminal) tern_chat_keys_close();
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

/* One entry of the history, however many lines it has. */
static void remember(const tern_chat_input *input)
{
    if (input->terminal && input->message.size) add_history(input->message.data);
}

/* Adds a line, after a line break where one is open; false at the end of input, and after Ctrl-C, where the history
 * has what was typed. */
static bool add_line(tern_chat_input *input, const char *prompt, bool more)
{
    bool stopped = false;
    char *line = input->terminal ? tern_chat_keys_line(prompt, &stopped) : read_pipe(input);
    bool added = line && (!more || tern_buf_add(&input->message, "\n", 1, NULL) == TERN_OK);
    if (added) added = tern_buf_add(&input->message, line, strlen(line) + 1, NULL) == TERN_OK;
    if (added) input->message.size--; /* the NUL stays behind it */
    if (stopped) {
        input->stopped = line && !*line && !more;
        input->dropped = !input->stopped;
        if (added) remember(input);
    }
    if (input->message.size > TERN_CHAT_LINE_BYTES) input->too_long = true;
    free(line);
    return added && !stopped && !input->too_long;
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

/* Lines that come at once are pasted: one message, if the terminal says so or they wait behind Enter. Lines that were
 * typed while an answer was written are not. The line break that ends what is pasted is none of the message. */
static void add_pasted(tern_chat_input *input, bool ahead)
{
    tern_buf *m = &input->message;
    const size_t first = m->size;
    while ((tern_chat_keys_pasting() || (!ahead && waits(input))) && add_line(input, "... ", true)) continue;
    while (m->size > first && m->data[m->size - 1] == '\n') drop_end(m, 1);
}

static const char quotes[] = "\"\"\"";

/* All text between the quotes, or up to the end of the input; the first line has come. The history has the quotes too.
 */
static char *quoted_message(tern_chat_input *input)
{
    tern_buf *message = &input->message;
    while (!ends(message, quotes, 3) && add_line(input, "... ", true)) continue;
    if (input->too_long || input->dropped) return NULL;
    remember(input);
    if (ends(message, quotes, 3)) drop_end(message, 3);
    return message->data + 3 + (message->data[3] == '\n');
}

char *tern_chat_input_next(tern_chat_input *input)
{
    tern_buf *message = &input->message;
    message->size = 0;
    input->stopped = input->dropped = false;
    const bool ahead = waits(input);
    if (!add_line(input, input->prompt, false)) return NULL;
    input->quoted = strncmp(message->data, quotes, 3) == 0;
    if (input->quoted) return quoted_message(input);
    while (ends(message, "\\", 0)) {
        drop_end(message, 1);
        if (!add_line(input, "... ", true)) break;
    }
    if (*message->data != '/') add_pasted(input, ahead);
    if (input->too_long || input->dropped) return NULL;
    remember(input);
    return message->data;
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

/* Commands at the start of a line, else names of files: behind the only one a blank, or the slash of a folder. */
static char **complete(const char *text, int start, int end)
{
    (void)end;
    rl_completion_append_character = ' ';
    if (start == 0 && *text == '/') return rl_completion_matches(text, next_command);
    char **found = rl_completion_matches(text, rl_filename_completion_function);
    const bool only = found && (!found[1] || !found[2]);
    if (only && tern_file_is_dir(found[0])) rl_completion_append_character = '/';
    return found;
}

void tern_chat_input_complete(const char *(*name_at)(size_t i))
{
    command_at = name_at;
    rl_attempted_completion_function = complete;
}
