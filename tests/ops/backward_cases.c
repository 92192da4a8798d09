/* Gradients by finite differences, for the tests of the definitions. */
#include "ops/backward_cases.h"

loss backward_op; /* the one under test */

float backward_input[N_INPUTS][MAX], backward_dy[MAX], backward_grad[N_INPUTS][MAX];

tern_rng backward_rng;

double backward_value(const loss *l)
{
    static double y[MAX];
    double sum = 0;
    l->forward(l, y);
    for (size_t i = 0; i < l->n_y; i++) sum += l->c[i] * y[i];
    return sum;
}

void backward_prepare(void)
{
    for (size_t k = 0; k < N_INPUTS; k++)
        for (size_t i = 0; i < backward_op.n_x[k]; i++) {
            assert_true(backward_op.n_x[k] <= MAX);
            backward_op.x[k][i] = (double)(backward_input[k][i] = 2 * tern_rng_f32(&backward_rng) - 1);
            backward_grad[k][i] = 0;
        }
    assert_true(backward_op.n_y <= MAX);
    for (size_t i = 0; i < backward_op.n_y; i++)
        backward_op.c[i] = (double)(backward_dy[i] = 2 * tern_rng_f32(&backward_rng) - 1);
}

void backward_check(const char *what, size_t k)
{
    double error = 0, size = 0;
    const double h = 1e-5;
    for (size_t i = 0; i < backward_op.n_x[k]; i++) {
        double x = backward_op.x[k][i];
        backward_op.x[k][i] = x + h;
        double up = backward_value(&backward_op);
        backward_op.x[k][i] = x - h;
        double slope = (up - backward_value(&backward_op)) / (2 * h), d = (double)backward_grad[k][i] - slope;
        backward_op.x[k][i] = x;
        error += d * d;
        size += slope * slope;
    }
    if (!(sqrt(error / size) <= 1e-4))
        fail_msg("%s, input %zu: relative distance %g, at most 1e-4 expected", what, k, sqrt(error / size));
}

void backward_repeated(void (*test)(uint32_t round))
{
    for (uint32_t round = 0; round < SEEDS; round++) {
        backward_rng.state = SEED + round;
        backward_op = (loss){0};
        test(round);
    }
}

double backward_dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

void backward_linear_forward(const loss *l, double *y)
{
    for (uint32_t t = 0; t < l->n; t++)
        for (uint32_t r = 0; r < l->rows; r++)
            y[t * l->rows + r] = l->scale * backward_dot(l->x[1] + r * l->cols, l->x[0] + t * l->cols, l->cols);
}

void backward_linear_shape(uint32_t n, uint32_t rows, uint32_t cols)
{
    backward_op.forward = backward_linear_forward;
    backward_op.n = n;
    backward_op.rows = rows;
    backward_op.cols = cols;
    backward_op.scale = 1;
    backward_op.n_x[0] = n * cols;
    backward_op.n_x[1] = rows * cols;
    backward_op.n_y = n * rows;
    backward_prepare();
}
