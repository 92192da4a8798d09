/* Encodings at their edges: bytes that no encoder writes, rows that do not fit, values that are hard to keep. */
#include "quant/round_trip_cases.h"

#include "base/pool.h"

static const char *const ternary[] = {"i2_s", "tq1_0", "tq2_0", "t160"};

/* Any number of columns in t160, and rows that end inside the blocks of i2_s: whole and in part. */
static void ragged_rows(void **state)
{
    (void)state;
    tern_error err = {0};
    for (uint64_t cols = 1; cols <= 700; cols += cols < 30 ? 1 : 13) {
        shape s = {128, cols};
        int8_t *codes = round_trip_filled_codes(s, 0, cols);
        for (size_t t = 0; t < N_TERNARY; t += 3) {
            const tern_encoding *e = round_trip_named(ternary[t]);
            void *bytes = round_trip_encoded_bytes(e, s);
            assert_ok(tern_encode_codes(e, codes, 2, s.rows, cols, bytes, &err), err);
            int8_t *back = round_trip_decoded_codes(e, bytes, s, 2);
            assert_memory_equal(back, codes, s.rows * cols);
            assert_ok(tern_decode_codes(e, bytes, s.rows, cols, 41, 3, back, NULL, NULL, NULL, &err), err);
            assert_memory_equal(back, codes + 41 * cols, 3 * cols);
            float *x = malloc(2 * cols * sizeof *x);
            assert_ok(tern_decode_rows(e, bytes, s.rows, cols, 126, 2, x, &err), err);
            for (uint64_t i = 0; i < 2 * cols; i++) assert_true(x[i] == 2.0f * codes[126 * cols + i]);
            free(x);
            free(back);
            free(bytes);
        }
        free(codes);
    }
}

/* Every byte value in every place of a block: the codes are in range, and packing them gives the byte back when it was
 * valid. */
static void every_byte_unpacks(void **state)
{
    (void)state;
    for (size_t t = 0; t < N_TERNARY; t++) {
        const tern_encoding *e = round_trip_named(ternary[t]);
        uint8_t block[66], again[66];
        int8_t codes[320];
        float scale;
        unsigned n_valid = 0;
        for (int b = 0; b < 256; b++) {
            memset(block, b, sizeof block);
            memset(again, 0, sizeof again);
            if (t == 1 || t == 2) tern_store_u16(block + e->block_bytes - 2, 0x3c00);
            size_t n_bad = e->unpack_codes(block, 1, codes, &scale);
            assert_true(scale == 1.0f);
            for (size_t i = 0; i < e->block_elements; i++) assert_in_range(codes[i] + 1, 0, 2);
            e->pack_codes(codes, 1, scale, again);
            bool same = memcmp(block, again, t == 1 ? 48 : e->block_bytes) == 0;
            if (t != 1) assert_int_equal(same, n_bad == 0);
            n_valid += same;
        }
        assert_int_equal(n_valid, t == 1 || t == 3 ? 243 : 81);
    }
}

static void assert_malformed(const tern_encoding *e, const void *bytes, shape s, const char *message)
{
    tern_error err = {0};
    assert_int_equal(tern_encoding_check(e, bytes, s.rows, s.cols, &err), TERN_MALFORMED);
    if (!strstr(err.message, message)) fail_msg("\"%s\" is not in \"%s\"", message, err.message);
}

