/* Encodings against each other: codes survive every pair, floats survive within bounds. */
#include "quant/round_trip_cases.h"

static const char *const ternary[] = {"i2_s", "tq1_0", "tq2_0", "t160"};

static const shape shapes[] = {{1, 256}, {3, 512}, {5, 768}, {7, 2560}, {4, 6912}};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void pair_of_encodings(const tern_encoding *a, const tern_encoding *b, shape s, const int8_t *codes)
{
    const float scale = 0.03125f;
    tern_error err = {0};
    void *in_a = round_trip_encoded_bytes(a, s), *in_b = round_trip_encoded_bytes(b, s);
    assert_ok(tern_encode_codes(a, codes, scale, s.rows, s.cols, in_a, &err), err);
    int8_t *from_a = round_trip_decoded_codes(a, in_a, s, scale);
    assert_ok(tern_encode_codes(b, from_a, scale, s.rows, s.cols, in_b, &err), err);
    int8_t *from_b = round_trip_decoded_codes(b, in_b, s, scale);
    assert_memory_equal(from_b, codes, (size_t)(s.rows * s.cols));
    free(from_a);
    free(from_b);
    free(in_a);
    free(in_b);
}

static void ternary_pairs(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++)
        for (int fill = 0; fill < 4; fill++) {
            int8_t *codes = round_trip_filled_codes(shapes[i], fill, 1000 + i);
            for (size_t a = 0; a < N_TERNARY; a++)
                for (size_t b = 0; b < N_TERNARY; b++)
                    pair_of_encodings(round_trip_named(ternary[a]), round_trip_named(ternary[b]), shapes[i], codes);
            free(codes);
        }
}

/* Codes to ternary bytes, to floats, through a float encoding, and by ternarisation back to the same codes. */
static void through_floats(const tern_encoding *t, const tern_encoding *f, shape s, const int8_t *codes)
{
    size_t n = (size_t)(s.rows * s.cols);
    tern_error err = {0};
    void *in_t = round_trip_encoded_bytes(t, s), *in_f = round_trip_encoded_bytes(f, s);
    float *x = malloc(n * sizeof *x);
    assert_ok(tern_encode_codes(t, codes, 0.5f, s.rows, s.cols, in_t, &err), err);
    assert_ok(tern_decode_rows(t, in_t, s.rows, s.cols, 0, s.rows, x, &err), err);
    for (size_t i = 0; i < n; i++) assert_true(x[i] == 0.5f * (float)codes[i]);
    assert_ok(tern_encode(f, x, s.rows, s.cols, in_f, &err), err);
    memset(x, 0xff, n * sizeof *x);
    assert_ok(tern_decode_rows(f, in_f, s.rows, s.cols, 0, s.rows, x, &err), err);
    assert_ok(tern_encode(t, x, s.rows, s.cols, in_t, &err), err);
    int8_t *back = malloc(n);
    assert_ok(tern_decode_codes(t, in_t, s.rows, s.cols, 0, s.rows, back, NULL, NULL, NULL, &err), err);
    assert_memory_equal(back, codes, n);
    free(back);
    free(x);
    free(in_t);
    free(in_f);
}

static void ternary_through_floats(void **state)
{
    (void)state;
    const char *floats[] = {"f32", "f16", "bf16", "q8_0", "q6_k"};
    for (int fill = 0; fill < 4; fill++) {
        int8_t *codes = round_trip_filled_codes(shapes[2], fill, 7);
        for (size_t t = 0; t < N_TERNARY; t++)
            for (size_t f = 0; f < sizeof floats / sizeof *floats; f++)
                through_floats(round_trip_named(ternary[t]), round_trip_named(floats[f]), shapes[2], codes);
        free(codes);
    }
}

