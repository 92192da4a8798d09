/* Optimisers, clipping, schedules, low-precision states and requantisation against their formulas in f64. */
#include "support/test.h"

#include <float.h>
#include <math.h>

#include "base/flush.h"
#include "base/rng.h"
#include "ops/ref/update.h"
#include "quant/encoding.h"

enum { SEED = 20250312, N = 1024 };

static tern_rng rng;

static float uniform(float most)
{
    return most * (2 * tern_rng_f32(&rng) - 1);
}

static void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("found %.9g, expected %.9g within %.3g", found, expected, tolerance);
}

/* The textbook form of both optimisers, with hats and all, for 20 steps. */
static void adamw(void **state)
{
    (void)state;
    rng.state = SEED;
    const tern_adamw options = {.lr = 3e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-4, .decay = 0.1};
    float w = 0.7f, m = 0, v = 0;
    double exact = (double)w, mean = 0, square = 0;
    for (uint64_t step = 1; step <= 20; step++) {
        float g = uniform(1);
        tern_adamw_factors f = tern_ref_adamw_factors(&options, step);
        tern_ref_adamw(&f, &g, 1, &w, &m, &v);
        mean = 0.9 * mean + (1 - 0.9) * (double)g;
        square = 0.99 * square + (1 - 0.99) * (double)g * (double)g;
        double mean_hat = mean / (1 - pow(0.9, (double)step)), square_hat = square / (1 - pow(0.99, (double)step));
        exact -= options.lr * (mean_hat / (sqrt(square_hat) + options.eps) + options.decay * exact);
        assert_near((double)w, exact, 1e-6);
    }
    assert_near((double)m, mean, 1e-6);
    assert_near((double)v, square, 1e-6);
}

static void sgd(void **state)
{
    (void)state;
    rng.state = SEED;
    const tern_sgd options = {.lr = 0.05f, .momentum = 0.9f, .decay = 0.01f};
    float w[2] = {0.7f, 0.7f}, buffer = 0;
    double exact[2] = {(double)w[0], (double)w[0]}, kept = 0;
    for (int step = 0; step < 20; step++) {
        float g = uniform(1);
        tern_ref_sgd(&options, &g, 1, &w[0], &buffer);
        tern_ref_sgd(&options, &g, 1, &w[1], NULL);
        kept = 0.9 * kept + (double)g + 0.01 * exact[0];
        exact[0] -= 0.05 * kept;
        exact[1] -= 0.05 * ((double)g + 0.01 * exact[1]);
        assert_near((double)w[0], exact[0], 1e-5);
        assert_near((double)w[1], exact[1], 1e-5);
    }
}

static void norm_and_clipping(void **state)
{
    (void)state;
    rng.state = SEED;
    static float g[3 * TERN_NORM_CHUNK + 5];
    const size_t n = sizeof g / sizeof *g;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        g[i] = uniform(2);
        sum += (double)g[i] * (double)g[i];
    }
    assert_near((double)tern_ref_sum_squares(g, n) / sum, 1, 1e-6);
    float factor = tern_ref_clip_factor(sqrt(sum), 1.5);
    tern_ref_scale(factor, n, g);
    assert_near(sqrt((double)tern_ref_sum_squares(g, n)), 1.5, 1e-5);
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
        assert_near(tern_ref_schedule(kinds[i], 0, 10, 110), 0, 0);
        assert_near(tern_ref_schedule(kinds[i], 3, 10, 110), 0.3, 1e-15);
        assert_near(tern_ref_schedule(kinds[i], 10, 10, 110), 1, 0);
        assert_near(tern_ref_schedule(kinds[i], 0, 0, 100), 1, 0);
        assert_near(tern_ref_schedule(kinds[i], 110, 10, 110), i == 0, 1e-15);
        assert_near(tern_ref_schedule(kinds[i], 5, 5, 5), i == 0, 0);
    }
    assert_near(tern_ref_schedule(TERN_SCHEDULE_LINEAR, 35, 10, 110), 0.75, 1e-15);
    assert_near(tern_ref_schedule(TERN_SCHEDULE_COSINE, 60, 10, 110), 0.5, 1e-15);
    assert_near(tern_ref_schedule(TERN_SCHEDULE_COSINE, 35, 10, 110), (1 + sqrt(0.5)) / 2, 1e-15);
}

