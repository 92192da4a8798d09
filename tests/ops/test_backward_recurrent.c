/* The backward definitions of ops with a state against central differences of the forward in double precision. */
#include "ops/backward_cases.h"
#include "ops/ref/recurrent/recurrent.h"

enum { TAPS = 4, TOKENS = 6, MOST_KEYS = 8, MOST_VALUES = 40 };

static const uint32_t starts[TOKENS] = {0, 1, 1, 1, 4, 4}; /* documents of 1, 3 and 2 tokens */

/* Inputs: x [n][cols], weight [TAPS][cols]. */
static void conv_forward(const loss *l, double *y)
{
    for (uint32_t t = 0; t < l->n; t++)
        for (uint32_t c = 0; c < l->cols; c++) {
            double s = 0;
            for (uint32_t k = 0; k < TAPS; k++)
                if (t + k >= starts[t] + TAPS - 1)
                    s += l->x[1][k * l->cols + c] * l->x[0][(t + k + 1 - TAPS) * l->cols + c];
            y[t * l->cols + c] = s / (1 + exp(-s));
        }
}

/* Both gradients of conv_forward, or that of x alone. */
static void conv_backward(float *dx, float *dweight)
{
    const uint32_t cols = backward_op.cols;
    static const float zeros[MAX];
    for (uint32_t t = 0; t < backward_op.n; t++) {
        const float *taps[TAPS];
        float *dtaps[TAPS];
        for (uint32_t k = 0; k < TAPS; k++) {
            const bool before = t + k < starts[t] + TAPS - 1;
            taps[k] = before ? zeros : backward_input[0] + (t + k + 1 - TAPS) * cols;
            dtaps[k] = before ? NULL : dx + (t + k + 1 - TAPS) * cols;
        }
        tern_ref_conv_backward(&(tern_conv_backward_args){.taps = taps,
                                                          .weight = backward_input[1],
                                                          .n_taps = TAPS,
                                                          .n = cols,
                                                          .dy = backward_dy + t * cols,
                                                          .dtaps = dtaps,
                                                          .dweight = dweight});
    }
}

static void conv_round(uint32_t round)
{
    static float alone[MAX];
    backward_op.forward = conv_forward;
    backward_op.n = TOKENS;
    backward_op.cols = (const uint32_t[]){1, 19, 64}[round];
    backward_op.n_x[0] = backward_op.n_y = TOKENS * backward_op.cols;
    backward_op.n_x[1] = TAPS * backward_op.cols;
    backward_prepare();
    conv_backward(backward_grad[0], backward_grad[1]);
    backward_check("conv", 0);
    backward_check("conv", 1);
    memset(alone, 0, sizeof alone);
    conv_backward(alone, NULL);
    assert_memory_equal(alone, backward_grad[0], backward_op.n_x[0] * sizeof *alone);
}

static void conv(void **state)
{
    (void)state;
    backward_repeated(conv_round);
}

static bool log_decay; /* the weight of the decay is A_log */

/* Inputs: q, k [n][keys], v [n][values], a, b [n], decay [1], dt [1]; keys are `rows`, values `cols`. */
static void delta_forward(const loss *l, double *y)
{
    static double s[MOST_KEYS][MOST_VALUES];
    for (uint32_t t = 0; t < l->n; t++) {
        const double *q = l->x[0] + t * l->rows, *k = l->x[1] + t * l->rows, *v = l->x[2] + t * l->cols;
        const double rate = log_decay ? -exp(l->x[5][0]) : l->x[5][0], beta = 1 / (1 + exp(-l->x[4][t]));
        const double decay = exp(rate * log1p(exp(l->x[3][t] + l->x[6][0])));
        if (starts[t] == t) memset(s, 0, sizeof s);
        for (uint32_t j = 0; j < l->cols; j++) {
            double m = 0, sum = 0;
            for (uint32_t i = 0; i < l->rows; i++) m += k[i] * (s[i][j] *= decay);
            for (uint32_t i = 0; i < l->rows; i++) s[i][j] += k[i] * (v[j] - m) * beta;
            for (uint32_t i = 0; i < l->rows; i++) sum += q[i] * s[i][j];
            y[t * l->cols + j] = sum;
        }
    }
}

/* The states before each token, those of documents that begin too. */
static float states[TOKENS + 1][MOST_KEYS * MOST_VALUES];

