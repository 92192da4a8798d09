/* The search for rounding ties finds the ones that were flipped, and explains nothing else away. */
#include "support/flips.h"

#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/test.h"

enum { MAX_FLIPS = 8, MAX_CHOSEN = 3 };
static const double budget = 1e-4;

static tern_engine *engine;
static tern_session *session;
static test_golden golden;
static const int32_t *ids;
static uint32_t n;
static size_t n_logits;

static int setup(void **state)
{
    (void)state;
    test_golden_open(&golden, test_fixture("bitnet/golden.safetensors"));
    engine = test_engine(test_fixture("bitnet"), NULL);
    session = test_session(engine, false);
    ids = test_golden_ids(&golden, 2, &n);
    n_logits = (size_t)n * tern_engine_config(engine)->n_vocab;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tern_session_close(session);
    tern_engine_close(engine);
    test_golden_close(&golden);
    return 0;
}

/* Steps of the int8 scale by which the chosen elements are off: a tie's is 1. */
static struct {
    tern_quantize_fn quantize;
    uint32_t n_met, chosen[MAX_CHOSEN], n_chosen;
    float width; /* how near to a boundary an element must be to count */
} fault;

static void faulty_quantize(const float *x, uint32_t cols, int8_t *q, size_t stride, float *inv_scale, int32_t *sum)
{
    fault.quantize(x, cols, q, stride, inv_scale, sum);
    for (uint32_t c = 0; c < cols; c++) {
        float v = x[c] / *inv_scale, distance = fabsf(v - rintf(v));
        if (distance < 0.5f - fault.width || distance > 0.5f - fault.width / 2) continue;
        for (uint32_t i = 0; i < fault.n_chosen; i++)
            if (fault.n_met == fault.chosen[i]) {
                int8_t other = (int8_t)(v > rintf(v) ? q[c] + 1 : q[c] - 1);
                *sum += other - q[c];
                q[c] = other;
            }
        fault.n_met++;
    }
}

/* The logits with the chosen elements rounded the other way; *n_met gets how many there were to choose from. */
static float *faulty_logits(float width, const uint32_t *chosen, uint32_t n_chosen)
{
    tern_error err = {0};
    tern_cpu_kernels *kernels = (tern_cpu_kernels *)(uintptr_t)tern_cpu_kernels_of(tern_engine_backend(engine));
    fault.quantize = kernels->quantize;
    fault.width = width;
    fault.n_met = 0;
    fault.n_chosen = n_chosen;
    for (uint32_t i = 0; i < n_chosen; i++) fault.chosen[i] = chosen[i];
    kernels->quantize = faulty_quantize;
    tern_session_truncate(session, 0);
    tern_status status = tern_session_append_all(session, ids, n, &err);
    kernels->quantize = fault.quantize;
    assert_ok(status, err);
    float *logits = malloc(n_logits * sizeof *logits);
    memcpy(logits, test_logits(session, 0), n_logits * sizeof *logits);
    return logits;
}

static uint32_t nearest(const float *want, double *error)
{
    return test_flips_nearest(&(test_run){session, ids, n, want}, budget, MAX_FLIPS, error);
}

static void no_flip(void **state)
{
    (void)state;
    double error;
    float *want = faulty_logits(1e-5f, NULL, 0);
    assert_int_equal(nearest(want, &error), 0);
    assert_true(error == 0);
    free(want);
}

static void flips_are_found(void **state)
{
    (void)state;
    free(faulty_logits(3e-5f, NULL, 0));
    uint32_t n_met = fault.n_met;
    if (n_met < 2) fail_msg("%u ties in this input: another one is needed", n_met);
    /* A flip may add ties behind it, or take some away. */
    const uint32_t chosen[][2] = {{n_met - 1}, {0, 1}, {0, n_met - 1}};
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        double error;
        float *want = faulty_logits(3e-5f, chosen[i], i ? 2 : 1);
        assert_int_equal(nearest(want, &error), i ? 2 : 1);
        assert_true(error <= budget);
        free(want);
    }
}

/* An element that was clear, rounded the wrong way; and noise. */
static void faults_stay(void **state)
{
    (void)state;
    double error;
    float *want = faulty_logits(0.1f, (uint32_t[]){100}, 1);
    nearest(want, &error);
    assert_true(error > budget);
    for (size_t i = 0; i < n_logits; i++) want[i] = want[i] * (i % 2 ? 1.004f : 0.996f);
    nearest(want, &error);
    assert_true(error > budget);
    want[0] = NAN;
    nearest(want, &error);
    assert_false(error <= budget);
    free(want);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_flip),
    cmocka_unit_test(flips_are_found),
    cmocka_unit_test(faults_stay),
};

TEST_GROUP(flips, "slow", tests, .setup = setup, .teardown = teardown);