/* Over all 65536 random values the mean is the value itself. */
static void bf16_rounding_is_fair(void **state)
{
    (void)state;
    rng.state = SEED;
    for (int i = 0; i < 20; i++) {
        float v = uniform(3);
        double sum = 0;
        for (uint32_t random = 0; random < 65536; random++)
            sum += (double)tern_bf16_to_f32(tern_ref_bf16_stochastic(v, random | (random << 16)));
        assert_near(sum / 65536, (double)v, fabs((double)v) * 1e-9);
    }
    assert_int_equal(tern_ref_bf16_stochastic(1.5f, 0xffffffffu), tern_f32_to_bf16(1.5f));
    assert_int_equal(tern_ref_bf16_stochastic(FLT_MAX, 0xffff), 0x7f7f);
    assert_int_equal(tern_ref_bf16_stochastic(-FLT_MAX, 0xffff), 0xff7f);
    assert_int_equal(tern_ref_bf16_stochastic(-INFINITY, 0xffff), 0xff80);
    assert_true(isnan(tern_bf16_to_f32(tern_ref_bf16_stochastic(NAN, 0xffff))));
}

/* Steps far below the last place of a bf16 weight add up, where rounding to the nearest would lose every one. */
static void small_steps_are_not_lost(void **state)
{
    (void)state;
    const float step = 1e-4f;
    double sum = 0;
    for (uint32_t w = 0; w < 64; w++) {
        uint16_t fair = tern_f32_to_bf16(1), nearest = fair;
        for (uint32_t i = 0; i < 1000; i++) {
            fair = tern_ref_bf16_stochastic(tern_bf16_to_f32(fair) + step, tern_ref_random_bits(i, w));
            nearest = tern_f32_to_bf16(tern_bf16_to_f32(nearest) + step);
        }
        assert_int_equal(nearest, tern_f32_to_bf16(1));
        sum += (double)tern_bf16_to_f32(fair);
    }
    assert_near(sum / 64, 1.1, 0.015); /* of one weight the standard deviation is 0.028 */
}

/* Every bit is set half of the time, over the indices and over the seeds, and half of them change with the seed. */
static void random_bits(void **state)
{
    (void)state;
    enum { COUNT = 1 << 16 };
    uint32_t ones[2][32] = {0}, flips[32] = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t by_index = tern_ref_random_bits(7, i), by_seed = tern_ref_random_bits(i, 7);
        uint32_t changed = by_index ^ tern_ref_random_bits(8, i);
        for (uint32_t b = 0; b < 32; b++) {
            ones[0][b] += by_index >> b & 1;
            ones[1][b] += by_seed >> b & 1;
            flips[b] += changed >> b & 1;
        }
    }
    for (uint32_t b = 0; b < 32; b++) { /* within six standard deviations */
        assert_near(ones[0][b], COUNT / 2.0, 6 * 128);
        assert_near(ones[1][b], COUNT / 2.0, 6 * 128);
        assert_near(flips[b], COUNT / 2.0, 6 * 128);
    }
}

