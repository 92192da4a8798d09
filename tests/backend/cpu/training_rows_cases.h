/* Backends of every level and number of threads, and rows to compare on them. */
#ifndef TERN_TESTS_BACKEND_CPU_TRAINING_ROWS_CASES_H
#define TERN_TESTS_BACKEND_CPU_TRAINING_ROWS_CASES_H

#include "support/test.h"

#include <math.h>

#include "backend/cpu/cpu.h"
#include "ops/ref/backward.h"
#include "support/op_case.h"

enum { MAX_BACKENDS = 12, MAX_EXPECTED = 12, ROUNDS = 12 };

extern tern_rng training_rows_rng;

typedef struct training_level {
    tern_backend *backend;
    char name[64];
} training_level;

extern training_level training_rows_backends[MAX_BACKENDS];

extern size_t training_rows_n_backends;

uint32_t training_rows_between(uint32_t low, uint32_t high);

test_fill training_rows_any_fill(void);

/* What rows of a value must be after a run. */
typedef struct expected {
    tern_view view;
    uint32_t n_rows;
    float *rows; /* [n_rows][view.cols] */
} expected;

typedef struct trial {
    test_case c;
    uint32_t n; /* tokens of the step */
    expected wanted[MAX_EXPECTED];
    size_t n_wanted;
} trial;

void training_rows_open_trial(trial *t, uint32_t n);

/* n_rows x view.cols floats that the view must hold in the end; they start as what it holds before, or 0. */
float *training_rows_want(trial *t, tern_view view, uint32_t n_rows);

/* A row of an input as it is before a run. */
const float *training_rows_input(trial *t, tern_view view, uint32_t row);

void training_rows_compare(const trial *t, const expected *e, const test_results *got, const char *what,
                           const char *backend);

/* Runs the case on every backend and closes it. */
void training_rows_check(trial *t, const char *what);

tern_view training_rows_rows(trial *t, const char *name, uint32_t cols, test_fill fill);

tern_view training_rows_output(trial *t, const char *name, uint32_t cols);

/* Adds an op whose output is `out`, at random with a residual, which at random lies in the output's place. The rows
 * that are wanted of `out`. */
float *training_rows_add_op(trial *t, tern_op op, tern_view out, tern_view *residual);

void training_rows_start_at_residual(trial *t, float *out, tern_view residual, uint32_t cols);

void training_rows_open_backend(uint32_t features, uint32_t n_threads, const char *level);

int training_rows_open_backends(void **state);

int training_rows_close_backends(void **state);

#endif
