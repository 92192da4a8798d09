/* The cases that quick runs take: all of them over all offsets, and in one run every value of what an index chooses. */
#include "support/test.h"

enum { MOST = 4096 };

static void every_case_is_taken_once(void **state)
{
    (void)state;
    for (uint32_t stride = 1; stride <= 13; stride++)
        for (size_t i = 0; i < 100; i++) {
            uint32_t n = 0;
            for (uint32_t offset = 0; offset < stride; offset++) n += test_takes_at(1352 + offset, i, stride, 1);
            assert_int_equal(n, 1);
        }
}

/* Of a walk in which case i has the value i % n of each factor n, one run takes all n values. */
static void every_factor_is_covered(void **state)
{
    (void)state;
    static const struct {
        uint32_t stride, factors[4];
    } walks[] = {{5, {14, 3, 12}}, {11, {14, 5, 3, 4}}, {11, {14, 8, 6, 5}}, {7, {5, 4, 3, 2}}, {3, {20, 4, 2, 8}}};
    for (size_t w = 0; w < sizeof walks / sizeof *walks; w++)
        for (uint32_t offset = 0; offset < walks[w].stride; offset++)
            for (size_t k = 0; k < 4 && walks[w].factors[k]; k++) {
                const uint32_t n = walks[w].factors[k];
                uint32_t n_seen = 0;
                bool seen[32] = {false};
                for (uint32_t i = 0; i < n * walks[w].stride; i++) {
                    if (!test_takes_at(offset, i, walks[w].stride, n)) continue;
                    n_seen += !seen[i % n];
                    seen[i % n] = true;
                }
                assert_int_equal(n_seen, n);
            }
}

static void runs_are_quick_or_whole(void **state)
{
    (void)state;
    uint32_t n = 0;
    setenv("TERN_TEST_QUICK", "1", 1);
    unsetenv("TERN_TEST_WHOLE");
    setenv("TERN_TEST_OFFSET", "7", 1);
    assert_true(test_quick());
    for (uint32_t i = 0; i < MOST; i++) n += test_takes(i, 4, 3);
    assert_int_equal(n, MOST / 4);
    assert_true(test_takes(1, 4, 3) && !test_takes(0, 4, 3));
    setenv("TERN_TEST_WHOLE", "1", 1); /* over what CTest sets */
    assert_false(test_quick());
    assert_true(test_takes(0, 4, 3));
    unsetenv("TERN_TEST_WHOLE");
    setenv("TERN_TEST_QUICK", "0", 1);
    assert_true(test_takes(0, 4, 3));
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_is_taken_once),
                                          cmocka_unit_test(every_factor_is_covered),
                                          cmocka_unit_test(runs_are_quick_or_whole)};

TEST_GROUP(quick, "", tests);
