/* Optimisers, clipping, schedules, low-precision states and requantisation against their formulas in f64. */
#include "ops/update_cases.h"

/* The textbook form of both optimisers, with hats and all, for 20 steps. */
static void adamw(void **state)
{
    (void)state;
    update_rng.state = SEED;
    const tern_adamw options = {.lr = 3e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-4, .decay = 0.1};
    float w = 0.7f, m = 0, v = 0;
    double exact = (double)w, mean = 0, square = 0;
    for (uint64_t step = 1; step <= 20; step++) {
        float g = update_uniform(1);
        tern_adamw_factors f = tern_ref_adamw_factors(&options, step);
        tern_ref_adamw(&f, &g, 1, &w, &m, &v);
        mean = 0.9 * mean + (1 - 0.9) * (double)g;
        square = 0.99 * square + (1 - 0.99) * (double)g * (double)g;
        double mean_hat = mean / (1 - pow(0.9, (double)step)), square_hat = square / (1 - pow(0.99, (double)step));
        exact -= options.lr * (mean_hat / (sqrt(square_hat) + options.eps) + options.decay * exact);
        update_assert_near((double)w, exact, 1e-6);
    }
    update_assert_near((double)m, mean, 1e-6);
    update_assert_near((double)v, square, 1e-6);
}

static void sgd(void **state)
{
    (void)state;
    update_rng.state = SEED;
    const tern_sgd options = {.lr = 0.05f, .momentum = 0.9f, .decay = 0.01f};
    float w[2] = {0.7f, 0.7f}, buffer = 0;
    double exact[2] = {(double)w[0], (double)w[0]}, kept = 0;
    for (int step = 0; step < 20; step++) {
        float g = update_uniform(1);
        tern_ref_sgd(&options, &g, 1, &w[0], &buffer);
        tern_ref_sgd(&options, &g, 1, &w[1], NULL);
        kept = 0.9 * kept + (double)g + 0.01 * exact[0];
        exact[0] -= 0.05 * kept;
        exact[1] -= 0.05 * ((double)g + 0.01 * exact[1]);
        update_assert_near((double)w[0], exact[0], 1e-5);
        update_assert_near((double)w[1], exact[1], 1e-5);
    }
}

static void norm_and_clipping(void **state)
{
    (void)state;
    update_rng.state = SEED;
    static float g[3 * TERN_NORM_CHUNK + 5];
    const size_t n = sizeof g / sizeof *g;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        g[i] = update_uniform(2);
        sum += (double)g[i] * (double)g[i];
    }
    update_assert_near((double)tern_ref_sum_squares(g, n) / sum, 1, 1e-6);
    float factor = tern_ref_clip_factor(sqrt(sum), 1.5);
    tern_ref_scale(factor, n, g);
    update_assert_near(sqrt((double)tern_ref_sum_squares(g, n)), 1.5, 1e-5);
    assert_true(tern_ref_clip_factor(0.5, 1) == 1 && tern_ref_clip_factor(0, 1) == 1);
    assert_true(tern_ref_clip_factor(100, 0) == 1);
    assert_true(tern_ref_clip_factor(3, 1) == (float)(1 / (3 + 1e-6)));
    assert_true(isnan(tern_ref_clip_factor(NAN, 1)));
    assert_true(tern_ref_sum_squares(g, 0) == 0);
    for (size_t i = 0; i < 4; i++) { /* whatever is not finite shows */
        const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f};
        g[n - 1] = odd[i];
        assert_true(tern_ref_sum_squares(g, n) == INFINITY);
    }
}

/* Sums of more than one level of runs: ones, counted. */
static void sums_of_sums(void **state)
{
    (void)state;
    const size_t n = (size_t)TERN_NORM_CHUNK * TERN_NORM_CHUNK + 3;
    float *g = malloc(n * sizeof *g);
    for (size_t i = 0; i < n; i++) g[i] = i < 1000 || i >= n - 3;
    assert_true(tern_ref_sum_squares(g, n) == 1003);
    free(g);
}

/* What devices disagree about never comes out: all results are 0 or at least 2^-125, and finite, for any input; and
 * moments that are odd do not spread to the weight. */
static void results_are_held(void **state)
{
    (void)state;
    static const uint32_t odd[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000,
                                   0x00ffffff, 0x01000000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                                   0x7fc00000, 0xffc00001, 0x3f800000, 0xbf800000, 0x1fffffff, 0x5f800000};
    enum { ODD = sizeof odd / sizeof *odd };
    const tern_adamw_factors f = {
        .keep = 0.99f, .blend1 = 0.1f, .beta2 = 0.999f, .blend2 = 0.001f, .root = 0.03f, .eps = 1e-8f, .pace = 0.01f};
    const tern_sgd sgd = {.lr = 0.1f, .momentum = 0.9f, .decay = 0.01f};
    for (uint32_t i = 0; i < ODD * ODD * ODD; i++) {
        const float g = tern_f32_from_bits(odd[i % ODD]), was = tern_f32_from_bits(odd[i / ODD % ODD]);
        float x[6] = {was, tern_f32_from_bits(odd[i / ODD / ODD]), was, was, was, was};
        tern_ref_adamw(&f, &g, 1, &x[0], &x[1], &x[2]);
        tern_ref_sgd(&sgd, &g, 1, &x[3], &x[4]);
        tern_ref_sgd(&sgd, &g, 1, &x[5], NULL);
        for (int k = 0; k < 6; k++)
            if (!(isfinite(x[k]) && tern_f32_bits(x[k]) == tern_flush_bits(tern_f32_bits(x[k]))))
                fail_msg("case %u: result %d is %a", i, k, (double)x[k]);
    }
}

