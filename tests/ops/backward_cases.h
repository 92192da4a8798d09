/* Gradients by finite differences, for the tests of the definitions. */
#ifndef TERN_TESTS_OPS_BACKWARD_CASES_H
#define TERN_TESTS_OPS_BACKWARD_CASES_H

#include "support/test.h"

#include <math.h>

#include "base/rng.h"
#include "ops/ref/backward.h"
#include "ops/ref/update.h"
#include "quant/encoding.h"

enum { SEED = 20250311, SEEDS = 3, MAX = 4096, N_INPUTS = 7 };

/* A scalar loss sum_i c[i] * y[i] of an op whose inputs are up to N_INPUTS arrays. */
typedef struct loss {
    double x[N_INPUTS][MAX]; /* inputs */
    double c[MAX];           /* weights of the outputs: dy */
    size_t n_x[N_INPUTS], n_y;
    void (*forward)(const struct loss *loss, double *y);
    uint32_t n, rows, cols, heads, kv_heads, head_dim; /* shapes, as the op needs them */
    double scale, softcap;
    uint32_t window;
    const uint32_t *starts;
    const int32_t *ids;
} loss;

extern loss backward_op; /* the one under test */

extern float backward_input[N_INPUTS][MAX], backward_dy[MAX], backward_grad[N_INPUTS][MAX];

extern tern_rng backward_rng;

double backward_value(const loss *l);

/* Random inputs and output weights, representable in f32; gradients start at a value that must be added to. */
void backward_prepare(void);

/* Compares the gradient of input k with central differences: |difference| / |gradient| <= 1e-4. */
void backward_check(const char *what, size_t k);

/* Each test function runs with several seeds. */
void backward_repeated(void (*test)(uint32_t round));

double backward_dot(const double *a, const double *b, size_t n);

/* y[t][r] = scale * sum_c w[r][c] x[t][c]; inputs x, w. */
void backward_linear_forward(const loss *l, double *y);

void backward_linear_shape(uint32_t n, uint32_t rows, uint32_t cols);

#endif
