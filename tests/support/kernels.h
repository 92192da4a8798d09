/* What the tests of float kernels share: the list of kernels, fills that break things, and equality of bits. */
#ifndef TERN_TESTS_SUPPORT_KERNELS_H
#define TERN_TESTS_SUPPORT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cpu/kernels.h"
#include "base/rng.h"

typedef tern_cpu_kernel test_kernel;

/* The next kernel of the slot that this CPU can run, from *at on; NULL when there is none left. Start with *at = 0. */
const test_kernel *test_kernel_next(const char *slot, size_t *at);

typedef enum test_fill {
    TEST_ORDINARY,  /* -1 .. 1 */
    TEST_TINY,      /* subnormal and just above, zeros of both signs */
    TEST_HUGE,      /* up to the largest finite value */
    TEST_MIXED,     /* every exponent */
    TEST_NONFINITE, /* ordinary, with NaN and infinities in between */
    TEST_N_FILLS,
} test_fill;

extern const char *const test_fill_names[TEST_N_FILLS];

/* Seeds the generator with TEST_SEED, TERN_TEST_SEED=N with N, TERN_TEST_SEED=random with the time; prints the seed,
 * which CTest shows when the test fails. */
#define TEST_SEED 20261122
void test_seed(tern_rng *rng);
uint32_t test_between(tern_rng *rng, uint32_t low, uint32_t high);
float test_float(tern_rng *rng, test_fill fill);
void test_floats(tern_rng *rng, test_fill fill, float *x, size_t n);

/* Whether n floats have the same bits, any NaN equal to any NaN. */
bool test_same_bits(const float *a, const float *b, size_t n);

#endif
