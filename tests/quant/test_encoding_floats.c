/* Encodings of floats against golden bytes, and values that do not fit. */
#include "quant/encoding_cases.h"

static void golden_floats(void **state)
{
    (void)state;
    const float x[] = {1.0f, -2.0f, 0.333333343f};
    const uint8_t f32[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0xab, 0xaa, 0xaa, 0x3e};
    const uint8_t f16[] = {0, 0x3c, 0, 0xc0, 0x55, 0x35};     /* 1/3 = 1.333 * 2^-2: mantissa 0x155.55 */
    const uint8_t bf16[] = {0x80, 0x3f, 0, 0xc0, 0xab, 0x3e}; /* 0x3eaaaaab rounds up to 0x3eab */
    uint8_t out[16];
    encoding_named("f32")->pack(x, 3, out);
    assert_memory_equal(out, f32, sizeof f32);
    encoding_named("f16")->pack(x, 3, out);
    assert_memory_equal(out, f16, sizeof f16);
    encoding_named("bf16")->pack(x, 3, out);
    assert_memory_equal(out, bf16, sizeof bf16);
}

/* max = 254: d = 2 = f16 0x4000; 254 -> 127, -254 -> -127 = 0x81, 3 -> 1.5 -> 2 (away from zero), -1 -> -0.5 -> -1. */
static void golden_q8_0(void **state)
{
    (void)state;
    const float x[32] = {254, -254, 3, -1, 100};
    const uint8_t expected[34] = {0x00, 0x40, 127, 0x81, 2, 0xff, 50};
    uint8_t out[34];
    encoding_named("q8_0")->pack(x, 1, out);
    assert_memory_equal(out, expected, sizeof expected);
    float back[32];
    encoding_named("q8_0")->unpack(out, 1, back);
    assert_true(back[0] == 254 && back[1] == -254 && back[2] == 4 && back[3] == -2 && back[4] == 100 && back[31] == 0);
}

/* A block written by hand: d = 1, dmin = 0.5. Group 1: scale 3, min 4. Group 5: scale 0x2a = 10 1010, min 0x15 = 01
 * 0101. */
static void golden_q4_k(void **state)
{
    (void)state;
    uint8_t block[144] = {0x00, 0x3c, 0x00, 0x38};
    uint8_t *scales = block + 4, *levels = block + 16;
    scales[1] = 3 | 2 << 6; /* and the top two bits of group 5's scale */
    scales[5] = 4 | 1 << 6; /* and of its minimum */
    scales[9] = 0xa | 0x5 << 4;
    levels[7] = 0x90;       /* group 1 (high nibbles of the first 32 bytes), element 7: 9; group 0: 0 */
    levels[64 + 31] = 0xf0; /* group 5, element 31: 15 */
    float x[256];
    encoding_named("q4_k")->unpack(block, 1, x);
    for (int i = 0; i < 256; i++) {
        float expected = i / 32 == 1 ? -2.0f : i / 32 == 5 ? -10.5f : 0.0f;
        if (i == 32 + 7) expected = 9 * 3 - 2;
        if (i == 160 + 31) expected = 15 * 42 - 10.5f;
        assert_true(x[i] == expected);
    }
}

/* The same with 32 bytes of fifth bits before the levels: bit g of byte i is of element i of group g. */
static void golden_q5_k(void **state)
{
    (void)state;
    uint8_t block[176] = {0x00, 0x3c, 0x00, 0x38};
    uint8_t *scales = block + 4, *high = block + 16, *levels = block + 48;
    scales[1] = 3 | 2 << 6;
    scales[5] = 4 | 1 << 6;
    scales[9] = 0xa | 0x5 << 4;
    high[7] = 1 << 1;       /* group 1, element 7: 16 more */
    high[31] = 1 << 5;      /* group 5, element 31: 16 more */
    levels[7] = 0x90;       /* group 1, element 7: 9 */
    levels[64 + 31] = 0xf0; /* group 5, element 31: 15 */
    float x[256];
    encoding_named("q5_k")->unpack(block, 1, x);
    for (int i = 0; i < 256; i++) {
        float expected = i / 32 == 1 ? -2.0f : i / 32 == 5 ? -10.5f : 0.0f;
        if (i == 32 + 7) expected = 25 * 3 - 2;
        if (i == 160 + 31) expected = 31 * 42 - 10.5f;
        assert_true(x[i] == expected);
    }
}

