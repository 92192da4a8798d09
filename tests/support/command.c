/* Starting the command and collecting what it prints. */
#include "support/command.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(fileno(err), 2);
        close(ends[0]);
        close(ends[1]);
        become_tern(words);
    }
    close(ends[1]);
    *out = ends[0];
    return pid;
}
