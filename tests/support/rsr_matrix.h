/* Ternary matrices for tests of RSR: made-up codes, and slices of them. */
#ifndef TERN_TESTS_SUPPORT_RSR_MATRIX_H
#define TERN_TESTS_SUPPORT_RSR_MATRIX_H

#include "base/rng.h"
#include "quant/rsr.h"

typedef enum rsr_fill { RSR_RANDOM, RSR_ALL_EQUAL, RSR_ALL_ZERO, RSR_SPARSE, RSR_N_FILLS } rsr_fill;

typedef struct rsr_matrix {
    uint32_t rows, cols;
    int8_t *codes; /* [rows][cols]; the caller's to free */
} rsr_matrix;

rsr_matrix rsr_matrix_make(tern_rng *rng, uint32_t rows, uint32_t cols, rsr_fill fill);
/* What reads the matrix, which must outlive it. */
tern_rsr_source rsr_matrix_source(rsr_matrix *matrix);
/* Blocks of k rows; to be deinited. */
tern_rsr_slices rsr_matrix_slices(rsr_matrix *matrix, uint32_t k);

#endif
