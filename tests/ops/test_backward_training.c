/* Backward ops of training alone, in plain C: the loss, adapters, dropout, fake quantisers. */
#include "ops/backward_cases.h"

static const struct gate_kind {
    const char *name;
    tern_gate_fn forward;
    tern_gate_backward_fn backward;
} gate_kinds[] = {{"relu2", tern_ref_relu2, tern_ref_relu2_backward},
                  {"silu", tern_ref_silu, tern_ref_silu_backward},
                  {"gelu", tern_ref_gelu, tern_ref_gelu_backward}};

static int gate_kind;

/* GELU as PyTorch's documentation writes approximate='tanh'. */
static double activation(double g)
{
    const double pi = 3.14159265358979323846;
    if (gate_kind == 0) return g > 0 ? g * g : 0;
    if (gate_kind == 1) return g / (1 + exp(-g));
    return 0.5 * g * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 * g * g * g)));
}

static void gate_forward(const loss *l, double *y)
{
    for (size_t i = 0; i < l->n_y; i++) y[i] = activation(l->x[0][i]) * l->x[1][i];
}

static void gate_round(uint32_t round)
{
    static float gate[MAX], up[MAX];
    static double want[MAX];
    backward_op.forward = gate_forward;
    backward_op.n_x[0] = backward_op.n_x[1] = backward_op.n_y = 100 + round;
    backward_prepare();
    for (size_t i = 0; i < backward_op.n_y; i++) backward_op.x[0][i] = (double)(backward_input[0][i] *= 5);
    for (gate_kind = 0; gate_kind < 3; gate_kind++) {
        const struct gate_kind *kind = &gate_kinds[gate_kind];
        kind->forward(backward_input[0], backward_input[1], backward_op.n_y, gate);
        backward_op.forward(&backward_op, want);
        for (size_t i = 0; i < backward_op.n_y; i++)
            if (!(fabs((double)gate[i] - want[i]) <= 1e-6 + 1e-6 * fabs(want[i])))
                fail_msg("%s of %a: %a, expected %a", kind->name, backward_op.x[0][i], (double)gate[i], want[i]);
        kind->backward(backward_input[0], backward_input[1], backward_dy, backward_op.n_y, backward_grad[0],
                       backward_grad[1]);
        backward_check(kind->name, 0);
        backward_check(kind->name, 1);
        memcpy(gate, backward_input[0], sizeof gate); /* in place */
        memcpy(up, backward_input[1], sizeof up);
        kind->backward(gate, up, backward_dy, backward_op.n_y, gate, up);
        assert_memory_equal(gate, backward_grad[0], backward_op.n_y * sizeof *gate);
        assert_memory_equal(up, backward_grad[1], backward_op.n_y * sizeof *up);
    }
}

/* The gates' slopes end where exponentials do: no NaN, and what the limits are. */
static void gate_ends(void **state)
{
    (void)state;
    static const float g[] = {-INFINITY, -1e12f, -100, -20, 20, 100, 1e12f};
    enum { N = sizeof g / sizeof *g };
    float ones[N], y[N], dgate[N], dup[N];
    for (int i = 0; i < N; i++) ones[i] = 1;
    tern_ref_gelu(g, ones, N, y);
    tern_ref_gelu_backward(g + 1, ones, ones, N - 1, dgate + 1, dup + 1);
    for (int i = 1; i < N; i++) {
        assert_true(fabsf(y[i] - (g[i] > 0 ? g[i] : 0)) <= 1e-6f && y[i] == dup[i]);
        assert_true(fabsf(dgate[i] - (g[i] > 0 ? 1 : 0)) <= 1e-6f);
    }
}

static void gates(void **state)
{
    (void)state;
    backward_repeated(gate_round);
}

/* The mask stays what it is while x moves. */
static uint32_t dropout_seed;

static void dropout_forward(const loss *l, double *y)
{
    for (uint32_t i = 0; i < l->n_y; i++) {
        const double uniform = (double)tern_ref_random_bits(dropout_seed, 7 + i) / 4294967296.0;
        y[i] = uniform >= l->scale ? l->x[0][i] / (1 - l->scale) : 0;
    }
}

