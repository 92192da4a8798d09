/* Layouts of other programs: what those programs packed is read, what stands for nothing is refused. */
#include "quant/foreign.h"

#include "base/file.h"
#include "quant/encoding.h"
#include "support/places.h"
#include "support/test.h"
#include "tern/bytes.h"

static const struct {
    const char *file;
    uint32_t id;
    uint32_t rows, cols;
    bool by_row;
} files[] = {
    {"tl1", 38, 64, 64, false},    {"tl1-64", 38, 128, 256, false}, {"tl2", TERN_FOREIGN_TL2, 128, 352, false},
    {"iq1_bn", 134, 8, 192, true}, {"iq2_bn", 135, 8, 192, true},   {"iq2_bn_r4", 335, 8, 192, true},
};

static const char ini[] =
    "# as bitnet.cpp writes it\n[Kernels_0]\nm = 64\nk = 64\nbm = 32\nbk = 32\nbmm = 32\n\n"
    "[Kernels_1]\r\nm=128\r\nk=352\nbm=64\nbk=96\nbmm=32\n[x]\nm = 128\nk = 256\nbm = 128\nbk = 64\n"
    "bmm = 64";

static tern_buf read_data(const char *name)
{
    char path[512];
    tern_error err = {0};
    tern_buf bytes = {0};
    snprintf(path, sizeof path, TERN_SOURCE_DIR "/tests/data/foreign/%s.bin", name);
    assert_ok(tern_file_read(&bytes, path, 1 << 20, &err), err);
    return bytes;
}

static tern_tl_tiles tiles_of(const char *text)
{
    tern_error err = {0};
    tern_tl_tiles tiles;
    assert_ok(tern_tl_tiles_parse(&tiles, text, strlen(text), &err), err);
    return tiles;
}

static void assert_codes(const int8_t *codes, uint32_t rows, uint32_t cols)
{
    uint32_t s = rows + cols;
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        s = s * 1664525u + 1013904223u;
        if (codes[i] != (int)(s >> 24) % 3 - 1) fail_msg("code %zu is %d", i, codes[i]);
    }
}

static void reads_what_others_pack(void **state)
{
    (void)state;
    const tern_tl_tiles tiles = tiles_of(ini);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tern_error err = {0};
        const tern_foreign *f = tern_foreign_find(files[i].id);
        tern_buf in = read_data(files[i].file);
        const uint32_t rows = files[i].rows, cols = files[i].cols;
        size_t bytes = 0;
        int8_t *codes = malloc((size_t)rows * cols);
        float scales[128];
        print_message("%s\n", files[i].file);
        assert_ok(tern_foreign_bytes(f, rows, cols, &bytes, &err), err);
        assert_int_equal(bytes, in.size);
        assert_ok(tern_foreign_decode(f, (const uint8_t *)in.data, rows, cols, &tiles, codes, scales, &err), err);
        assert_codes(codes, rows, cols);
        for (uint32_t r = 0; r < rows; r++)
            assert_float_equal(scales[r], 0.25f * (float)(files[i].by_row ? r + 1 : 1), 0);
        free(codes);
        tern_buf_deinit(&in);
    }
}

/* A pair of 9 or more, a triple of 14 or more, code 11, a byte that no five codes give. */
static void refuses_bytes(void **state)
{
    (void)state;
    const struct {
        size_t file, at;
        uint8_t byte;
        const char *message;
    } rows[] = {
        {0, 5, 0x90, "tl1: found 144 at byte 5, which stands for no codes"},
        {0, 7, 0x09, "tl1: found 9 at byte 7, which stands for no codes"},
        {2, 3, 0xe0, "tl2: found 224 at byte 3, which stands for no codes"},
        {2, 128 * 288 / 24 * 5 + 9, 0x0a, "tl2: found 10 at byte 7689, which stands for no codes"},
        {3, 2, 0x01, "iq1_bn: found 1 at byte 2, which stands for no codes"},
        {3, 14, 0xff, "iq1_bn: found 255 at byte 14, which stands for no codes"},
        {4, 4, 0x03, "iq2_bn: found 3 at byte 4, which stands for no codes"},
        {5, 16, 0xc0, "iq2_bn_r4: found 192 at byte 16, which stands for no codes"},
    };
    const tern_tl_tiles tiles = tiles_of(ini);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tern_error err = {0};
        const size_t k = rows[i].file;
        tern_buf in = read_data(files[k].file);
        int8_t *codes = malloc((size_t)files[k].rows * files[k].cols);
        float scales[128];
        in.data[rows[i].at] = (char)rows[i].byte;
        assert_int_equal(tern_foreign_decode(tern_foreign_find(files[k].id), (const uint8_t *)in.data, files[k].rows,
                                             files[k].cols, &tiles, codes, scales, &err),
                         TERN_MALFORMED);
        assert_string_equal(err.message, rows[i].message);
        free(codes);
        tern_buf_deinit(&in);
    }
}

