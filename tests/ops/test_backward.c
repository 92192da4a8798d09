/* The backward definitions against central differences of the forward, written out again in double precision. */
#include "support/test.h"

#include <math.h>

#include "base/rng.h"
#include "ops/ref/backward.h"
#include "ops/ref/update.h"
#include "quant/encoding.h"

enum { SEED = 20250311, SEEDS = 3, MAX = 4096, N_INPUTS = 4 };

/* A scalar loss sum_i c[i] * y[i] of an op whose inputs are up to four arrays. */
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

static loss op; /* the one under test */
static float input[N_INPUTS][MAX], dy[MAX], grad[N_INPUTS][MAX];
static tern_rng rng;

static double value(const loss *l)
{
    static double y[MAX];
    double sum = 0;
    l->forward(l, y);
    for (size_t i = 0; i < l->n_y; i++) sum += l->c[i] * y[i];
    return sum;
}

/* Random inputs and output weights, representable in f32; gradients start at a value that must be added to. */
static void prepare(void)
{
    for (size_t k = 0; k < N_INPUTS; k++)
        for (size_t i = 0; i < op.n_x[k]; i++) {
            assert_true(op.n_x[k] <= MAX);
            op.x[k][i] = (double)(input[k][i] = 2 * tern_rng_f32(&rng) - 1);
            grad[k][i] = 0;
        }
    assert_true(op.n_y <= MAX);
    for (size_t i = 0; i < op.n_y; i++) op.c[i] = (double)(dy[i] = 2 * tern_rng_f32(&rng) - 1);
}

/* Compares the gradient of input k with central differences: |difference| / |gradient| <= 1e-4. */
static void check(const char *what, size_t k)
{
    double error = 0, size = 0;
    const double h = 1e-5;
    for (size_t i = 0; i < op.n_x[k]; i++) {
        double x = op.x[k][i];
        op.x[k][i] = x + h;
        double up = value(&op);
        op.x[k][i] = x - h;
        double slope = (up - value(&op)) / (2 * h), d = (double)grad[k][i] - slope;
        op.x[k][i] = x;
        error += d * d;
        size += slope * slope;
    }
    if (!(sqrt(error / size) <= 1e-4))
        fail_msg("%s, input %zu: relative distance %g, at most 1e-4 expected", what, k, sqrt(error / size));
}