/* Row 4, column 210 of [5][256]: element 1234 = block 9, place 82 = byte 18 of the block, third field from the top. */
static void code_11_in_i2_s(void **state)
{
    (void)state;
    const tern_encoding *e = round_trip_named("i2_s");
    shape s = {5, 256};
    int8_t *codes = round_trip_filled_codes(s, 3, 0);
    tern_error err = {0};
    uint8_t *bytes = round_trip_encoded_bytes(e, s);
    assert_ok(tern_encode_codes(e, codes, 1, s.rows, s.cols, bytes, &err), err);
    bytes[9 * 32 + 18] |= 0x0c;
    assert_malformed(e, bytes, s, "code 11 at element 1234 (row 4, column 210)");
    size_t n_bad = 0;
    assert_ok(tern_decode_codes(e, bytes, 5, 256, 4, 1, codes, NULL, NULL, &n_bad, &err), err);
    assert_true(n_bad == 1 && codes[210] == 0 && codes[209] == 1);
    assert_ok(tern_decode_codes(e, bytes, 5, 256, 0, 4, codes, NULL, NULL, &n_bad, &err), err);
    assert_int_equal(n_bad, 0);
    /* The same bytes read as [20][64]: element 1234 is in row 19, and its block is shared with row 18. */
    assert_ok(tern_decode_codes(e, bytes, 20, 64, 18, 1, codes, NULL, NULL, &n_bad, &err), err);
    assert_int_equal(n_bad, 0);
    assert_ok(tern_decode_codes(e, bytes, 20, 64, 19, 1, codes, NULL, NULL, &n_bad, &err), err);
    assert_true(n_bad == 1 && codes[1234 % 64] == 0);
    float x[256];
    assert_ok(tern_decode_rows(e, bytes, 5, 256, 4, 1, x, &err), err);
    assert_true(x[210] == 0 && x[211] == 1);
    free(bytes);
    free(codes);
}

/* [2][256] in TQ2_0: element 300 = row 1, place 44 = byte 12 of the first half, second field from below. */
static void code_11_in_tq2_0(void **state)
{
    (void)state;
    const tern_encoding *e = round_trip_named("tq2_0");
    shape s = {2, 256};
    int8_t *codes = round_trip_filled_codes(s, 3, 0);
    tern_error err = {0};
    uint8_t *bytes = round_trip_encoded_bytes(e, s);
    assert_ok(tern_encode_codes(e, codes, 1, s.rows, s.cols, bytes, &err), err);
    bytes[66 + 12] |= 0x0c;
    assert_malformed(e, bytes, s, "code 11 at element 300 (row 1, column 44)");
    bytes[65] = 0x7c;
    assert_malformed(e, bytes, s, "NaN or infinite scale at element 0 (row 0, column 0)");
    free(bytes);
    free(codes);
}

/* [2][330] in T160: a row is 64 bytes and a short block of 4 lanes (10 elements in 20 places). */
static void bad_bytes_in_t160(void **state)
{
    (void)state;
    const tern_encoding *e = round_trip_named("t160");
    shape s = {2, 330};
    int8_t *codes = round_trip_filled_codes(s, 3, 0);
    tern_error err = {0};
    uint8_t *bytes = round_trip_encoded_bytes(e, s);
    assert_ok(tern_encode_codes(e, codes, 1, s.rows, s.cols, bytes, &err), err);
    bytes[68 + 64 + 2] = 0xf3; /* row 1, short block, byte 2: elements 322, 326, and padding */
    assert_malformed(e, bytes, s, "at element 652 (row 1, column 322)");
    size_t n_bad = 0;
    assert_ok(tern_decode_codes(e, bytes, 2, 330, 0, 2, codes, NULL, NULL, &n_bad, &err), err);
    assert_true(n_bad == 2 && codes[652] == 0 && codes[656] == 0 && codes[651] == 1);
    bytes[68 + 64 + 2] = 0xf2; /* all +1: the two elements are right, the padding is not 0 */
    assert_malformed(e, bytes, s, "found code 1 in the padding of row 1");
    bytes[7] = 0xff;
    assert_malformed(e, bytes, s, "at element 7 (row 0, column 7)");
    free(bytes);
    free(codes);
}

