/* Every kernel of dense weights that this CPU can run, against its definition, to the bit. */
#include "support/test.h"

#include "backend/cpu/kernels.h"
#include "base/half.h"
#include "quant/encoding.h"
#include "support/formats.h"
#include "support/guard.h"
#include "support/kernels.h"

enum { MAX_ROWS = 40, MAX_COLS = 2560, MAX_TOKENS = 70, MAX_GAP = 9, POISON = 0x7fc12345 };

typedef struct format {
    const char *slot;
    tern_dense_fn ref;
    tern_encoding_id id;
    uint32_t block, bytes;
    const uint32_t *cols;
} format;

static const uint32_t cols_any[] = {1,  2,   7,   15,  16,  17,  31,  32,   33,   47, 63,
                                    64, 100, 511, 512, 513, 527, 530, 1025, 1600, 0};
static const uint32_t cols_32[] = {32, 64, 96, 256, 320, 480, 512, 544, 992, 1024, 1056, 2560, 0};
static const uint32_t cols_64[] = {64, 128, 192, 448, 512, 576, 1088, 2560, 0};
static const uint32_t cols_128[] = {128, 256, 384, 640, 1024, 2560, 0};
static const uint32_t cols_256[] = {256, 512, 768, 1024, 2560, 0};

#define FORMAT(X, name, NAME, elements, bytes)                                                                         \
    {#name, tern_ref_##name, TERN_ENC_##NAME, elements, bytes, cols_##elements},
static const format formats[] = {{"f32", tern_ref_f32, TERN_ENC_F32, 1, 4, cols_any},
                                 {"f16", tern_ref_f16, TERN_ENC_F16, 1, 2, cols_any},
                                 {"bf16", tern_ref_bf16, TERN_ENC_BF16, 1, 2, cols_any},
                                 TERN_ENCODING_BLOCK_LIST(FORMAT, )};
#undef FORMAT
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* The operands of one product, each between unreadable pages, and what it must give. */
typedef struct product {
    const format *format;
    uint32_t n_rows, cols, n;
    size_t row_bytes, x_stride, y_stride, n_y;
    const uint8_t *w;
    const float *x;
    float *expected;
    test_guard w_guard, x_guard, y_guard;
} product;

static tern_rng rng;

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

static void open_product(product *p)
{
    memset(p, 0, sizeof *p);
    p->w_guard = test_guard_open(MAX_ROWS * (MAX_COLS * 4 + 100));
    p->x_guard = test_guard_open(MAX_TOKENS * (MAX_COLS + MAX_GAP) * sizeof(float));
    p->y_guard = test_guard_open(MAX_TOKENS * (MAX_ROWS + MAX_GAP) * sizeof(float));
    p->expected = calloc(MAX_TOKENS * (MAX_ROWS + MAX_GAP), sizeof(float));
    assert_non_null(p->expected);
}

static void close_product(product *p)
{
    test_guard_close(&p->w_guard);
    test_guard_close(&p->x_guard);
    test_guard_close(&p->y_guard);
    free(p->expected);
}

/* f16 values for a fill; weights that stand in a block are never NaN or infinite. */
static uint16_t half_for(test_fill fill, bool scale)
{
    const uint16_t any = (uint16_t)between(0, 65535);
    if (fill == TEST_TINY) return any & 0x83ffu;
    if (fill == TEST_HUGE) return (any & 0x87ffu) | 0x7000u;
    if (fill == TEST_NONFINITE && !scale) return any;
    if (fill == TEST_ORDINARY) return tern_f32_to_f16(test_float(&rng, fill));
    return (any & 0x7c00u) == 0x7c00u ? any ^ 0x4000u : any;
}

/* A scale 2^(e - 127) for a fill; 255 is no number. */
static uint8_t power_for(test_fill fill)
{
    if (fill == TEST_TINY) return (uint8_t)between(0, 3);
    if (fill == TEST_HUGE) return (uint8_t)between(240, 254);
    return (uint8_t)(fill == TEST_ORDINARY ? between(110, 130) : between(0, 254));
}

static void fill_block(const format *f, test_fill fill, uint8_t *block)
{
    if (f->id == TERN_ENC_F32 || f->id == TERN_ENC_BF16) {
        const uint32_t bits = tern_f32_bits(test_float(&rng, fill));
        const uint16_t top = (uint16_t)(bits >> 16);
        memcpy(block, f->id == TERN_ENC_F32 ? (const void *)&bits : (const void *)&top, f->bytes);
        return;
    }
    const bool extreme = between(0, 7) == 0;
    const uint8_t byte = between(0, 1) ? 0xff : between(0, 1) ? 0x80 : 0;
    for (uint32_t i = 0; i < f->bytes; i++) block[i] = extreme ? byte : (uint8_t)between(0, 255);
    unsigned halves[2];
    for (uint32_t i = 0, n = test_halves_of(f->id, halves); i < n; i++) {
        const uint16_t h = half_for(fill, f->block > 1);
        memcpy(block + halves[i], &h, sizeof h);
    }
    if (f->id == TERN_ENC_MXFP4) block[0] = power_for(fill);
}

/* Rows with a gap after them now and then, so that they start at any address; nothing readable after the last. */
static void fill_weights(product *p, test_fill fill)
{
    const size_t packed = (size_t)p->cols / p->format->block * p->format->bytes;
    p->row_bytes = packed + (between(0, 3) == 0 ? between(1, 70) : 0);
    const size_t bytes = (p->n_rows - 1) * p->row_bytes + packed;
    uint8_t *w = test_guard_lend(&p->w_guard, bytes, between(0, 3) == 0);
    for (uint32_t r = 0; r < p->n_rows; r++)
        for (size_t at = 0; at < packed; at += p->format->bytes) fill_block(p->format, fill, w + r * p->row_bytes + at);
    p->w = w;
}

static void fill_product(product *p, const format *f, uint32_t n_rows, uint32_t cols, uint32_t n, test_fill w,
                         test_fill x)
{
    *p = (product){f,
                   n_rows,
                   cols,
                   n,
                   .expected = p->expected,
                   .w_guard = p->w_guard,
                   .x_guard = p->x_guard,
                   .y_guard = p->y_guard};
    fill_weights(p, w);
    p->x_stride = cols + between(0, MAX_GAP);
    const size_t n_x = (n - 1) * p->x_stride + cols;
    float *values = test_guard_lend(&p->x_guard, n_x * sizeof *values, between(0, 3) == 0);
    test_floats(&rng, x, values, n_x);
    p->x = values;
    p->y_stride = n_rows + between(0, MAX_GAP);
    p->n_y = (n - 1) * p->y_stride + n_rows;
    for (size_t i = 0; i < p->n_y; i++) p->expected[i] = tern_f32_from_bits(POISON);
    f->ref(p->w, p->row_bytes, n_rows, cols, p->x, p->x_stride, n, p->expected, p->y_stride);
}

/* Poison between rows must stay, bit for bit. */
static bool gaps_intact(const product *p, const float *y)
{
    for (size_t i = 0; i < p->n_y; i++)
        if (i % p->y_stride >= p->n_rows && tern_f32_bits(y[i]) != POISON) return false;
    return true;
}

/* Whether fn gives exactly what is expected and touches nothing else. */
static bool agrees(product *p, tern_dense_fn fn)
{
    const size_t bytes = p->n_y * sizeof(float);
    float *y = test_guard_lend(&p->y_guard, bytes, between(0, 1));
    for (size_t i = 0; i < p->n_y; i++) y[i] = tern_f32_from_bits(POISON);
    fn(p->w, p->row_bytes, p->n_rows, p->cols, p->x, p->x_stride, p->n, y, p->y_stride);
    return test_same_bits(y, p->expected, p->n_y) && gaps_intact(p, y) && test_guard_intact(&p->y_guard, y, bytes);
}

static void check(product *p, const format *f, uint32_t n_rows, uint32_t cols, uint32_t n, test_fill w, test_fill x)
{
    fill_product(p, f, n_rows, cols, n, w, x);
    size_t at = 0;
    for (const test_kernel *k; (k = test_kernel_next(f->slot, &at));)
        if (!agrees(p, (tern_dense_fn)k->fn))
            fail_msg("%s %s: %u rows of %u columns (%zu bytes), %u tokens (stride %zu), weights %s, x %s", k->slot,
                     k->level, n_rows, cols, p->row_bytes, n, p->x_stride, test_fill_names[w], test_fill_names[x]);
}

static void every_width(void **state)
{
    static const uint32_t tokens[] = {1, 2, 3, 4, 5, 9, 17};
    for (const format *f = formats; f < formats + N_FORMATS; f++)
        for (const uint32_t *cols = f->cols; *cols; cols++)
            for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
                check(*state, f, between(1, 10), *cols, tokens[i], TEST_ORDINARY, TEST_ORDINARY);
}

static void every_row_and_token_count(void **state)
{
    for (const format *f = formats; f < formats + N_FORMATS; f++) {
        for (uint32_t n_rows = 1; n_rows <= MAX_ROWS; n_rows++) {
            check(*state, f, n_rows, f->cols[between(0, 3)], 1, TEST_ORDINARY, TEST_ORDINARY);
            check(*state, f, n_rows, f->cols[between(0, 3)], between(2, 17), TEST_ORDINARY, TEST_ORDINARY);
        }
        for (uint32_t n = 1; n <= 17; n++)
            check(*state, f, between(1, 17), f->cols[between(0, 4)], n, TEST_ORDINARY, TEST_ORDINARY);
        for (uint32_t n = 63; n <= MAX_TOKENS; n++)
            check(*state, f, 9, f->cols[between(0, 2)], n, TEST_ORDINARY, TEST_ORDINARY);
    }
}

/* Rows that are unpacked at once, as an adapter's second matrix has them: sixteen at a time, and those that are left.
 */
static void short_rows(void **state)
{
    for (const format *f = formats; f < formats + N_FORMATS && f->block == 1; f++)
        for (uint32_t cols = 1; cols <= 33; cols++)
            for (int i = 0; i < 4; i++) check(*state, f, between(16, MAX_ROWS), cols, 1, TEST_ORDINARY, TEST_ORDINARY);
}

static void extremes(void **state)
{
    for (const format *f = formats; f < formats + N_FORMATS; f++)
        for (int w = 0; w < TEST_N_FILLS; w++)
            for (int x = 0; x < TEST_N_FILLS; x++) {
                check(*state, f, 9, f->cols[between(0, 4)], 1, (test_fill)w, (test_fill)x);
                check(*state, f, 9, f->cols[between(0, 4)], 6, (test_fill)w, (test_fill)x);
            }
}

/* Weights decoded by their encoding give the same sums as the weights themselves. */
static void values_are_those_of_the_encoding(void **state)
{
    product *p = *state;
    static float decoded[4 * 1024], y[2 * 4];
    for (const format *f = formats; f < formats + N_FORMATS; f++)
        for (int fill = TEST_ORDINARY; fill < TEST_NONFINITE; fill++) {
            do {
                fill_product(p, f, 4, 1024, 2, (test_fill)fill, TEST_ORDINARY);
            } while (p->row_bytes != 1024 / f->block * f->bytes || p->y_stride != 4);
            tern_error err = {0};
            assert_ok(tern_decode_rows(tern_encoding_find(f->id), p->w, 4, 1024, 0, 4, decoded, &err), err);
            tern_ref_f32((const uint8_t *)decoded, 4096, 4, 1024, p->x, p->x_stride, 2, y, 4);
            if (!test_same_bits(y, p->expected, 8)) fail_msg("%s differs from its encoding", f->slot);
        }
}

/* Broken kernels that the checks above must catch. */

static void sums_straight_on(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,
                             size_t x_stride, uint32_t n, float *y, size_t y_stride)
{
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t r = 0; r < n_rows; r++) {
            float sum = 0;
            for (uint32_t c = 0; c < cols; c++) {
                float v;
                memcpy(&v, w + r * row_bytes + 4 * c, sizeof v);
                sum += v * x[t * x_stride + c];
            }
            y[t * y_stride + r] = sum;
        }
}

