/* Routes and their sums: the definitions against plain sorting and doubles, and how routes are compared. */
#include "ops/ref/experts.h"

#include <math.h>

#include "ops/difference.h"
#include "ops/ref/ref.h"
#include "ops/value.h"
#include "support/kernels.h"
#include "support/test.h"

enum { MAX = 64 };

static tern_rng rng;

/* Whether expert a goes before expert b: by logit, then by index; NaN last. */
static bool before(const float *logits, uint32_t a, uint32_t b)
{
    const bool nan_a = isnan(logits[a]), nan_b = isnan(logits[b]);
    if (nan_a != nan_b) return nan_b;
    if (!nan_a && logits[a] != logits[b]) return logits[a] > logits[b];
    return a < b;
}

static void check(const float *logits, uint32_t n, uint32_t k, tern_route_rule rule)
{
    tern_route routes[MAX];
    tern_ref_route(logits, n, k, rule, routes);
    double all = 0, chosen = 0;
    for (uint32_t e = 0; e < n; e++) all += exp((double)logits[e] - (double)logits[routes[0].expert]);
    for (uint32_t j = 0; j < k; j++) chosen += exp((double)logits[routes[j].expert] - (double)logits[routes[0].expert]);
    for (uint32_t j = 0; j < k; j++) {
        uint32_t rank = 0;
        for (uint32_t e = 0; e < n; e++) rank += before(logits, e, routes[j].expert);
        assert_int_equal(rank, j);
        const double p = exp((double)logits[routes[j].expert] - (double)logits[routes[0].expert]);
        const double want = p / (rule == TERN_ROUTE_SOFTMAX_ALL ? all : chosen);
        if (!(fabs((double)routes[j].weight - want) < 2e-6) && !isnan(want))
            fail_msg("%u of %u experts, rule %d: weight %u is %g, %g expected", k, n, (int)rule, j,
                     (double)routes[j].weight, want);
        assert_int_equal(isnan(routes[j].weight), isnan(want));
    }
}

/* Random logits, many of them equal, k from 1 to all. */
static void routes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 600; i++) {
        float logits[MAX];
        const uint32_t n = test_between(&rng, 1, MAX),
                       k = test_between(&rng, 1, n < TERN_MAX_ROUTES ? n : TERN_MAX_ROUTES);
        for (uint32_t e = 0; e < n; e++)
            logits[e] = i % 2 ? 8 * tern_rng_f32(&rng) - 4 : (float)test_between(&rng, 0, 3) - 1.5f;
        check(logits, n, k, (tern_route_rule)(i % 3));
        check(logits, n, n < TERN_MAX_ROUTES ? n : TERN_MAX_ROUTES, (tern_route_rule)(i / 3 % 3));
    }
}

/* NaN comes after every number, equal logits keep their order, and both zeros are equal. */
static void order(void **state)
{
    (void)state;
    const float logits[] = {NAN, 1, -INFINITY, 2, NAN, 2, -0.0f, 0};
    const uint32_t want[] = {3, 5, 1, 6, 7, 2, 0, 4};
    tern_route got[8];
    tern_ref_route(logits, 8, 8, TERN_ROUTE_SOFTMAX_TOP, got);
    for (uint32_t j = 0; j < 8; j++) assert_int_equal(got[j].expert, want[j]);
    assert_true(isnan(got[0].weight)); /* a NaN spoils the sum, and so is found */
    tern_ref_route(logits, 8, 2, TERN_ROUTE_SOFTMAX_TOP, got);
    assert_true(got[0].weight == 0.5f && got[1].weight == 0.5f);
    tern_ref_route(logits + 1, 3, 1, TERN_ROUTE_SOFTMAX_ALL_NORMED, got);
    assert_true(got[0].expert == 2 && got[0].weight == 1);
}

static void combine(void **state)
{
    (void)state;
    const float x[] = {1, 2, 9, 3, 4, 9, 5, 6, 9}, residual[] = {100, 200};
    const tern_route by[] = {{.expert = 4, .weight = 0.5f}, {.expert = 1, .weight = 0.25f}, {.weight = 2}};
    float y[2];
    tern_ref_combine(x, 3, by, 3, NULL, 2, y);
    assert_true(y[0] == 11.25f && y[1] == 14);
    tern_ref_combine(x, 3, by, 1, residual, 2, y);
    assert_true(y[0] == 100.5f && y[1] == 201);
}

/* Against doubles, and beyond both limits. */
static void clamped_swiglu(void **state)
{
    (void)state;
    for (int i = -40; i <= 40; i++)
        for (int k = -40; k <= 40; k++) {
            const float gate = (float)i / 4, up = (float)k / 4;
            float y;
            tern_ref_swiglu_oai(&gate, &up, 7, 1, &y);
            const double g = fmin((double)gate, 7), u = fmax(fmin((double)up, 7), -7);
            assert_true(fabs((double)y - g / (1 + exp(-1.702 * g)) * (u + 1)) < 1e-5 * (1 + fabs((double)y)));
            tern_ref_swiglu_clamped(&gate, &up, 7, 1, &y);
            assert_true(fabs((double)y - g / (1 + exp(-g)) * u) < 1e-5 * (1 + fabs((double)y)));
        }
    const float nan = NAN, one = 1;
    float y;
    tern_ref_swiglu_oai(&nan, &one, 7, 1, &y);
    assert_true(isnan(y));
    tern_ref_swiglu_oai(&one, &nan, 7, 1, &y);
    assert_true(isnan(y));
    tern_ref_swiglu_clamped(&nan, &one, 7, 1, &y);
    assert_true(isnan(y));
    tern_ref_swiglu_clamped(&one, &nan, 7, 1, &y);
    assert_true(isnan(y));
}

/* Another expert is wrong however close its weight is; weights may be off by the share. */
static void compared(void **state)
{
    (void)state;
    tern_error err = {0};
    const tern_value value = {.dtype = TERN_DTYPE_U32, .rows = TERN_ROWS_ROUTED, .cols = 2};
    const tern_tolerance tolerance = {.of_row = 1e-4};
    const tern_route want[] = {{3, 0.75f}, {1, 0.25f}};
    tern_route got[] = {{3, 0.75001f}, {1, 0.24999f}};
    tern_difference d;
    const tern_compared c = {.value = &value,
                             .got = (const uint8_t *)got,
                             .want = (const uint8_t *)want,
                             .n_rows = 2,
                             .cols = 2,
                             .max_rows = 2};
    assert_ok(tern_difference_find(&c, &tolerance, &d, &err), err);
    assert_true(d.ok && !d.identical);
    got[1].expert = 2;
    assert_ok(tern_difference_find(&c, &tolerance, &d, &err), err);
    assert_true(!d.ok && d.row == 1 && d.got == 2 && d.want == 1);
    got[1] = (tern_route){1, 0.26f};
    assert_ok(tern_difference_find(&c, &tolerance, &d, &err), err);
    assert_true(!d.ok && d.row == 1);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(routes),         cmocka_unit_test(order),    cmocka_unit_test(combine),
    cmocka_unit_test(clamped_swiglu), cmocka_unit_test(compared),
};

TEST_GROUP(experts, "web", tests, .setup = seed);