/* A block written by hand, d = 0.5, scale of group g = g + 1 (group 15: -16), level -32 + something in four places. */
static void golden_q6_k(void **state)
{
    (void)state;
    uint8_t block[210] = {0};
    for (unsigned g = 0; g < 16; g++) block[192 + g] = (uint8_t)(g < 15 ? g + 1 : 0xf0);
    block[209] = 0x38;
    block[5] = 0x37;                        /* element 5: low 7; element 5 + 64: low 3 */
    block[128 + 5] = 0x02 | 1 << 4;         /* element 5: high 2 -> 39 - 32 = 7; element 69: high 1 -> 19 - 32 = -13 */
    block[64 + 32 + 31] = 0xf9;             /* second half, elements 128 + 63: low 9; 128 + 127: low 15 */
    block[128 + 32 + 31] = 3 << 2 | 3 << 6; /* 191: 57 - 32 = 25; 255: 63 - 32 = 31 */
    float x[256];
    encoding_named("q6_k")->unpack(block, 1, x);
    for (int i = 0; i < 256; i++) {
        float scale = i / 16 < 15 ? (float)(i / 16 + 1) : -16.0f;
        float level = i == 5 ? 7 : i == 69 ? -13 : i == 191 ? 25 : i == 255 ? 31 : -32;
        assert_true(x[i] == 0.5f * scale * level);
    }
}

static void assert_encode_fails(const char *name, const float *x, uint64_t cols, const char *message)
{
    static uint8_t out[4096];
    tern_error err = {0};
    assert_int_equal(tern_encode(encoding_named(name), x, 2, cols, out, &err), TERN_INVALID_ARGUMENT);
    if (!strstr(err.message, message)) fail_msg("%s: \"%s\" is not in \"%s\"", name, message, err.message);
}

static void values_that_do_not_fit(void **state)
{
    (void)state;
    static float x[512];
    for (size_t i = 0; tern_encoding_at(i); i++) {
        const float bad[] = {NAN, INFINITY, -INFINITY};
        for (size_t k = 0; k < 3; k++) {
            x[300] = bad[k];
            assert_encode_fails(tern_encoding_at(i)->name, x, 256, "element 300 (row 1, column 44)");
        }
    }
    x[300] = 65520; /* the first value that rounds to infinity in f16 */
    assert_encode_fails("f16", x, 256, "found 65520 at element 300 (row 1, column 44)");
    x[300] = -3e38f;
    x[301] = 1;
    assert_encode_fails("q8_0", x, 256, "at element 300 (row 1, column 44)");
    assert_encode_fails("q4_k", x, 256, "at element 300");
    assert_encode_fails("q6_k", x, 256, "at element 300");
    assert_encode_fails("tq1_0", x, 256, "found scale");
    x[300] = -3.4e38f; /* rounds to infinity in bf16 */
    assert_encode_fails("bf16", x, 256, "at element 300");
}

/* Rows of f16 become floats by another way than one f16 does: all of them, to the bit. */
static void every_f16(void **state)
{
    (void)state;
    static uint8_t in[2 * 65536];
    static float x[65536];
    for (uint32_t h = 0; h < 65536; h++) tern_store_u16(in + 2 * h, (uint16_t)h);
    encoding_named("f16")->unpack(in, 65536, x);
    for (uint32_t h = 0; h < 65536; h++)
        if (tern_f32_bits(x[h]) != tern_f32_bits(tern_f16_to_f32((uint16_t)h)))
            fail_msg("f16 0x%04x: %a", h, (double)x[h]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_f16),
    cmocka_unit_test(golden_floats),
    cmocka_unit_test(golden_q8_0),
    cmocka_unit_test(golden_q4_k),
    cmocka_unit_test(golden_q5_k),
    cmocka_unit_test(golden_q6_k),
    cmocka_unit_test(values_that_do_not_fit),
};

TEST_GROUP(encoding_floats, "web", tests);
