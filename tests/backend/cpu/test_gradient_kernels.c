/* Every kernel that the gradients of linear layers are made of, at every level that this CPU can run, against its
 * definition: products to the bit, decoded weights exactly. */
#include "support/test.h"

#include "backend/cpu/kernels.h"
#include "base/half.h"
#include "quant/encoding.h"
#include "support/guard.h"
#include "support/kernels.h"

enum { MAX_N = 300, MAX_GAP = 9, MAX_CELLS = (TERN_GEMM_M + MAX_GAP) * (MAX_N + MAX_GAP), POISON = 0x7fc12345 };

static tern_rng rng;

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

/* One product, its operands between unreadable pages. */
typedef struct product {
    tern_gemm_args args;
    test_guard a, b, c;
    float *start, *expected, *workspace; /* what c holds before and after */
    size_t n_c;
} product;

static void open_product(product *p)
{
    *p = (product){.a = test_guard_open(MAX_CELLS * sizeof(float)),
                   .b = test_guard_open(MAX_CELLS * sizeof(float)),
                   .c = test_guard_open(MAX_CELLS * sizeof(float))};
    p->start = calloc(MAX_CELLS, sizeof(float));
    p->expected = calloc(MAX_CELLS, sizeof(float));
    p->workspace = calloc(TERN_GEMM_WORKSPACE, sizeof(float));
    assert_true(p->start && p->expected && p->workspace);
}

static void close_product(product *p)
{
    test_guard_close(&p->a);
    test_guard_close(&p->b);
    test_guard_close(&p->c);
    free(p->start);
    free(p->expected);
    free(p->workspace);
}

static size_t cells(uint32_t rows, uint32_t cols, size_t stride)
{
    return (rows - 1) * stride + cols;
}

static const float *operand(test_guard *guard, uint32_t rows, uint32_t cols, size_t *stride, test_fill fill)
{
    *stride = cols + between(0, MAX_GAP);
    const size_t n = cells(rows, cols, *stride);
    float *x = test_guard_lend(guard, n * sizeof *x, between(0, 3) == 0);
    test_floats(&rng, fill, x, n);
    return x;
}

static void fill_product(product *p, uint32_t m, uint32_t n, uint32_t k, test_fill a, test_fill b)
{
    static float scales[TERN_GEMM_K];
    tern_gemm_args *g = &p->args;
    *g = (tern_gemm_args){
        .m = m, .n = n, .k = k, .a_columns = between(0, 1), .bf16 = between(0, 3) == 0, .workspace = p->workspace};
    if (between(0, 1)) {
        test_floats(&rng, a == TEST_HUGE ? TEST_ORDINARY : a, scales, k);
        g->a_scales = scales;
    }
    g->a = operand(&p->a, g->a_columns ? k : m, g->a_columns ? m : k, &g->a_stride, a);
    g->b = operand(&p->b, k, n, &g->b_stride, b);
    g->c_stride = n + between(0, MAX_GAP);
    p->n_c = cells(m, n, g->c_stride);
    test_floats(&rng, between(0, 1) ? a : TEST_TINY, p->start, p->n_c);
    for (size_t i = 0; i < p->n_c; i++)
        if (i % g->c_stride >= n) p->start[i] = tern_f32_from_bits(POISON);
    memcpy(p->expected, p->start, p->n_c * sizeof(float));
    g->c = p->expected;
    tern_ref_gemm(g);
}

/* Whether fn gives exactly what is expected and touches nothing else, whatever the workspace held. */
static bool agrees(product *p, tern_gemm_fn fn)
{
    const size_t bytes = p->n_c * sizeof(float);
    float *c = test_guard_lend(&p->c, bytes, between(0, 1));
    memcpy(c, p->start, bytes);
    for (size_t i = 0; i < TERN_GEMM_WORKSPACE; i++) p->workspace[i] = tern_f32_from_bits(POISON);
    p->args.c = c;
    fn(&p->args);
    for (size_t i = 0; i < p->n_c; i++)
        if (i % p->args.c_stride >= p->args.n && tern_f32_bits(c[i]) != POISON) return false;
    return test_same_bits(c, p->expected, p->n_c) && test_guard_intact(&p->c, c, bytes);
}

static void check(product *p, uint32_t m, uint32_t n, uint32_t k, test_fill a, test_fill b)
{
    size_t at = 0;
    fill_product(p, m, n, k, a, b);
    for (const test_kernel *kernel; (kernel = test_kernel_next("gemm", &at));)
        if (!agrees(p, (tern_gemm_fn)kernel->fn))
            fail_msg("gemm %s: %u x %u x %u, a by %s%s, %s times %s", kernel->level, m, n, k,
                     p->args.a_columns ? "columns" : "rows", p->args.a_scales ? " scaled" : "", test_fill_names[a],
                     test_fill_names[b]);
}

