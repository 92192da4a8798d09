/* How updates round: BF16 masters, moments in 8 bits, and that small steps are not lost. */
#include "ops/update_cases.h"

/* Over all 65536 random values the mean is the value itself. */
static void bf16_rounding_is_fair(void **state)
{
    (void)state;
    update_rng.state = SEED;
    for (int i = 0; i < 20; i++) {
        float v = update_uniform(3);
        double sum = 0;
        for (uint32_t random = 0; random < 65536; random++)
            sum += (double)tern_bf16_to_f32(tern_ref_bf16_stochastic(v, random | (random << 16)));
        update_assert_near(sum / 65536, (double)v, fabs((double)v) * 1e-9);
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
    update_assert_near(sum / 64, 1.1, 0.015); /* of one weight the standard deviation is 0.028 */
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
        update_assert_near(ones[0][b], COUNT / 2.0, 6 * 128);
        update_assert_near(ones[1][b], COUNT / 2.0, 6 * 128);
        update_assert_near(flips[b], COUNT / 2.0, 6 * 128);
    }
}

static void states_in_8_bits(void **state)
{
    (void)state;
    update_rng.state = SEED;
    enum { LENGTH = 3 * TERN_STATE_BLOCK + 17 };
    static float m[LENGTH], v[LENGTH], back[LENGTH], scales[4];
    static uint32_t random[LENGTH];
    static int8_t q[LENGTH];
    static uint8_t u[LENGTH];
    for (uint32_t i = 0; i < LENGTH; i++) { /* one block is zero; the others span many powers of ten */
        m[i] = i / TERN_STATE_BLOCK == 1 ? 0 : update_uniform(1) * powf(10, -6 * tern_rng_f32(&update_rng));
        v[i] = m[i] * m[i];
        random[i] = tern_ref_random_bits(3, i);
    }
    tern_ref_state_pack(m, LENGTH, q, scales);
    tern_ref_state_unpack(q, scales, LENGTH, back);
    for (size_t i = 0; i < LENGTH; i++) { /* half a step of the root is 1 / 254 */
        double s = (double)scales[i / TERN_STATE_BLOCK], root = s > 0 ? sqrt(fabs((double)m[i]) / s) : 0;
        update_assert_near((double)back[i], (double)m[i], s * (2 * root / 254 + 1.01 / (254 * 254.0)));
        assert_true(fabs((double)back[i]) <= s && (i / TERN_STATE_BLOCK != 1 || (q[i] == 0 && back[i] == 0)));
    }
    tern_ref_square_pack(v, LENGTH, random, u, scales);
    tern_ref_square_unpack(u, scales, LENGTH, back);
    for (size_t i = 0; i < LENGTH; i++) {
        double s = (double)scales[i / TERN_STATE_BLOCK], root = s > 0 ? sqrt(sqrt((double)v[i] / s)) : 0;
        assert_true((v[i] == 0) == (back[i] == 0) && (v[i] == 0) == (u[i] == 0));
        double found = s > 0 ? sqrt(sqrt((double)back[i] / s)) : 0;
        update_assert_near(found, root, 1.0001 / 255);
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
    update_rng.state = SEED;
    for (int round = 0; round < 20; round++) {
        const float x[2] = {1, 1e-6f + tern_rng_f32(&update_rng)};
        double sum = 0;
        for (uint32_t r = 0; r < 65536; r++) {
            float back[2], scale;
            uint8_t q[2];
            tern_ref_square_pack(x, 2, (const uint32_t[]){0, r << 16}, q, &scale);
            tern_ref_square_unpack(q, &scale, 2, back);
            sum += (double)back[1];
        }
        update_assert_near(sum / 65536 / (double)x[1], 1, 1e-4);
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
    update_assert_near(sum / 64 / (0.02 * pow(0.999, 1000)), 1, 0.15);
}

/* The step of a stored tensor is the optimiser's on floats, with the moments and the weight rounded as is said. */
static void stored_tensors(void **state)
{
    (void)state;
    update_rng.state = SEED;
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
        w[i] = tern_bf16_to_f32(w16[i] = tern_f32_to_bf16(update_uniform(1)));
        v[i] = tern_bf16_to_f32(v16[i] = tern_f32_to_bf16(fabsf(update_uniform(0.1f))));
        m[i] = update_uniform(0.1f);
        g[i] = update_uniform(1);
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
        update_assert_near((double)v_back[i], (double)v[i], (double)v[i] / 128);
    }
    assert_memory_equal(g, zero, sizeof g);
    tern_ref_state_unpack(m8, m_scales, LENGTH, m_back);
    for (int i = 0; i < LENGTH; i++) update_assert_near((double)m_back[i], (double)m[i], 1e-3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bf16_rounding_is_fair),      cmocka_unit_test(random_bits),
    cmocka_unit_test(small_steps_are_not_lost),   cmocka_unit_test(states_in_8_bits),
    cmocka_unit_test(squares_are_rounded_fairly), cmocka_unit_test(stored_tensors),
};

TEST_GROUP(update_rounding, "arm64", tests);
