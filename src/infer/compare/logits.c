/* How far two rows of logits are apart. */
#include <math.h>

#include "infer/compare/compare.h"

static uint32_t argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

tern_compare_logits tern_compare__logits(const float *want, const float *got, uint32_t n)
{
    double dot = 0, a = 0, b = 0, error = 0;
    for (uint32_t i = 0; i < n; i++) {
        double x = (double)want[i], y = (double)got[i];
        dot += x * y;
        a += x * x;
        b += y * y;
        error += (x - y) * (x - y);
    }
    tern_compare_logits out = {.error = sqrt(error / a), .cosine = dot / sqrt(a * b)};
    uint32_t best = argmax(want, n), other = argmax(got, n);
    out.same_top = best == other;
    out.tied_top = best != other && (double)want[best] - (double)want[other] <= 4 * sqrt(error / n);
    return out;
}