static void every_shape(void **state)
{
    for (uint32_t i = 1; i <= 40; i++) {
        check(*state, i, between(1, 70), between(1, 20), TEST_ORDINARY, TEST_ORDINARY);
        check(*state, between(1, 30), i, between(1, 20), TEST_ORDINARY, TEST_ORDINARY);
        check(*state, between(1, 30), between(1, 70), i, TEST_ORDINARY, TEST_ORDINARY);
    }
    for (uint32_t n = 41; n <= MAX_N; n += between(1, 7))
        check(*state, between(1, 14), n, 5, TEST_ORDINARY, TEST_ORDINARY);
    for (uint32_t n = TERN_GEMM_M - 7; n <= TERN_GEMM_M; n++) {
        check(*state, n, between(20, 50), between(1, 9), TEST_ORDINARY, TEST_ORDINARY);
        check(*state, between(1, 30), between(20, 50), n, TEST_ORDINARY, TEST_ORDINARY);
    }
    for (int i = 0; i < 4; i++) check(*state, TERN_GEMM_M, 96, TERN_GEMM_K, TEST_ORDINARY, TEST_ORDINARY);
}

static void extremes(void **state)
{
    for (int a = 0; a < TEST_N_FILLS; a++)
        for (int b = 0; b < TEST_N_FILLS; b++)
            for (int i = 0; i < 6; i++)
                check(*state, between(1, 40), between(1, 100), between(1, 40), (test_fill)a, (test_fill)b);
}

/* Broken kernels that the checks above must catch. */

static void rounds_twice(const tern_gemm_args *g)
{
    for (uint32_t i = 0; i < g->m; i++)
        for (uint32_t j = 0; j < g->n; j++)
            for (uint32_t l = 0; l < g->k; l++) {
                const float rounded = g->a[g->a_columns ? l * g->a_stride + i : i * g->a_stride + l] *
                                      (g->a_scales ? g->a_scales[l] : 1) * g->b[l * g->b_stride + j];
                g->c[i * g->c_stride + j] += rounded;
            }
}

static void forgets_last_product(const tern_gemm_args *g)
{
    tern_gemm_args less = *g;
    less.k--;
    tern_ref_gemm(&less);
}

static void starts_anew(const tern_gemm_args *g)
{
    for (uint32_t i = 0; i < g->m; i++) memset(g->c + i * g->c_stride, 0, g->n * sizeof(float));
    tern_ref_gemm(g);
}

static void writes_past_columns(const tern_gemm_args *g)
{
    tern_ref_gemm(g);
    if (g->c_stride > g->n) g->c[g->n] = 0;
}

static void broken_kernels_are_caught(void **state)
{
    product *p = *state;
    do {
        fill_product(p, 9, 50, 30, TEST_ORDINARY, TEST_ORDINARY);
    } while (p->args.c_stride == p->args.n);
    assert_true(agrees(p, tern_ref_gemm));
    assert_false(agrees(p, rounds_twice));
    assert_false(agrees(p, forgets_last_product));
    assert_false(agrees(p, writes_past_columns));
    do {
        fill_product(p, 9, 50, 30, TEST_ORDINARY, TEST_ORDINARY);
    } while (p->start[0] > -0.1f && p->start[0] < 0.1f);
    assert_false(agrees(p, starts_anew));
}

/* Encodings and the columns that their rows are tried with. */
typedef struct format {
    const char *slot, *encoding;
    uint32_t grain, most;
    tern_decode_fn ref;
} format;

#define FORMAT(X, name, NAME, elements, bytes)                                                                         \
    {"decode_" #name, #name, elements, (elements) > 32 ? 1024 : 700, tern_ref_decode_##name},
static const format formats[] = {
    {"decode_f16", "f16", 1, 700, tern_ref_decode_f16},
    {"decode_bf16", "bf16", 1, 700, tern_ref_decode_bf16},
    TERN_ENCODING_BLOCK_LIST(FORMAT, ){"decode_i2_s", "i2_s", 128, 1024, tern_ref_decode_i2_s},
    {"decode_tq2_0", "tq2_0", 256, 1024, tern_ref_decode_tq2_0},
    {"decode_tq1_0", "tq1_0", 256, 1024, tern_ref_decode_tq1_0},
    {"decode_t160", "t160", 1, 1024, tern_ref_decode_t160},
};
#undef FORMAT
enum { N_FORMATS = sizeof formats / sizeof *formats, MAX_COLS = 1024, ROWS = 3, OUT_STRIDE = MAX_COLS + 5 };

/* Rows as they were before they were encoded, and what the encoding says they are. */
static void encode(const tern_encoding *e, uint32_t cols, uint8_t *bytes, size_t *row_bytes, float *values)
{
    static float x[ROWS * MAX_COLS];
    static int8_t codes[ROWS * MAX_COLS];
    tern_error err = {0};
    test_floats(&rng, TEST_ORDINARY, x, ROWS * cols);
    assert_ok(tern_encode(e, x, ROWS, cols, bytes, &err), err);
    assert_ok(tern_encoding_row_bytes(e, cols, row_bytes, &err), err);
    if (!e->ternary) {
        assert_ok(tern_decode_rows(e, bytes, ROWS, cols, 0, ROWS, values, &err), err);
        return;
    }
    assert_ok(tern_decode_codes(e, bytes, ROWS, cols, 0, ROWS, codes, NULL, NULL, NULL, &err), err);
    for (size_t i = 0; i < (size_t)ROWS * cols; i++) values[i] = codes[i];
}

static void check_rows(const char *slot, const char *level, tern_decode_fn fn, const uint8_t *w, size_t row_bytes,
                       uint32_t cols, const float *values)
{
    static float out[ROWS * OUT_STRIDE + 256];
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) out[i] = tern_f32_from_bits(POISON);
    fn(w, row_bytes, ROWS, cols, out, OUT_STRIDE);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t c = 0; c < cols; c++)
            if (!(out[r * OUT_STRIDE + c] == values[r * cols + c]))
                fail_msg("%s %s: row %u, column %u of %u: %g, %g expected", slot, level, r, c, cols,
                         (double)out[r * OUT_STRIDE + c], (double)values[r * cols + c]);
        for (uint32_t c = (cols + 255) / 256 * 256; c < OUT_STRIDE; c++)
            if (tern_f32_bits(out[r * OUT_STRIDE + c]) != POISON)
                fail_msg("%s %s: column %u of %u is touched", slot, level, c, cols);
    }
}

