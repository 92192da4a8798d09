/* Modules that are opened at run time: of this build, of another one, of one before marks, and none at all. */
#include "support/test.h"

#include <string.h>

#include "base/module.h"

extern const char tern_module_mark[];

typedef int (*open_fn)(void);

static tern_status open_module(const char *file, const char *function, open_fn *open, tern_error *err)
{
    const tern_module module = {.file = file,
                                .function = function,
                                .use = "tests",
                                .get = "the tests' build has it",
                                .library = "need no library"};
    *open = NULL;
    return tern_module_open(&module, open, err);
}

static void assert_refused(const char *file, const char *function, const char *const *says)
{
    tern_error err = {0};
    open_fn open;
    assert_int_equal(open_module(file, function, &open, &err), TERN_UNSUPPORTED);
    assert_null(open);
    for (; *says; says++)
        if (!strstr(err.message, *says)) fail_msg("\"%s\" expected in: %s", *says, err.message);
}

static void opens_one_of_this_build(void **state)
{
    (void)state;
    tern_error err = {0};
    open_fn open;
    assert_ok(open_module("test-module-same.so", "test_module_open", &open, &err), err);
    assert_int_equal(open(), 42);
}

static void refuses_one_of_another_build(void **state)
{
    (void)state;
    assert_refused("test-module-other.so", "test_module_open",
                   (const char *const[]){"/test-module-other.so belongs to another build of Tern",
                                         "0.0.9-0123456789ab found", tern_module_mark,
                                         "the test-module-other.so that was built with this program", NULL});
    assert_refused("test-module-long.so", "test_module_open", (const char *const[]){"another build", "...", NULL});
    assert_refused("test-module-unmarked.so", "test_module_open",
                   (const char *const[]){"another build", "no mark found", tern_module_mark, NULL});
}

static void refuses_what_is_no_module(void **state)
{
    (void)state;
    assert_refused("test-module-same.so", "test_module_other", (const char *const[]){"test_module_other", NULL});
    assert_refused("test-module-none.so", "test_module_open",
                   (const char *const[]){"no test-module-none.so in /", ", or in lib/tern beside it",
                                         "the tests' build has it", NULL});
    assert_refused("build.ninja", "test_module_open", (const char *const[]){"build.ninja", "need no library", NULL});
}

/* The version, and twelve digits of a sum. */
static void marks_are_of_the_version(void **state)
{
    (void)state;
    const size_t version = strlen(TERN_VERSION);
    assert_memory_equal(tern_module_mark, TERN_VERSION "-", version + 1);
    assert_int_equal(strspn(tern_module_mark + version + 1, "0123456789abcdef"), 12);
    assert_int_equal(strlen(tern_module_mark), version + 13);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(opens_one_of_this_build),
    cmocka_unit_test(refuses_one_of_another_build),
    cmocka_unit_test(refuses_what_is_no_module),
    cmocka_unit_test(marks_are_of_the_version),
};

TEST_GROUP(module, "", tests);
