/* The encodings against bytes worked out by hand from their documented layouts, and their sizes and errors. */
#include "support/test.h"

#include <math.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/encoding.h"
#include "quant/t160.h"

static const tern_encoding *named(const char *name)
{
    const tern_encoding *e = tern_encoding_by_name(name);
    assert_non_null(e);
    return e;
}

static void table_is_complete(void **state)
{
    (void)state;
    const struct {
        const char *name;
        uint32_t id, elements, bytes, tail;
    } rows[] = {
        {"f32", 0, 1, 4, 0},       {"f16", 1, 1, 2, 0},       {"bf16", 30, 1, 2, 0},      {"q8_0", 8, 32, 34, 0},
        {"q4_k", 12, 256, 144, 0}, {"q5_k", 13, 256, 176, 0}, {"q6_k", 14, 256, 210, 0},  {"tq1_0", 34, 256, 54, 0},
        {"tq2_0", 35, 256, 66, 0}, {"i2_s", 36, 128, 32, 32}, {"t160", 160, 320, 64, 32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tern_encoding *e = tern_encoding_find(rows[i].id);
        assert_ptr_equal(e, named(rows[i].name));
        assert_ptr_equal(e, tern_encoding_at(i));
        assert_string_equal(e->name, rows[i].name);
        assert_int_equal(e->block_elements, rows[i].elements);
        assert_int_equal(e->block_bytes, rows[i].bytes);
        assert_int_equal(e->tail_bytes, rows[i].tail);
        assert_int_equal(e->ternary, i >= 7);
    }
    assert_ptr_equal(tern_encoding_by_name("Q4_K"), named("q4_k"));
    assert_null(tern_encoding_at(11));
    assert_null(tern_encoding_find(2));
    assert_null(tern_encoding_by_name("q4"));
}

static size_t bytes_of(const char *name, uint64_t rows, uint64_t cols)
{
    tern_error err = {0};
    size_t bytes = 0;
    assert_ok(tern_encoding_bytes(named(name), rows, cols, &bytes, &err), err);
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
    assert_ok(tern_encoding_row_bytes(named("t160"), 6912, &bytes, &err), err);
    assert_int_equal(bytes, 1384);
}

static void refuses(const char *name, uint64_t rows, uint64_t cols, tern_status status, const char *message)
{
    tern_error err = {0};
    size_t bytes = 77;
    assert_int_equal(tern_encoding_bytes(named(name), rows, cols, &bytes, &err), status);
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
    assert_ok(tern_encode_codes(named(name), codes, scale, 1, cols, bytes, &err), err);
    assert_memory_equal(bytes, expected, n_expected);
    assert_int_equal(bytes[n_expected], 0xa5);

    int8_t back[512];
    float row_scale = 0;
    bool uniform = false;
    size_t n_bad = 1;
    assert_ok(tern_decode_codes(named(name), bytes, 1, cols, 0, 1, back, &row_scale, &uniform, &n_bad, &err), err);
    assert_memory_equal(back, codes, cols);
    assert_true(row_scale == scale && uniform && n_bad == 0);
}

/* Element 0 is +1, 33 is -1, 64 is +1, 127 is -1, the others 0. By docs/formats/encodings.md: byte 0 has elements
 * 0, 32, 64, 96 = codes 2, 1, 2, 1 from the top: 10 01 10 01 = 0x99; byte 1 has element 33 second: 01 00 01 01 = 0x45;
 * byte 31 has 127 last: 01 01 01 00 = 0x54; all else 01 01 01 01 = 0x55. The scale 0.5f is 00 00 00 3f. */
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
        size_t n_bad = named("t160")->unpack_codes(block, 1, codes, NULL);
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

static void golden_floats(void **state)
{
    (void)state;
    const float x[] = {1.0f, -2.0f, 0.333333343f};
    const uint8_t f32[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0xab, 0xaa, 0xaa, 0x3e};
    const uint8_t f16[] = {0, 0x3c, 0, 0xc0, 0x55, 0x35};     /* 1/3 = 1.333 * 2^-2: mantissa 0x155.55 */
    const uint8_t bf16[] = {0x80, 0x3f, 0, 0xc0, 0xab, 0x3e}; /* 0x3eaaaaab rounds up to 0x3eab */
    uint8_t out[16];
    named("f32")->pack(x, 3, out);
    assert_memory_equal(out, f32, sizeof f32);
    named("f16")->pack(x, 3, out);
    assert_memory_equal(out, f16, sizeof f16);
    named("bf16")->pack(x, 3, out);
    assert_memory_equal(out, bf16, sizeof bf16);
}

/* max = 254: d = 2 = f16 0x4000; 254 -> 127, -254 -> -127 = 0x81, 3 -> 1.5 -> 2 (away from zero), -1 -> -0.5 -> -1. */
static void golden_q8_0(void **state)
{
    (void)state;
    const float x[32] = {254, -254, 3, -1, 100};
    const uint8_t expected[34] = {0x00, 0x40, 127, 0x81, 2, 0xff, 50};
    uint8_t out[34];
    named("q8_0")->pack(x, 1, out);
    assert_memory_equal(out, expected, sizeof expected);
    float back[32];
    named("q8_0")->unpack(out, 1, back);
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
    named("q4_k")->unpack(block, 1, x);
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
    named("q5_k")->unpack(block, 1, x);
    for (int i = 0; i < 256; i++) {
        float expected = i / 32 == 1 ? -2.0f : i / 32 == 5 ? -10.5f : 0.0f;
        if (i == 32 + 7) expected = 25 * 3 - 2;
        if (i == 160 + 31) expected = 31 * 42 - 10.5f;
        assert_true(x[i] == expected);
    }
}

/* Help texts name every encoding of the table, and no other. */
static void names_are_those_of_the_table(void **state)
{
    (void)state;
    char names[] = TERN_ENCODING_TERNARY_NAMES ", " TERN_ENCODING_DENSE_NAMES;
    size_t n = 0;
    for (char *name = strtok(names, ", "); name; name = strtok(NULL, ", "), n++)
        assert_int_equal(named(name)->ternary, n < 4);
    assert_null(tern_encoding_at(n));
    assert_non_null(tern_encoding_at(n - 1));
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
    named("q6_k")->unpack(block, 1, x);
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
    assert_int_equal(tern_encode(named(name), x, 2, cols, out, &err), TERN_INVALID_ARGUMENT);
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

static void codes_that_do_not_fit(void **state)
{
    (void)state;
    int8_t codes[256] = {[200] = 2};
    uint8_t out[256];
    tern_error err = {0};
    const char *names[] = {"i2_s", "t160", "tq1_0", "tq2_0"};
    for (size_t i = 0; i < 4; i++) {
        const tern_encoding *e = named(names[i]);
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
    assert_int_equal(tern_encode_codes(named("f16"), codes, 1, 1, 256, out, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_decode_codes(named("f16"), out, 1, 64, 0, 1, codes, NULL, NULL, NULL, &err),
                     TERN_INVALID_ARGUMENT);
    float x[256];
    assert_int_equal(tern_decode_rows(named("f16"), out, 2, 64, 1, 2, x, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_decode_rows(named("f16"), out, 2, 64, UINT64_MAX, 2, x, &err), TERN_INVALID_ARGUMENT);
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
    cmocka_unit_test(golden_floats),
    cmocka_unit_test(golden_q8_0),
    cmocka_unit_test(golden_q4_k),
    cmocka_unit_test(golden_q5_k),
    cmocka_unit_test(names_are_those_of_the_table),
    cmocka_unit_test(golden_q6_k),
    cmocka_unit_test(values_that_do_not_fit),
    cmocka_unit_test(codes_that_do_not_fit),
};

TEST_GROUP(encoding, "web", tests);