static void bad_scales_and_values(void **state)
{
    (void)state;
    static float x[512];
    for (size_t i = 0; i < 512; i++) x[i] = (float)(i % 3) - 1;
    const struct {
        const char *name;
        size_t at;
        uint8_t high; /* of a NaN or an infinity */
        const char *message;
    } cases[] = {
        {"f32", 300 * 4 + 2, 0x80, NULL},
        {"f32", 300 * 4 + 3, 0x7f, "value at element 300 (row 1, column 44)"},
        {"f16", 300 * 2 + 1, 0xfc, "value at element 300 (row 1, column 44)"},
        {"bf16", 300 * 2 + 1, 0x7f, "value at element 300 (row 1, column 44)"},
        {"q8_0", 9 * 34 + 1, 0x7e, "scale at element 288 (row 1, column 32)"},
        {"q4_k", 144 + 1, 0x7c, "scale at element 256 (row 1, column 0)"},
        {"q4_k", 144 + 3, 0x7c, "scale at element 256 (row 1, column 0)"},
        {"q5_k", 176 + 1, 0x7c, "scale at element 256 (row 1, column 0)"},
        {"q5_k", 176 + 3, 0x7c, "scale at element 256 (row 1, column 0)"},
        {"q6_k", 210 + 209, 0xfc, "scale at element 256 (row 1, column 0)"},
        {"q3_k", 110 + 109, 0x7c, "scale at element 256 (row 1, column 0)"},
        {"q2_k", 84 + 81, 0x7c, "scale at element 256 (row 1, column 0)"},
        {"q2_k", 84 + 83, 0xfc, "scale at element 256 (row 1, column 0)"},
        {"q5_1", 9 * 24 + 1, 0x7e, "scale at element 288 (row 1, column 32)"},
        {"q5_1", 9 * 24 + 3, 0x7e, "scale at element 288 (row 1, column 32)"},
        {"q5_0", 9 * 22 + 1, 0x7e, "scale at element 288 (row 1, column 32)"},
        {"q4_1", 9 * 20 + 1, 0x7e, "scale at element 288 (row 1, column 32)"},
        {"q4_1", 9 * 20 + 3, 0x7e, "scale at element 288 (row 1, column 32)"},
        {"q4_0", 9 * 18 + 1, 0x7e, "scale at element 288 (row 1, column 32)"},
        {"iq4_nl", 9 * 18 + 1, 0x7e, "scale at element 288 (row 1, column 32)"},
        {"mxfp4", 9 * 17, 0xff, "scale at element 288 (row 1, column 32)"},
        {"q2_0", 5 * 18 + 1, 0x7e, "scale at element 320 (row 1, column 64)"},
        {"pq2_0", 3 * 34 + 1, 0x7e, "scale at element 384 (row 1, column 128)"},
        {"ptq1_0", 3 * 28 + 27, 0x7e, "scale at element 384 (row 1, column 128)"},
        {"q1_0", 3 * 18 + 1, 0x7e, "scale at element 384 (row 1, column 128)"},
        {"tq1_0", 54 + 53, 0xfc, "scale at element 256 (row 1, column 0)"},
        {"i2_s", 131, 0x7f, NULL},
        {"i2_s", 130, 0xc0, "found scale nan"},
        {"t160", 2 * 52 + 3, 0x7f, NULL},
    };
    uint8_t *bytes = NULL;
    const tern_encoding *e = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shape s = {2, 256};
        tern_error err = {0};
        if (e != round_trip_named(cases[i].name)) {
            free(bytes);
            e = round_trip_named(cases[i].name);
            bytes = round_trip_encoded_bytes(e, s);
            assert_ok(tern_encode(e, x, 2, 256, bytes, &err), err);
            assert_ok(tern_encoding_check(e, bytes, 2, 256, &err), err);
        }
        uint8_t before = bytes[cases[i].at];
        bytes[cases[i].at] = cases[i].high;
        if (!cases[i].message) assert_ok(tern_encoding_check(e, bytes, 2, 256, &err), err);
        else assert_malformed(e, bytes, s, cases[i].message);
        if (cases[i].message) bytes[cases[i].at] = before;
    }
    free(bytes);
}

