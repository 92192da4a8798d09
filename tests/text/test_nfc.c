/* Normalisation form C on the examples of Unicode Standard Annex 15 and on text that is not UTF-8. */
#include "support/test.h"
#include "text/tokenizer/normal/nfc.h"

static void check(const char *text, const char *expected)
{
    tern_error err = {0};
    tern_buf out = {0};
    assert_ok(tern_nfc__normalize((tern_span){(const uint8_t *)text, strlen(text)}, &out, &err), err);
    assert_string_equal(out.data ? out.data : "", expected);
    tern_buf_deinit(&out);
}

static void test_examples(void **state)
{
    (void)state;
    check("", "");
    check("plain text", "plain text");
    check("\u00C5", "\u00C5");
    check("A\u030A", "\u00C5");
    check("\u212B", "\u00C5");        /* the sign for ångström */
    check("\u2126", "\u03A9");        /* the sign for ohm */
    check("o\u0302\u0323", "\u1ED9"); /* marks in the wrong order */
    check("\u1E0B\u0323", "\u1E0D\u0307");
    check("q\u0307\u0323", "q\u0323\u0307");
    check("\u0958", "\u0915\u093C");       /* excluded from composition */
    check("\uFB01", "\uFB01");             /* compatibility forms stay */
    check("\u1112\u1161\u11AB", "\uD55C"); /* Hangul */
    check("\uD55C\u11AB", "\uD55C\u11AB");
    check("xe\u0301y", "x\u00E9y");
    check("\u0301e\u0301", "\u0301\u00E9");
}

static void test_other_bytes(void **state)
{
    (void)state;
    check("a\xFF\xCC\x81"
          "e\xCC\x81\xFF",
          "a\xFF\xCC\x81\xC3\xA9\xFF");
    check("\xFF\xFE", "\xFF\xFE");
    check("e\xCC", "e\xCC");
}

/* A row of marks as long as the text: sorting them must not compare each with each. */
static void test_many_marks(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    char *text = malloc(2 * N + 1);
    tern_error err = {0};
    tern_buf out = {0};
    for (size_t i = 0; i < N; i++) memcpy(text + 2 * i, i % 2 ? "\u0323" : "\u0307", 2);
    assert_ok(tern_nfc__normalize((tern_span){(const uint8_t *)text, 2 * N}, &out, &err), err);
    assert_int_equal(out.size, 2 * N);
    assert_memory_equal(out.data, "\u0323\u0323", 4);
    assert_memory_equal(out.data + out.size - 4, "\u0307\u0307", 4);
    tern_buf_deinit(&out);
    free(text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_examples),
    cmocka_unit_test(test_other_bytes),
    cmocka_unit_test(test_many_marks),
};

TEST_GROUP(nfc, "web", tests);
