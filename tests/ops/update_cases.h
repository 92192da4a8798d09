/* What the tests of updates share. */
#ifndef TERN_TESTS_OPS_UPDATE_CASES_H
#define TERN_TESTS_OPS_UPDATE_CASES_H

#include "support/test.h"

#include <float.h>
#include <math.h>

#include "base/flush.h"
#include "base/rng.h"
#include "ops/ref/update.h"
#include "quant/encoding.h"

enum { SEED = 20250312, N = 1024 };

extern tern_rng update_rng;

float update_uniform(float most);

void update_assert_near(double found, double expected, double tolerance);

#endif
