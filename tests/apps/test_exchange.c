/* Files from other programs and for them. */
#include "support/command.h"
#include "support/i2s_order.h"
#include "support/places.h"
#include "support/test.h"

#define BUNDLED TERN_SOURCE_DIR "/models/stories.gguf"

/* A file of bitnet.cpp on ARM: refused with the words that mend it, and then the model that it was. */
static void convert_takes_other_orders(void **state)
{
    (void)state;
    const char *arm = test_scratch("cli-arm.gguf"), *file = test_scratch("cli-from-arm.gguf");
    tern_buf bytes = test_i2s_file(BUNDLED, "arm");
    test_write_file(arm, bytes.data, bytes.size);
    tern_buf_deinit(&bytes);
    test_output o = TERN("run", "-m", arm, "-p", "Once upon a time", "-n", "4");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "in the order \"arm\" (bitnet.cpp on ARM), \"x86\" expected"));
    assert_non_null(strstr(o.err, "tern convert --i2s-order arm"));
    test_output_free(&o);
    test_output want = TERN("run", "-m", BUNDLED, "-p", "Once upon a time", "--greedy", "-n", "24", "-q");
    static const char *const orders[] = {"arm", "auto"};
    for (size_t i = 0; i < 2; i++) {
        o = TERN("convert", "--i2s-order", orders[i], arm, "-o", file, "-f");
        assert_int_equal(o.code, 0);
        test_output_free(&o);
        o = TERN("run", "-m", file, "-p", "Once upon a time", "--greedy", "-n", "24", "-q");
        assert_string_equal(o.out, want.out);
        test_output_free(&o);
    }
    test_output_free(&want);
}

/* What no other engine reads is said, and what one does not, is not. */
static void convert_says_what_is_our_own(void **state)
{
    (void)state;
    static const struct {
        const char *words[3], *said;
    } rows[] = {
        {{"--type", "i2_s"}, NULL},
        {{"--type", "tq2_0"}, NULL},
        {{"--type", "tq1_0"}, NULL},
        {{"--type", "t160"}, "its layers are t160, an encoding that Tern alone reads; other engines read i2_s"},
        {{"--rsr"}, "its RSR sections are tensors that Tern alone knows"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *file = test_scratch("cli-own.gguf");
        test_output o = TERN("convert", BUNDLED, "-o", file, "-f", rows[i].words[0], rows[i].words[1]);
        assert_int_equal(o.code, 0);
        if (rows[i].said && !strstr(o.err, rows[i].said)) fail_msg("'%s' is not in '%s'", rows[i].said, o.err);
        if (!rows[i].said && strstr(o.err, ": its ")) fail_msg("nothing to say, but '%s'", o.err);
        test_output_free(&o);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(convert_takes_other_orders),
    cmocka_unit_test(convert_says_what_is_our_own),
};

TEST_GROUP(exchange, "slow", tests);
