/* The backward definitions against central differences of the forward, written out again in double precision. */
#include "ops/backward_cases.h"

static void norm_forward(const loss *l, double *y)
{
    double r = 1 / sqrt(backward_dot(l->x[0], l->x[0], l->cols) / l->cols + (double)1e-5f);
    for (uint32_t c = 0; c < l->cols; c++) y[c] = l->x[0][c] * r * l->x[1][c];
}

static void norm_round(uint32_t round)
{
    backward_op.forward = norm_forward;
    backward_op.cols = (const uint32_t[]){1, 37, 256}[round];
    backward_op.n_x[0] = backward_op.n_x[1] = backward_op.n_y = backward_op.cols;
    backward_prepare();
    if (backward_op.cols == 1)
        backward_op.x[0][0] =
            (double)(backward_input[0][0] = 0.004f); /* so that eps counts: otherwise the slope is 0 */
    tern_ref_rms_norm_backward(backward_input[0], backward_input[1], 1e-5f, backward_op.cols, backward_dy,
                               backward_grad[0], backward_grad[1]);
    backward_check("norm", 0);
    backward_check("norm", 1);
    float before = backward_grad[0][0], once = backward_grad[1][0]; /* a second time adds; NULL is not wanted */
    tern_ref_rms_norm_backward(backward_input[0], backward_input[1], 1e-5f, backward_op.cols, backward_dy, NULL,
                               backward_grad[1]);
    tern_ref_rms_norm_backward(backward_input[0], backward_input[1], 1e-5f, backward_op.cols, backward_dy,
                               backward_grad[0], NULL);
    assert_true(backward_grad[1][0] == 2 * once && backward_grad[0][0] == 2 * before);
}

static void norm(void **state)
{
    (void)state;
    backward_repeated(norm_round);
}

static void linear_round(uint32_t round)
{
    backward_linear_shape((const uint32_t[]){1, 5, 3}[round], (const uint32_t[]){7, 1, 18}[round], 19);
    tern_ref_linear_dx(backward_input[1], backward_op.rows, backward_op.cols, backward_dy, backward_op.rows,
                       backward_op.n, backward_grad[0], backward_op.cols);
    tern_ref_linear_dw(backward_dy, backward_op.rows, backward_input[0], backward_op.cols, backward_op.n,
                       backward_op.rows, backward_op.cols, backward_grad[1]);
    backward_check("linear", 0);
    backward_check("linear", 1);
}

static void linear(void **state)
{
    (void)state;
    backward_repeated(linear_round);
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
    backward_linear_shape(3, (const uint32_t[]){1, 5, 8}[round], (const uint32_t[]){384, 128, 256}[round]);
    for (size_t i = 0; i < backward_op.n_x[1]; i++)
        backward_op.x[1][i] = codes[i] = (int8_t)((int)tern_rng_below(&backward_rng, 3) - 1);
    assert_ok(tern_encode_codes(tern_encoding_by_name("i2_s"), codes, scale, backward_op.rows, backward_op.cols, packed,
                                &err),
              err);
    for (uint32_t t = 0; t < backward_op.n; t++) {
        tern_ref_quantize(backward_input[0] + t * backward_op.cols, backward_op.cols, q + t * backward_op.cols,
                          backward_op.cols, &inv_scales[t], &sums[t]);
        for (uint32_t c = 0; c < backward_op.cols; c++)
            backward_op.x[0][t * backward_op.cols + c] = (double)q[t * backward_op.cols + c] * (double)inv_scales[t];
    }
    tern_q8_rows rows = {.x = q, .stride = backward_op.cols, .sums = sums, .n = backward_op.n};
    tern_ref_linear_dw_q8(backward_dy, backward_op.rows, &rows, inv_scales, backward_op.rows, backward_op.cols,
                          backward_grad[1]);
    backward_check("ternary", 1);
    backward_op.scale = (double)scale;
    tern_ref_linear_dx_i2_s(packed, backward_op.cols / 4, backward_op.rows, backward_op.cols, scale, backward_dy,
                            backward_op.rows, backward_op.n, backward_grad[0], backward_op.cols);
    backward_check("ternary", 0);
}

static void ternary(void **state)
{
    (void)state;
    backward_repeated(ternary_round);
}

/* y[t][r] = x[t][r] + b[r]; inputs x, b. */
static void bias_forward(const loss *l, double *y)
{
    for (uint32_t i = 0; i < l->n * l->rows; i++) y[i] = l->x[0][i] + l->x[1][i % l->rows];
}

static void bias_round(uint32_t round)
{
    backward_op.forward = bias_forward;
    backward_op.n = (const uint32_t[]){1, 5, 30}[round];
    backward_op.rows = 17;
    backward_op.n_x[1] = backward_op.rows;
    backward_op.n_x[0] = backward_op.n_y = backward_op.n * backward_op.rows;
    backward_prepare();
    tern_ref_bias_backward(backward_dy, backward_op.rows, backward_op.n, backward_op.rows, backward_grad[1]);
    backward_check("bias", 1);
    float once = backward_grad[1][3];
    tern_ref_bias_backward(backward_dy, backward_op.rows, 1, backward_op.rows, backward_grad[1]);
    assert_true(backward_grad[1][3] == once + backward_dy[3]);
}

static void bias(void **state)
{
    (void)state;
    backward_repeated(bias_round);
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
    backward_op.forward = rope_forward;
    backward_op.heads = round + 1;
    backward_op.head_dim = (const uint32_t[]){8, 64, 2}[round];
    backward_op.n_x[0] = backward_op.n_y = backward_op.heads * backward_op.head_dim;
    backward_op.n_x[1] = backward_op.head_dim;
    backward_prepare();
    for (int pairing = 0; pairing < 2; pairing++) {
        adjacent = pairing;
        memcpy(backward_grad[0], backward_dy, backward_op.n_y * sizeof *backward_dy);
        (adjacent ? tern_ref_rope_adjacent_backward : tern_ref_rope_halves_backward)(
            backward_grad[0], backward_op.heads, backward_op.head_dim, backward_input[1]);
        backward_check(adjacent ? "rope, adjacent" : "rope, halves", 0);
    }
}

