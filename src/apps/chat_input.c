/* Lines from a terminal or a pipe. */
#include "apps/chat_input.h"

#include <editline/readline.h>
#include <fcntl.h>
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
    if (!input->terminal || (history && !*history)) return TERN_OK;
    input->history_path = history ? tern_strdup(history) : default_history();
    if (history && !input->history_path) return tern_fail_alloc(err, strlen(history));
    using_history();
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
    free(input->line);
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

const char *tern_chat_input_next(tern_chat_input *input)
{
    free(input->line);
    input->line = input->terminal ? readline("> ") : read_pipe(input);
    if (input->terminal && input->line && *input->line) add_history(input->line);
    return input->line;
}