static void states_in_8_bits(void **state)
{
    (void)state;
    rng.state = SEED;
    enum { LENGTH = 3 * TERN_STATE_BLOCK + 17 };
    static float m[LENGTH], v[LENGTH], back[LENGTH], scales[4];
    static uint32_t random[LENGTH];
    static int8_t q[LENGTH];
    static uint8_t u[LENGTH];
    for (uint32_t i = 0; i < LENGTH; i++) { /* one block is zero; the others span many powers of ten */
        m[i] = i / TERN_STATE_BLOCK == 1 ? 0 : uniform(1) * powf(10, -6 * tern_rng_f32(&rng));
        v[i] = m[i] * m[i];
        random[i] = tern_ref_random_bits(3, i);
    }
    tern_ref_state_pack(m, LENGTH, q, scales);
    tern_ref_state_unpack(q, scales, LENGTH, back);
    for (size_t i = 0; i < LENGTH; i++) { /* half a step of the root is 1 / 254 */
        double s = (double)scales[i / TERN_STATE_BLOCK], root = s > 0 ? sqrt(fabs((double)m[i]) / s) : 0;
        assert_near((double)back[i], (double)m[i], s * (2 * root / 254 + 1.01 / (254 * 254.0)));
        assert_true(fabs((double)back[i]) <= s && (i / TERN_STATE_BLOCK != 1 || (q[i] == 0 && back[i] == 0)));
    }
    tern_ref_square_pack(v, LENGTH, random, u, scales);
    tern_ref_square_unpack(u, scales, LENGTH, back);
    for (size_t i = 0; i < LENGTH; i++) {
        double s = (double)scales[i / TERN_STATE_BLOCK], root = s > 0 ? sqrt(sqrt((double)v[i] / s)) : 0;
        assert_true((v[i] == 0) == (back[i] == 0) && (v[i] == 0) == (u[i] == 0));
        double found = s > 0 ? sqrt(sqrt((double)back[i] / s)) : 0;
        assert_near(found, root, 1.0001 / 255);
    }
    const float alone[1] = {-3.5f}; /* the largest of a block comes back exactly */
    tern_ref_state_pack(alone, 1, q, scales);
    tern_ref_state_unpack(q, scales, 1, back);
    assert_true(back[0] == -3.5f);
    tern_ref_square_pack(v, 1, (const uint32_t[]){UINT32_MAX}, u, scales);
    tern_ref_square_unpack(u, scales, 1, back);
    assert_true(u[0] == 255 && back[0] == v[0]);
}

/* Over all random values the mean of a packed second moment is the moment; so one that decays by a thousandth of its
 * value, far less than what is between two codes, does decay. */
static void squares_are_rounded_fairly(void **state)
{
    (void)state;
    rng.state = SEED;
    for (int round = 0; round < 20; round++) {
        const float x[2] = {1, 1e-6f + tern_rng_f32(&rng)};
        double sum = 0;
        for (uint32_t r = 0; r < 65536; r++) {
            float back[2], scale;
            uint8_t q[2];
            tern_ref_square_pack(x, 2, (const uint32_t[]){0, r << 16}, q, &scale);
            tern_ref_square_unpack(q, &scale, 2, back);
            sum += (double)back[1];
        }
        assert_near(sum / 65536 / (double)x[1], 1, 1e-4);
    }
    double sum = 0;
    for (uint32_t w = 0; w < 64; w++) {
        float x[2] = {1, 0.02f}, scale;
        uint8_t q[2];
        for (uint32_t i = 0; i < 1000; i++) {
            tern_ref_square_pack(x, 2, (const uint32_t[]){0, tern_ref_random_bits(i, w)}, q, &scale);
            tern_ref_square_unpack(q, &scale, 2, x);
            x[1] *= 0.999f;
        }
        sum += (double)x[1];
    }
    assert_near(sum / 64 / (0.02 * pow(0.999, 1000)), 1, 0.15);
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
        assert_near((double)blended[i], 0.75 * (double)w[i] + 0.25 * (double)codes[i] * (double)scale,
                    1e-7 * (fabs((double)w[i]) + (double)scale));
    free(blended);
}

/* The same bits as the converter's. */
static void requantisation(void **state)
{
    (void)state;
    rng.state = SEED;
    static float w[N], large[3 * 4096 + 128];
    int8_t codes[sizeof large / sizeof *large];
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < N; i++) w[i] = uniform(round % 2 ? 0.05f : 2e-5f);
        check_requantised(w, N);
        for (size_t i = 0; i < N; i++) w[i] = tern_bf16_to_f32(tern_f32_to_bf16(w[i]));
        check_requantised(w, N);
    }
    for (size_t i = 0; i < N; i++) w[i] = (float[]){0.5f, -0.5f, 1.5f, -1.5f}[i % 4]; /* the mean is 1: ties */
    check_requantised(w, N);
    memset(w, 0, sizeof w);
    check_requantised(w, N);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) large[i] = uniform(1);
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