/* Whatever the number of threads, the error is that of the first bad block. */
static void threads_find_the_first_bad_block(void **state)
{
    static const char *const names[] = {"i2_s", "tq2_0", "t160", "q8_0", "f16"};
    const shape s = {2048, 2560};
    (void)state;
    tern_rng rng = {7};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const tern_encoding *e = round_trip_named(names[k]);
        size_t bytes;
        tern_error want = {0}, got = {0};
        assert_ok(tern_encoding_bytes(e, s.rows, s.cols, &bytes, &want), want);
        uint8_t *data = test_calloc(bytes, 1);
        for (uint32_t n_bad = 0; n_bad < 4; n_bad++) {
            const size_t n_blocks = (size_t)(s.rows * s.cols) / e->block_elements;
            if (n_bad) memset(data + tern_rng_u64(&rng) % n_blocks * e->block_bytes, 0xff, e->block_bytes);
            const tern_status status = tern_encoding_check(e, data, s.rows, s.cols, &want);
            assert_int_equal(status, n_bad ? TERN_MALFORMED : TERN_OK);
            for (uint32_t n_threads = 1; n_threads < 4; n_threads++) {
                tern_pool *pool;
                assert_ok(tern_pool_open(&pool, n_threads, false, &got), got);
                assert_int_equal(tern_encoding_check_part(e, data, 0, s.rows, s.cols, pool, &got), status);
                tern_pool_close(pool);
                assert_string_equal(got.message, want.message);
            }
        }
        test_free(data);
    }
}

static void allocation_failure(void **state)
{
    (void)state;
    static const float x[256] = {1, -1};
    uint8_t out[256];
    tern_error err = {0};
    int64_t live = tern_alloc_live();
    tern_alloc_fail_after(1, true);
    tern_status status = tern_encode(round_trip_named("i2_s"), x, 1, 256, out, &err);
    tern_alloc_fail_after(0, false);
    assert_int_equal(status, TERN_OUT_OF_MEMORY);
    assert_int_equal(tern_alloc_live(), live);
}

static float gaussian(tern_rng *rng)
{
    float u = 1 - tern_rng_f32(rng), v = tern_rng_f32(rng);
    return sqrtf(-2 * logf(u)) * cosf(6.28318531f * v);
}

static double relative_rms(const tern_encoding *e, const float *x, shape s)
{
    size_t n = (size_t)(s.rows * s.cols);
    double error = 0, power = 0;
    tern_error err = {0};
    void *bytes = round_trip_encoded_bytes(e, s);
    float *y = malloc(n * sizeof *y);
    assert_ok(tern_encode(e, x, s.rows, s.cols, bytes, &err), err);
    assert_ok(tern_encoding_check(e, bytes, s.rows, s.cols, &err), err);
    assert_ok(tern_decode_rows(e, bytes, s.rows, s.cols, 0, s.rows, y, &err), err);
    for (size_t i = 0; i < n; i++) {
        error += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        power += (double)x[i] * x[i];
    }
    free(y);
    free(bytes);
    return sqrt(error / power);
}

static void errors_of_gaussians(void **state)
{
    (void)state;
    const struct {
        const char *name;
        double bound;
    } cases[] = {{"f32", 0},       {"f16", 3e-4},    {"bf16", 2e-3},    {"q8_0", 6e-3},     {"q6_k", 1.75e-2},
                 {"q4_k", 7.2e-2}, {"q5_k", 3.6e-2}, {"q3_k", 0.147},   {"q2_k", 0.269},    {"q5_1", 0.0346},
                 {"q5_0", 0.041},  {"q4_1", 0.0715}, {"q4_0", 0.0825},  {"iq4_nl", 0.0746}, {"q2_0", 0.365},
                 {"mxfp4", 0.116}, {"pq2_0", 0.382}, {"ptq1_0", 0.442}, {"q1_0", 0.611}};
    const float scales[] = {0.02f, 1.0f, 30.0f, -0.5f}, offsets[] = {0, 0, 0, 2};
    static float x[1 << 16];
    shape s = {64, 1024};
    for (size_t k = 0; k < 4; k++) {
        tern_rng rng = {99 + k};
        for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = scales[k] * gaussian(&rng) + offsets[k];
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            double rms = relative_rms(round_trip_named(cases[c].name), x, s);
            if (!(rms <= cases[c].bound)) fail_msg("%s, fill %zu: %g above %g", cases[c].name, k, rms, cases[c].bound);
        }
    }
}

