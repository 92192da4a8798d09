/* What `tern bench` prints for people. */
#include "support/command.h"
#include "support/converted.h"
#include "support/test.h"

static void spread_is_printed_where_there_is_one(void **state)
{
    (void)state;
    test_output once = TERN("bench", "-m", test_small_model(), "-p", "8", "-n", "4", "-r", "1", "-t", "1");
    assert_int_equal(once.code, 0);
    const char *prefill = strstr(once.out, "prefill of 8:"), *decode = strstr(once.out, "decode of 4:");
    assert_true(prefill && decode);
    assert_non_null(strstr(prefill, "tokens/s (one run: no spread)"));
    assert_non_null(strstr(decode, "tokens/s (one run: no spread)"));
    test_output_free(&once);
    test_output twice = TERN("bench", "-m", test_small_model(), "-p", "8", "-n", "4", "-r", "2", "-t", "1");
    assert_int_equal(twice.code, 0);
    float median, low, high;
    assert_int_equal(
        sscanf(strstr(twice.out, "decode of 4:"), "decode of 4: %f tokens/s (%f to %f)", &median, &low, &high), 3);
    assert_true(low <= median && median <= high);
    assert_null(strstr(twice.out, "no spread"));
    test_output_free(&twice);
}

static void depth_is_named(void **state)
{
    (void)state;
    test_output o = TERN("bench", "-m", test_small_model(), "-p", "0", "-n", "4", "-r", "1", "-t", "1", "-d", "100",
                         "-ctk", "q8_0", "-ctv", "q4_0");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "decode of 4 at depth 100:"));
    test_output_free(&o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(depth_is_named),
    cmocka_unit_test(spread_is_printed_where_there_is_one),
};

TEST_GROUP(bench_text, "", tests);
