/* Structs that begin with their size, of a smaller, the same and a larger version. */
#include "support/test.h"

#include <string.h>

#include "base/sized.h"

/* Three versions of one struct: each has what the one before it has. */
typedef struct first {
    size_t size;
    uint32_t a, b;
} first;
typedef struct second {
    size_t size;
    uint32_t a, b;
    uint64_t c;
} second;
typedef struct third {
    size_t size;
    uint32_t a, b;
    uint64_t c, d;
} third;

static tern_error err;

static tern_status read_second(second *to, const void *from)
{
    memset(to, 0xff, sizeof *to);
    err = (tern_error){0};
    return tern_sized_read(to, sizeof *to, from, "options", &err);
}

static void assert_second(const second *s, uint32_t a, uint32_t b, uint64_t c)
{
    assert_int_equal(s->size, sizeof *s);
    assert_true(s->a == a && s->b == b && s->c == c);
}

static void other_versions_are_read(void **state)
{
    (void)state;
    const first older = {.size = sizeof older, .a = 1, .b = 2};
    const second same = {.size = sizeof same, .a = 1, .b = 2, .c = 3};
    const third newer = {.size = sizeof newer, .a = 1, .b = 2, .c = 3};
    second got;
    assert_ok(read_second(&got, &older), err);
    assert_second(&got, 1, 2, 0);
    assert_ok(read_second(&got, &same), err);
    assert_second(&got, 1, 2, 3);
    assert_ok(read_second(&got, &newer), err);
    assert_second(&got, 1, 2, 3);
    assert_ok(read_second(&got, NULL), err);
    assert_second(&got, 0, 0, 0);
    assert_ok(TERN_SIZED_READ(&got, &same, &err), err);
    assert_second(&got, 1, 2, 3);
}

static void unknown_members_are_refused(void **state)
{
    (void)state;
    third newer = {.size = sizeof newer, .a = 1};
    second got;
    unsigned char *const bytes = (unsigned char *)&newer;
    for (size_t i = sizeof got; i < sizeof newer; i++) {
        bytes[i] = 1;
        assert_int_equal(read_second(&got, &newer), TERN_INVALID_ARGUMENT);
        assert_string_equal(err.message, "options: a member is set that this library does not know: its size is 32, at "
                                         "most 24 known");
        assert_second(&(second){.size = sizeof got, .a = got.a, .b = got.b, .c = got.c}, 0, 0, 0);
        bytes[i] = 0;
    }
    assert_ok(read_second(&got, &newer), err);
    assert_ok(tern_sized_reserved((uint64_t[2]){0}, 16, "options.cpu", &err), err);
    assert_int_equal(tern_sized_reserved((uint64_t[2]){0, 1}, 16, "options.cpu", &err), TERN_INVALID_ARGUMENT);
    assert_ok(tern_sized_reserved((uint64_t[2]){0, 1}, 8, "options.cpu", &err), err);
}

static void sizes_that_are_none_are_refused(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, sizeof(size_t) - 1, TERN_MAX_STRUCT_BYTES + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        second s = {.size = sizes[i], .a = 1}, got;
        assert_int_equal(read_second(&got, &s), TERN_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "sizeof the struct expected, which is 24 here"));
        assert_int_equal(tern_sized_write(&s, &(second){.a = 2}, sizeof s, "result", &err), TERN_INVALID_ARGUMENT);
        assert_int_equal(s.a, 1);
    }
    assert_int_equal(tern_sized_write(NULL, &(second){.a = 2}, sizeof(second), "result", &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "result is NULL");
}

static void no_more_than_the_size_is_written(void **state)
{
    (void)state;
    const second from = {.a = 1, .b = 2, .c = 3};
    third to;
    for (size_t size = sizeof(size_t); size <= sizeof to; size++) {
        unsigned char *const bytes = (unsigned char *)&to;
        memset(&to, 0x5a, sizeof to);
        to.size = size;
        assert_ok(tern_sized_write(&to, &from, sizeof from, "result", &err), err);
        assert_int_equal(to.size, size);
        for (size_t i = sizeof(size_t); i < sizeof to; i++) {
            const unsigned char known = i < sizeof from ? ((const unsigned char *)&from)[i] : 0;
            assert_int_equal(bytes[i], i < size ? known : 0x5a);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(other_versions_are_read),
    cmocka_unit_test(unknown_members_are_refused),
    cmocka_unit_test(sizes_that_are_none_are_refused),
    cmocka_unit_test(no_more_than_the_size_is_written),
};

TEST_GROUP(sized, "", tests);
