/* Linear layers in 16 bits on the CPU: the rounding of rows against arithmetic in double precision, and products of
 * every encoding against sums in double precision of factors that are rounded here, at every level. */
#include "support/test.h"

#include <math.h>

#include "backend/open.h"
#include "base/cpu.h"
#include "ops/ref/halves/halves.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/formats.h"
#include "support/op_case.h"

static tern_rng rng;
static const char *const formats[] = {TERN_ENCODING_BLOCK_LIST(TEST_FORMAT_NAME, ) "f16", "bf16"};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* The nearest number with so many significant bits, none of them below 2^least. */
static double rounded(double v, int bits, int least)
{
    int exponent;
    if (v == 0 || !isfinite(v)) return v;
    frexp(v, &exponent);
    const int last = exponent - bits > least ? exponent - bits : least;
    return ldexp(nearbyint(ldexp(v, -last)), last);
}

static double rounded_in(tern_halves halves, double v)
{
    return halves == TERN_HALVES_BF16 ? rounded(v, 8, -133) : rounded(v, 11, -24);
}

static void round_row(tern_halves halves, const float *x, uint32_t cols, double *out)
{
    double top = 0;
    int exponent = 0;
    for (uint32_t c = 0; c < cols; c++)
        if (fabs((double)x[c]) > top) top = fabs((double)x[c]);
    frexp(top, &exponent);
    int k = halves == TERN_HALVES_BF16 ? 0 : 15 - exponent;
    if (top < ldexp(1, -126)) k = halves == TERN_HALVES_BF16 ? 0 : 126;
    if (k > 126) k = 126;
    for (uint32_t c = 0; c < cols; c++) out[c] = ldexp(rounded_in(halves, ldexp((double)x[c], k)), -k);
}

static void rows(void **state)
{
    enum { COLS = 77 };
    static const tern_halves kinds[] = {TERN_HALVES_F16, TERN_HALVES_BF16};
    (void)state;
    test_seed(&rng);
    for (uint32_t i = 0; i < 4000; i++) {
        float x[COLS], got[COLS];
        double want[COLS];
        const uint32_t n = test_between(&rng, 1, COLS);
        const int scale = (int)test_between(&rng, 0, 250) - 125;
        test_floats(&rng, TEST_ORDINARY, x, n);
        for (uint32_t c = 0; c < n; c++)
            x[c] = ldexpf(x[c], test_between(&rng, 0, 3) ? scale : scale - (int)test_between(&rng, 0, 40));
        round_row(kinds[i % 2], x, n, want);
        tern_ref_round_row(kinds[i % 2], x, n, got);
        for (uint32_t c = 0; c < n; c++)
            if (!(got[c] == (float)want[c])) fail_msg("%a becomes %a, not %a", (double)x[c], (double)got[c], want[c]);
    }
}

static void what_is_not_finite_stays(void **state)
{
    (void)state;
    const float x[] = {1, NAN, -INFINITY, 65520}, large[] = {3e38f, 1, NAN};
    float y[4];
    for (tern_halves h = TERN_HALVES_F16; h <= TERN_HALVES_BF16; h++) {
        tern_ref_round_row(h, x, 4, y);
        assert_true(isnan(y[1]) && y[2] == -INFINITY && isfinite(y[0]) && isfinite(y[3]));
        tern_ref_round_row(h, large, 3, y);
        assert_true(fabsf(y[0] - 3e38f) <= 3e38f / 256 && isfinite(y[1]) && isnan(y[2]));
        const float zeros[] = {0, -0.0f};
        tern_ref_round_row(h, zeros, 2, y);
        assert_true(y[0] == 0 && y[1] == 0 && signbit(y[1]));
    }
    assert_int_equal(tern_op_halves_of(tern_encoding_find(TERN_ENC_F32)), TERN_HALVES_NONE);
    assert_int_equal(tern_op_halves_of(tern_encoding_find(TERN_ENC_I2_S)), TERN_HALVES_NONE);
    assert_int_equal(tern_op_halves_of(tern_encoding_find(TERN_ENC_BF16)), TERN_HALVES_BF16);
    assert_int_equal(tern_op_halves_of(tern_encoding_find(TERN_ENC_Q4_K)), TERN_HALVES_F16);
}

