/* Writing files: whole or not at all, nothing of the user's lost on the way. */
#include "support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parts.h"
#include "tern/bytes.h"

static void write_text(const char *path, const char *text)
{
    tern_error err = {0};
    assert_ok(tern_file_write(path, text, strlen(text), &err), err);
}

static void assert_text(const char *path, const char *text)
{
    tern_error err = {0};
    tern_buf buf = {0};
    assert_ok(tern_file_read(&buf, path, 1000, &err), err);
    assert_int_equal(buf.size, strlen(text));
    assert_memory_equal(buf.data, text, buf.size);
    tern_buf_deinit(&buf);
}

/* An empty folder, and the path of a name in it. */
static const char *in_folder(const char *folder, const char *name)
{
    static char path[8][4096];
    static size_t next;
    char *out = path[next++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", test_scratch(folder), name);
    return out;
}

static void make_folder(const char *folder)
{
    char command[4200];
    snprintf(command, sizeof command, "rm -rf '%s'", test_scratch(folder));
    assert_int_equal(system(command), 0);
    assert_int_equal(mkdir(test_scratch(folder), 0777), 0);
}

static size_t count_entries(const char *folder)
{
    size_t n = 0;
    DIR *names = opendir(test_scratch(folder));
    assert_non_null(names);
    for (struct dirent *entry; (entry = readdir(names));)
        n += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(names);
    return n;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode;
}

static void mode_is_kept(void **state)
{
    (void)state;
    make_folder("mode");
    const char *path = in_folder("mode", "private");
    write_text(path, "old");
    assert_int_equal(chmod(path, 0600), 0);
    write_text(path, "new");
    assert_text(path, "new");
    assert_int_equal(mode_of(path), S_IFREG | 0600);
    assert_int_equal(count_entries("mode"), 1);
}

static void links_are_followed(void **state)
{
    (void)state;
    make_folder("links");
    const char *target = in_folder("links", "target"), *link = in_folder("links", "link"),
               *nowhere = in_folder("links", "nowhere");
    write_text(target, "old");
    assert_int_equal(symlink("target", link), 0);
    write_text(link, "new");
    assert_true(S_ISLNK(mode_of(link)));
    assert_text(target, "new");
    assert_int_equal(symlink("missing", nowhere), 0);
    tern_error err = {0};
    assert_int_equal(tern_file_write(nowhere, "x", 1, &err), TERN_NOT_FOUND);
    assert_non_null(strstr(err.message, "a link to a file that does not exist"));
    assert_int_equal(count_entries("links"), 3);
}

static void devices_are_written_to(void **state)
{
    (void)state;
    write_text("/dev/null", "gone");
    assert_true(S_ISCHR(mode_of("/dev/null")));
}

static void *read_fifo(void *path)
{
    static char text[16];
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n < 0 ? 0 : n] = 0;
    return text;
}

