/* The look-up kernels of every level against their definition, the definition against plain dot products: random and
 * extreme codes and inputs, an unreadable page behind every operand; packing; and whole products of the candidate. */
#include "support/test.h"

#include "backend/cpu/candidates.h"
#include "backend/cpu/kernels.h"
#include "support/guard.h"
#include "support/kernels.h"

typedef enum fill { RANDOM, ALL_EQUAL, ALL_ZERO, SPARSE, N_FILLS } fill;

static const uint32_t widths[] = {2, 5};
static tern_rng rng;

static int8_t *make_codes(uint32_t rows, uint32_t cols, fill f)
{
    int8_t *codes = malloc((size_t)rows * cols);
    assert_non_null(codes);
    const int8_t one = (int8_t)((int)test_between(&rng, 0, 1) * 2 - 1);
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        codes[i] = f == ALL_EQUAL ? one : f == ALL_ZERO ? 0 : (int8_t)((int)test_between(&rng, 0, 2) - 1);
        if (f == SPARSE && test_between(&rng, 0, 20)) codes[i] = 0;
    }
    return codes;
}

/* extreme: 0 random, otherwise all inputs the lowest or the highest. */
static void make_inputs(int8_t *x, uint32_t n, int extreme)
{
    for (uint32_t c = 0; c < n; c++)
        x[c] = extreme ? (int8_t)(extreme < 0 ? -128 : 127) : (int8_t)test_between(&rng, 0, 255);
}