static void dropout_round(uint32_t round)
{
    static float y[MAX];
    static double want[MAX];
    size_t kept = 0;
    backward_op.forward = dropout_forward;
    backward_op.scale = (const double[]){0.0, 0.25, 0.75}[round];
    backward_op.n_x[0] = backward_op.n_y = 2000 + round;
    dropout_seed = round + 1;
    backward_prepare();
    tern_ref_dropout(backward_input[0], backward_op.n_y, (float)backward_op.scale, dropout_seed, 7, y);
    backward_op.forward(&backward_op, want);
    for (size_t i = 0; i < backward_op.n_y; i++) {
        if (!(fabs((double)y[i] - want[i]) <= 1e-6)) fail_msg("%zu: %g, expected %g", i, (double)y[i], want[i]);
        kept += y[i] != 0;
    }
    assert_true(fabs((double)kept / (double)backward_op.n_y - (1 - backward_op.scale)) < 0.05);
    tern_ref_dropout(backward_dy, backward_op.n_y, (float)backward_op.scale, dropout_seed, 7,
                     backward_grad[0]); /* its own backward */
    backward_check("dropout", 0);
    memcpy(y, backward_input[0], backward_op.n_y * sizeof *y); /* in place, cut anywhere */
    tern_ref_dropout(y, 100, (float)backward_op.scale, dropout_seed, 7, y);
    tern_ref_dropout(y + 100, backward_op.n_y - 100, (float)backward_op.scale, dropout_seed, 107, y + 100);
    for (size_t i = 0; i < backward_op.n_y; i++) assert_true(fabs((double)y[i] - want[i]) <= 1e-6);
}

static void dropout(void **state)
{
    (void)state;
    backward_repeated(dropout_round);
}

/* Nothing at 0, the quantised row at 1, half of both between, whatever the row's length. */
static void fake_quantize(void **state)
{
    (void)state;
    enum { N = 700 };
    static float x[N], y[N], inv_scale;
    static int8_t q[N + 64];
    int32_t sum;
    backward_rng.state = SEED;
    for (uint32_t cols = 1; cols <= N; cols += 233) {
        for (uint32_t c = 0; c < cols; c++) x[c] = 6 * tern_rng_f32(&backward_rng) - 3;
        tern_ref_quantize(x, cols, q, cols, &inv_scale, &sum);
        for (int blend = 0; blend <= 2; blend++) {
            tern_ref_fake_quantize(x, cols, 0.5f * (float)blend, y);
            for (uint32_t c = 0; c < cols; c++) {
                const double to = (double)q[c] * (double)inv_scale,
                             want = (double)x[c] + 0.5 * blend * (to - (double)x[c]);
                if (!(fabs((double)y[c] - want) <= 1e-6))
                    fail_msg("%u of %u: %g, expected %g", c, cols, (double)y[c], want);
            }
        }
    }
}

/* y[0]: the mean over the unmasked rows. */
static void entropy_forward(const loss *l, double *y)
{
    uint32_t n = 0;
    *y = 0;
    for (uint32_t t = 0; t < l->n; t++) {
        const double *z = l->x[0] + t * l->cols;
        double sum = 0;
        if (l->ids[t] < 0) continue;
        for (uint32_t i = 0; i < l->cols; i++) sum += exp(z[i] - z[l->ids[t]]);
        *y += log(sum);
        n++;
    }
    *y /= n;
}

static void entropy_round(uint32_t round)
{
    static const int32_t labels[5] = {3, -100, 0, 16, -1};
    double sum = 0, want;
    backward_op.forward = entropy_forward;
    backward_op.ids = labels;
    backward_op.n = 5;
    backward_op.cols = 17 + 30 * round;
    backward_op.n_x[0] = backward_op.n * backward_op.cols;
    backward_op.n_y = 1;
    backward_prepare();
    backward_op.c[0] = 1;
    for (size_t i = 0; i < backward_op.n_x[0]; i++) {
        backward_op.x[0][i] = (double)(backward_input[0][i] = 8 * backward_input[0][i] +
                                                              90); /* exp overflows unless the maximum is taken off */
        backward_grad[0][i] = backward_input[0][i];
    }
    assert_int_equal(tern_ref_count_labels(labels, backward_op.n), 3);
    for (uint32_t t = 0; t < backward_op.n; t++)
        sum += (double)tern_ref_cross_entropy(backward_grad[0] + t * backward_op.cols, backward_op.cols, labels[t],
                                              1.0f / 3);
    backward_op.forward(&backward_op, &want);
    if (!(fabs(sum / 3 - want) <= 1e-5)) fail_msg("loss %g, expected %g", sum / 3, want);
    backward_check("cross-entropy", 0);
    for (uint32_t i = 0; i < backward_op.cols; i++) assert_true(backward_grad[0][backward_op.cols + i] == 0);
    backward_grad[0][1] = NAN;
    assert_true(isnan(tern_ref_cross_entropy(backward_grad[0], backward_op.cols, 0, 1)) && isnan(backward_grad[0][0]));
}

