/* The definitions of recurrent ops against their formulas in double precision. */
#include "support/test.h"

#include <math.h>

#include "ops/ref/recurrent/recurrent.h"
#include "ops/ref/ref.h"
#include "support/kernels.h"

enum { N_ROUNDS = 40, MAX_KEYS = 64, MAX_VALUES = 64, MAX_N = 64 };

static tern_rng rng;

static bool near(double got, double want, double share, double least)
{
    return fabs(got - want) <= share * fabs(want) + least;
}

/* ln(1 + e^x), exact to a rounding of f64 in its last digits. */
static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* All sizes of x, both ends, where the result is x or e^x, and 0. */
static void softplus_is_its_formula(void **state)
{
    (void)state;
    for (float x = -80; x <= 120; x += 0.0173f)
        if (!near((double)tern_ref_softplus(x), softplus((double)x), 3e-7, 0))
            fail_msg("softplus(%.9g) = %.9g, %.9g expected", (double)x, (double)tern_ref_softplus(x),
                     softplus((double)x));
    assert_true(near((double)tern_ref_softplus(0), log(2), 1e-7, 0));
    assert_true(tern_ref_softplus(1e30f) == 1e30f);
    assert_true(tern_ref_softplus(-1e30f) >= 0 && tern_ref_softplus(-1e30f) < 1e-30f);
    assert_true(tern_ref_softplus(INFINITY) == INFINITY);
    assert_true(isnan(tern_ref_softplus(NAN)));
}

static void logistic_is_its_formula(void **state)
{
    (void)state;
    for (float x = -80; x <= 80; x += 0.0173f)
        assert_true(near((double)tern_ref_logistic(x), 1 / (1 + exp(-(double)x)), 5e-7, 0));
    assert_true(tern_ref_logistic(1000) == 1);
    assert_true(tern_ref_logistic(-1000) >= 0 && tern_ref_logistic(-1000) < 1e-30f);
}

static void decay_is_its_formula(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        const float a = 12 * test_float(&rng, TEST_ORDINARY), dt = 6 * test_float(&rng, TEST_ORDINARY),
                    rate = -16 * tern_rng_f32(&rng);
        const double exponent = (double)rate * softplus((double)(a + dt));
        const float got = tern_ref_delta_decay(a, dt, rate);
        assert_true(got >= 0 && got <= 1);
        /* what rounding the exponent does to the power */
        assert_true(near((double)got, exp(exponent), 5e-7 * (1 + fabs(exponent)), 1e-30));
    }
}

static void conv_is_its_formula(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        const uint32_t n_taps = test_between(&rng, 1, TERN_CONV_MAX_TAPS), n = test_between(&rng, 1, MAX_N);
        float x[TERN_CONV_MAX_TAPS][MAX_N], weight[TERN_CONV_MAX_TAPS * MAX_N], y[MAX_N];
        const float *taps[TERN_CONV_MAX_TAPS];
        test_floats(&rng, TEST_ORDINARY, x[0], sizeof x / sizeof(float));
        test_floats(&rng, TEST_ORDINARY, weight, (size_t)n_taps * n);
        for (uint32_t k = 0; k < n_taps; k++) taps[k] = x[k];
        tern_ref_conv(&(tern_conv_args){.taps = taps, .weight = weight, .n_taps = n_taps, .n = n, .y = y});
        for (uint32_t c = 0; c < n; c++) {
            double sum = 0;
            for (uint32_t k = 0; k < n_taps; k++) sum += (double)weight[k * n + c] * (double)x[k][c];
            assert_true(near((double)y[c], sum / (1 + exp(-sum)), 1e-6, 1e-6));
        }
    }
}

/* A head's state and one token. */
typedef struct head {
    uint32_t keys, values;
    float state[MAX_KEYS * MAX_VALUES], q[MAX_KEYS], k[MAX_KEYS], v[MAX_VALUES], y[MAX_VALUES], decay, beta;
    double exact[MAX_KEYS * MAX_VALUES];
} head;

/* Keys of length 1, as models norm them; the state stays bounded. */
static void new_token(head *h)
{
    double length = 0;
    test_floats(&rng, TEST_ORDINARY, h->q, h->keys);
    test_floats(&rng, TEST_ORDINARY, h->k, h->keys);
    test_floats(&rng, TEST_ORDINARY, h->v, h->values);
    for (uint32_t i = 0; i < h->keys; i++) length += (double)h->k[i] * (double)h->k[i];
    for (uint32_t i = 0; i < h->keys; i++) h->k[i] = (float)((double)h->k[i] / sqrt(length + 1e-6));
    h->decay = 1 - 0.3f * tern_rng_f32(&rng);
    h->beta = tern_rng_f32(&rng);
}

/* S = decay S; S = S + k (beta (v - S^T k))^T; out = S^T q, in f64. */
static void check_token(head *h, double *most)
{
    for (uint32_t j = 0; j < h->values; j++) {
        double seen = 0, out = 0;
        for (uint32_t i = 0; i < h->keys; i++) h->exact[i * h->values + j] *= (double)h->decay;
        for (uint32_t i = 0; i < h->keys; i++) seen += h->exact[i * h->values + j] * (double)h->k[i];
        const double d = ((double)h->v[j] - seen) * (double)h->beta;
        for (uint32_t i = 0; i < h->keys; i++) h->exact[i * h->values + j] += (double)h->k[i] * d;
        for (uint32_t i = 0; i < h->keys; i++) out += h->exact[i * h->values + j] * (double)h->q[i];
        *most = fmax(*most, fabs(out));
        assert_true(near((double)h->y[j], out, 0, 3e-6 * (1 + *most)));
    }
    for (uint32_t at = 0; at < h->keys * h->values; at++)
        assert_true(near((double)h->state[at], h->exact[at], 0, 1e-6 * (1 + *most)));
}

static void delta_is_its_formula(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        static head h;
        h.keys = test_between(&rng, 1, MAX_KEYS);
        h.values = 8 * test_between(&rng, 1, MAX_VALUES / 8);
        double most = 0;
        const bool zeros = round % 2;
        test_floats(&rng, TEST_ORDINARY, h.state, h.keys * h.values);
        for (uint32_t i = 0; i < h.keys * h.values; i++) h.exact[i] = zeros ? 0 : (double)h.state[i];
        for (int t = 0; t < 30; t++) {
            new_token(&h);
            tern_ref_delta(&(tern_delta_args){.state = zeros && t == 0 ? NULL : h.state,
                                              .next = h.state,
                                              .q = h.q,
                                              .k = h.k,
                                              .v = h.v,
                                              .decay = h.decay,
                                              .beta = h.beta,
                                              .keys = h.keys,
                                              .values = h.values,
                                              .y = h.y});
            check_token(&h, &most);
        }
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(softplus_is_its_formula), cmocka_unit_test(logistic_is_its_formula),
    cmocka_unit_test(decay_is_its_formula),    cmocka_unit_test(conv_is_its_formula),
    cmocka_unit_test(delta_is_its_formula),
};

TEST_GROUP(recurrent, "web", tests, .setup = seed);
