/* What the tests of look-up tables share. */
#ifndef TERN_TESTS_BACKEND_CPU_LUT_CASES_H
#define TERN_TESTS_BACKEND_CPU_LUT_CASES_H

#include "support/test.h"

#include "backend/cpu/candidates/candidates.h"
#include "backend/cpu/kernels.h"
#include "support/guard.h"
#include "support/kernels.h"

typedef enum fill { RANDOM, ALL_EQUAL, ALL_ZERO, SPARSE, N_FILLS } fill;

enum { N_WIDTHS = 3 };

extern tern_rng lut_rng;

int8_t *lut_make_codes(uint32_t rows, uint32_t cols, fill f);

/* extreme: 0 random, otherwise all inputs the lowest or the highest. */
void lut_make_inputs(int8_t *x, uint32_t n, int extreme);

#endif