static void fifos_are_written_to(void **state)
{
    (void)state;
    make_folder("fifo");
    char path[4096];
    snprintf(path, sizeof path, "%s", in_folder("fifo", "pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    pthread_t thread;
    void *text;
    assert_int_equal(pthread_create(&thread, NULL, read_fifo, path), 0);
    write_text(path, "through");
    pthread_join(thread, &text);
    assert_string_equal(text, "through");
    assert_true(S_ISFIFO(mode_of(path)));
}

static void folders_are_refused(void **state)
{
    (void)state;
    make_folder("folder");
    tern_error err = {0};
    assert_int_equal(tern_file_write(test_scratch("folder"), "x", 1, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "a file expected"));
}

/* What a killed process left goes, what a living one holds stays, and so do files of other names. */
static void leftovers_are_swept(void **state)
{
    (void)state;
    make_folder("swept");
    const char *left = in_folder("swept", ".out.tmp-0123456789abcdef"),
               *held = in_folder("swept", ".out.tmp-fedcba9876543210"),
               *other = in_folder("swept", ".other.tmp-0123456789abcdef"), *path = in_folder("swept", "out");
    write_text(left, "left");
    write_text(held, "held");
    write_text(other, "other");
    int fd = open(held, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    write_text(path, "out");
    assert_int_not_equal(access(left, F_OK), 0);
    assert_text(held, "held");
    assert_text(other, "other");
    assert_text(path, "out");
    close(fd);
    assert_int_equal(count_entries("swept"), 3);
}

static void planted_links_are_not_followed(void **state)
{
    (void)state;
    make_folder("planted");
    const char *victim = in_folder("planted", "victim"), *planted = in_folder("planted", ".out.tmp-0123456789abcdef"),
               *path = in_folder("planted", "out");
    write_text(victim, "mine");
    assert_int_equal(symlink("victim", planted), 0);
    write_text(path, "out");
    assert_text(victim, "mine");
}

static void abort_leaves_the_old_file(void **state)
{
    (void)state;
    make_folder("abort");
    const char *path = in_folder("abort", "out");
    write_text(path, "old");
    tern_error err = {0};
    tern_file_writer w;
    assert_ok(tern_file_writer_open(&w, path, &err), err);
    tern_file_writer_add(&w, "new", 3);
    tern_file_writer_abort(&w);
    assert_text(path, "old");
    assert_int_equal(count_entries("abort"), 1);
}

static void long_names_fit(void **state)
{
    (void)state;
    make_folder("long");
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    const char *path = in_folder("long", name);
    write_text(path, "long");
    assert_text(path, "long");
    assert_int_equal(count_entries("long"), 1);
}

static void folders_of_files(void **state)
{
    (void)state;
    make_folder("folders");
    const char *left = in_folder("folders", ".package.tmp-0123456789abcdef"), *path = in_folder("folders", "package");
    assert_int_equal(mkdir(left, 0777), 0);
    write_text(in_folder("folders", ".package.tmp-0123456789abcdef/shard"), "left");
    tern_error err = {0};
    tern_temp temp;
    assert_ok(tern_temp_folder(&temp, path, &err), err);
    assert_int_not_equal(access(left, F_OK), 0);
    assert_ok(tern_temp_commit(&temp, path, &err), err);
    assert_true(tern_file_is_dir(path));
    assert_int_equal(count_entries("folders"), 1);
}

static void sizes_are_of_all_parts(void **state)
{
    (void)state;
    make_folder("parts");
    assert_int_equal(tern_parts_bytes(in_folder("parts", "none.gguf")), 0);
    write_text(in_folder("parts", "m-00001-of-00002.gguf"), "one");
    assert_int_equal(tern_parts_bytes(in_folder("parts", "m-00001-of-00002.gguf")), 3);
    write_text(in_folder("parts", "m-00002-of-00002.gguf"), "second");
    assert_int_equal(tern_parts_bytes(in_folder("parts", "m-00001-of-00002.gguf")), 9);
    assert_int_equal(tern_parts_bytes(in_folder("parts", "m-00002-of-00002.gguf")), 9);
    write_text(in_folder("parts", "model.safetensors"), "12345");
    write_text(in_folder("parts", "config.json"), "{}");
    assert_int_equal(tern_parts_bytes(test_scratch("parts")), 5);
    assert_int_equal(tern_parts_bytes(in_folder("parts", "config.json")), 2);
}

/* Whether the page at `at` is in memory. */
static bool is_there(const uint8_t *at)
{
    unsigned char there = 0;
    assert_int_equal(mincore((void *)(uintptr_t)at, 1, &there), 0);
    return there & 1;
}

/* What is wanted comes from the disk though nothing reads it, whatever the range begins and ends with. */
static void wanted_parts_come(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20, FIRST = 4 << 20, WANTED = 1 << 20, ODD = 77 };
    tern_error err = {0};
    tern_file_map map;
    uint8_t *bytes = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++) bytes[i] = (uint8_t)(i * 7 >> 3);
    const char *path = test_scratch("wanted");
    assert_ok(tern_file_write(path, bytes, BYTES, &err), err);
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fdatasync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    close(fd);
    assert_ok(tern_file_map_open(&map, path, &err), err);
    if (is_there(map.data + FIRST)) print_message("its file system keeps everything in memory\n");
    tern_file_want(map.data + FIRST + ODD, WANTED);
    tern_file_want(map.data + BYTES - 1, 1);
    tern_file_want(map.data, 0);
    for (size_t at = FIRST; at < FIRST + ODD + WANTED; at += 4096)
        while (!is_there(map.data + at)) sched_yield();
    while (!is_there(map.data + BYTES - 4096)) sched_yield();
    assert_memory_equal(map.data, bytes, BYTES);
    tern_file_map_close(&map);
    free(bytes);
}

/* Calls until one says no: after the last wait it takes some hundred. */
static uint32_t calls_that_say_so(tern_file_waits *waits)
{
    uint32_t n = 0;
    while (tern_file_waited(waits)) assert_true(++n < 100000);
    return n;
}

/* A page that comes from the disk when it is read is a wait; what is in memory is none. */
static void waits_are_noticed(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    tern_error err = {0};
    tern_file_map map;
    tern_file_waits waits = {0};
    static char bytes[BYTES];
    memset(bytes, 'x', sizeof bytes);
    const char *path = test_scratch("waits");
    assert_ok(tern_file_write(path, bytes, BYTES, &err), err);
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fdatasync(fd) == 0);
    assert_ok(tern_file_map_open(&map, path, &err), err);
    (void)calls_that_say_so(&waits);
    assert_int_equal(memcmp(map.data, bytes, BYTES), 0);
    (void)calls_that_say_so(&waits);
    tern_file_map_close(&map);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
    assert_ok(tern_file_map_open(&map, path, &err), err);
    const bool gone = !is_there(map.data + BYTES - 4096);
    assert_int_equal(memcmp(map.data, bytes, BYTES), 0);
    if (gone) assert_true(calls_that_say_so(&waits) > 100);
    tern_file_map_close(&map);
    remove(path);
    if (!gone) test_skip("the file system keeps the file in memory");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(mode_is_kept),
    cmocka_unit_test(links_are_followed),
    cmocka_unit_test(devices_are_written_to),
    cmocka_unit_test(fifos_are_written_to),
    cmocka_unit_test(folders_are_refused),
    cmocka_unit_test(leftovers_are_swept),
    cmocka_unit_test(planted_links_are_not_followed),
    cmocka_unit_test(abort_leaves_the_old_file),
    cmocka_unit_test(long_names_fit),
    cmocka_unit_test(folders_of_files),
    cmocka_unit_test(sizes_are_of_all_parts),
    cmocka_unit_test(wanted_parts_come),
    cmocka_unit_test(waits_are_noticed),
};

TEST_GROUP(file, "", tests);