static void hf_packed_round_trip(void **state)
{
    (void)state;
    for (uint64_t rows = 1; rows <= 13; rows++) {
        shape s = {rows, 37};
        int8_t *codes = round_trip_filled_codes(s, 0, rows), back[13 * 37];
        uint8_t packed[4 * 37];
        tern_hf_pack(codes, rows, 37, packed);
        assert_int_equal(tern_hf_unpack(packed, rows, 37, back), 0);
        assert_memory_equal(back, codes, rows * 37);
        free(codes);
    }
}

/* Six rows are two packed rows: rows 0, 2, 4 share the first, rows 1, 3, 5 the second, in bits 0-1, 2-3, 4-5. */
static void hf_packed_golden(void **state)
{
    (void)state;
    const int8_t codes[6] = {-1, 1, 0, 0, 1, -1};
    uint8_t packed[2];
    tern_hf_pack(codes, 6, 1, packed);
    assert_int_equal(packed[0], 0 | 1 << 2 | 2 << 4);
    assert_int_equal(packed[1], 2 | 1 << 2 | 0 << 4);
    const uint8_t bad[2] = {0x33 | 0xc0, 0x01}; /* rows 0 and 4 are 11; the 11 in bits 6-7 belongs to no row */
    int8_t back[6];
    assert_int_equal(tern_hf_unpack(bad, 6, 1, back), 2);
    const int8_t expected[6] = {0, 0, -1, -1, 0, -1};
    assert_memory_equal(back, expected, 6);
}

/* One row with two scales, and blocks with scale 0 that match any. */
static void scales_of_rows(void **state)
{
    (void)state;
    const tern_encoding *e = round_trip_named("tq2_0");
    int8_t codes[1024], ones[512];
    uint8_t bytes[4 * 66];
    float scales[2];
    bool uniform = false;
    tern_error err = {0};
    memset(ones, 1, sizeof ones);
    assert_ok(tern_encode_codes(e, ones, 3, 1, 512, bytes, &err), err);
    assert_ok(tern_encode_codes(e, ones, 5, 1, 512, bytes + 132, &err), err);
    assert_ok(tern_decode_codes(e, bytes, 2, 512, 0, 2, codes, scales, &uniform, NULL, &err), err);
    assert_true(uniform && scales[0] == 3 && scales[1] == 5);
    assert_ok(tern_decode_codes(e, bytes, 1, 1024, 0, 1, codes, scales, &uniform, NULL, &err), err);
    assert_false(uniform);
    tern_store_u16(bytes + 64, 0);
    assert_ok(tern_decode_codes(e, bytes, 2, 512, 0, 2, codes, scales, &uniform, NULL, &err), err);
    assert_true(uniform && scales[0] == 3 && codes[0] == 0 && codes[256] == 1);
}

/* pack and unpack, block by block: tq* keep each block's largest magnitude, i2_s and t160 keep codes alone. */
static void floats_in_blocks(void **state)
{
    (void)state;
    for (size_t t = 0; t < N_TERNARY; t++) {
        const tern_encoding *e = round_trip_named(ternary[t]);
        size_t n = e->block_elements;
        float x[3 * 320], back[3 * 320];
        uint8_t bytes[3 * 66];
        tern_rng rng = {t};
        for (size_t i = 0; i < 3 * n; i++)
            x[i] = ((float)tern_rng_below(&rng, 3) - 1) * (i < n ? 0.25f : i < 2 * n ? 0.0f : 6.0f);
        x[0] = 0.25f;
        x[2 * n] = -6;
        e->pack(x, 3, bytes);
        e->unpack(bytes, 3, back);
        bool own_scale = t == 1 || t == 2;
        for (size_t i = 0; i < 3 * n; i++) {
            float sign = (float)(x[i] > 0) - (float)(x[i] < 0);
            assert_true(back[i] == (own_scale ? x[i] : sign));
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ternary_pairs),        cmocka_unit_test(ternary_through_floats),
    cmocka_unit_test(hf_packed_round_trip), cmocka_unit_test(hf_packed_golden),
    cmocka_unit_test(scales_of_rows),       cmocka_unit_test(floats_in_blocks),
};

TEST_GROUP(round_trip, "web", tests);