static void forgets_last_column(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,
                                size_t x_stride, uint32_t n, float *y, size_t y_stride)
{
    tern_ref_f32(w, row_bytes, n_rows, cols - 1, x, x_stride, n, y, y_stride);
}

static void forgets_last_token(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,
                               size_t x_stride, uint32_t n, float *y, size_t y_stride)
{
    tern_ref_f32(w, row_bytes, n_rows, cols, x, x_stride, n - 1, y, y_stride);
}

static void writes_past_rows(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,
                             size_t x_stride, uint32_t n, float *y, size_t y_stride)
{
    tern_ref_f32(w, row_bytes, n_rows, cols, x, x_stride, n, y, y_stride);
    if (y_stride > n_rows) y[n_rows] = 0;
}

static void leaves_minus_zero(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,
                              size_t x_stride, uint32_t n, float *y, size_t y_stride)
{
    tern_ref_f32(w, row_bytes, n_rows, cols, x, x_stride, n, y, y_stride);
    for (uint32_t r = 0; r < n_rows; r++)
        if (y[r] == 0) y[r] = -0.0f;
}

static void broken_kernels_are_caught(void **state)
{
    product *p = *state;
    do {
        fill_product(p, &formats[0], 9, 100, 3, TEST_ORDINARY, TEST_ORDINARY);
    } while (p->y_stride == p->n_rows);
    assert_true(agrees(p, tern_ref_f32));
    assert_false(agrees(p, sums_straight_on));
    assert_false(agrees(p, forgets_last_column));
    assert_false(agrees(p, forgets_last_token));
    assert_false(agrees(p, writes_past_rows));
    fill_product(p, &formats[0], 9, 100, 1, TEST_TINY, TEST_TINY);
    assert_true(agrees(p, tern_ref_f32));
    assert_false(agrees(p, leaves_minus_zero));
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
    cmocka_unit_test(every_width),
    cmocka_unit_test(every_row_and_token_count),
    cmocka_unit_test(short_rows),
    cmocka_unit_test(extremes),
    cmocka_unit_test(values_are_those_of_the_encoding),
    cmocka_unit_test(broken_kernels_are_caught),
};

TEST_GROUP(dense_kernels, "web", tests, .setup = open_state, .teardown = close_state);