static void round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int f = 0; f < N_FILLS; f++)
            for (int rep = 0; rep < 20; rep++) {
                const uint32_t rows = test_between(&rng, 1, TERN_LUT_ROWS), cols = test_between(&rng, 1, 300);
                const size_t bytes = tern_lut_strip_bytes(widths[i], cols);
                int8_t *codes = make_codes(rows, cols, (fill)f), *back = malloc((size_t)rows * cols);
                uint8_t *a = malloc(bytes), *b = malloc(bytes);
                memset(a, 0x55, bytes);
                memset(b, 0xaa, bytes);
                tern_lut_pack(widths[i], codes, rows, cols, a);
                tern_lut_pack(widths[i], codes, rows, cols, b);
                assert_memory_equal(a, b, bytes);
                tern_lut_unpack(widths[i], a, rows, cols, back);
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

typedef struct operands {
    test_guard x, codes, tables, dots;
} operands;

static operands open_operands(uint32_t max_cols)
{
    return (operands){test_guard_open(max_cols), test_guard_open((size_t)(max_cols / 4 + 1) * TERN_LUT_ROWS),
                      test_guard_open((size_t)(max_cols / 4 + 1) * TERN_LUT5_TABLE),
                      test_guard_open(TERN_LUT_ROWS * sizeof(int32_t))};
}

static void close_operands(operands *o)
{
    test_guard_close(&o->x);
    test_guard_close(&o->codes);
    test_guard_close(&o->tables);
    test_guard_close(&o->dots);
}

static size_t tables_bytes(uint32_t width, uint32_t cols)
{
    return (size_t)tern_lut_groups(width, cols) * (width == 2 ? TERN_LUT2_TABLE : TERN_LUT5_TABLE);
}

static bool same_tables(operands *o, uint32_t width, uint32_t cols, int extreme, tern_lut_tables_fn fn)
{
    const size_t bytes = tables_bytes(width, cols);
    int8_t *x = test_guard_lend(&o->x, cols, false), *got = test_guard_lend(&o->tables, bytes, false),
           *want = malloc(bytes);
    make_inputs(x, cols, extreme);
    memset(got, 0x55, bytes);
    (width == 2 ? tern_ref_lut2_tables : tern_ref_lut5_tables)(x, cols, want);
    fn(x, cols, got);
    const bool same = memcmp(want, got, bytes) == 0;
    free(want);
    return same;
}

/* With codes of a matrix, or (codes NULL) any bytes. */
static bool same_strip(operands *o, uint32_t width, const int8_t *codes, uint32_t rows, uint32_t cols, int extreme,
                       tern_lut_fn fn)
{
    const size_t bytes = tern_lut_strip_bytes(width, cols);
    uint8_t *strip = test_guard_lend(&o->codes, bytes, false);
    int8_t *tables = test_guard_lend(&o->tables, tables_bytes(width, cols), false),
           *x = test_guard_lend(&o->x, cols, false);
    int32_t want[TERN_LUT_ROWS], *got = test_guard_lend(&o->dots, sizeof want, false);
    make_inputs(x, cols, extreme);
    (width == 2 ? tern_ref_lut2_tables : tern_ref_lut5_tables)(x, cols, tables);
    if (codes) tern_lut_pack(width, codes, rows, cols, strip);
    else
        for (size_t i = 0; i < bytes; i++) strip[i] = (uint8_t)test_between(&rng, 0, 255);
    (width == 2 ? tern_ref_lut2 : tern_ref_lut5)(strip, tables, tern_lut_groups(width, cols), want);
    for (uint32_t r = 0; codes && r < rows; r++) {
        int32_t plain = 0;
        for (uint32_t c = 0; c < cols; c++) plain += codes[(size_t)r * cols + c] * x[c];
        if (plain != want[r]) fail_msg("definition, width %u: row %u: %d found, %d expected", width, r, want[r], plain);
    }
    memset(got, 0x55, sizeof want);
    fn(strip, tables, tern_lut_groups(width, cols), got);
    return memcmp(want, got, sizeof want) == 0;
}

static void check_size(operands *o, uint32_t cols, fill f)
{
    static const char *const slots[] = {"lut2", "lut5"}, *const makers[] = {"lut2_tables", "lut5_tables"};
    const uint32_t rows = test_between(&rng, 1, TERN_LUT_ROWS);
    int8_t *codes = make_codes(rows, cols, f);
    const test_kernel *k;
    for (int i = 0; i < 2; i++)
        for (int extreme = -1; extreme <= 1; extreme++) {
            assert_true(same_tables(o, widths[i], cols, extreme, i ? tern_ref_lut5_tables : tern_ref_lut2_tables));
            assert_true(same_strip(o, widths[i], codes, rows, cols, extreme, i ? tern_ref_lut5 : tern_ref_lut2));
            for (size_t at = 0; (k = test_kernel_next(makers[i], &at));)
                if (!same_tables(o, widths[i], cols, extreme, (tern_lut_tables_fn)k->fn))
                    fail_msg("%s %s: %u columns, extreme %d", k->slot, k->level, cols, extreme);
            for (size_t at = 0; (k = test_kernel_next(slots[i], &at));) {
                if (!same_strip(o, widths[i], codes, rows, cols, extreme, (tern_lut_fn)k->fn))
                    fail_msg("%s %s: %u rows, %u columns, fill %d, extreme %d", k->slot, k->level, rows, cols, f,
                             extreme);
                if (!same_strip(o, widths[i], NULL, 0, cols, extreme, (tern_lut_fn)k->fn))
                    fail_msg("%s %s: %u columns, any bytes, extreme %d", k->slot, k->level, cols, extreme);
            }
        }
    free(codes);
}

static void every_kernel(void **state)
{
    (void)state;
    operands o = open_operands(20000);
    for (int f = 0; f < N_FILLS; f++) {
        for (uint32_t cols = 1; cols < 40; cols++) check_size(&o, cols, (fill)f);
        for (int i = 0; i < 20; i++) check_size(&o, test_between(&rng, 40, 2560), (fill)f);
        check_size(&o, 20000, (fill)f);
    }
    close_operands(&o);
}

/* All 256 inputs, one by one, with each code: sums of digits are right even for -128. */
static void every_input(void **state)
{
    (void)state;
    operands o = open_operands(5);
    for (int value = -128; value < 128; value++)
        for (int i = 0; i < 2; i++) {
            int8_t x = (int8_t)value, *tables = test_guard_lend(&o.tables, tables_bytes(widths[i], 1), false);
            (i ? tern_ref_lut5_tables : tern_ref_lut2_tables)(&x, 1, tables);
            const int low = i ? tables[1] : tables[7], high = i ? tables[129] : tables[23];
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

static void broken_kernels_are_caught(void **state)
{
    (void)state;
    operands o = open_operands(2560);
    int8_t *equal = make_codes(4, 2560, ALL_EQUAL), *random = make_codes(4, 2560, RANDOM);
    assert_false(same_strip(&o, 5, equal, 4, 2560, 1, sums_in_int16));
    assert_false(same_strip(&o, 5, random, 4, 2560, 1, forgets_last_group));
    assert_false(same_strip(&o, 5, random, 4, 2560, 0, forgets_sign));
    assert_false(same_tables(&o, 2, 2560, 0, spoils_an_entry));
    free(equal);
    free(random);
    close_operands(&o);
}

/* What a weight's layout gives for any range of rows and a few tokens. */
typedef struct product {
    tern_weight w;
    int8_t *codes, *x;
    size_t stride;
} product;

static product open_product(uint32_t rows, uint32_t cols, const char *encoding)
{
    product p = {.codes = make_codes(rows, cols, RANDOM), .stride = (cols + 127) / 128 * 128};
    const tern_encoding *e = tern_encoding_by_name(encoding);
    tern_error err = {0};
    size_t bytes;
    assert_ok(tern_encoding_bytes(e, rows, cols, &bytes, &err), err);
    uint8_t *data = malloc(bytes);
    assert_ok(tern_encode_codes(e, p.codes, 1.0f, rows, cols, data, &err), err);
    p.w = (tern_weight){
        .encoding = e, .rows = rows, .cols = cols, .data = data, .bytes = bytes, .scale = 1.0f, .name = "w.weight"};
    p.x = calloc(TERN_CPU__LAYOUT_TOKENS, p.stride);
    for (uint32_t t = 0; t < TERN_CPU__LAYOUT_TOKENS; t++) make_inputs(p.x + t * p.stride, cols, 0);
    return p;
}

static void close_product(product *p)
{
    free((void *)(uintptr_t)p->w.data);
    free(p->codes);
    free(p->x);
}

static void *make_tables(const product *p, const tern_cpu *cpu, const tern_cpu__tables *t, uint32_t n)
{
    const size_t bytes = tern_cpu__tables_bytes(t, p->w.cols);
    uint8_t *tables = aligned_alloc(64, n * bytes);
    for (uint32_t i = 0; i < n; i++) t->make(&cpu->kernels, p->x + i * p->stride, p->w.cols, tables + i * bytes);
    return tables;
}

static void check_layout(const product *p, const tern_cpu *cpu, const tern_cpu__layout *l, uint32_t first,
                         uint32_t n_rows, uint32_t n)
{
    const tern_q8_rows x = {.x = p->x, .stride = p->stride, .n = n};
    const size_t stride = n_rows + 3;
    int32_t *dots = malloc(n * stride * sizeof *dots);
    void *tables = make_tables(p, cpu, l->tables, n);
    memset(dots, 0x55, n * stride * sizeof *dots);
    l->multiply(l, first, n_rows, &x, tables, dots, stride);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t r = 0; r < stride; r++) {
            int32_t want = r < n_rows ? 0 : 0x55555555; /* nothing else is written */
            for (uint32_t c = 0; c < p->w.cols && r < n_rows; c++)
                want += p->codes[(size_t)(first + r) * p->w.cols + c] * p->x[t * p->stride + c];
            if (dots[t * stride + r] != want)
                fail_msg("rows %u + %u, token %u, row %u: %d found, %d expected", first, n_rows, t, r,
                         dots[t * stride + r], want);
        }
    free(tables);
    free(dots);
}

static void whole_products(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{1, 1}, {37, 130}, {128, 640}, {300, 2560}, {129, 641}, {5, 7001}};
    tern_error err = {0};
    tern_backend *b;
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = 2}, &err), err);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int choice = 0; choice < 3; choice++) {
            const uint32_t width = choice ? widths[choice - 1] : 0;
            product p = open_product(shapes[i][0], shapes[i][1], "t160");
            tern_cpu__layout *l;
            assert_ok(tern_cpu__lut_make((tern_cpu *)b, &p.w, width, &l, &err), err);
            assert_true(l->bytes >= (uint64_t)p.w.rows * p.w.cols / 5 && l->max_tokens <= TERN_CPU__LAYOUT_TOKENS);
            for (uint32_t n = 1; n <= l->max_tokens; n++) check_layout(&p, (tern_cpu *)b, l, 0, p.w.rows, n);
            for (int rep = 0; rep < 4; rep++) {
                const uint32_t first = test_between(&rng, 0, p.w.rows - 1);
                check_layout(&p, (tern_cpu *)b, l, first, test_between(&rng, 1, p.w.rows - first), 2);
            }
            l->close(l);
            close_product(&p);
        }
    b->close(b);
}

static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_backend *b;
    tern_cpu__layout *l;
    tern_cpu__choice choice;
    assert_ok(tern_cpu__choice_parse("lut:5", &choice, &err), err);
    assert_int_equal(choice.n, 5);
    assert_int_equal(tern_cpu__choice_parse("lut:6", &choice, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "kernel \"lut:6\": columns of a look-up from 2 to 5 expected after the colon");
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = 1}, &err), err);
    product p = open_product(20, 256, "i2_s");
    assert_int_equal(tern_cpu__lut_make((tern_cpu *)b, &p.w, 3, &l, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "kernel lut:3: look-ups of 2 or of 5 columns expected");
    p.w.trained = true;
    assert_int_equal(tern_cpu__lut_make((tern_cpu *)b, &p.w, 0, &l, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "w.weight: kernel lut found for a weight that is trained, dot expected");
    close_product(&p);
    b->close(b);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(known_bytes),
        cmocka_unit_test(every_kernel),
        cmocka_unit_test(every_input),
        cmocka_unit_test(broken_kernels_are_caught),
        cmocka_unit_test(whole_products),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, seed, NULL);
}