static void cross_entropy(void **state)
{
    (void)state;
    backward_repeated(entropy_round);
}

/* Inputs: x, A, B. */
static void lora_forward(const loss *l, double *y)
{
    for (uint32_t t = 0; t < l->n; t++)
        for (uint32_t r = 0; r < l->rows; r++) {
            double sum = 0;
            for (uint32_t i = 0; i < l->heads; i++)
                sum += l->x[2][r * l->heads + i] * backward_dot(l->x[1] + i * l->cols, l->x[0] + t * l->cols, l->cols);
            y[t * l->rows + r] = l->scale * sum;
        }
}

static void lora_round(uint32_t round)
{
    static float u[MAX], du[MAX], y[MAX];
    static double want[MAX];
    uint32_t rank = round + 2;
    backward_op.forward = lora_forward;
    backward_op.n = 4;
    backward_op.rows = 9;
    backward_op.cols = 21;
    backward_op.heads = rank;
    backward_op.scale = 0.75;
    backward_op.n_x[0] = backward_op.n * backward_op.cols;
    backward_op.n_x[1] = rank * backward_op.cols;
    backward_op.n_x[2] = backward_op.rows * rank;
    backward_op.n_y = backward_op.n * backward_op.rows;
    backward_prepare();
    tern_lora_rows lora = {rank,  backward_op.rows,  backward_op.cols, backward_input[1], backward_input[2],
                           0.75f, backward_input[0], backward_op.cols, backward_op.n};
    for (size_t i = 0; i < backward_op.n_y; i++) y[i] = 1;
    tern_ref_lora(&lora, u, y, backward_op.rows);
    backward_op.forward(&backward_op, want);
    for (size_t i = 0; i < backward_op.n_y; i++)
        if (!(fabs((double)y[i] - 1 - want[i]) <= 1e-5))
            fail_msg("y %zu: %g, expected %g", i, (double)y[i], 1 + want[i]);
    tern_ref_lora_backward(&lora, u, backward_dy, backward_op.rows, du, backward_grad[1], backward_grad[2],
                           backward_grad[0], backward_op.cols);
    for (size_t k = 0; k < 3; k++) backward_check("lora", k);
}

static void adapters(void **state)
{
    (void)state;
    backward_repeated(lora_round);
}

/* A gradient that is already there is added to, and a batch may be cut between two rows without changing a bit. */
static void batches_add_up(void **state)
{
    (void)state;
    backward_rng.state = SEED;
    backward_op = (loss){0};
    backward_linear_shape(6, 5, 11);
    static float whole[MAX], parts[MAX];
    tern_ref_linear_dw(backward_dy, backward_op.rows, backward_input[0], backward_op.cols, 6, backward_op.rows,
                       backward_op.cols, whole);
    tern_ref_linear_dw(backward_dy, backward_op.rows, backward_input[0], backward_op.cols, 2, backward_op.rows,
                       backward_op.cols, parts);
    tern_ref_linear_dw(backward_dy + 2 * backward_op.rows, backward_op.rows, backward_input[0] + 2 * backward_op.cols,
                       backward_op.cols, 4, backward_op.rows, backward_op.cols, parts);
    assert_memory_equal(whole, parts, backward_op.n_x[1] * sizeof *whole);
    tern_ref_linear_dx(backward_input[1], backward_op.rows, backward_op.cols, backward_dy, backward_op.rows, 1,
                       backward_grad[0], backward_op.cols);
    float once = backward_grad[0][3];
    tern_ref_linear_dx(backward_input[1], backward_op.rows, backward_op.cols, backward_dy, backward_op.rows, 1,
                       backward_grad[0], backward_op.cols);
    assert_true(once != 0 && backward_grad[0][3] == 2 * once);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gates),          cmocka_unit_test(cross_entropy), cmocka_unit_test(adapters),
    cmocka_unit_test(batches_add_up), cmocka_unit_test(gate_ends),     cmocka_unit_test(dropout),
    cmocka_unit_test(fake_quantize),
};

TEST_GROUP(backward_training, "arm64", tests);
