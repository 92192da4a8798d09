/* Files that are cut short while they are mapped: the file is named, and other faults are left to whom they concern. */
#include "support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mapped.h"

enum { PAGE = 65536, PAGES = 3, EARLIER = 7 };

static char path[1024];

static void write_pages(void)
{
    static uint8_t bytes[PAGE * PAGES];
    snprintf(path, sizeof path, "%s", test_scratch("mapped.bin"));
    memset(bytes, 1, sizeof bytes);
    test_write_file(path, bytes, sizeof bytes);
}

static void earlier_handler(int number)
{
    (void)number;
    _exit(EARLIER);
}

/* Reads a byte that is no longer there, in a map of base/file.h or in one that it does not know. */
static void read_beyond(bool known)
{
    tern_error err = {0};
    tern_file_map map, closed;
    signal(SIGBUS, earlier_handler);
    if (tern_mapped_report(&err) != TERN_OK || tern_mapped_report(&err) != TERN_OK) _exit(20);
    if (tern_file_map_open(&closed, path, &err) != TERN_OK) _exit(21);
    if (tern_file_map_open(&map, path, &err) != TERN_OK) _exit(22);
    tern_file_map_close(&closed);
    const int fd = open(path, O_RDONLY);
    const volatile uint8_t *other = mmap(NULL, PAGE * PAGES, PROT_READ, MAP_SHARED, fd, 0);
    if (other == MAP_FAILED || truncate(path, PAGE) != 0) _exit(23);
    const volatile uint8_t *bytes = known ? map.data : other;
    _exit(bytes[PAGE * 2] ? 24 : 25);
}

/* The exit status of a process that does so, and what it said. */
static int end_of(bool known, char said[2048])
{
    int status;
    FILE *log = tmpfile();
    assert_non_null(log);
    write_pages();
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fileno(log), STDERR_FILENO);
        read_beyond(known);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    rewind(log);
    said[fread(said, 1, 2047, log)] = 0;
    fclose(log);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_cut_file_is_named(void **state)
{
    char said[2048], want[1200];
    (void)state;
    assert_int_equal(end_of(true, said), 1);
    snprintf(want, sizeof want, "tern: error: %s was cut short while it was in use: %d bytes found, %d expected\n",
             path, PAGE, PAGE * PAGES);
    assert_string_equal(said, want);
}

static void other_faults_are_passed_on(void **state)
{
    char said[2048];
    (void)state;
    assert_int_equal(end_of(false, said), EARLIER);
    assert_string_equal(said, "");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_cut_file_is_named),
    cmocka_unit_test(other_faults_are_passed_on),
};

TEST_GROUP(mapped, "", tests);
