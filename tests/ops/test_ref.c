/* The float definitions against formulas in double precision. */
#include "support/test.h"

#include <float.h>
#include <math.h>

#include "base/half.h"
#include "base/rng.h"
#include "ops/ref/ref.h"

enum { SEED = 20240607 };

static float uniform(tern_rng *rng, float low, float high)
{
    return low + (high - low) * tern_rng_f32(rng);
}

static void fill(tern_rng *rng, float *x, size_t n, float most)
{
    for (size_t i = 0; i < n; i++) x[i] = uniform(rng, -most, most);
}

static void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("found %.9g, expected %.9g within %.3g", found, expected, tolerance);
}

/* Distance to the true value in units of the true value's last place. */
static double ulps(float found, double expected)
{
    return fabs(found - expected) / ldexp(1, ilogb(expected) - 23);
}

static void exp_is_within_2_ulp(void **state)
{
    (void)state;
    double worst = 0;
    for (double x = -87.3; x <= 88.69; x += 1.7e-4) {
        double error = ulps(tern_ref_exp((float)x), exp((double)(float)x));
        if (!(error <= worst)) worst = error;
    }
    for (int i = -149; i < 6; i++) {
        assert_true(ulps(tern_ref_exp(ldexpf(1, i)), exp(ldexp(1, i))) <= 2);
        assert_true(ulps(tern_ref_exp(-ldexpf(1, i)), exp(-ldexp(1, i))) <= 2);
    }
    if (!(worst <= 1.5)) fail_msg("exp is off by %.3f ulp", worst);
}

static void exp_at_the_edges(void **state)
{
    (void)state;
    assert_true(tern_ref_exp(0.0f) == 1 && tern_ref_exp(-0.0f) == 1);
    assert_true(tern_ref_exp(-87.31f) == 0 && tern_ref_exp(-FLT_MAX) == 0 && tern_ref_exp(-HUGE_VALF) == 0);
    assert_true(tern_ref_exp(88.71f) == HUGE_VALF && tern_ref_exp(FLT_MAX) == HUGE_VALF &&
                tern_ref_exp(HUGE_VALF) == HUGE_VALF);
    assert_true(isnan(tern_ref_exp(NAN)));
    assert_true(tern_ref_exp(-87.29f) >= FLT_MIN && tern_ref_exp(88.69f) < HUGE_VALF);
}

static void dot_is_a_sum_of_products(void **state)
{
    (void)state;
    tern_rng rng = {SEED};
    float a[333], b[333];
    for (size_t n = 0; n <= 333; n++) {
        fill(&rng, a, n, 1);
        fill(&rng, b, n, 1);
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
        assert_near(tern_ref_dot(a, b, n), sum, 1e-5);
    }
    float zero[2] = {-0.0f, -0.0f}, one[2] = {1, 1};
    assert_int_equal(tern_f32_bits(tern_ref_dot(zero, one, 2)), 0);
}

/* Element 17 falls into lane 1 and is added before the tree: 2^24 + 1 rounds to 2^24 there. */
static void dot_keeps_its_order(void **state)
{
    (void)state;
    float a[32] = {0}, ones[32];
    for (size_t i = 0; i < 32; i++) ones[i] = 1;
    a[1] = 0x1p24f;
    a[17] = 1;
    a[9] = -0x1p24f;
    assert_true(tern_ref_dot(a, ones, 32) == 0);
    a[17] = 0;
    a[0] = 1;
    assert_true(tern_ref_dot(a, ones, 32) == 1);
    a[0] = -1;
    a[1] = a[9] = 0;
    a[16] = 1 + 0x1p-12f;
    float b[32] = {[0] = 1, [16] = 1 + 0x1p-12f}; /* a product rounded before its sum would lose 2^-24 */
    assert_true(tern_ref_dot(a, b, 32) == 0x1p-11f + 0x1p-24f);
}

static void rms_norm_follows_the_formula(void **state)
{
    (void)state;
    tern_rng rng = {SEED};
    float x[200], g[200], y[200];
    for (uint32_t cols = 1; cols <= 200; cols++) {
        fill(&rng, x, cols, 3);
        fill(&rng, g, cols, 2);
        double sum = 0;
        for (uint32_t c = 0; c < cols; c++) sum += (double)x[c] * x[c];
        tern_ref_rms_norm(x, g, 1e-5f, cols, y);
        for (uint32_t c = 0; c < cols; c++) {
            double expected = x[c] * (double)g[c] / sqrt(sum / cols + 1e-5);
            assert_near(y[c], expected, 1e-6 * fabs(expected) + 1e-12);
        }
    }
}

