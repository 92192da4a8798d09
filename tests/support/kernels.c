/* The list of kernels, fills and comparisons for the tests of float kernels. */
#include "support/kernels.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/half.h"
#include "support/test.h"

const char *const test_fill_names[TEST_N_FILLS] = {"ordinary", "tiny", "huge", "mixed", "not finite"};

const test_kernel *test_kernel_next(const char *slot, size_t *at)
{
    const uint32_t features = tern_cpu_features();
    for (const test_kernel *k; (k = &tern_cpu__kernels[*at])->slot;) {
        ++*at;
        if (!strcmp(k->slot, slot) && (features & k->needed) == k->needed) return k;
    }
    return NULL;
}

void test_seed(tern_rng *rng)
{
    const char *text = getenv("TERN_TEST_SEED");
    if (!text) rng->state = TEST_SEED;
    else rng->state = strcmp(text, "random") == 0 ? (uint64_t)time(NULL) : strtoull(text, NULL, 0);
    print_message("TERN_TEST_SEED=%llu\n", (unsigned long long)rng->state);
}

uint32_t test_between(tern_rng *rng, uint32_t low, uint32_t high)
{
    return low + tern_rng_below(rng, high - low + 1);
}

float test_float(tern_rng *rng, test_fill fill)
{
    const float ordinary = 2 * tern_rng_f32(rng) - 1;
    const uint32_t bits = (uint32_t)tern_rng_u64(rng), sign = bits & 0x80000000u, mantissa = bits & 0x7fffffu;
    switch (fill) {
    case TEST_TINY:
        if (test_between(rng, 0, 3) == 0) return tern_f32_from_bits(sign);
        return tern_f32_from_bits(sign | test_between(rng, 0, 2) << 23 | mantissa >> test_between(rng, 0, 22));
    case TEST_HUGE: return tern_f32_from_bits(sign | test_between(rng, 240, 254) << 23 | mantissa);
    case TEST_MIXED: return tern_f32_from_bits(sign | test_between(rng, 0, 254) << 23 | mantissa);
    case TEST_NONFINITE:
        if (test_between(rng, 0, 9)) return ordinary;
        return test_between(rng, 0, 1) ? tern_f32_from_bits(sign | 0x7f800000u) : NAN;
    default: return ordinary;
    }
}

void test_floats(tern_rng *rng, test_fill fill, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = test_float(rng, fill);
        memcpy(x + i, &v, sizeof v);
    }
}

bool test_same_bits(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float u, v;
        memcpy(&u, a + i, sizeof u);
        memcpy(&v, b + i, sizeof v);
        if (tern_f32_bits(u) != tern_f32_bits(v) && !(u != u && v != v)) return false;
    }
    return true;
}
