/* Training that a signal stops, and that goes on from there. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/train_quick.h"
#include "base/bytes.h"
#include "base/file.h"
#include "support/command.h"
#include "support/test.h"

static tern_buf read_file(const char *path)
{
    tern_buf file = {0};
    tern_error err = {0};
    assert_ok(tern_file_read(&file, path, 1 << 28, &err), err);
    return file;
}

/* Stopped by these signals, which come one right after the other, and gone on with. */
static void stop_and_go_on(const int *signals, size_t n)
{
    char *whole = strdup(test_scratch("whole.gguf")), *parts = strdup(test_scratch("parts.gguf"));
    unlink(parts); /* of an earlier run of this test */
    int out, status;
    char byte;
    test_output o = TERN(TRAIN_QUICK, "--steps", "12", "-o", whole, "--overwrite");
    assert_int_equal(o.code, 0);
    test_output_free(&o);
    pid_t pid =
        test_tern_start(TERN_WORDS(TRAIN_QUICK, "--steps", "12", "-o", parts, "--overwrite", "--log-every", "1"), &out);
    for (int lines = 0; lines < 13;) { /* the plan, and two or three steps */
        assert_int_equal(read(out, &byte, 1), 1);
        lines += byte == '\n';
    }
    for (size_t i = 0; i < n; i++) kill(pid, signals[i]);
    while (read(out, &byte, 1) == 1)
        ;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    close(out);
    assert_false(tern_file_exists(parts));
    o = TERN(TRAIN_QUICK, "--steps", "12", "-o", parts, "--resume");
    if (o.code != 0) fail_msg("%s", o.err);
    test_output_free(&o);
    tern_buf a = read_file(whole), b = read_file(parts);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    tern_buf_deinit(&a);
    tern_buf_deinit(&b);
    a = read_file(test_scratch("whole.train/loss.csv"));
    b = read_file(test_scratch("parts.train/loss.csv"));
    assert_string_equal(a.data, b.data);
    tern_buf_deinit(&a);
    tern_buf_deinit(&b);
    free(whole);
    free(parts);
}

static void ctrl_c_saves_and_resume_goes_on(void **state)
{
    (void)state;
    stop_and_go_on((const int[]){SIGINT}, 1);
}

/* A terminal that is closed; the end of a session sends both. */
static void hanging_up_saves_too(void **state)
{
    (void)state;
    stop_and_go_on((const int[]){SIGHUP, SIGTERM, SIGHUP}, 3);
}

/* What is to outlive its terminal does. */
static void nohup_is_obeyed(void **state)
{
    (void)state;
    int out, status;
    char byte;
    signal(SIGHUP, SIG_IGN);
    pid_t pid = test_tern_start(TERN_WORDS(TRAIN_QUICK, "--steps", "3", "-o", test_scratch("nohup.gguf"), "-f"), &out);
    signal(SIGHUP, SIG_DFL);
    assert_int_equal(read(out, &byte, 1), 1);
    kill(pid, SIGHUP);
    while (read(out, &byte, 1) == 1)
        ;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(out);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ctrl_c_saves_and_resume_goes_on),
    cmocka_unit_test(hanging_up_saves_too),
    cmocka_unit_test(nohup_is_obeyed),
};

TEST_GROUP(train_signals, "slow", tests);