static void quantize_scales_the_largest_to_127(void **state)
{
    (void)state;
    tern_rng rng = {SEED};
    float x[100], inv_scale;
    int8_t q[128];
    int32_t sum, total = 0;
    fill(&rng, x, 100, 1);
    x[40] = -1.5f;
    memset(q, 77, sizeof q);
    tern_ref_quantize(x, 100, q, 128, &inv_scale, &sum);
    assert_int_equal(q[40], -127);
    assert_near(inv_scale, 1.5 / 127, 1e-8);
    for (size_t i = 0; i < 100; i++) {
        assert_near(q[i], x[i] / (1.5 / 127), 0.5001);
        total += q[i];
    }
    assert_int_equal(sum, total);
    for (size_t i = 100; i < 128; i++) assert_int_equal(q[i], 0);
}

static void quantize_rounds_half_to_even_and_takes_anything(void **state)
{
    (void)state;
    float halves[6] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f}, inv_scale;
    int8_t q[64];
    int32_t sum;
    tern_ref_quantize(halves, 6, q, 64, &inv_scale, &sum);
    const int8_t even[6] = {127, 0, 2, 2, 0, -2};
    assert_memory_equal(q, even, 6);
    assert_true(inv_scale == 1);
    assert_int_equal(sum, 129);

    float tiny[2] = {1e-7f, -1e-6f}; /* the largest counts as at least 1e-5 */
    tern_ref_quantize(tiny, 2, q, 64, &inv_scale, &sum);
    assert_int_equal(q[0], 1);
    assert_int_equal(q[1], -13);
    assert_near(inv_scale, 1e-5 / 127, 1e-13);

    float odd[4] = {NAN, -HUGE_VALF, HUGE_VALF, 1};
    tern_ref_quantize(odd, 4, q, 64, &inv_scale, &sum);
    const int8_t expected[4] = {0, -127, 127, 0};
    assert_memory_equal(q, expected, 4);
    assert_true(isfinite(inv_scale));
}

static void gates_follow_the_formulas(void **state)
{
    (void)state;
    tern_rng rng = {SEED};
    float g[500], u[500], relu2[500], silu[500];
    fill(&rng, g, 500, 20);
    fill(&rng, u, 500, 5);
    tern_ref_relu2(g, u, 500, relu2);
    tern_ref_silu(g, u, 500, silu);
    for (size_t i = 0; i < 500; i++) {
        double r = g[i] > 0 ? g[i] : 0;
        assert_near(relu2[i], r * r * u[i], 1e-6 * fabs(r * r * u[i]));
        double s = g[i] / (1 + exp(-(double)g[i])) * u[i];
        assert_near(silu[i], s, 1e-6 * fabs(s) + 1e-30);
    }
}

static void rope_turns_pairs(void **state)
{
    (void)state;
    float cs[4] = {0, 1, cosf(0.3f), sinf(0.3f)};
    float halves[8] = {1, 2, 3, 4, 5, 6, 7, 8}, adjacent[8] = {1, 3, 2, 4, 5, 7, 6, 8};
    tern_ref_rope_halves(halves, 2, 4, cs);
    tern_ref_rope_adjacent(adjacent, 2, 4, cs);
    const double c = cos(0.3), s = sin(0.3);
    const double expected[8] = {-3, 2 * c - 4 * s, 1, 4 * c + 2 * s, -7, 6 * c - 8 * s, 5, 8 * c + 6 * s};
    for (size_t i = 0; i < 8; i++) {
        assert_near(halves[i], expected[i], 1e-6);
        size_t head = i / 4 * 4, pair = i % 2, second = i % 4 / 2;
        assert_near(adjacent[head + 2 * pair + second], expected[i], 1e-6);
    }
}

enum { HEAD = 24, POSITIONS = 150, PAGES = 7, QUERIES = 5 };

/* Softmax of cap(q.k * scale) over [lo, hi), and a sink, in double precision, from K and V as they lie in the pages. */
static void plain_attention(const tern_attention_args *a, uint32_t i, double sink, double *out)
{
    const float *k = (const float *)(const void *)a->k, *v = (const float *)(const void *)a->v;
    double sum = exp(sink);
    memset(out, 0, HEAD * sizeof *out);
    for (uint32_t at = a->lo[i]; at < a->hi[i]; at++) {
        size_t row = (a->pages[at / 32] * (size_t)32 + at % 32) * HEAD;
        double s = 0;
        for (size_t d = 0; d < HEAD; d++) s += (double)a->q[i * a->q_stride + d] * k[row + d];
        s *= (double)a->scale;
        double p = exp(a->softcap > 0 ? (double)a->softcap * tanh(s / (double)a->softcap) : s);
        sum += p;
        for (size_t d = 0; d < HEAD; d++) out[d] += p * v[row + d];
    }
    for (size_t d = 0; d < HEAD; d++) out[d] /= sum;
}

