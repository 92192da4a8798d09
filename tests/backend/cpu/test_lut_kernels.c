/* The look-up kernels of every level against their definition, the definition against plain dot products: random and
 * extreme codes and inputs, an unreadable page behind every operand; packing; and whole products of the candidate. */
#include "backend/cpu/lut_cases.h"

static const struct {
    uint32_t width;
    size_t table; /* bytes, of a group */
    const char *slot, *maker;
    tern_lut_fn fn;
    tern_lut_tables_fn make;
} widths[N_WIDTHS] = {{2, TERN_LUT2_TABLE, "lut2", "lut2_tables", tern_ref_lut2, tern_ref_lut2_tables},
                      {3, TERN_LUT3_TABLE, "lut3", "lut3_tables", tern_ref_lut3, tern_ref_lut3_tables},
                      {5, TERN_LUT5_TABLE, "lut5", "lut5_tables", tern_ref_lut5, tern_ref_lut5_tables}};

static void round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < N_WIDTHS; i++)
        for (int f = 0; f < N_FILLS; f++)
            for (int rep = 0; rep < 20; rep++) {
                const uint32_t rows = test_between(&lut_rng, 1, TERN_LUT_ROWS), cols = test_between(&lut_rng, 1, 300);
                const size_t bytes = tern_lut_strip_bytes(widths[i].width, cols);
                int8_t *codes = lut_make_codes(rows, cols, (fill)f), *back = malloc((size_t)rows * cols);
                uint8_t *a = malloc(bytes), *b = malloc(bytes);
                memset(a, 0x55, bytes);
                memset(b, 0xaa, bytes);
                tern_lut_pack(widths[i].width, codes, rows, cols, a);
                tern_lut_pack(widths[i].width, codes, rows, cols, b);
                assert_memory_equal(a, b, bytes);
                tern_lut_unpack(widths[i].width, a, rows, cols, back);
                assert_memory_equal(codes, back, (size_t)rows * cols);
                free(codes);
                free(back);
                free(a);
                free(b);
            }
}

/* A format that does not change: the bytes of some groups. */
static void known_bytes(void **state)
{
    (void)state;
    static const struct {
        uint32_t width;
        int8_t codes[5];
        uint8_t byte;
    } cases[] = {{2, {-1, -1, -1, -1}, 0x00}, {2, {1, 1, 0, 0}, 0x48},   {2, {-1, 1, 1, -1}, 0x62},
                 {5, {0, 0, 0, 0, 0}, 0},     {5, {1, 0, 0, 0, 0}, 1},   {5, {-1, 0, 0, 0, 0}, 129},
                 {5, {-1, 1, 0, 0, 0}, 2},    {5, {1, 1, 1, 1, 1}, 121}, {5, {-1, -1, -1, -1, -1}, 249},
                 {5, {1, 1, 1, 1, -1}, 169}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t strip[TERN_LUT_ROWS];
        tern_lut_pack(cases[i].width, cases[i].codes, 1, tern_lut_group_cols(cases[i].width), strip);
        assert_int_equal(strip[0], cases[i].byte);
        assert_int_equal(strip[1], cases[i].width == 2 ? 0x44 : 0);
    }
}

/* The same of width 3: where bytes stand, digits, signs and what fills the rest. */
static void known_triples(void **state)
{
    (void)state;
    int8_t codes[2][42] = {{1, 1, 1, -1, 0, 0, 0, 0, -1}};
    uint8_t strip[9 * TERN_LUT_ROWS], want[9] = {1 | 64 | 32, 1 | 2, 13 | 1 << 4, 9, 0, 0, 0, 0, 2 << 4};
    codes[0][39] = 1;
    codes[0][40] = -1; /* -2 */
    tern_lut_pack(3, codes[0], 2, 42, strip);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(strip[i * 64], want[i]);
        assert_int_equal(strip[i * 64 + 1], i < 2);
        assert_int_equal(strip[9 * 64 + i * 64], i < 2);
    }
}

typedef struct operands {
    test_guard x, codes, tables, dots;
} operands;

static operands open_operands(uint32_t max_cols)
{
    return (operands){test_guard_open(max_cols), test_guard_open((size_t)(max_cols / 4 + 9) * TERN_LUT_ROWS),
                      test_guard_open((size_t)(max_cols / 4 + 2) * TERN_LUT5_TABLE),
                      test_guard_open(TERN_LUT_ROWS * sizeof(int32_t))};
}

