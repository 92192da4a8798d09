/* Running the built command `tern` as a person would. */
#ifndef TERN_TESTS_SUPPORT_COMMAND_H
#define TERN_TESTS_SUPPORT_COMMAND_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum { TEST_MAX_WORDS = 64 };

/* What a finished command left behind. */
typedef struct test_output {
    int code;        /* exit status, or 1000 + the signal that ended it */
    char *out, *err; /* with a NUL behind */
    size_t n_out;
} test_output;

/* Runs tern with these words (up to a NULL) and this text on standard input (NULL: none). Free the output. */
test_output test_tern(const char *input, const char *const *words);
void test_output_free(test_output *output);

/* The same with standard output on a terminal of its own, as people have it; line breaks come as "\r\n". */
test_output test_tern_on_terminal(const char *const *words);

/* One step of a talk on a terminal: what is waited for, then what is typed (NULL: nothing). */
typedef struct test_step {
    const char *expected, *typed;
} test_step;

/* Runs it with all three streams on a terminal, which it controls; `out` is all that the terminal was sent. A step that
 * does not come to its text, which each step looks for behind the one before, fails at the end of the output. */
test_output test_tern_talk(const char *const *words, const test_step *steps, size_t n);

/* The words of a call: TERN("run", "-n", "5"). */
#define TERN_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define TERN(...)       test_tern(NULL, TERN_WORDS(__VA_ARGS__))

/* Runs it, expects exit status 0, and parses standard output. Free with json_decref. */
json_t *test_tern_json(const char *const *words);

/* Starts tern; its standard output is the file descriptor *out. */
pid_t test_tern_start(const char *const *words, int *out);
/* The same; standard error goes to a file of the caller's. */
pid_t test_tern_start_logged(const char *const *words, int *out, FILE *err);

#endif