/* Every level against the encoding's own decoder, rows that end at an unreadable page. */
static void rows_are_those_of_the_encoding(void **state)
{
    (void)state;
    static uint8_t bytes[ROWS * MAX_COLS * 4 + 64];
    static float values[ROWS * MAX_COLS];
    test_guard guard = test_guard_open(sizeof bytes);
    for (const format *f = formats; f < formats + N_FORMATS; f++)
        for (uint32_t turn = 0; turn < 40; turn++) {
            const uint32_t cols = between(1, f->most / f->grain) * f->grain;
            size_t row_bytes, at = 0;
            encode(tern_encoding_by_name(f->encoding), cols, bytes, &row_bytes, values);
            uint8_t *w = test_guard_lend(&guard, ROWS * row_bytes, false);
            memcpy(w, bytes, ROWS * row_bytes);
            check_rows(f->slot, "scalar", f->ref, w, row_bytes, cols, values);
            for (const test_kernel *k; (k = test_kernel_next(f->slot, &at));)
                check_rows(f->slot, k->level, (tern_decode_fn)k->fn, w, row_bytes, cols, values);
        }
    test_guard_close(&guard);
}

/* Bytes that no encoder writes (NaN, code 11, escapes of nothing), and int8 rows: as the definition has them. */
static void bytes_of_every_kind(void **state)
{
    (void)state;
    enum { ROW_BYTES = MAX_COLS * 2 };
    static const format any[] = {
        {"decode_i8", "", 1, 0, tern_ref_decode_i8},         {"decode_f16", "", 1, 0, tern_ref_decode_f16},
        {"decode_bf16", "", 1, 0, tern_ref_decode_bf16},     {"decode_i2_s", "", 128, 0, tern_ref_decode_i2_s},
        {"decode_tq2_0", "", 256, 0, tern_ref_decode_tq2_0}, {"decode_tq1_0", "", 256, 0, tern_ref_decode_tq1_0},
        {"decode_t160", "", 1, 0, tern_ref_decode_t160}};
    static uint8_t w[ROWS * ROW_BYTES];
    static float want[ROWS * OUT_STRIDE + 256], got[ROWS * OUT_STRIDE + 256];
    for (const format *f = any; f < any + sizeof any / sizeof *any; f++)
        for (int turn = 0; turn < 40; turn++) {
            const uint32_t cols = between(1, MAX_COLS / f->grain) * f->grain;
            size_t at = 0;
            for (size_t i = 0; i < sizeof w; i++) w[i] = (uint8_t)between(0, 255);
            f->ref(w, ROW_BYTES, ROWS, cols, want, OUT_STRIDE);
            for (const test_kernel *k; (k = test_kernel_next(f->slot, &at));) {
                ((tern_decode_fn)k->fn)(w, ROW_BYTES, ROWS, cols, got, OUT_STRIDE);
                for (uint32_t r = 0; r < ROWS; r++)
                    if (!test_same_bits(got + r * OUT_STRIDE, want + r * OUT_STRIDE, cols))
                        fail_msg("%s %s: %u columns", k->slot, k->level, cols);
            }
        }
}

static int open_state(void **state)
{
    static product p;
    test_seed(&rng);
    open_product(&p);
    *state = &p;
    return 0;
}

static int close_state(void **state)
{
    close_product(*state);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_shape),
    cmocka_unit_test(extremes),
    cmocka_unit_test(broken_kernels_are_caught),
    cmocka_unit_test(rows_are_those_of_the_encoding),
    cmocka_unit_test(bytes_of_every_kind),
};

TEST_GROUP(gradient_kernels, "web", tests, .setup = open_state, .teardown = close_state);