static void close_operands(operands *o)
{
    test_guard_close(&o->x);
    test_guard_close(&o->codes);
    test_guard_close(&o->tables);
    test_guard_close(&o->dots);
}

static size_t tables_bytes(int i, uint32_t cols)
{
    return tern_lut_groups(widths[i].width, cols) * widths[i].table;
}

static bool same_tables(operands *o, int i, uint32_t cols, int extreme, tern_lut_tables_fn fn)
{
    const size_t bytes = tables_bytes(i, cols);
    int8_t *x = test_guard_lend(&o->x, cols, false), *got = test_guard_lend(&o->tables, bytes, false),
           *want = malloc(bytes);
    lut_make_inputs(x, cols, extreme);
    memset(got, 0x55, bytes);
    widths[i].make(x, cols, want);
    fn(x, cols, got);
    const bool same = memcmp(want, got, bytes) == 0;
    free(want);
    return same;
}

/* Any bytes, but bit 0 of signs. */
static void make_bytes(int i, uint8_t *strip, size_t bytes)
{
    for (size_t b = 0; b < bytes; b++) {
        const bool signs = widths[i].width == 3 && b / TERN_LUT3_ROWS % TERN_LUT_MAX_BYTES < TERN_LUT3_SIGNS;
        strip[b] = (uint8_t)(test_between(&lut_rng, 0, 255) | signs);
    }
}

/* With codes of a matrix, or (codes NULL) any bytes. */
static bool same_strip(operands *o, int i, const int8_t *codes, uint32_t rows, uint32_t cols, int extreme,
                       tern_lut_fn fn)
{
    const uint32_t n_groups = tern_lut_groups(widths[i].width, cols);
    const size_t bytes = tern_lut_strip_bytes(widths[i].width, cols);
    uint8_t *strip = test_guard_lend(&o->codes, bytes, false);
    int8_t *tables = test_guard_lend(&o->tables, tables_bytes(i, cols), false),
           *x = test_guard_lend(&o->x, cols, false);
    int32_t want[TERN_LUT_ROWS], *got = test_guard_lend(&o->dots, sizeof want, false);
    lut_make_inputs(x, cols, extreme);
    widths[i].make(x, cols, tables);
    if (codes) tern_lut_pack(widths[i].width, codes, rows, cols, strip);
    else make_bytes(i, strip, bytes);
    widths[i].fn(strip, tables, n_groups, want);
    for (uint32_t r = 0; codes && r < rows; r++) {
        int32_t plain = 0;
        for (uint32_t c = 0; c < cols; c++) plain += codes[(size_t)r * cols + c] * x[c];
        if (plain != want[r])
            fail_msg("definition, width %u: row %u: %d found, %d expected", widths[i].width, r, want[r], plain);
    }
    memset(got, 0x55, sizeof want);
    fn(strip, tables, n_groups, got);
    return memcmp(want, got, sizeof want) == 0;
}

static void check_width(operands *o, int i, const int8_t *codes, uint32_t rows, uint32_t cols, int extreme)
{
    const test_kernel *k;
    assert_true(same_tables(o, i, cols, extreme, widths[i].make));
    assert_true(same_strip(o, i, codes, rows, cols, extreme, widths[i].fn));
    for (size_t at = 0; (k = test_kernel_next(widths[i].maker, &at));)
        if (!same_tables(o, i, cols, extreme, (tern_lut_tables_fn)k->fn))
            fail_msg("%s %s: %u columns, extreme %d", k->slot, k->level, cols, extreme);
    for (size_t at = 0; (k = test_kernel_next(widths[i].slot, &at));) {
        if (!same_strip(o, i, codes, rows, cols, extreme, (tern_lut_fn)k->fn))
            fail_msg("%s %s: %u rows, %u columns, extreme %d", k->slot, k->level, rows, cols, extreme);
        if (!same_strip(o, i, NULL, 0, cols, extreme, (tern_lut_fn)k->fn))
            fail_msg("%s %s: %u columns, any bytes, extreme %d", k->slot, k->level, cols, extreme);
    }
}

