/* The multiply-add of CPUs without the instruction, against the C library's. */
#include "support/test.h"

#include "base/half.h"
#include "ops/ref/fma.h"
#include "support/kernels.h"

static tern_rng rng;

static bool agrees(float (*fn)(float, float, float), float a, float b, float c)
{
    const float found = fn(a, b, c), expected = fmaf(a, b, c);
    return test_same_bits(&found, &expected, 1);
}

/* What does not do: rounded to f64, then to f32. */
static float rounds_twice(float a, float b, float c)
{
    return (float)((double)a * (double)b + (double)c);
}

static void check(float a, float b, float c)
{
    if (!agrees(tern_ref__fmaf_in_doubles, a, b, c))
        fail_msg("%a * %a + %a: %a, %a expected", (double)a, (double)b, (double)c,
                 (double)tern_ref__fmaf_in_doubles(a, b, c), (double)fmaf(a, b, c));
}

/* 1 + k / 4096, k odd: products of two end in half a last place. */
static float odd_float(void)
{
    return 1 + ldexpf((float)(2 * test_between(&rng, 0, 1000) + 1), -12);
}

/* Products in the middle between two floats, and what f64 cannot hold beside them. */
static void near_ties(void **state)
{
    (void)state;
    uint32_t caught = 0;
    for (int i = 0; i < 200000; i++) {
        const float a = odd_float(), b = odd_float(), sign = test_between(&rng, 0, 1) ? -1.0f : 1.0f;
        const float c = sign * ldexpf(odd_float(), -(int)test_between(&rng, 20, 110));
        check(a, b, c);
        check(-a, b, c);
        check(ldexpf(a, -70), ldexpf(b, -70), ldexpf(c, -140 + 110)); /* subnormal */
        check(ldexpf(a, -70), ldexpf(b, -69), ldexpf(sign, -149));
        check(ldexpf(a, 63), ldexpf(b, 64), ldexpf(c, 20));
        caught += !agrees(rounds_twice, a, b, c);
    }
    assert_true(caught > 10000);
}

static void every_kind(void **state)
{
    (void)state;
    for (int a = 0; a < TEST_N_FILLS; a++)
        for (int b = 0; b < TEST_N_FILLS; b++)
            for (int c = 0; c < TEST_N_FILLS; c++)
                for (int i = 0; i < 4000; i++)
                    check(test_float(&rng, (test_fill)a), test_float(&rng, (test_fill)b),
                          test_float(&rng, (test_fill)c));
}

/* Products of few bits cancel against c, or nearly. */
static void cancellation(void **state)
{
    (void)state;
    for (int i = 0; i < 200000; i++) {
        const float a = test_float(&rng, TEST_ORDINARY), b = test_float(&rng, TEST_ORDINARY), product = a * b;
        check(a, b, -product);
        check(a, b, -nextafterf(product, test_between(&rng, 0, 1) ? 2.0f : -2.0f));
        check(a, b, product);
    }
    check(0, 1, -0.0f);
    check(-0.0f, 1, 0);
    check(-0.0f, 1, -0.0f);
}

static int open_state(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(near_ties),
    cmocka_unit_test(every_kind),
    cmocka_unit_test(cancellation),
};

TEST_GROUP(fma, "arm64", tests, .setup = open_state);