/* Blocks that break searches: constants, one spike, alternating extremes, values that vanish in f16. */
static void hard_blocks(void **state)
{
    (void)state;
    static float x[8 * 256];
    for (size_t i = 0; i < 256; i++) {
        x[0 * 256 + i] = 0.7f;
        x[1 * 256 + i] = -0.7f;
        x[2 * 256 + i] = i == 77 ? 5.0f : 0;
        x[3 * 256 + i] = i == 77 ? -5.0f : 0;
        x[4 * 256 + i] = i % 2 ? 1e4f : -1e4f;
        x[5 * 256 + i] = (float)i / 255;
        x[6 * 256 + i] = -(float)i / 255;
        x[7 * 256 + i] = 1e-38f * (float)i;
    }
    const char *names[] = {"q8_0", "q6_k", "q5_k",   "q4_k", "q3_k",  "q2_k", "q5_1",  "q5_0",
                           "q4_1", "q4_0", "iq4_nl", "q2_0", "pq2_0", "q1_0", "mxfp4", "ptq1_0"};
    const double bounds[] = {5e-3,    2e-2,   2e-2,   4e-2,  0.0326, 0.0366, 0.00138, 0.0191,
                             0.00345, 0.0367, 0.0472, 0.108, 0.168,  1.01,   0.201,   1.0};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (size_t b = 0; b < 8; b++) {
            double rms = relative_rms(round_trip_named(names[k]), x + b * 256, (shape){1, 256});
            if (!(rms <= (b == 7 ? 1.0 : bounds[k]))) fail_msg("%s, block %zu: %g", names[k], b, rms);
        }
}

static uint64_t hash(const uint8_t *bytes, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}

/* The searches give the same bytes with every compiler and CPU. The hashes only pin what they gave when this was
 * written: a better search may change them; a difference between two machines is a defect. */
static void same_bytes_everywhere(void **state)
{
    (void)state;
    const struct {
        const char *name;
        uint64_t hash;
    } cases[] = {{"q8_0", 0xd9045b865f901fe8u},  {"q6_k", 0x723f9d88fbac2586u},   {"q4_k", 0x46778cc2caddc6e8u},
                 {"q5_k", 0xf42696c83a92a672u},  {"q3_k", 0x5fc0d036dcb3eebbu},   {"q2_k", 0x4f68ffcf34e88627u},
                 {"q5_1", 0x38721fd774be4608u},  {"q5_0", 0x9a818d40328f7b3au},   {"q4_1", 0xe7cd25ded9814fcau},
                 {"q4_0", 0x4a0519739b7978adu},  {"iq4_nl", 0x5475580179f3b5afu}, {"q2_0", 0x151a901992beeef1u},
                 {"mxfp4", 0x2d9b301eea3eb93du}, {"pq2_0", 0x3f9880dd4e9e245fu},  {"q1_0", 0xd7dce1689a1ada80u},
                 {"ptq1_0", 0xa252f3946c51656au}};
    static float x[16 * 1024];
    tern_rng rng = {2024};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = tern_rng_f32(&rng) + tern_rng_f32(&rng) + tern_rng_f32(&rng) - 1.5f;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const tern_encoding *e = round_trip_named(cases[c].name);
        shape s = {16, 1024};
        size_t bytes = 0;
        tern_error err = {0};
        uint8_t *out = round_trip_encoded_bytes(e, s);
        assert_ok(tern_encoding_bytes(e, s.rows, s.cols, &bytes, &err), err);
        assert_ok(tern_encode(e, x, s.rows, s.cols, out, &err), err);
        if (hash(out, bytes) != cases[c].hash) fail_msg("%s: %016llx", e->name, (unsigned long long)hash(out, bytes));
        free(out);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ragged_rows),
    cmocka_unit_test(every_byte_unpacks),
    cmocka_unit_test(code_11_in_i2_s),
    cmocka_unit_test(code_11_in_tq2_0),
    cmocka_unit_test(bad_bytes_in_t160),
    cmocka_unit_test(bad_scales_and_values),
    cmocka_unit_test(threads_find_the_first_bad_block),
    cmocka_unit_test(allocation_failure),
    cmocka_unit_test(errors_of_gaussians),
    cmocka_unit_test(hard_blocks),
    cmocka_unit_test(same_bytes_everywhere),
};

TEST_GROUP(round_trip_errors, "web", tests);
