/* RSR matrices as bytes: as documented, damaged, at their limits, without memory. */
#include "quant/rsr_cases.h"

/* A matrix sorted by hand, as docs/reference/formats/rsr.md says. */
static void bytes_as_documented(void **state)
{
    (void)state;
    int8_t codes[] = {1, 0, -1, 1, 0, 0, /**/ 0, 1, 0, 0, 1, 0, /**/ 0, 0, 0, 0, 0, -1};
    matrix m = {.rows = 3, .cols = 6, .kind = TERN_RSR_TERNARY, .codes = codes};
    static const uint8_t header[] = {'T', 'E', 'R', 'N', '-', 'R', 'S', 'R', 1, 0, 0, 0, 0, 0, 0, 0,
                                     2,   0,   0,   0,   3,   0,   0,   0,   6, 0, 0, 0, 6, 0, 0, 0,
                                     2,   0,   0,   0,   2,   0,   0,   0,   8, 7, 6, 5, 4, 3, 2, 1};
    /* Block 0: 2 (0, +1) has columns 1 and 4, 3 (-1, 0) has 2, 6 (+1, 0) has 0 and 3; five columns, so parts of one.
     * Block 1: 3 has 5. */
    static const uint16_t firsts[] = {0, 0, 1, 0, 2, 0}, steps[] = {1, 1}, masks[] = {0x18, 0x03, 0x04, 0, 0, 0, 1, 0};
    static const uint16_t index[] = {1, 4, 2, 0, 3, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6,
                                     5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6};
    uint8_t want[384] = {0};
    memcpy(want, header, sizeof header);
    memcpy(want + 64, firsts, sizeof firsts);
    memcpy(want + 128, firsts, sizeof firsts);
    memcpy(want + 192, steps, sizeof steps);
    memcpy(want + 256, masks, sizeof masks);
    memcpy(want + 320, index, sizeof index);
    tern_rsr_source source = rsr_source_of(&m);
    tern_rsr_slices s;
    tern_error err = {0};
    assert_ok(tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = 2}, 0x0102030405060708, &err), err);
    assert_int_equal(s.n_bytes, sizeof want);
    assert_memory_equal(s.bytes, want, sizeof want);
    tern_rsr_slices_deinit(&s);
}

static void refuse(matrix *m, tern_rsr_options o, tern_status code, const char *message)
{
    tern_rsr_source source = rsr_source_of(m);
    tern_rsr_slices slices;
    rsr_groups groups;
    tern_error err = {0};
    assert_int_equal(tern_rsr_slices_build(&slices, &source, &o, 0, &err), code);
    assert_string_equal(err.message, message);
    assert_null(slices.bytes);
    assert_int_equal(rsr_groups_build(&groups, &source, &o, &err), code);
    assert_null(groups.perm);
}

static void limits(void **state)
{
    (void)state;
    matrix m = rsr_make(TERN_RSR_TERNARY, 4, 10, ALL_ZERO);
    refuse(&m, (tern_rsr_options){.k = 0}, TERN_LIMIT,
           "rsr: k 0 found, 1 to 16 expected (a pattern's rows are a mask of 16 bits)");
    refuse(&m, (tern_rsr_options){.k = 17}, TERN_LIMIT,
           "rsr: k 17 found, 1 to 16 expected (a pattern's rows are a mask of 16 bits)");
    refuse(&m, (tern_rsr_options){.k = 13, .sort = TERN_RSR_SORT_COUNTING}, TERN_LIMIT,
           "rsr: counting with k 13 found, at most 12 expected (there are 3^k counters)");
    refuse(&m, (tern_rsr_options){.k = 2, .panel_cols = 65536}, TERN_LIMIT,
           "rsr: panels of 65536 columns found, at most 65535 expected (columns are numbers of 16 bits)");
    for (int i = 0; i < 2; i++) {
        matrix none = {.rows = i ? 4 : 0, .cols = i ? 0 : 10, .codes = m.codes};
        char words[80];
        snprintf(words, sizeof words, "rsr: a matrix of %u rows of %u found, at least 1 row of 1 expected", none.rows,
                 none.cols);
        refuse(&none, (tern_rsr_options){.k = 2}, TERN_INVALID_ARGUMENT, words);
    }
    matrix wide = {.rows = 1u << 31, .cols = 3, .codes = m.codes}; /* refused before any of it is read */
    refuse(&wide, (tern_rsr_options){.k = 1, .panel_cols = 1}, TERN_LIMIT,
           "rsr: 6442450944 blocks of panels found for 2147483648 rows of 3 with k 1, at most 2^32 - 1 expected");
    m.codes[23] = 2;
    refuse(&m, (tern_rsr_options){.k = 2}, TERN_INVALID_ARGUMENT,
           "rsr: 2 found in row 2, column 3, -1, 0 or 1 expected");
    m.codes[23] = -1;
    refuse(&m, (tern_rsr_options){.k = 2, .kind = TERN_RSR_BINARY}, TERN_INVALID_ARGUMENT,
           "rsr: -1 found in row 2, column 3, 0 or 1 expected");
    refuse(&m, (tern_rsr_options){.k = 2, .kind = TERN_RSR_SIGNS}, TERN_INVALID_ARGUMENT,
           "rsr: 0 found in row 0, column 0, -1 or 1 expected");
    free(m.codes);
}