static void check_attention(float softcap)
{
    tern_rng rng = {SEED};
    static float k[PAGES * 32 * HEAD], v[PAGES * 32 * HEAD];
    float q[QUERIES * HEAD], m[QUERIES], l[QUERIES], acc[QUERIES * HEAD] = {0};
    const uint32_t pages[] = {3, 0, 6, 2, 5}, lo[QUERIES] = {0, 0, 37, 64, 149},
                   hi[QUERIES] = {POSITIONS, 1, 101, 96, 150};
    fill(&rng, k, sizeof k / sizeof *k, 2);
    fill(&rng, v, sizeof v / sizeof *v, 2);
    fill(&rng, q, QUERIES * HEAD, 2);
    for (size_t i = 0; i < QUERIES; i++) {
        m[i] = -HUGE_VALF;
        l[i] = 0;
    }
    tern_attention_args a = {.q = q,
                             .q_stride = HEAD,
                             .n_queries = QUERIES,
                             .head_dim = HEAD,
                             .k = (const uint8_t *)k,
                             .v = (const uint8_t *)v,
                             .k_page_bytes = 32 * HEAD * 4,
                             .v_page_bytes = 32 * HEAD * 4,
                             .pages = pages,
                             .lo = lo,
                             .hi = hi,
                             .n = POSITIONS,
                             .scale = 0.2f,
                             .softcap = softcap,
                             .m = m,
                             .l = l,
                             .acc = acc};
    tern_ref_attention(&a);
    for (uint32_t i = 0; i < QUERIES; i++) {
        double expected[HEAD];
        plain_attention(&a, i, -HUGE_VAL, expected);
        for (size_t d = 0; d < HEAD; d++) assert_near(acc[i * HEAD + d] / l[i], expected[d], 2e-6);
        const float sink = 1.5f - (float)i;
        plain_attention(&a, i, sink, expected);
        for (size_t d = 0; d < HEAD; d++)
            assert_near(acc[i * HEAD + d] / tern_ref_sink(sink, m[i], l[i]), expected[d], 2e-6);
        assert_true(tern_ref_sink(-HUGE_VALF, m[i], l[i]) == l[i]);
    }
}

static void attention_is_a_softmax(void **state)
{
    (void)state;
    check_attention(0);
    check_attention(5);
    check_attention(0.7f);
}

/* tanh(1) = 0.7615941559557649, tanh(0.5) = 0.46211715726000976, tanh(3) = 0.9950547536867305. */
static void softcap_is_a_tanh(void **state)
{
    (void)state;
    const struct {
        float x, cap;
        double y;
    } known[] = {
        {50, 50, 38.0797077978}, {-30, 30, -22.8478246787}, {1, 2, 0.9242343145}, {0, 5, 0}, {3, 1, 0.9950547537}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_near(tern_ref_softcap(known[i].x, known[i].cap), known[i].y, 2.5e-7 * (double)known[i].cap);
    for (float x = -400; x <= 400; x += 0.37f) assert_near(tern_ref_softcap(x, 50), 50 * tanh((double)x / 50), 1.2e-5);
    assert_true(tern_ref_softcap(HUGE_VALF, 3) == 3 && tern_ref_softcap(-HUGE_VALF, 3) == -3);
    assert_true(isnan(tern_ref_softcap(NAN, 3)));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(exp_is_within_2_ulp),
    cmocka_unit_test(exp_at_the_edges),
    cmocka_unit_test(dot_is_a_sum_of_products),
    cmocka_unit_test(dot_keeps_its_order),
    cmocka_unit_test(rms_norm_follows_the_formula),
    cmocka_unit_test(quantize_scales_the_largest_to_127),
    cmocka_unit_test(quantize_rounds_half_to_even_and_takes_anything),
    cmocka_unit_test(gates_follow_the_formulas),
    cmocka_unit_test(rope_turns_pairs),
    cmocka_unit_test(attention_is_a_softmax),
    cmocka_unit_test(softcap_is_a_tanh),
};

TEST_GROUP(ref, "arm64", tests);
