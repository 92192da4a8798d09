/* The string map against a linear search, and printable bytes. */
#include "support/test.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/map.h"
#include "base/show.h"

static tern_span span(const char *s)
{
    return (tern_span){(const uint8_t *)s, strlen(s)};
}

static void every_key_is_found(void **state)
{
    (void)state;
    enum { N = 20000 };
    static char keys[N][24];
    tern_map map = {0};
    tern_error err = {0};
    bool added;
    uint32_t value = 7;
    assert_false(tern_map_find(&map, span("x"), &value));
    for (uint32_t i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "%.*s%u", (int)(i % 13), "abcdefghijklm", i);
        assert_ok(tern_map_add(&map, span(keys[i]), i, &added, &err), err);
        assert_true(added);
    }
    assert_ok(tern_map_add(&map, (tern_span){0}, N, &added, &err), err);
    assert_true(added);
    assert_ok(tern_map_add(&map, span(keys[5]), 99, &added, &err), err);
    assert_false(added);
    assert_int_equal(map.count, N + 1);
    for (uint32_t i = 0; i < N; i++) {
        assert_true(tern_map_find(&map, span(keys[i]), &value));
        assert_int_equal(value, i);
    }
    assert_true(tern_map_find(&map, span(""), &value));
    assert_int_equal(value, N);
    assert_false(tern_map_find(&map, span("abcdefghijklmn"), &value));
    tern_map_deinit(&map);
}

static void bytes_are_made_printable(void **state)
{
    (void)state;
    assert_string_equal(tern_show((tern_span){(const uint8_t *)"a\\b\0\xff\n", 6}).text, "a\\\\b\\x00\\xff\\x0a");
    char zeros[200] = {0};
    tern_shown shown = tern_show((tern_span){(const uint8_t *)zeros, sizeof zeros});
    assert_true(strlen(shown.text) < sizeof shown.text);
    assert_string_equal(shown.text + strlen(shown.text) - 7, "\\x00...");
    memset(zeros, 'x', sizeof zeros);
    shown = tern_show((tern_span){(const uint8_t *)zeros, sizeof zeros});
    assert_string_equal(shown.text + strlen(shown.text) - 4, "x...");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_key_is_found),
    cmocka_unit_test(bytes_are_made_printable),
};

TEST_GROUP(map, "web", tests);