static void refuses_shapes(void **state)
{
    (void)state;
    const struct {
        uint32_t id;
        uint64_t rows, cols;
        tern_status status;
        const char *message;
    } rows[] = {
        {135, 4, 96, TERN_INVALID_ARGUMENT, "iq2_bn: found 4 rows of 96 columns, expected a multiple of 64 columns"},
        {335, 6, 64, TERN_INVALID_ARGUMENT, "iq2_bn_r4: found 6 rows of 64 columns, expected a multiple of 4 rows"},
        {TERN_FOREIGN_TL2, 8, 255, TERN_INVALID_ARGUMENT,
         "tl2: found 8 rows of 255 columns, expected at least 256 columns"},
        {38, 3, 5, TERN_INVALID_ARGUMENT, "tl1: found 3 rows of 5 columns, expected a multiple of 4"},
        {134, UINT64_MAX, 64, TERN_LIMIT, "does not fit in memory"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tern_error err = {0};
        size_t bytes;
        assert_int_equal(tern_foreign_bytes(tern_foreign_find(rows[i].id), rows[i].rows, rows[i].cols, &bytes, &err),
                         rows[i].status);
        assert_non_null(strstr(err.message, rows[i].message));
    }
}

static void tiles_must_be_known(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_buf in = read_data("tl1");
    int8_t codes[64 * 64];
    float scales[64];
    const tern_foreign *f = tern_foreign_find(38);
    assert_int_equal(tern_foreign_decode(f, (const uint8_t *)in.data, 64, 64, NULL, codes, scales, &err),
                     TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "tl1: the tiles of 64 x 64 are unknown"));
    tern_tl_tiles odd = tiles_of("[a]\nm=64\nk=64\nbm=48\nbk=32\nbmm=32");
    assert_int_equal(tern_foreign_decode(f, (const uint8_t *)in.data, 64, 64, &odd, codes, scales, &err),
                     TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "tl1: bm 48, bk 32, bmm 32 found for 64 x 64, which they do not cut");
    tern_buf_deinit(&in);
}

static void refuses_configurations(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"m = 3\n", "line 1: m = 3 found"},        {"[a]\nq = 3\n", "line 2: q = 3 found"},
        {"[a]\nm = 3x\n", "line 2: m = 3x found"}, {"[a]\nm = 99999999999999\n", "found"},
        {"[a]\nm =\n", "line 2: m = found"},       {"[a]\nm = 3\n", "section 1: m, k, bm, bk and bmm expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tern_error err = {0};
        tern_tl_tiles tiles;
        assert_int_equal(tern_tl_tiles_parse(&tiles, rows[i].text, strlen(rows[i].text), &err), TERN_MALFORMED);
        assert_non_null(strstr(err.message, rows[i].message));
    }
}

/* Four neighbours in a byte, the first in the lowest bits, w + 1; a ragged row of 6 columns in 2 bytes. */
static void lsb_rows(void **state)
{
    (void)state;
    const uint8_t in[] = {0x24, 0x09, 0x86, 0x02}; /* 00 01 10 00 | 01 10, 10 01 00 10 | 10 00 */
    static const int8_t want[] = {-1, 0, 1, -1, 0, 1, 1, 0, -1, 1, 1, -1};
    int8_t codes[12];
    assert_int_equal(tern_lsb_unpack(in, 2, 6, 2, codes), 0);
    assert_memory_equal(codes, want, sizeof want);
    assert_int_equal(tern_lsb_unpack((const uint8_t[]){0xc3}, 1, 4, 1, codes), 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(reads_what_others_pack), cmocka_unit_test(refuses_bytes),
    cmocka_unit_test(refuses_shapes),         cmocka_unit_test(tiles_must_be_known),
    cmocka_unit_test(refuses_configurations), cmocka_unit_test(lsb_rows),
};

TEST_GROUP(foreign, "", tests);
