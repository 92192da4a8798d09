/* The encodings against bytes worked out by hand from their documented layouts, and their sizes and errors. */
#include "quant/encoding_cases.h"

static void table_is_complete(void **state)
{
    (void)state;
    const struct {
        const char *name;
        uint32_t id, elements, bytes, tail;
    } rows[] = {
        {"f32", 0, 1, 4, 0},        {"f16", 1, 1, 2, 0},         {"q4_0", 2, 32, 18, 0},     {"q4_1", 3, 32, 20, 0},
        {"q5_0", 6, 32, 22, 0},     {"q5_1", 7, 32, 24, 0},      {"q8_0", 8, 32, 34, 0},     {"q2_k", 10, 256, 84, 0},
        {"q3_k", 11, 256, 110, 0},  {"q4_k", 12, 256, 144, 0},   {"q5_k", 13, 256, 176, 0},  {"q6_k", 14, 256, 210, 0},
        {"iq4_nl", 20, 32, 18, 0},  {"bf16", 30, 1, 2, 0},       {"tq1_0", 34, 256, 54, 0},  {"tq2_0", 35, 256, 66, 0},
        {"i2_s", 36, 128, 32, 32},  {"mxfp4", 39, 32, 17, 0},    {"q1_0", 41, 128, 18, 0},   {"q2_0", 42, 64, 18, 0},
        {"pq2_0", 142, 128, 34, 0}, {"ptq1_0", 143, 128, 28, 0}, {"t160", 160, 320, 64, 32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tern_encoding *e = tern_encoding_find(rows[i].id);
        assert_ptr_equal(e, encoding_named(rows[i].name));
        assert_ptr_equal(e, tern_encoding_at(i));
        assert_string_equal(e->name, rows[i].name);
        assert_int_equal(e->block_elements, rows[i].elements);
        assert_int_equal(e->block_bytes, rows[i].bytes);
        assert_int_equal(e->tail_bytes, rows[i].tail);
        assert_int_equal(e->ternary, strchr("ti", rows[i].name[0]) && rows[i].id != 20);
    }
    assert_ptr_equal(tern_encoding_by_name("Q4_K"), encoding_named("q4_k"));
    assert_null(tern_encoding_at(23));
    assert_null(tern_encoding_find(4));
    assert_null(tern_encoding_by_name("q4"));
}

static size_t bytes_of(const char *name, uint64_t rows, uint64_t cols)
{
    tern_error err = {0};
    size_t bytes = 0;
    assert_ok(tern_encoding_bytes(encoding_named(name), rows, cols, &bytes, &err), err);
    return bytes;
}

static void sizes(void **state)
{
    (void)state;
    assert_int_equal(bytes_of("f32", 3, 5), 60);
    assert_int_equal(bytes_of("bf16", 3, 5), 30);
    assert_int_equal(bytes_of("q8_0", 3, 64), 3 * 68);
    assert_int_equal(bytes_of("q4_k", 3, 512), 3 * 288);
    assert_int_equal(bytes_of("q6_k", 1, 2560), 2100);
    assert_int_equal(bytes_of("tq1_0", 2, 256), 108);
    assert_int_equal(bytes_of("tq2_0", 2, 256), 132);
    assert_int_equal(bytes_of("i2_s", 2560, 6912), 2560 * 6912 / 4 + 32);
    assert_int_equal(bytes_of("i2_s", 4, 96), 96 + 32); /* rows end inside blocks */
    assert_int_equal(bytes_of("t160", 10, 2560), 10 * 8 * 64 + 32);
    assert_int_equal(bytes_of("t160", 10, 6912), 10 * (21 * 64 + 40) + 32);
    assert_int_equal(bytes_of("t160", 3, 1), 3 * 4 + 32);
    assert_int_equal(bytes_of("t160", 3, 20), 3 * 4 + 32);
    assert_int_equal(bytes_of("t160", 3, 21), 3 * 8 + 32);
    assert_int_equal(bytes_of("t160", 3, 319), 3 * 64 + 32);
    assert_int_equal(bytes_of("i2_s", 0, 7), 32);
    tern_error err = {0};
    size_t bytes = 0;
    assert_ok(tern_encoding_row_bytes(encoding_named("t160"), 6912, &bytes, &err), err);
    assert_int_equal(bytes, 1384);
}

static void refuses(const char *name, uint64_t rows, uint64_t cols, tern_status status, const char *message)
{
    tern_error err = {0};
    size_t bytes = 77;
    assert_int_equal(tern_encoding_bytes(encoding_named(name), rows, cols, &bytes, &err), status);
    if (!strstr(err.message, message)) fail_msg("\"%s\" is not in \"%s\"", message, err.message);
    assert_int_equal(bytes, 77);
}

static void shapes_that_do_not_fit(void **state)
{
    (void)state;
    refuses("q8_0", 32, 33, TERN_INVALID_ARGUMENT, "found 33 columns, expected a multiple of 32");
    refuses("tq1_0", 256, 128, TERN_INVALID_ARGUMENT, "found 128 columns, expected a multiple of 256");
    refuses("i2_s", 3, 100, TERN_INVALID_ARGUMENT, "300 elements, expected a multiple of 128");
    refuses("f32", UINT64_MAX / 4, 4, TERN_LIMIT, "does not fit in memory");
    refuses("f32", UINT64_MAX / 8, 4, TERN_LIMIT, "does not fit in memory");
    refuses("t160", UINT64_MAX, UINT64_MAX, TERN_LIMIT, "does not fit in memory");
    refuses("i2_s", UINT64_MAX, 128, TERN_LIMIT, "does not fit in memory");
}

/* Encodes codes of one row and compares with `expected`. */
static void assert_codes_bytes(const char *name, const int8_t *codes, size_t cols, float scale, const uint8_t *expected,
                               size_t n_expected)
{
    uint8_t bytes[512];
    tern_error err = {0};
    memset(bytes, 0xa5, sizeof bytes);
    assert_int_equal(bytes_of(name, 1, cols), n_expected);
    assert_ok(tern_encode_codes(encoding_named(name), codes, scale, 1, cols, bytes, &err), err);
    assert_memory_equal(bytes, expected, n_expected);
    assert_int_equal(bytes[n_expected], 0xa5);

    int8_t back[512];
    float row_scale = 0;
    bool uniform = false;
    size_t n_bad = 1;
    assert_ok(tern_decode_codes(encoding_named(name), bytes, 1, cols, 0, 1, back, &row_scale, &uniform, &n_bad, &err),
              err);
    assert_memory_equal(back, codes, cols);
    assert_true(row_scale == scale && uniform && n_bad == 0);
}

/* Element 0 is +1, 33 is -1, 64 is +1, 127 is -1, the others 0. By docs/reference/formats/encodings.md: byte 0 has
 * elements 0, 32, 64, 96 = codes 2, 1, 2, 1 from the top: 10 01 10 01 = 0x99; byte 1 has element 33 second: 01 00 01 01
 * = 0x45; byte 31 has 127 last: 01 01 01 00 = 0x54; all else 01 01 01 01 = 0x55. The scale 0.5f is 00 00 00 3f. */
static void golden_i2_s(void **state)
{
    (void)state;
    int8_t codes[128] = {[0] = 1, [33] = -1, [64] = 1, [127] = -1};
    uint8_t expected[64] = {0};
    memset(expected, 0x55, 32);
    expected[0] = 0x99;
    expected[1] = 0x45;
    expected[31] = 0x54;
    expected[35] = 0x3f;
    assert_codes_bytes("i2_s", codes, 128, 0.5f, expected, sizeof expected);
}

/* The same elements in the first half of a TQ2_0 block, lowest bits first: byte 0 = 01 10 01 10 = 0x66, byte 1 has 33
 * second from below: 01 01 00 01 = 0x51, byte 31 has 127 on top: 00 01 01 01 = 0x15. Element 160 = +1 is second in byte
 * 32: 01 01 10 01 = 0x59. The f16 0.5 is 0x3800. */
static void golden_tq2_0(void **state)
{
    (void)state;
    int8_t codes[256] = {[0] = 1, [33] = -1, [64] = 1, [127] = -1, [160] = 1};
    uint8_t expected[66];
    memset(expected, 0x55, 64);
    expected[0] = 0x66;
    expected[1] = 0x51;
    expected[31] = 0x15;
    expected[32] = 0x59;
    expected[64] = 0x00;
    expected[65] = 0x38;
    assert_codes_bytes("tq2_0", codes, 256, 0.5f, expected, sizeof expected);
}

/* Zeros are digits 11111 in base 3 = 121: ceil(121 * 256 / 243) = ceil(127.47) = 128. Element 0 = +1: 21111 = 202,
 * ceil(212.81) = 213. Element 129 is the last digit of byte 1 (129 = 1 + 4 * 32); -1 makes 11110 = 120, ceil(126.42) =
 * 127. Element 160 is the first digit of byte 32 (runs of 16 there); -1 makes 01111 = 40, ceil(42.14) = 43. Four digits
 * 1111 and a 0 = 120: 127 in the last four bytes; element 255 is the fourth digit of byte 51 (240 + 3 + 3 * 4); +1
 * makes 11120 = 123, ceil(129.58) = 130. */
static void golden_tq1_0(void **state)
{
    (void)state;
    int8_t codes[256] = {[0] = 1, [129] = -1, [160] = -1, [255] = 1};
    uint8_t expected[54];
    memset(expected, 128, 48);
    memset(expected + 48, 127, 4);
    expected[0] = 213;
    expected[1] = 127;
    expected[32] = 43;
    expected[51] = 130;
    expected[52] = 0x00;
    expected[53] = 0x38;
    assert_codes_bytes("tq1_0", codes, 256, 0.5f, expected, sizeof expected);
}

/* Zeros: p = q = 1 + 3 = 4 and fifth 1: 01 100 100 = 0x64. Byte 0 (elements 0, 64, 128, 192, 256) with 0 = +1, 64 = -1,
 * 256 = +1: p = 2, q = 4, fifth 2: 10 100 010 = 0xa2. Byte 1 with 1 = 65 = +1 (p = 8), rest 0: 0xc0 | 1 << 4 | 4 =
 * 0xd4. Byte 2 with 130 = 194 = +1 (q = 8) and 258 = -1, p = 4: 0xc0 | 8 | 4 = 0xcc. Byte 63 with 63, 127, 191, 255,
 * 319 all +1: 0xf2. */
static void golden_t160(void **state)
{
    (void)state;
    int8_t codes[320] = {[0] = 1,    [64] = -1, [256] = 1, [1] = 1,   [65] = 1,  [130] = 1, [194] = 1,
                         [258] = -1, [63] = 1,  [127] = 1, [191] = 1, [255] = 1, [319] = 1};
    uint8_t expected[96] = {0};
    memset(expected, 0x64, 64);
    expected[0] = 0xa2;
    expected[1] = 0xd4;
    expected[2] = 0xcc;
    expected[63] = 0xf2;
    expected[67] = 0x3f;
    assert_codes_bytes("t160", codes, 320, 0.5f, expected, sizeof expected);
}

/* 22 columns are one block of ceil(22 / 5) = 5 bytes, rounded up to 8: byte j has elements j, j + 8, j + 16 and two
 * that are padding (24 and on). Element 21 is c2 of byte 5: -1 there makes q = 0 + 3 = 3: 01 011 100 = 0x5c. Element 22
 * is padding. */
static void golden_t160_short(void **state)
{
    (void)state;
    int8_t codes[22] = {[21] = -1};
    uint8_t expected[40] = {0x64, 0x64, 0x64, 0x64, 0x64, 0x5c, 0x64, 0x64, 0, 0, 0, 0x3f};
    assert_codes_bytes("t160", codes, 22, 0.5f, expected, sizeof expected);
}

/* Every byte by the formula in the header, apart from the tables; and the tables' claim about bytes without codes. */
static void t160_every_byte(void **state)
{
    (void)state;
    bool seen[243] = {false};
    for (unsigned b = 0; b < 256; b++) {
        uint8_t block[64];
        int8_t codes[320];
        memset(block, (int)b, sizeof block);
        size_t n_bad = encoding_named("t160")->unpack_codes(block, 1, codes, NULL);
        assert_int_equal(n_bad, b < 243 ? 0 : 320);
        uint32_t fields = tern_t160_fields((uint8_t)b);
        unsigned number = 0;
        for (unsigned k = 5; k-- > 0;) {
            assert_int_equal(codes[k * 64], b < 243 ? (int)(fields >> (2 * k) & 3) - 1 : 0);
            assert_int_equal(codes[k * 64], codes[k * 64 + 63]);
            number = number * 3 + (unsigned)(codes[k * 64] + 1);
        }
        if (b >= 243) assert_int_equal(fields, 0x155);
        else {
            assert_false(seen[number]);
            seen[number] = true;
        }
    }
}

/* Help texts name every encoding of the table, and no other. */
static void names_are_those_of_the_table(void **state)
{
    (void)state;
    char names[] = TERN_ENCODING_TERNARY_NAMES ", " TERN_ENCODING_DENSE_NAMES;
    size_t n = 0;
    for (char *name = strtok(names, ", "); name; name = strtok(NULL, ", "), n++)
        assert_int_equal(encoding_named(name)->ternary, n < 4);
    assert_null(tern_encoding_at(n));
    assert_non_null(tern_encoding_at(n - 1));
}

static void codes_that_do_not_fit(void **state)
{
    (void)state;
    int8_t codes[256] = {[200] = 2};
    uint8_t out[256];
    tern_error err = {0};
    const char *names[] = {"i2_s", "t160", "tq1_0", "tq2_0"};
    for (size_t i = 0; i < 4; i++) {
        const tern_encoding *e = encoding_named(names[i]);
        codes[200] = 2;
        assert_int_equal(tern_encode_codes(e, codes, 1, 1, 256, out, &err), TERN_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "found 2 at element 200 (row 0, column 200)"));
        codes[200] = -1;
        assert_int_equal(tern_encode_codes(e, codes, NAN, 1, 256, out, &err), TERN_INVALID_ARGUMENT);
        assert_int_equal(tern_encode_codes(e, codes, INFINITY, 1, 256, out, &err), TERN_INVALID_ARGUMENT);
        assert_int_equal(tern_encode_codes(e, codes, 70000, 1, 256, out, &err),
                         i < 2 ? TERN_OK : TERN_INVALID_ARGUMENT);
        assert_int_equal(tern_encode_codes(e, codes, 1e-9f, 1, 256, out, &err),
                         i < 2 ? TERN_OK : TERN_INVALID_ARGUMENT);
    }
    assert_int_equal(tern_encode_codes(encoding_named("f16"), codes, 1, 1, 256, out, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_decode_codes(encoding_named("f16"), out, 1, 64, 0, 1, codes, NULL, NULL, NULL, &err),
                     TERN_INVALID_ARGUMENT);
    float x[256];
    assert_int_equal(tern_decode_rows(encoding_named("f16"), out, 2, 64, 1, 2, x, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_decode_rows(encoding_named("f16"), out, 2, 64, UINT64_MAX, 2, x, &err),
                     TERN_INVALID_ARGUMENT);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(table_is_complete),
    cmocka_unit_test(sizes),
    cmocka_unit_test(shapes_that_do_not_fit),
    cmocka_unit_test(golden_i2_s),
    cmocka_unit_test(golden_tq2_0),
    cmocka_unit_test(golden_tq1_0),
    cmocka_unit_test(golden_t160),
    cmocka_unit_test(golden_t160_short),
    cmocka_unit_test(t160_every_byte),
    cmocka_unit_test(names_are_those_of_the_table),
    cmocka_unit_test(codes_that_do_not_fit),
};

TEST_GROUP(encoding, "web", tests);