static void check_row(const tern_weight *w, tern_halves halves, const float *x, const float *got)
{
    const tern_encoding *e = w->encoding;
    float *row = malloc(w->cols * sizeof *row);
    double *xs = malloc(w->cols * sizeof *xs);
    assert_true(row && xs);
    round_row(halves, x, w->cols, xs);
    for (uint32_t r = 0; r < w->rows; r++) {
        double sum = 0, terms = 0;
        e->unpack((const uint8_t *)w->data + (size_t)r * (w->cols / e->block_elements) * e->block_bytes,
                  w->cols / e->block_elements, row);
        for (uint32_t c = 0; c < w->cols; c++) {
            const double product = rounded_in(halves, (double)row[c]) * xs[c];
            sum += product;
            terms += fabs(product);
        }
        if (!(fabs((double)got[r] - sum) <= 1e-6 * terms))
            fail_msg("%s: row %u is %a, not %a of %a", e->name, r, (double)got[r], sum, terms);
    }
    free(row);
    free(xs);
}

static void check_format(const char *format, tern_backend *backend)
{
    const tern_encoding *e = tern_encoding_by_name(format);
    const uint32_t cols = (uint32_t)e->block_elements * (e->block_elements > 1 ? 3 : 333), tokens = 9;
    const tern_halves halves = tern_op_halves_of(e);
    test_case c;
    test_results got;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = tokens});
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 2, .n_parts = 1, .halves = halves};
    op.in[TERN_LINEAR_X] = test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
    op.in[TERN_LINEAR_W] = test_case_weight(&c, format, 21, cols);
    op.out = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 21);
    test_case_add(&c, op);
    test_case_run(&c, backend, tokens - 1, 1, 1, &got);
    for (uint32_t t = 0; t + 1 < tokens; t++)
        check_row(test_case_weight_of(&c, op.in[TERN_LINEAR_W]), halves,
                  test_results_row(&c, &got, op.in[TERN_LINEAR_X], t), test_results_row(&c, &got, op.out, t));
    test_results_free(&got);
    test_case_close(&c);
}

static void products(void **state)
{
    static const char *const levels[] = {"scalar", "avx2", "avx512-vnni", "neon", "simd128"};
    (void)state;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        tern_backend *backend;
        tern_error err = {0};
        uint32_t features;
        if (tern_cpu_features_parse(levels[i], tern_cpu_features(), &features, NULL) != TERN_OK) continue;
        const tern_backend_options options = {.name = "cpu", .cpu_features = levels[i], .n_threads = 2};
        assert_ok(tern_backend_open(&backend, &options, &err), err);
        for (size_t f = 0; f < N_FORMATS; f++) check_format(formats[f], backend);
        backend->close(backend);
    }
}

/* Weights in another kind of 16 bits than they are for. */
static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    test_case c;
    test_seed(&rng);
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 9});
    tern_op op = {.kind = TERN_OP_LINEAR, .n_in = 2, .n_parts = 1, .halves = TERN_HALVES_F16};
    op.in[TERN_LINEAR_X] = test_case_rows(&c, "x", TERN_ROWS_TOKENS, 64, TEST_ORDINARY);
    op.in[TERN_LINEAR_W] = test_case_weight(&c, "bf16", 21, 64);
    op.out = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 21);
    test_case_add(&c, op);
    tern_backend *cpu = test_backend("cpu");
    assert_int_equal(cpu->supports(cpu, &c.graph, &c.graph.ops[0], &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "cpu: linear in 16 bits: bf16 weights in f16");
    test_case_close(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows),
    cmocka_unit_test(what_is_not_finite_stays),
    cmocka_unit_test(products),
    cmocka_unit_test(refusals),
};

TEST_GROUP(halves, "web arm64", tests, .teardown = test_backends_close);
