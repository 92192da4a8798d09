/* MXFP4 against its definition in doubles, bytes worked out by hand, and Hugging Face's pair of tensors. */
#include "quant/encoding_cases.h"

#include "base/rng.h"
#include "quant/mxfp4.h"

/* E2M1 by its fields: a sign, two bits of exponent (bias 1), one of mantissa; exponent 0 has no hidden bit. */
static double number_of(unsigned code)
{
    const unsigned exponent = code >> 1 & 3, mantissa = code & 1;
    const double magnitude = exponent ? ldexp(1 + mantissa / 2.0, (int)exponent - 1) : mantissa / 2.0;
    return code & 8 ? -magnitude : magnitude;
}

/* Every code with every scale, in every place; what is above the largest float is infinite. */
static void every_code_and_scale(void **state)
{
    (void)state;
    for (unsigned e = 0; e < 255; e++) {
        uint8_t block[17] = {(uint8_t)e};
        float x[32];
        for (unsigned j = 0; j < 16; j++) block[1 + j] = (uint8_t)(j | ((j + e) % 16) << 4);
        encoding_named("mxfp4")->unpack(block, 1, x);
        for (unsigned j = 0; j < 16; j++) {
            assert_true(x[j] == (float)ldexp(number_of(j), (int)e - 127));
            assert_true(x[16 + j] == (float)ldexp(number_of((j + e) % 16), (int)e - 127));
        }
        assert_int_equal(encoding_named("mxfp4")->find_nonfinite(block, 1), 1);
    }
}

/* NaN in the format: refused by the checker, and never a finite number. */
static void scale_255(void **state)
{
    (void)state;
    uint8_t blocks[2 * 17] = {127};
    float x[64];
    blocks[17] = 255;
    for (unsigned j = 0; j < 16; j++) blocks[18 + j] = (uint8_t)(0x10 * j | j);
    encoding_named("mxfp4")->unpack(blocks, 2, x);
    for (unsigned i = 0; i < 64; i++) assert_int_equal(isfinite(x[i]) != 0, i < 32);
    assert_int_equal(encoding_named("mxfp4")->find_nonfinite(blocks, 2), 1);
}

/* The largest number is 6, so the scale is 2^(2 - 2) = 1, e = 127. Halves go to the even code: 0.25 to 0 (code 0), 0.75
 * to 1 (2), 1.25 to 1 (2), 1.75 to 2 (4), 2.5 to 2 (4), 3.5 to 4 (6), 5 to 4 (6). Element 16 + j is in byte j's high
 * nibble. */
static void golden(void **state)
{
    (void)state;
    const float x[32] = {
        6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, [16] = -6, -0.25f, -0.26f, -0.76f, -1, -4, -3, 0.5f};
    const uint8_t expected[17] = {127, 0xf7, 0x00, 0x92, 0xa2, 0xa4, 0xe4, 0xd6, 0x16};
    uint8_t out[18];
    float back[32];
    out[17] = 0xa5;
    encoding_named("mxfp4")->pack(x, 1, out);
    assert_memory_equal(out, expected, 17);
    assert_int_equal(out[17], 0xa5);
    encoding_named("mxfp4")->unpack(out, 1, back);
    assert_true(back[0] == 6 && back[2] == 1 && back[16] == -6 && back[19] == -1 && back[21] == -4 && back[31] == 0);
    assert_false(signbit(back[17]));
}

/* OCP's scale leaves 7.9 at 6; twice that scale is nearer: 8 for 7.9, and nothing else is there to suffer. */
static void doubled_scale(void **state)
{
    (void)state;
    float x[32] = {7.9f}, w[32];
    uint8_t out[17];
    encoding_named("mxfp4")->pack(x, 1, out);
    assert_int_equal(out[0], 128);
    assert_int_equal(out[1], 6);
    for (unsigned i = 1; i < 32; i++) x[i] = 0.5f; /* these are exact with OCP's scale only */
    for (unsigned i = 0; i < 32; i++) w[i] = i ? 100 : 0.01f;
    encoding_named("mxfp4")->pack_weighted(x, w, 1, out);
    assert_int_equal(out[0], 127);
    assert_int_equal(out[1], 0x17);
    for (unsigned i = 0; i < 32; i++) w[i] = i ? 0.01f : 100;
    encoding_named("mxfp4")->pack_weighted(x, w, 1, out);
    assert_int_equal(out[0], 128);
}

/* Numbers that MXFP4 holds come back as they were, from the smallest scale to the largest. */
static void held_numbers_are_kept(void **state)
{
    (void)state;
    tern_rng rng = {15};
    for (int e = -127; e <= 125; e++)
        for (int trial = 0; trial < 20; trial++) {
            float x[32], back[32];
            uint8_t out[17];
            for (unsigned i = 0; i < 32; i++) {
                unsigned code = tern_rng_below(&rng, trial % 2 ? 16 : 4);
                x[i] = (float)ldexp(number_of(code == 8 ? 0 : code), e);
            }
            encoding_named("mxfp4")->pack(x, 1, out);
            encoding_named("mxfp4")->unpack(out, 1, back);
            assert_memory_equal(x, back, sizeof x);
        }
}

/* Floats at the ends of f32 get finite numbers; 2^-149 and other numbers far below the least scale become 0. */
static void ends_of_f32(void **state)
{
    (void)state;
    float x[64] = {3.4e38f, -3.4e38f, [32] = 1e-45f, -1e-40f}, back[64];
    uint8_t out[2 * 17];
    encoding_named("mxfp4")->pack(x, 2, out);
    encoding_named("mxfp4")->unpack(out, 2, back);
    assert_int_equal(encoding_named("mxfp4")->find_nonfinite(out, 2), 2);
    for (unsigned i = 0; i < 2; i++) assert_true(fabsf(back[i] / x[i] - 1) < 0.26f);
    assert_int_equal(out[17], 0);
    assert_true(back[32] == 0 && back[33] == 0);
}

/* Element by element: transformers reads element 2j of a block from the low nibble of byte j, 2j + 1 from the high. */
static void pair_of_tensors(void **state)
{
    (void)state;
    enum { N = 37 };
    uint8_t codes[N * 16], scales[N], blocks[N * 17 + 1], codes_back[N * 16], scales_back[N];
    float x[N * 32];
    tern_rng rng = {7};
    for (unsigned i = 0; i < sizeof codes; i++) codes[i] = (uint8_t)tern_rng_below(&rng, 256);
    for (unsigned b = 0; b < N; b++) scales[b] = (uint8_t)(b == 5 ? 0 : b == 6 ? 252 : 100 + b);
    blocks[N * 17] = 0xa5;
    tern_mxfp4_join(codes, scales, N, blocks);
    assert_int_equal(blocks[N * 17], 0xa5);
    encoding_named("mxfp4")->unpack(blocks, N, x);
    for (unsigned i = 0; i < N * 32; i++) {
        const unsigned code = codes[i / 2] >> (i % 2 * 4) & 15;
        assert_true(x[i] == (float)ldexp(number_of(code), scales[i / 32] - 127));
    }
    tern_mxfp4_split(blocks, N, codes_back, scales_back);
    assert_memory_equal(codes, codes_back, sizeof codes);
    assert_memory_equal(scales, scales_back, sizeof scales);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_code_and_scale),
    cmocka_unit_test(scale_255),
    cmocka_unit_test(golden),
    cmocka_unit_test(doubled_scale),
    cmocka_unit_test(held_numbers_are_kept),
    cmocka_unit_test(ends_of_f32),
    cmocka_unit_test(pair_of_tensors),
};

TEST_GROUP(mxfp4, "web", tests);