static tern_delta_rate rate(void)
{
    return tern_ref_delta_rate(backward_input[5][0], log_decay);
}

static tern_delta_args delta_of(uint32_t t)
{
    const uint32_t keys = backward_op.rows, values = backward_op.cols;
    static float y[MOST_VALUES];
    return (tern_delta_args){.state = starts[t] == t ? NULL : states[t],
                             .next = states[t + 1],
                             .q = backward_input[0] + t * keys,
                             .k = backward_input[1] + t * keys,
                             .v = backward_input[2] + t * values,
                             .decay = tern_ref_delta_decay(backward_input[3][t], backward_input[6][0], rate().decay),
                             .beta = tern_ref_logistic(backward_input[4][t]),
                             .keys = keys,
                             .values = values,
                             .y = y};
}

static void delta_backward(void)
{
    const uint32_t keys = backward_op.rows, values = backward_op.cols;
    static float dstate[MOST_KEYS * MOST_VALUES];
    float dlog, dbeta;
    for (uint32_t t = 0; t < TOKENS; t++) {
        const tern_delta_args args = delta_of(t);
        tern_ref_delta(&args);
    }
    for (uint32_t t = TOKENS; t-- > 0;) {
        const tern_delta_args of = delta_of(t);
        if (t + 1 == TOKENS || starts[t + 1] == t + 1) memset(dstate, 0, sizeof dstate);
        tern_ref_delta_backward(&(tern_delta_backward_args){.state = of.state,
                                                            .q = of.q,
                                                            .k = of.k,
                                                            .v = of.v,
                                                            .dy = backward_dy + t * values,
                                                            .decay = of.decay,
                                                            .beta = of.beta,
                                                            .keys = keys,
                                                            .values = values,
                                                            .dstate = dstate,
                                                            .dq = backward_grad[0] + t * keys,
                                                            .dk = backward_grad[1] + t * keys,
                                                            .dv = backward_grad[2] + t * values,
                                                            .dlog = &dlog,
                                                            .dbeta = &dbeta});
        backward_grad[3][t] = tern_ref_delta_decay_backward(backward_input[3][t], backward_input[6][0], rate(), dlog,
                                                            backward_grad[5], backward_grad[6]);
        backward_grad[4][t] = tern_ref_delta_beta_backward(of.beta, dbeta);
    }
}

static void delta_round(uint32_t round)
{
    backward_op.forward = delta_forward;
    backward_op.n = TOKENS;
    backward_op.rows = (const uint32_t[]){1, 5, MOST_KEYS}[round];
    backward_op.cols = (const uint32_t[]){8, MOST_VALUES, 16}[round];
    backward_op.n_x[0] = backward_op.n_x[1] = TOKENS * backward_op.rows;
    backward_op.n_x[2] = backward_op.n_y = TOKENS * backward_op.cols;
    backward_op.n_x[3] = backward_op.n_x[4] = TOKENS;
    backward_op.n_x[5] = backward_op.n_x[6] = 1;
    backward_prepare();
    backward_op.x[5][0] = (double)(backward_input[5][0] = -0.8f);
    delta_backward();
    for (size_t k = 0; k < 7; k++) backward_check("gated delta rule", k);
}

static void delta(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        log_decay = i;
        backward_repeated(delta_round);
    }
    assert_true(tern_ref_delta_decay_backward(0.5f, 0.25f, (tern_delta_rate){-0.8f, 1}, 2, NULL, NULL) < 0);
}

/* Inputs: gate, up. */
static void sigmoid_forward(const loss *l, double *y)
{
    for (size_t i = 0; i < l->n_y; i++) y[i] = l->x[1][i] / (1 + exp(-l->x[0][i]));
}

static void sigmoid_round(uint32_t round)
{
    backward_op.forward = sigmoid_forward;
    backward_op.n_x[0] = backward_op.n_x[1] = backward_op.n_y = (const size_t[]){5, 64, 301}[round];
    backward_prepare();
    tern_ref_sigmoid_backward(backward_input[0], backward_input[1], backward_dy, backward_op.n_y, backward_grad[0],
                              backward_grad[1]);
    backward_check("sigmoid", 0);
    backward_check("sigmoid", 1);
}

static void output_gate(void **state)
{
    (void)state;
    backward_repeated(sigmoid_round);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(conv),
    cmocka_unit_test(delta),
    cmocka_unit_test(output_gate),
};

TEST_GROUP(backward_recurrent, "arm64", tests);
