/* e^x from a fixed sequence of IEEE operations. */
#include <math.h>

#include "base/half.h"
#include "ops/ref/fma.h"
#include "ops/ref/ref.h"

/* n = round(x / ln 2) by adding 1.5 * 2^23; r = x - n ln 2 with ln 2 in two parts; a polynomial that interpolates (e^r
 * - 1 - r) / r^2 at five Chebyshev nodes of |r| <= 0.3466 (relative error 1.1e-8); n added to the exponent. */
float tern_ref_exp(float x)
{
    if (x < TERN_EXP_LOW) return 0;
    if (x > TERN_EXP_HIGH) return HUGE_VALF;
    if (x != x) return x;
    float t = tern_ref__fmaf(x, TERN_EXP_LOG2E, TERN_EXP_ROUND);
    float n = t - TERN_EXP_ROUND;
    float r = tern_ref__fmaf(n, -TERN_EXP_LN2_LOW, tern_ref__fmaf(n, -TERN_EXP_LN2_HIGH, x));
    float p = TERN_EXP_C6;
    p = tern_ref__fmaf(p, r, TERN_EXP_C5);
    p = tern_ref__fmaf(p, r, TERN_EXP_C4);
    p = tern_ref__fmaf(p, r, TERN_EXP_C3);
    p = tern_ref__fmaf(p, r, 0.5f);
    p = tern_ref__fmaf(p, r, 1);
    p = tern_ref__fmaf(p, r, 1);
    return tern_f32_from_bits(tern_f32_bits(p) + (tern_f32_bits(t) << 23));
}
