/* What the tests of updates share. */
#include "ops/update_cases.h"

tern_rng update_rng;

float update_uniform(float most)
{
    return most * (2 * tern_rng_f32(&update_rng) - 1);
}

void update_assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("found %.9g, expected %.9g within %.3g", found, expected, tolerance);
}