static void rope(void **state)
{
    (void)state;
    backward_repeated(rope_round);
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
                double s = l->scale * backward_dot(l->x[0] + t * q_stride + h * l->head_dim,
                                                   l->x[1] + j * kv_stride + kv, l->head_dim);
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
    backward_op.forward = attention_forward;
    backward_op.n = 12;
    backward_op.heads = 4;
    backward_op.kv_heads = (const uint32_t[]){2, 4, 1}[round];
    backward_op.head_dim = 8;
    backward_op.scale = (double)(1.0f / sqrtf(8));
    backward_op.starts = round == 1 ? NULL : starts;
    backward_op.n_x[0] = backward_op.n_y = backward_op.n * backward_op.heads * backward_op.head_dim;
    backward_op.n_x[1] = backward_op.n_x[2] = backward_op.n * backward_op.kv_heads * backward_op.head_dim;
    backward_op.n_x[3] = sinks ? backward_op.heads : 0;
    backward_op.softcap = softcap;
    backward_op.window = window;
    backward_prepare();
    for (size_t i = 0; i < backward_op.n_x[0]; i++)
        backward_op.x[0][i] = (double)(backward_input[0][i] *= 6); /* sharper than uniform */
    tern_varlen_attention rows = {backward_op.n,
                                  backward_op.heads,
                                  backward_op.kv_heads,
                                  backward_op.head_dim,
                                  backward_input[0],
                                  backward_input[1],
                                  backward_input[2],
                                  32,
                                  backward_op.kv_heads * backward_op.head_dim,
                                  backward_op.starts,
                                  (float)backward_op.scale,
                                  (float)softcap,
                                  window,
                                  sinks ? backward_input[3] : NULL};
    tern_ref_varlen_attention(&rows, out, m, l);
    backward_op.forward(&backward_op, want);
    for (size_t i = 0; i < backward_op.n_y; i++)
        if (!(fabs((double)out[i] - want[i]) <= 1e-6)) fail_msg("out %zu: %g, expected %g", i, (double)out[i], want[i]);
    tern_ref_varlen_attention_backward(&rows, out, m, l, backward_dy, backward_grad[0], backward_grad[1],
                                       backward_grad[2], sinks ? backward_grad[3] : NULL);
    for (size_t k = 0; k < (sinks ? 4 : 3); k++) backward_check("attention", k);
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
    backward_repeated(attention_round);
}

/* The paged op of inference leaves the same output, maximum and sum, so that its forward serves the backward. */
static void attention_in_pages(void **state)
{
    (void)state;
    enum { LENGTH = 29, DIM = 16 };
    static float out[LENGTH * DIM], m[LENGTH], l[LENGTH], pages[2][TERN_PAGE_POSITIONS * DIM];
    backward_rng.state = SEED;
    backward_op = (loss){.n_x = {LENGTH * DIM, LENGTH * DIM, LENGTH * DIM}};
    backward_prepare();
    tern_varlen_attention rows = {LENGTH, 1,   1,    DIM,  backward_input[0], backward_input[1], backward_input[2],
                                  DIM,    DIM, NULL, 0.25f};
    tern_ref_varlen_attention(&rows, out, m, l);
    memcpy(pages[0], backward_input[1], LENGTH * DIM * sizeof(float));
    memcpy(pages[1], backward_input[2], LENGTH * DIM * sizeof(float));
    for (uint32_t t = 0; t < LENGTH; t++) {
        const uint32_t page = 0, lo = 0, hi = t + 1;
        float most = -INFINITY, sum = 0, acc[DIM] = {0};
        tern_attention_args args = {.q = backward_input[0] + t * DIM,
                                    .q_stride = DIM,
                                    .n_queries = 1,
                                    .head_dim = DIM,
                                    .k = (const uint8_t *)pages[0],
                                    .v = (const uint8_t *)pages[1],
                                    .pages = &page,
                                    .lo = &lo,
                                    .hi = &hi,
                                    .n = LENGTH,
                                    .scale = 0.25f,
                                    .m = &most,
                                    .l = &sum,
                                    .acc = acc};
        tern_ref_attention(&args);
        assert_true(fabsf(most - m[t]) <= 1e-6f && fabsf(sum - l[t]) <= 1e-5f * l[t]);
        for (uint32_t d = 0; d < DIM; d++) assert_true(fabsf(acc[d] / sum - out[t * DIM + d]) <= 1e-6f);
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
    backward_op.forward = embed_forward;
    backward_op.ids = ids;
    backward_op.n = 6;
    backward_op.cols = 5 + round;
    backward_op.n_x[0] = 5 * backward_op.cols;
    backward_op.n_y = backward_op.n * backward_op.cols;
    backward_prepare();
    tern_ref_embed_backward(ids, backward_op.n, backward_op.cols, backward_dy, backward_op.cols, backward_grad[0]);
    backward_check("embed", 0);
}

static void embed(void **state)
{
    (void)state;
    backward_repeated(embed_round);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(norm),
    cmocka_unit_test(linear),
    cmocka_unit_test(bias),
    cmocka_unit_test(ternary),
    cmocka_unit_test(rope),
    cmocka_unit_test(attention),
    cmocka_unit_test(attention_in_pages),
    cmocka_unit_test(embed),
};

TEST_GROUP(backward, "arm64", tests);