static void no_memory(void **state)
{
    (void)state;
    matrix m = rsr_make(TERN_RSR_TERNARY, 20, 100, RANDOM);
    tern_rsr_source source = rsr_source_of(&m);
    const int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    for (uint64_t n = 1; status != TERN_OK; n++) {
        tern_rsr_slices slices;
        tern_error err = {0};
        tern_alloc_fail_after(n, true);
        status = tern_rsr_slices_build(&slices, &source, &(tern_rsr_options){.k = 4}, 0, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        tern_rsr_slices_deinit(&slices);
        assert_int_equal(tern_alloc_live(), live);
    }
    free(m.codes);
}

/* Each damaged copy is refused, with these words in the message. */
static void damaged_bytes(void **state)
{
    (void)state;
    matrix m = rsr_make(TERN_RSR_TERNARY, 6, 50, RANDOM);
    for (uint32_t c = 0; c < 50; c++) m.codes[c] = 1;
    tern_rsr_source source = rsr_source_of(&m);
    tern_rsr_slices s, opened;
    tern_error err = {0};
    assert_ok(tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = 4}, 0, &err), err);
    const struct {
        size_t at, n;
        uint32_t value;
        const char *words;
    } cases[] = {
        {0, 1, 'X', "TERN-RSR"},
        {8, 4, 2, "version 2"},
        {12, 4, 3, "kind 3"},
        {16, 4, 17, "k 17"},
        {16, 4, 0, "k 0"},
        {20, 4, 0, "0 rows"},
        {12, 4, TERN_RSR_BINARY, "binary matrix"},
        {28, 4, 51, "panels of 51"},
        {28, 4, 0, "panels of 0"},
        {20, 4, 600, "bytes found"},
        {32, 4, 1u << 31, "bytes found"},
        {64, 4, 1, "out of order"},
        {68, 4, 0x7fffffff, "out of order"},
        {128, 4, 1, "out of order"},
        {132, 4, 0x7fffffff, "out of order"},
        {(size_t)((const uint8_t *)s.lengths - s.bytes), 2, s.lengths[0] - 1u, "vectors found"},
        {(size_t)((const uint8_t *)s.masks - s.bytes) + ((s.first_slice[2] - 1) * 8 + 3) * 2, 2, 1, "block of 2 rows"},
        {(size_t)((const uint8_t *)s.lengths - s.bytes), 2, 60000, "vectors found"},
        {(size_t)((const uint8_t *)s.masks - s.bytes), 4, 0xffffffff,
         "one group"}, /* rows 0 and 1 +1; see below for -1 */
        {(size_t)((const uint8_t *)s.index - s.bytes), 2, 51, "column 51"},
        {(size_t)((const uint8_t *)s.index - s.bytes), 2, 50, NULL},
        {(size_t)((const uint8_t *)s.index - s.bytes), 2, s.index[1], "twice"},
        {(size_t)((const uint8_t *)s.index - s.bytes) + s.first_vector[1] * 32, 2, s.index[s.first_vector[1] * 16 + 1],
         "twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *copy = tern_alloc_aligned(s.n_bytes, 64);
        memcpy(copy, s.bytes, s.n_bytes);
        assert_memory_not_equal(copy + cases[i].at, &cases[i].value, cases[i].n);
        memcpy(copy + cases[i].at, &cases[i].value, cases[i].n);
        if (cases[i].n == 4 && cases[i].words && !strcmp(cases[i].words, "one group"))
            memset(copy + cases[i].at, 0xff, 16);
        const tern_status status = tern_rsr_slices_open(&opened, copy, s.n_bytes, &err);
        if (!cases[i].words) assert_int_equal(status, TERN_OK);
        else if (status == TERN_OK || !strstr(err.message, cases[i].words))
            fail_msg("case %zu: \"%s\" expected, found \"%s\"", i, cases[i].words,
                     status == TERN_OK ? "" : err.message);
        tern_free_aligned(copy);
    }
    for (size_t n = 0; n < s.n_bytes; n += 4)
        assert_int_not_equal(tern_rsr_slices_open(&opened, s.bytes, n, &err), TERN_OK);
    uint8_t *longer = tern_alloc_aligned(s.n_bytes + 64, 64);
    memset(longer, 0, s.n_bytes + 64);
    memcpy(longer, s.bytes, s.n_bytes);
    assert_ok(tern_rsr_slices_open(&opened, longer, s.n_bytes, &err), err);
    assert_int_equal(tern_rsr_slices_open(&opened, longer, s.n_bytes + 64, &err), TERN_MALFORMED);
    tern_free_aligned(longer);
    tern_rsr_slices_deinit(&s);
    free(m.codes);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rsr_rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(limits),
    cmocka_unit_test(no_memory),
    cmocka_unit_test(damaged_bytes),
    cmocka_unit_test(bytes_as_documented),
};

TEST_GROUP(rsr_files, "web", tests, .setup = seed);