static void schedules(void **state)
{
    (void)state;
    const tern_schedule kinds[] = {TERN_SCHEDULE_CONSTANT, TERN_SCHEDULE_LINEAR, TERN_SCHEDULE_COSINE};
    for (size_t i = 0; i < 3; i++) {
        update_assert_near(tern_ref_schedule(kinds[i], 0, 10, 110), 0, 0);
        update_assert_near(tern_ref_schedule(kinds[i], 3, 10, 110), 0.3, 1e-15);
        update_assert_near(tern_ref_schedule(kinds[i], 10, 10, 110), 1, 0);
        update_assert_near(tern_ref_schedule(kinds[i], 0, 0, 100), 1, 0);
        update_assert_near(tern_ref_schedule(kinds[i], 110, 10, 110), i == 0, 1e-15);
        update_assert_near(tern_ref_schedule(kinds[i], 5, 5, 5), i == 0, 0);
    }
    update_assert_near(tern_ref_schedule(TERN_SCHEDULE_LINEAR, 35, 10, 110), 0.75, 1e-15);
    update_assert_near(tern_ref_schedule(TERN_SCHEDULE_COSINE, 60, 10, 110), 0.5, 1e-15);
    update_assert_near(tern_ref_schedule(TERN_SCHEDULE_COSINE, 35, 10, 110), (1 + sqrt(0.5)) / 2, 1e-15);
}

static void check_requantised(const float *w, size_t n)
{
    static int8_t codes[N];
    static uint8_t want[N / 4 + 32], got[N / 4];
    tern_error err = {0};
    float scale;
    tern_ternarise(w, n, codes, &scale);
    assert_ok(tern_encode_codes(tern_encoding_by_name("i2_s"), codes, scale, 1, n, want, &err), err);
    assert_true(tern_ref_absmean(w, n) == scale);
    memset(got, 0xff, sizeof got);
    tern_ref_requantize_codes(TERN_DTYPE_F32, w, n, tern_ref_ternary_rule(scale, 0), got);
    assert_memory_equal(got, want, n / 4);
    float *blended = malloc(n * sizeof *blended);
    tern_ref_requantize_blend(TERN_DTYPE_F32, w, n, tern_ref_ternary_rule(scale, 0), 1, blended);
    for (size_t i = 0; i < n; i++) assert_true(blended[i] == (float)codes[i] * scale);
    tern_ref_requantize_blend(TERN_DTYPE_F32, w, n, tern_ref_ternary_rule(scale, 0), 0.25f, blended);
    for (size_t i = 0; i < n; i++)
        update_assert_near((double)blended[i], 0.75 * (double)w[i] + 0.25 * (double)codes[i] * (double)scale,
                           1e-7 * (fabs((double)w[i]) + (double)scale));
    free(blended);
}

/* The same bits as the converter's. */
static void requantisation(void **state)
{
    (void)state;
    update_rng.state = SEED;
    static float w[N], large[3 * 4096 + 128];
    int8_t codes[sizeof large / sizeof *large];
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < N; i++) w[i] = update_uniform(round % 2 ? 0.05f : 2e-5f);
        check_requantised(w, N);
        for (size_t i = 0; i < N; i++) w[i] = tern_bf16_to_f32(tern_f32_to_bf16(w[i]));
        check_requantised(w, N);
    }
    for (size_t i = 0; i < N; i++) w[i] = (float[]){0.5f, -0.5f, 1.5f, -1.5f}[i % 4]; /* the mean is 1: ties */
    check_requantised(w, N);
    memset(w, 0, sizeof w);
    check_requantised(w, N);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) large[i] = update_uniform(1);
    float scale;
    tern_ternarise(large, sizeof large / sizeof *large, codes, &scale);
    assert_true(tern_ref_absmean(large, sizeof large / sizeof *large) == scale);
}

/* Codes by a threshold, and masters that cannot leave what the codes stand for. */
static void thresholds_and_clamps(void **state)
{
    (void)state;
    float w[128];
    uint8_t packed[32];
    for (int i = 0; i < 128; i++) w[i] = (float)(i - 64) / 64;
    tern_ref_requantize_codes(TERN_DTYPE_F32, w, 128, tern_ref_ternary_rule(0.5f, 0.75f), packed);
    for (int i = 0; i < 128; i++) {
        const int code = (packed[i % 32] >> (6 - i / 32 * 2) & 3) - 1;
        assert_int_equal(code, (w[i] > 0.375f) - (w[i] < -0.375f));
    }
    w[5] = NAN;
    assert_int_equal(tern_ref_requantize_exponent(TERN_DTYPE_F32, w, 128, 0.25f), 125);
    for (int i = 0; i < 128; i++) assert_true(w[i] == (i == 5 ? 0 : fmaxf(-0.25f, fminf(0.25f, (float)(i - 64) / 64))));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(adamw),
    cmocka_unit_test(sgd),
    cmocka_unit_test(norm_and_clipping),
    cmocka_unit_test(schedules),
    cmocka_unit_test(sums_of_sums),
    cmocka_unit_test(results_are_held),
    cmocka_unit_test(thresholds_and_clamps),
    cmocka_unit_test(requantisation),
};

TEST_GROUP(update, "arm64", tests);