/* The step of a stored tensor is the optimiser's on floats, with the moments and the weight rounded as is said. */
static void stored_tensors(void **state)
{
    (void)state;
    rng.state = SEED;
    enum { LENGTH = 2 * TERN_STATE_BLOCK + 31, FIRST = 3 * TERN_STATE_BLOCK, TENSOR_SEED = 77 };
    static float g[LENGTH], w[LENGTH], m[LENGTH], v[LENGTH], m_back[LENGTH], v_back[LENGTH], zero[LENGTH];
    static uint16_t w16[LENGTH], v16[LENGTH];
    static int8_t m8[LENGTH];
    static float m_scales[3];
    const tern_adamw options = {.lr = 3e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .decay = 0.1};
    tern_adamw_factors f = tern_ref_adamw_factors(&options, 3);
    const tern_train_params p = {.clip = 0.5f,
                                 .keep = f.keep,
                                 .blend1 = f.blend1,
                                 .beta2 = f.beta2,
                                 .blend2 = f.blend2,
                                 .root = f.root,
                                 .eps = f.eps,
                                 .pace = f.pace};
    for (int i = 0; i < LENGTH; i++) {
        w[i] = tern_bf16_to_f32(w16[i] = tern_f32_to_bf16(uniform(1)));
        v[i] = tern_bf16_to_f32(v16[i] = tern_f32_to_bf16(fabsf(uniform(0.1f))));
        m[i] = uniform(0.1f);
        g[i] = uniform(1);
    }
    tern_ref_state_pack(m, LENGTH, m8, m_scales);
    tern_ref_state_unpack(m8, m_scales, LENGTH, m);
    const tern_update_args args = {.params = &p,
                                   .optimizer = TERN_OPTIMIZER_ADAMW,
                                   .seed = TENSOR_SEED,
                                   .first = FIRST,
                                   .n = LENGTH,
                                   .w_dtype = TERN_DTYPE_BF16,
                                   .m_dtype = TERN_DTYPE_M8,
                                   .v_dtype = TERN_DTYPE_BF16,
                                   .w = w16,
                                   .m = m8,
                                   .v = v16,
                                   .g = g,
                                   .m_scales = m_scales};
    static float halved[LENGTH];
    for (int i = 0; i < LENGTH; i++) halved[i] = g[i] * 0.5f;
    tern_ref_update(&args);
    f.keep = 1; /* it does not decay */
    tern_ref_adamw(&f, halved, LENGTH, w, m, v);
    for (uint32_t i = 0; i < LENGTH; i++) {
        assert_int_equal(w16[i], tern_ref_bf16_stochastic(w[i], tern_ref_random_bits(TENSOR_SEED, FIRST + i)));
        v_back[i] = tern_bf16_to_f32(v16[i]);
        assert_near((double)v_back[i], (double)v[i], (double)v[i] / 128);
    }
    assert_memory_equal(g, zero, sizeof g);
    tern_ref_state_unpack(m8, m_scales, LENGTH, m_back);
    for (int i = 0; i < LENGTH; i++) assert_near((double)m_back[i], (double)m[i], 1e-3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(adamw),
    cmocka_unit_test(sgd),
    cmocka_unit_test(norm_and_clipping),
    cmocka_unit_test(schedules),
    cmocka_unit_test(bf16_rounding_is_fair),
    cmocka_unit_test(random_bits),
    cmocka_unit_test(small_steps_are_not_lost),
    cmocka_unit_test(states_in_8_bits),
    cmocka_unit_test(squares_are_rounded_fairly),
    cmocka_unit_test(stored_tensors),
    cmocka_unit_test(sums_of_sums),
    cmocka_unit_test(results_are_held),
    cmocka_unit_test(thresholds_and_clamps),
    cmocka_unit_test(requantisation),
};

TEST_GROUP(update, "arm64", tests);