/* Each test function runs with several seeds. */
static void repeated(void (*test)(uint32_t round))
{
    for (uint32_t round = 0; round < SEEDS; round++) {
        rng.state = SEED + round;
        op = (loss){0};
        test(round);
    }
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void norm_forward(const loss *l, double *y)
{
    double r = 1 / sqrt(dot(l->x[0], l->x[0], l->cols) / l->cols + (double)1e-5f);
    for (uint32_t c = 0; c < l->cols; c++) y[c] = l->x[0][c] * r * l->x[1][c];
}

static void norm_round(uint32_t round)
{
    op.forward = norm_forward;
    op.cols = (const uint32_t[]){1, 37, 256}[round];
    op.n_x[0] = op.n_x[1] = op.n_y = op.cols;
    prepare();
    if (op.cols == 1) op.x[0][0] = (double)(input[0][0] = 0.004f); /* so that eps counts: otherwise the slope is 0 */
    tern_ref_rms_norm_backward(input[0], input[1], 1e-5f, op.cols, dy, grad[0], grad[1]);
    check("norm", 0);
    check("norm", 1);
    float before = grad[0][0], once = grad[1][0]; /* a second time adds; NULL is not wanted */
    tern_ref_rms_norm_backward(input[0], input[1], 1e-5f, op.cols, dy, NULL, grad[1]);
    tern_ref_rms_norm_backward(input[0], input[1], 1e-5f, op.cols, dy, grad[0], NULL);
    assert_true(grad[1][0] == 2 * once && grad[0][0] == 2 * before);
}

static void norm(void **state)
{
    (void)state;
    repeated(norm_round);
}

/* y[t][r] = scale * sum_c w[r][c] x[t][c]; inputs x, w. */
static void linear_forward(const loss *l, double *y)
{
    for (uint32_t t = 0; t < l->n; t++)
        for (uint32_t r = 0; r < l->rows; r++)
            y[t * l->rows + r] = l->scale * dot(l->x[1] + r * l->cols, l->x[0] + t * l->cols, l->cols);
}

static void linear_shape(uint32_t n, uint32_t rows, uint32_t cols)
{
    op.forward = linear_forward;
    op.n = n;
    op.rows = rows;
    op.cols = cols;
    op.scale = 1;
    op.n_x[0] = n * cols;
    op.n_x[1] = rows * cols;
    op.n_y = n * rows;
    prepare();
}

static void linear_round(uint32_t round)
{
    linear_shape((const uint32_t[]){1, 5, 3}[round], (const uint32_t[]){7, 1, 18}[round], 19);
    tern_ref_linear_dx(input[1], op.rows, op.cols, dy, op.rows, op.n, grad[0], op.cols);
    tern_ref_linear_dw(dy, op.rows, input[0], op.cols, op.n, op.rows, op.cols, grad[1]);
    check("linear", 0);
    check("linear", 1);
}

static void linear(void **state)
{
    (void)state;
    repeated(linear_round);
}

/* Both gradients of a ternary layer: the codes stand for the weights, the int8 rows for the activations. */
static void ternary_round(uint32_t round)
{
    static int8_t codes[MAX], q[MAX];
    static uint8_t packed[MAX / 4 + 32];
    static float inv_scales[8];
    static int32_t sums[8];
    tern_error err = {0};
    const float scale = 0.37f;
    linear_shape(3, (const uint32_t[]){1, 5, 8}[round], (const uint32_t[]){384, 128, 256}[round]);
    for (size_t i = 0; i < op.n_x[1]; i++) op.x[1][i] = codes[i] = (int8_t)((int)tern_rng_below(&rng, 3) - 1);
    assert_ok(tern_encode_codes(tern_encoding_by_name("i2_s"), codes, scale, op.rows, op.cols, packed, &err), err);
    for (uint32_t t = 0; t < op.n; t++) {
        tern_ref_quantize(input[0] + t * op.cols, op.cols, q + t * op.cols, op.cols, &inv_scales[t], &sums[t]);
        for (uint32_t c = 0; c < op.cols; c++)
            op.x[0][t * op.cols + c] = (double)q[t * op.cols + c] * (double)inv_scales[t];
    }
    tern_q8_rows rows = {.x = q, .stride = op.cols, .sums = sums, .n = op.n};
    tern_ref_linear_dw_q8(dy, op.rows, &rows, inv_scales, op.rows, op.cols, grad[1]);
    check("ternary", 1);
    op.scale = (double)scale;
    tern_ref_linear_dx_i2_s(packed, op.cols / 4, op.rows, op.cols, scale, dy, op.rows, op.n, grad[0], op.cols);
    check("ternary", 0);
}

static void ternary(void **state)
{
    (void)state;
    repeated(ternary_round);
}

/* y[t][r] = x[t][r] + b[r]; inputs x, b. */
static void bias_forward(const loss *l, double *y)
{
    for (uint32_t i = 0; i < l->n * l->rows; i++) y[i] = l->x[0][i] + l->x[1][i % l->rows];
}

static void bias_round(uint32_t round)
{
    op.forward = bias_forward;
    op.n = (const uint32_t[]){1, 5, 30}[round];
    op.rows = 17;
    op.n_x[1] = op.rows;
    op.n_x[0] = op.n_y = op.n * op.rows;
    prepare();
    tern_ref_bias_backward(dy, op.rows, op.n, op.rows, grad[1]);
    check("bias", 1);
    float once = grad[1][3];
    tern_ref_bias_backward(dy, op.rows, 1, op.rows, grad[1]);
    assert_true(grad[1][3] == once + dy[3]);
}

static void bias(void **state)
{
    (void)state;
    repeated(bias_round);
}

static bool adjacent;

/* Inputs: x, and the table of cosines and sines. */
static void rope_forward(const loss *l, double *y)
{
    uint32_t half = l->head_dim / 2;
    for (uint32_t h = 0; h < l->heads; h++)
        for (uint32_t i = 0; i < half; i++) {
            size_t a = h * l->head_dim + (adjacent ? 2 * i : i), b = adjacent ? a + 1 : a + half;
            double c = l->x[1][2 * i], s = l->x[1][2 * i + 1];
            y[a] = l->x[0][a] * c - l->x[0][b] * s;
            y[b] = l->x[0][b] * c + l->x[0][a] * s;
        }
}

static void rope_round(uint32_t round)
{
    op.forward = rope_forward;
    op.heads = round + 1;
    op.head_dim = (const uint32_t[]){8, 64, 2}[round];
    op.n_x[0] = op.n_y = op.heads * op.head_dim;
    op.n_x[1] = op.head_dim;
    prepare();
    for (int pairing = 0; pairing < 2; pairing++) {
        adjacent = pairing;
        memcpy(grad[0], dy, op.n_y * sizeof *dy);
        (adjacent ? tern_ref_rope_adjacent_backward : tern_ref_rope_halves_backward)(grad[0], op.heads, op.head_dim,
                                                                                     input[1]);
        check(adjacent ? "rope, adjacent" : "rope, halves", 0);
    }
}

static void rope(void **state)
{
    (void)state;
    repeated(rope_round);
}

/* Inputs: q, k, v and perhaps sinks. */
static void attention_forward(const loss *l, double *y)
{
    uint32_t q_stride = l->heads * l->head_dim, kv_stride = l->kv_heads * l->head_dim;
    for (uint32_t t = 0; t < l->n; t++)
        for (uint32_t h = 0; h < l->heads; h++) {
            double sum = l->n_x[3] ? exp(l->x[3][h]) : 0, *out = y + t * q_stride + h * l->head_dim;
            uint32_t kv = h / (l->heads / l->kv_heads) * l->head_dim;
            for (uint32_t d = 0; d < l->head_dim; d++) out[d] = 0;
            for (uint32_t j = l->starts ? l->starts[t] : 0; j <= t; j++) {
                double s =
                    l->scale * dot(l->x[0] + t * q_stride + h * l->head_dim, l->x[1] + j * kv_stride + kv, l->head_dim);
                if (l->window && t - j >= l->window) continue;
                double p = exp(l->softcap > 0 ? l->softcap * tanh(s / l->softcap) : s);
                sum += p;
                for (uint32_t d = 0; d < l->head_dim; d++) out[d] += p * l->x[2][j * kv_stride + kv + d];
            }
            for (uint32_t d = 0; d < l->head_dim; d++) out[d] /= sum;
        }
}

/* With a soft cap, a window and sinks where they are not 0. */
static void check_attention(uint32_t round, double softcap, uint32_t window, bool sinks)
{
    static float out[MAX], m[256], l[256];
    static double want[MAX];
    static const uint32_t starts[12] = {0, 0, 2, 2, 2, 2, 2, 7, 8, 8, 8, 8};
    op.forward = attention_forward;
    op.n = 12;
    op.heads = 4;
    op.kv_heads = (const uint32_t[]){2, 4, 1}[round];
    op.head_dim = 8;
    op.scale = (double)(1.0f / sqrtf(8));
    op.starts = round == 1 ? NULL : starts;
    op.n_x[0] = op.n_y = op.n * op.heads * op.head_dim;
    op.n_x[1] = op.n_x[2] = op.n * op.kv_heads * op.head_dim;
    op.n_x[3] = sinks ? op.heads : 0;
    op.softcap = softcap;
    op.window = window;
    prepare();
    for (size_t i = 0; i < op.n_x[0]; i++) op.x[0][i] = (double)(input[0][i] *= 6); /* sharper than uniform */
    tern_varlen_attention rows = {op.n,
                                  op.heads,
                                  op.kv_heads,
                                  op.head_dim,
                                  input[0],
                                  input[1],
                                  input[2],
                                  32,
                                  op.kv_heads * op.head_dim,
                                  op.starts,
                                  (float)op.scale,
                                  (float)softcap,
                                  window,
                                  sinks ? input[3] : NULL};
    tern_ref_varlen_attention(&rows, out, m, l);
    op.forward(&op, want);
    for (size_t i = 0; i < op.n_y; i++)
        if (!(fabs((double)out[i] - want[i]) <= 1e-6)) fail_msg("out %zu: %g, expected %g", i, (double)out[i], want[i]);
    tern_ref_varlen_attention_backward(&rows, out, m, l, dy, grad[0], grad[1], grad[2], sinks ? grad[3] : NULL);
    for (size_t k = 0; k < (sinks ? 4 : 3); k++) check("attention", k);
}

static void attention_round(uint32_t round)
{
    check_attention(round, 0, 0, false);
    check_attention(round, 1.5, 0, false);
    check_attention(round, 0, 3, false);
    check_attention(round, 0, 0, true);
    check_attention(round, 2, 4, true);
}

static void attention(void **state)
{
    (void)state;
    repeated(attention_round);
}

/* The paged op of inference leaves the same output, maximum and sum, so that its forward serves the backward. */
static void attention_in_pages(void **state)
{
    (void)state;
    enum { LENGTH = 29, DIM = 16 };
    static float out[LENGTH * DIM], m[LENGTH], l[LENGTH], pages[2][TERN_PAGE_POSITIONS * DIM];
    rng.state = SEED;
    op = (loss){.n_x = {LENGTH * DIM, LENGTH * DIM, LENGTH * DIM}};
    prepare();
    tern_varlen_attention rows = {LENGTH, 1, 1, DIM, input[0], input[1], input[2], DIM, DIM, NULL, 0.25f};
    tern_ref_varlen_attention(&rows, out, m, l);
    memcpy(pages[0], input[1], LENGTH * DIM * sizeof(float));
    memcpy(pages[1], input[2], LENGTH * DIM * sizeof(float));
    for (uint32_t t = 0; t < LENGTH; t++) {
        const uint32_t page = 0, lo = 0, hi = t + 1;
        float most = -INFINITY, sum = 0, acc[DIM] = {0};
        tern_attention_args args = {input[0] + t * DIM,
                                    DIM,
                                    1,
                                    DIM,
                                    (const uint8_t *)pages[0],
                                    (const uint8_t *)pages[1],
                                    sizeof pages[0],
                                    &page,
                                    &lo,
                                    &hi,
                                    0,
                                    LENGTH,
                                    0.25f,
                                    0,
                                    &most,
                                    &sum,
                                    acc};
        tern_ref_attention_f32(&args);
        assert_true(fabsf(most - m[t]) <= 1e-6f && fabsf(sum - l[t]) <= 1e-5f * l[t]);
        for (uint32_t d = 0; d < DIM; d++) assert_true(fabsf(acc[d] / sum - out[t * DIM + d]) <= 1e-6f);
    }
}

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
    op.forward = gate_forward;
    op.n_x[0] = op.n_x[1] = op.n_y = 100 + round;
    prepare();
    for (size_t i = 0; i < op.n_y; i++) op.x[0][i] = (double)(input[0][i] *= 5);
    for (gate_kind = 0; gate_kind < 3; gate_kind++) {
        const struct gate_kind *kind = &gate_kinds[gate_kind];
        kind->forward(input[0], input[1], op.n_y, gate);
        op.forward(&op, want);
        for (size_t i = 0; i < op.n_y; i++)
            if (!(fabs((double)gate[i] - want[i]) <= 1e-6 + 1e-6 * fabs(want[i])))
                fail_msg("%s of %a: %a, expected %a", kind->name, op.x[0][i], (double)gate[i], want[i]);
        kind->backward(input[0], input[1], dy, op.n_y, grad[0], grad[1]);
        check(kind->name, 0);
        check(kind->name, 1);
        memcpy(gate, input[0], sizeof gate); /* in place */
        memcpy(up, input[1], sizeof up);
        kind->backward(gate, up, dy, op.n_y, gate, up);
        assert_memory_equal(gate, grad[0], op.n_y * sizeof *gate);
        assert_memory_equal(up, grad[1], op.n_y * sizeof *up);
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
    repeated(gate_round);
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
    op.forward = dropout_forward;
    op.scale = (const double[]){0.0, 0.25, 0.75}[round];
    op.n_x[0] = op.n_y = 2000 + round;
    dropout_seed = round + 1;
    prepare();
    tern_ref_dropout(input[0], op.n_y, (float)op.scale, dropout_seed, 7, y);
    op.forward(&op, want);
    for (size_t i = 0; i < op.n_y; i++) {
        if (!(fabs((double)y[i] - want[i]) <= 1e-6)) fail_msg("%zu: %g, expected %g", i, (double)y[i], want[i]);
        kept += y[i] != 0;
    }
    assert_true(fabs((double)kept / (double)op.n_y - (1 - op.scale)) < 0.05);
    tern_ref_dropout(dy, op.n_y, (float)op.scale, dropout_seed, 7, grad[0]); /* its own backward */
    check("dropout", 0);
    memcpy(y, input[0], op.n_y * sizeof *y); /* in place, cut anywhere */
    tern_ref_dropout(y, 100, (float)op.scale, dropout_seed, 7, y);
    tern_ref_dropout(y + 100, op.n_y - 100, (float)op.scale, dropout_seed, 107, y + 100);
    for (size_t i = 0; i < op.n_y; i++) assert_true(fabs((double)y[i] - want[i]) <= 1e-6);
}

static void dropout(void **state)
{
    (void)state;
    repeated(dropout_round);
}

/* Nothing at 0, the quantised row at 1, half of both between, whatever the row's length. */
static void fake_quantize(void **state)
{
    (void)state;
    enum { N = 700 };
    static float x[N], y[N], inv_scale;
    static int8_t q[N + 64];
    int32_t sum;
    rng.state = SEED;
    for (uint32_t cols = 1; cols <= N; cols += 233) {
        for (uint32_t c = 0; c < cols; c++) x[c] = 6 * tern_rng_f32(&rng) - 3;
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

static void embed_forward(const loss *l, double *y)
{
    for (uint32_t t = 0; t < l->n; t++)
        for (uint32_t c = 0; c < l->cols; c++) y[t * l->cols + c] = l->x[0][(uint32_t)l->ids[t] * l->cols + c];
}

static void embed_round(uint32_t round)
{
    static const int32_t ids[6] = {4, 0, 4, 4, 2, 0}; /* repeated ids add up */
    op.forward = embed_forward;
    op.ids = ids;
    op.n = 6;
    op.cols = 5 + round;
    op.n_x[0] = 5 * op.cols;
    op.n_y = op.n * op.cols;
    prepare();
    tern_ref_embed_backward(ids, op.n, op.cols, dy, op.cols, grad[0]);
    check("embed", 0);
}

static void embed(void **state)
{
    (void)state;
    repeated(embed_round);
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
    op.forward = entropy_forward;
    op.ids = labels;
    op.n = 5;
    op.cols = 17 + 30 * round;
    op.n_x[0] = op.n * op.cols;
    op.n_y = 1;
    prepare();
    op.c[0] = 1;
    for (size_t i = 0; i < op.n_x[0]; i++) {
        op.x[0][i] = (double)(input[0][i] = 8 * input[0][i] + 90); /* exp overflows unless the maximum is taken off */
        grad[0][i] = input[0][i];
    }
    assert_int_equal(tern_ref_count_labels(labels, op.n), 3);
    for (uint32_t t = 0; t < op.n; t++)
        sum += (double)tern_ref_cross_entropy(grad[0] + t * op.cols, op.cols, labels[t], 1.0f / 3);
    op.forward(&op, &want);
    if (!(fabs(sum / 3 - want) <= 1e-5)) fail_msg("loss %g, expected %g", sum / 3, want);
    check("cross-entropy", 0);
    for (uint32_t i = 0; i < op.cols; i++) assert_true(grad[0][op.cols + i] == 0);
    grad[0][1] = NAN;
    assert_true(isnan(tern_ref_cross_entropy(grad[0], op.cols, 0, 1)) && isnan(grad[0][0]));
}

static void cross_entropy(void **state)
{
    (void)state;
    repeated(entropy_round);
}

/* Inputs: x, A, B. */
static void lora_forward(const loss *l, double *y)
{
    for (uint32_t t = 0; t < l->n; t++)
        for (uint32_t r = 0; r < l->rows; r++) {
            double sum = 0;
            for (uint32_t i = 0; i < l->heads; i++)
                sum += l->x[2][r * l->heads + i] * dot(l->x[1] + i * l->cols, l->x[0] + t * l->cols, l->cols);
            y[t * l->rows + r] = l->scale * sum;
        }
}

static void lora_round(uint32_t round)
{
    static float u[MAX], du[MAX], y[MAX];
    static double want[MAX];
    uint32_t rank = round + 2;
    op.forward = lora_forward;
    op.n = 4;
    op.rows = 9;
    op.cols = 21;
    op.heads = rank;
    op.scale = 0.75;
    op.n_x[0] = op.n * op.cols;
    op.n_x[1] = rank * op.cols;
    op.n_x[2] = op.rows * rank;
    op.n_y = op.n * op.rows;
    prepare();
    tern_lora_rows lora = {rank, op.rows, op.cols, input[1], input[2], 0.75f, input[0], op.cols, op.n};
    for (size_t i = 0; i < op.n_y; i++) y[i] = 1;
    tern_ref_lora(&lora, u, y, op.rows);
    op.forward(&op, want);
    for (size_t i = 0; i < op.n_y; i++)
        if (!(fabs((double)y[i] - 1 - want[i]) <= 1e-5))
            fail_msg("y %zu: %g, expected %g", i, (double)y[i], 1 + want[i]);
    tern_ref_lora_backward(&lora, u, dy, op.rows, du, grad[1], grad[2], grad[0], op.cols);
    for (size_t k = 0; k < 3; k++) check("lora", k);
}

static void adapters(void **state)
{
    (void)state;
    repeated(lora_round);
}

/* A gradient that is already there is added to, and a batch may be cut between two rows without changing a bit. */
static void batches_add_up(void **state)
{
    (void)state;
    rng.state = SEED;
    op = (loss){0};
    linear_shape(6, 5, 11);
    static float whole[MAX], parts[MAX];
    tern_ref_linear_dw(dy, op.rows, input[0], op.cols, 6, op.rows, op.cols, whole);
    tern_ref_linear_dw(dy, op.rows, input[0], op.cols, 2, op.rows, op.cols, parts);
    tern_ref_linear_dw(dy + 2 * op.rows, op.rows, input[0] + 2 * op.cols, op.cols, 4, op.rows, op.cols, parts);
    assert_memory_equal(whole, parts, op.n_x[1] * sizeof *whole);
    tern_ref_linear_dx(input[1], op.rows, op.cols, dy, op.rows, 1, grad[0], op.cols);
    float once = grad[0][3];
    tern_ref_linear_dx(input[1], op.rows, op.cols, dy, op.rows, 1, grad[0], op.cols);
    assert_true(once != 0 && grad[0][3] == 2 * once);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(norm),
    cmocka_unit_test(linear),
    cmocka_unit_test(bias),
    cmocka_unit_test(ternary),
    cmocka_unit_test(rope),
    cmocka_unit_test(attention),
    cmocka_unit_test(attention_in_pages),
    cmocka_unit_test(gates),
    cmocka_unit_test(embed),
    cmocka_unit_test(cross_entropy),
    cmocka_unit_test(adapters),
    cmocka_unit_test(batches_add_up),
    cmocka_unit_test(gate_ends),
    cmocka_unit_test(dropout),
    cmocka_unit_test(fake_quantize),
};

TEST_GROUP(backward, "arm64", tests);
