/* Responses that the server keeps: how many, how many bytes, and which go first. */
#include "base/alloc.h"
#include "serve/models/stored.h"
#include "support/test.h"

/* Keeps a response whose texts have about n bytes. */
static void keep(tern_stored *s, unsigned id, size_t n)
{
    char name[16], *letters = tern_alloc(n + 1);
    memset(letters, 'a', n);
    letters[n] = 0;
    json_t *messages = json_pack("[s]", letters), *response = json_pack("{s:i}", "n", (int)id);
    snprintf(name, sizeof name, "r%u", id);
    tern_stored_put(s, name, messages, response);
    json_decref(messages);
    json_decref(response);
    tern_free(letters);
}

static bool is_kept(tern_stored *s, unsigned id)
{
    char name[16], expected[32], *text;
    snprintf(name, sizeof name, "r%u", id);
    snprintf(expected, sizeof expected, "{\"n\":%u}", id);
    if (tern_stored_get(s, name, TERN_STORED_RESPONSE, &text, NULL) != TERN_OK) return false;
    assert_string_equal(text, expected);
    tern_free(text);
    return true;
}

static void test_count(void **state)
{
    tern_stored *s = *state;
    for (unsigned i = 0; i <= TERN_STORED_MAX; i++) keep(s, i, 1);
    assert_false(is_kept(s, 0));
    assert_true(is_kept(s, 1) && is_kept(s, TERN_STORED_MAX));
}

static void test_bytes(void **state)
{
    tern_stored *s = *state;
    const size_t quarter = TERN_STORED_MAX_BYTES / 4;
    for (unsigned i = 0; i < 5; i++) keep(s, i, quarter);
    assert_true(s->n_bytes <= TERN_STORED_MAX_BYTES);
    assert_false(is_kept(s, 0) || is_kept(s, 1)); /* a quarter and some bytes each: three fit */
    assert_true(is_kept(s, 2) && is_kept(s, 4));
    keep(s, 5, TERN_STORED_MAX_BYTES);
    assert_false(is_kept(s, 5));
    assert_true(is_kept(s, 2));
}

static void test_removal(void **state)
{
    tern_stored *s = *state;
    tern_error err = {0};
    for (unsigned i = 0; i < 3; i++) keep(s, i, 100);
    const size_t before = s->n_bytes;
    assert_int_equal(tern_stored_remove(s, "r1", &err), TERN_OK);
    assert_int_equal(s->n_bytes, before / 3 * 2);
    assert_true(is_kept(s, 0) && !is_kept(s, 1) && is_kept(s, 2));
    assert_int_equal(tern_stored_remove(s, "r1", &err), TERN_NOT_FOUND);
    assert_string_equal(err.message, "no response \"r1\" is kept");
    assert_int_equal(tern_stored_remove(s, "", &err), TERN_NOT_FOUND); /* a place without a response has no id */
    keep(s, 3, 100);
    assert_true(is_kept(s, 0) && is_kept(s, 3));
}

static int open_store(void **state)
{
    *state = tern_alloc(sizeof(tern_stored));
    tern_stored_init(*state);
    return 0;
}

static int close_store(void **state)
{
    tern_stored_deinit(*state);
    tern_free(*state);
    return 0;
}

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)
static const struct CMUnitTest stored_cases[] = {STORE_TEST(test_count), STORE_TEST(test_bytes),
                                                 STORE_TEST(test_removal)};
TEST_GROUP(stored, "", stored_cases);
