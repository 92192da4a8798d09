/* Made-up matrices of all kinds for the tests of RSR. */
#ifndef TERN_TESTS_QUANT_RSR_CASES_H
#define TERN_TESTS_QUANT_RSR_CASES_H

#include "support/kernels.h"
#include "support/test.h"

#include <time.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "ops/ref/rsr.h"
#include "quant/rsr.h"
#include "rsr/multipliers/groups.h"
#include "rsr/multipliers/sorted.h"

typedef enum fill { RANDOM, ALL_EQUAL, ALL_ZERO, SPARSE, N_FILLS } fill;

typedef struct matrix {
    uint32_t rows, cols;
    tern_rsr_kind kind;
    int8_t *codes;
} matrix;

extern tern_rng rsr_rng;

uint32_t rsr_between(uint32_t low, uint32_t high);

int8_t rsr_random_code(tern_rsr_kind kind);

matrix rsr_make(tern_rsr_kind kind, uint32_t rows, uint32_t cols, fill f);

tern_status rsr_read_rows(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err);

tern_rsr_source rsr_source_of(matrix *m);

#endif
