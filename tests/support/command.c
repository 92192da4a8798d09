/* Starting the command and collecting what it prints. */
#include "support/command.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/places.h"
#include "support/test.h"

static const char tern_path[] = TERN_BUILD_DIR "/tern";

/* Replaces this process; TERN_EMULATOR is what runs programs of another CPU, or "". */
static void become_tern(const char *const *words)
{
    const char *argv[TEST_MAX_WORDS + 3];
    size_t n = 0;
    if (*TERN_EMULATOR) argv[n++] = TERN_EMULATOR;
    argv[n++] = tern_path;
    while (*words && n < TEST_MAX_WORDS + 2) argv[n++] = *words++;
    argv[n] = NULL;
    unsetenv("TERN_MODEL");
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static char *read_stream(FILE *f, size_t *n)
{
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *text = calloc(*n + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *n, f), *n);
    fclose(f);
    return text;
}

static int wait_for(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

test_output test_tern(const char *input, const char *const *words)
{
    FILE *in = tmpfile(), *out = tmpfile(), *err = tmpfile();
    test_output result;
    size_t ignored;
    assert_true(in && out && err);
    if (input) fputs(input, in);
    rewind(in);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fileno(in), 0);
        dup2(fileno(out), 1);
        dup2(fileno(err), 2);
        become_tern(words);
    }
    result.code = wait_for(pid);
    fclose(in);
    result.out = read_stream(out, &result.n_out);
    result.err = read_stream(err, &ignored);
    return result;
}

void test_output_free(test_output *output)
{
    free(output->out);
    free(output->err);
    *output = (test_output){0};
}

json_t *test_tern_json(const char *const *words)
{
    test_output o = test_tern(NULL, words);
    json_error_t error;
    if (o.code != 0) fail_msg("exit status %d: %s", o.code, o.err);
    json_t *root = json_loadb(o.out, o.n_out, 0, &error);
    if (!root) fail_msg("no JSON (%s): %s", error.text, o.out);
    test_output_free(&o);
    return root;
}

static pid_t start(const char *const *words, int out, int err)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(out, 1);
        dup2(err, 2);
        become_tern(words);
    }
    return pid;
}

test_output test_tern_on_terminal(const char *const *words)
{
    enum { MOST = 1 << 16 };
    test_output result = {.out = calloc(MOST, 1)};
    size_t ignored;
    FILE *err = tmpfile();
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(result.out && err && terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    const int out = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(out >= 0);
    const pid_t pid = start(words, out, fileno(err));
    close(out);
    for (ssize_t n; (n = read(terminal, result.out + result.n_out, MOST - 1 - result.n_out)) > 0;)
        result.n_out += (size_t)n;
    result.code = wait_for(pid);
    close(terminal);
    result.err = read_stream(err, &ignored);
    return result;
}

test_output test_tern_talk(const char *const *words, const test_step *steps, size_t n)
{
    enum { MOST = 1 << 18 };
    test_output result = {.out = calloc(MOST, 1)};
    int terminal;
    assert_non_null(result.out);
    const pid_t pid = forkpty(&terminal, NULL, NULL, NULL);
    assert_true(pid >= 0);
    if (pid == 0) become_tern(words);
    size_t at = 0, step = 0;
    for (;;) {
        const char *found = step < n ? strstr(result.out + at, steps[step].expected) : NULL;
        if (found) {
            at = (size_t)(found - result.out) + strlen(steps[step].expected);
            const char *typed = steps[step++].typed;
            if (typed) assert_int_equal(write(terminal, typed, strlen(typed)), (ssize_t)strlen(typed));
            continue;
        }
        const ssize_t got = read(terminal, result.out + result.n_out, MOST - 1 - result.n_out);
        if (got <= 0) break;
        result.n_out += (size_t)got;
    }
    close(terminal);
    result.code = wait_for(pid);
    if (step < n) fail_msg("step %zu: no \"%s\" in: %s", step, steps[step].expected, result.out + at);
    return result;
}

pid_t test_tern_start(const char *const *words, int *out)
{
    FILE *none = fopen("/dev/null", "w");
    assert_non_null(none);
    const pid_t pid = test_tern_start_logged(words, out, none);
    fclose(none);
    return pid;
}

pid_t test_tern_start_logged(const char *const *words, int *out, FILE *err)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = start(words, ends[1], fileno(err));
    close(ends[1]);
    *out = ends[0];
    return pid;
}
