/* The one order in which floats are summed: 16 lanes, then a tree (ref.h). */
#ifndef TERN_OPS_REF_LANES_H
#define TERN_OPS_REF_LANES_H

#include <stddef.h>

#include "ops/ref/fma.h"
#include "ops/ref/ref.h"

/* lane[i mod 16] = fmaf(a[i], b[i], lane[i mod 16]) for n elements, a[0] falling into lane 0. */
static inline void tern_ref__lanes_add(float lanes[TERN_LANES], const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) lanes[i % TERN_LANES] = tern_ref__fmaf(a[i], b[i], lanes[i % TERN_LANES]);
}

/* The sum of the lanes by the tree; they are used up. */
static inline float tern_ref__lanes_sum(float lanes[TERN_LANES])
{
    for (size_t half = TERN_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0] + 0.0f;
}

#endif
