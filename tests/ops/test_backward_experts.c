/* The backward definitions of layers with experts against central differences of the forward in double precision. */
#include "ops/backward_cases.h"
#include "ops/ref/experts.h"

static tern_route_rule rule;

/* Inputs: gate, up. */
static void swiglu_forward(const loss *l, double *y)
{
    const double limit = 0.5;
    for (size_t i = 0; i < l->n_y; i++) {
        const double g = fmin(l->x[0][i], limit), u = fmax(fmin(l->x[1][i], limit), -limit);
        y[i] = g / (1 + exp(-(double)TERN_SWIGLU_ALPHA * g)) * (u + 1);
    }
}

static void swiglu_round(uint32_t round)
{
    backward_op.forward = swiglu_forward;
    backward_op.n_x[0] = backward_op.n_x[1] = backward_op.n_y = (const size_t[]){5, 64, 301}[round];
    backward_prepare();
    tern_ref_swiglu_oai_backward(backward_input[0], backward_input[1], backward_dy, 0.5f, backward_op.n_y,
                                 backward_grad[0], backward_grad[1]);
    backward_check("swiglu_oai", 0);
    backward_check("swiglu_oai", 1);
}

static void clamped_forward(const loss *l, double *y)
{
    const double limit = 0.5;
    for (size_t i = 0; i < l->n_y; i++) {
        const double g = fmin(l->x[0][i], limit), u = fmax(fmin(l->x[1][i], limit), -limit);
        y[i] = g / (1 + exp(-g)) * u;
    }
}

static void clamped_round(uint32_t round)
{
    backward_op.forward = clamped_forward;
    backward_op.n_x[0] = backward_op.n_x[1] = backward_op.n_y = (const size_t[]){5, 64, 301}[round];
    backward_prepare();
    tern_ref_swiglu_clamped_backward(backward_input[0], backward_input[1], backward_dy, 0.5f, backward_op.n_y,
                                     backward_grad[0], backward_grad[1]);
    backward_check("swiglu_clamped", 0);
    backward_check("swiglu_clamped", 1);
}

static void swiglu(void **state)
{
    (void)state;
    backward_repeated(swiglu_round);
    backward_repeated(clamped_round);
}

/* Of n experts the `rows` highest, by plain selection. Input: logits; y: the weights. */
static void route_forward(const loss *l, double *y)
{
    bool taken[MAX] = {false};
    double all = 0, chosen = 0;
    for (uint32_t e = 0; e < l->n; e++) all += exp(l->x[0][e]);
    for (uint32_t j = 0; j < l->rows; j++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t e = 0; e < l->n; e++)
            if (!taken[e] && (best == UINT32_MAX || l->x[0][e] > l->x[0][best])) best = e;
        taken[best] = true;
        chosen += y[j] = exp(l->x[0][best]);
    }
    for (uint32_t j = 0; j < l->rows; j++) y[j] /= rule == TERN_ROUTE_SOFTMAX_ALL ? all : chosen;
}

static void route_round(uint32_t round)
{
    tern_route routes[TERN_MAX_ROUTES];
    backward_op.forward = route_forward;
    backward_op.n = (const uint32_t[]){4, 8, 33}[round];
    backward_op.rows = (const uint32_t[]){4, 2, 7}[round];
    backward_op.n_x[0] = backward_op.n;
    backward_op.n_y = backward_op.rows;
    backward_prepare();
    tern_ref_route(backward_input[0], backward_op.n, backward_op.rows, rule, routes);
    tern_ref_route_backward(backward_input[0], backward_op.n, backward_op.rows, rule, routes, backward_dy,
                            backward_grad[0]);
    backward_check("route", 0);
}

static void route(void **state)
{
    static const tern_route_rule rules[] = {TERN_ROUTE_SOFTMAX_ALL_NORMED, TERN_ROUTE_SOFTMAX_ALL,
                                            TERN_ROUTE_SOFTMAX_TOP};
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        rule = rules[i];
        backward_repeated(route_round);
    }
}

/* Inputs: x [n][cols], weights [n]. */
static void combine_forward(const loss *l, double *y)
{
    for (uint32_t c = 0; c < l->cols; c++) {
        y[c] = 0;
        for (uint32_t j = 0; j < l->n; j++) y[c] += l->x[1][j] * l->x[0][j * l->cols + c];
    }
}

static void combine_round(uint32_t round)
{
    const uint32_t cols = (const uint32_t[]){1, 40, 257}[round], n = round + 1;
    backward_op.forward = combine_forward;
    backward_op.n_x[1] = backward_op.n = n;
    backward_op.cols = cols;
    backward_op.n_x[0] = (size_t)n * cols;
    backward_op.n_y = cols;
    backward_prepare();
    for (uint32_t j = 0; j < n; j++) {
        const float *x = backward_input[0] + (size_t)j * cols;
        backward_grad[1][j] =
            tern_ref_combine_backward(x, backward_input[1][j], backward_dy, cols, backward_grad[0] + (size_t)j * cols);
        assert_true(tern_ref_combine_backward(x, 9, backward_dy, cols, NULL) == backward_grad[1][j]);
    }
    backward_check("combine", 0);
    backward_check("combine", 1);
}

static void combine(void **state)
{
    (void)state;
    backward_repeated(combine_round);
}

enum { EXPERTS = 4, ROUTED = 12 };

static tern_route routed[ROUTED];

/* y[r] = w[expert of r] x[r / heads]; inputs x, w. */
static void routed_forward(const loss *l, double *y)
{
    for (uint32_t r = 0; r < l->n; r++)
        for (uint32_t i = 0; i < l->rows; i++)
            y[r * l->rows + i] = backward_dot(l->x[1] + (routed[r].expert * l->rows + i) * l->cols,
                                              l->x[0] + r / l->heads * l->cols, l->cols);
}

/* Tokens with one, two and three experts; one of the experts has no rows. */
static void routed_round(uint32_t round)
{
    const uint32_t rows = 7, cols = 19, each = round + 1;
    backward_op.forward = routed_forward;
    backward_op.n = ROUTED;
    backward_op.heads = each;
    backward_op.rows = rows;
    backward_op.cols = cols;
    backward_op.n_x[0] = ROUTED / each * cols;
    backward_op.n_x[1] = EXPERTS * rows * cols;
    backward_op.n_y = ROUTED * rows;
    backward_prepare();
    for (uint32_t r = 0; r < ROUTED; r++) routed[r].expert = tern_rng_below(&backward_rng, EXPERTS - 1);
    const tern_routed_rows at = {.routes = routed,
                                 .n = ROUTED,
                                 .each = each,
                                 .n_rows = rows,
                                 .cols = cols,
                                 .dy = backward_dy,
                                 .dy_stride = rows};
    tern_ref_routed_dx(&at, backward_input[1], backward_grad[0], cols);
    tern_ref_routed_dw(&at, backward_input[0], cols, backward_grad[1]);
    backward_check("routed linear", 0);
    backward_check("routed linear", 1);
}

static void routed_linear(void **state)
{
    (void)state;
    backward_repeated(routed_round);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(swiglu),
    cmocka_unit_test(route),
    cmocka_unit_test(combine),
    cmocka_unit_test(routed_linear),
};

TEST_GROUP(backward_experts, "arm64", tests);