static void check_size(operands *o, uint32_t cols, fill f)
{
    const uint32_t rows = test_between(&lut_rng, 1, TERN_LUT_ROWS);
    int8_t *codes = lut_make_codes(rows, cols, f);
    for (int i = 0; i < N_WIDTHS; i++)
        for (int extreme = -1; extreme <= 1; extreme++) check_width(o, i, codes, rows, cols, extreme);
    free(codes);
}

static void every_kernel(void **state)
{
    (void)state;
    operands o = open_operands(20000);
    for (int f = 0; f < N_FILLS; f++) {
        for (uint32_t cols = 1; cols < 40; cols++) check_size(&o, cols, (fill)f);
        for (int i = 0; i < 20; i++) check_size(&o, test_between(&lut_rng, 40, 2560), (fill)f);
        check_size(&o, 20000, (fill)f);
    }
    close_operands(&o);
}

/* All 256 inputs, one by one, with each code: sums of digits are right even for -128. */
static void every_input(void **state)
{
    (void)state;
    operands o = open_operands(5);
    static const int plus_one[N_WIDTHS] = {7, 1, 1}, high_at[N_WIDTHS] = {16, 16, 128};
    for (int value = -128; value < 128; value++)
        for (int i = 0; i < N_WIDTHS; i++) {
            int8_t x = (int8_t)value, *tables = test_guard_lend(&o.tables, tables_bytes(i, 1), false);
            widths[i].make(&x, 1, tables);
            const int low = tables[plus_one[i]], high = tables[plus_one[i] + high_at[i]];
            assert_int_equal(low + 16 * high, value);
            assert_in_range(low + 8, 0, 15);
            assert_in_range(high + 8, 0, 16);
        }
    close_operands(&o);
}

/* Broken kernels that the checks above must catch. */

static void forgets_last_group(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots)
{
    tern_ref_lut5(codes, tables, n_groups - 1, dots);
}

static void forgets_sign(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots)
{
    uint8_t *plain = malloc((size_t)n_groups * TERN_LUT_ROWS);
    for (size_t i = 0; i < (size_t)n_groups * TERN_LUT_ROWS; i++) plain[i] = codes[i] & 127;
    tern_ref_lut5(plain, tables, n_groups, dots);
    free(plain);
}

static void sums_in_int16(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots)
{
    tern_ref_lut5(codes, tables, n_groups, dots);
    for (int r = 0; r < TERN_LUT_ROWS; r++) dots[r] = (int16_t)dots[r];
}

static void spoils_an_entry(const int8_t *x, uint32_t n, int8_t *tables)
{
    tern_ref_lut2_tables(x, n, tables);
    tables[0] = (int8_t)(tables[0] + 1);
}

static void shifts_signs(const uint8_t *codes, const int8_t *tables, uint32_t n_groups, int32_t *dots)
{
    const size_t bytes = (size_t)n_groups * TERN_LUT_MAX_BYTES * TERN_LUT_ROWS;
    uint8_t *shifted = memcpy(malloc(bytes), codes, bytes);
    for (uint32_t i = 0; i < TERN_LUT3_ROWS; i++) shifted[i] = (uint8_t)(shifted[i] << 1);
    tern_ref_lut3(shifted, tables, n_groups, dots);
    free(shifted);
}

static void broken_kernels_are_caught(void **state)
{
    (void)state;
    operands o = open_operands(2560);
    int8_t *equal = lut_make_codes(4, 2560, ALL_EQUAL), *random = lut_make_codes(4, 2560, RANDOM);
    assert_false(same_strip(&o, 2, equal, 4, 2560, 1, sums_in_int16));
    assert_false(same_strip(&o, 2, random, 4, 2560, 1, forgets_last_group));
    assert_false(same_strip(&o, 2, random, 4, 2560, 0, forgets_sign));
    assert_false(same_strip(&o, 1, random, 4, 2560, 0, shifts_signs));
    assert_false(same_tables(&o, 0, 2560, 0, spoils_an_entry));
    free(equal);
    free(random);
    close_operands(&o);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&lut_rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(round_trip),   cmocka_unit_test(known_bytes), cmocka_unit_test(known_triples),
    cmocka_unit_test(every_kernel), cmocka_unit_test(every_input), cmocka_unit_test(broken_kernels_are_caught),
};

TEST_GROUP(lut_kernels, "web", tests, .setup = seed);
