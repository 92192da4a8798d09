/* Finding where a sequence ordered by key reaches a given mass, one digit of the key at a time. */
#include <string.h>

#include "infer/sampler_internal.h"

enum { TOP_BITS = 11, N_DIGITS = 3 };

/* Adds up the mass of every value of a digit, among the keys that begin with `prefix`. */
static void measure(const uint32_t *keys, const float *weights, uint32_t n, uint32_t mask, uint32_t prefix,
                    uint32_t shift, double *mass)
{
    memset(mass, 0, TERN_SELECT_BUCKETS * sizeof *mass);
    for (uint32_t i = 0; i < n; i++)
        if ((keys[i] & mask) == prefix) mass[(keys[i] & ~mask) >> shift] += weights ? (double)weights[i] : 1;
}

/* The first value at which the sum exceeds target, or the last that has any mass; *before gets what lies below. */
static uint32_t find(const double *mass, double target, double *before)
{
    uint32_t last = 0;
    double sum = *before;
    for (uint32_t b = 0; b < TERN_SELECT_BUCKETS; b++) {
        if (!(mass[b] > 0)) continue;
        last = b;
        *before = sum;
        sum += mass[b];
        if (sum > target) break;
    }
    return last;
}

tern_cut tern_select__cut(const uint32_t *keys, const float *weights, uint32_t n, double target, double *mass)
{
    static const uint32_t shifts[N_DIGITS] = {32 - TOP_BITS, 10, 0};
    tern_cut cut = {0};
    uint32_t mask = 0;
    for (int digit = 0; digit < N_DIGITS; digit++) {
        measure(keys, weights, n, mask, cut.key, shifts[digit], mass);
        cut.key |= find(mass, target, &cut.before) << shifts[digit];
        mask = ~(uint32_t)0 << shifts[digit];
    }
    return cut;
}
