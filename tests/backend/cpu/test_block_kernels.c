/* Every kernel of dense weights and int8 activations that this CPU can run, against its definition, to the bit; and the
 * definition against decoded weights in double precision. */
#include "support/test.h"

#include <math.h>

#include "backend/cpu/kernels.h"
#include "base/half.h"
#include "quant/encoding.h"
#include "support/formats.h"
#include "support/guard.h"
#include "support/kernels.h"

enum { MAX_ROWS = 70, MAX_COLS = 2560, MAX_TOKENS = 49, MAX_GAP = 9, HALF_PAGE = 2048, POISON = 0x7fc12345 };

typedef struct format {
    const char *slot;
    tern_blocks_fn ref;
    tern_encoding_id id;
    uint32_t block, bytes;
} format;

#define FORMAT(X, name, NAME, elements, bytes) {"int8_" #name, tern_ref_int8_##name, TERN_ENC_##NAME, elements, bytes},
static const format formats[] = {TERN_ENCODING_INT8_LIST(FORMAT, )};
#undef FORMAT
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* How weights and activations are filled: ordinary numbers; every byte the same, so that sums are as large as they get;
 * scales up to the largest. */
typedef enum fill { ORDINARY, LARGEST, WIDE, N_FILLS } fill;
static const char *const fill_names[N_FILLS] = {"ordinary", "largest", "wide"};

typedef struct product {
    const format *format;
    uint32_t n_rows, cols;
    size_t row_bytes, y_stride, n_y;
    const uint8_t *w;
    tern_q8_blocks x;
    float *scales;
    int32_t *sums;
    float *expected;
    test_guard w_guard, x_guard, y_guard;
} product;

static tern_rng rng;

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

static uint16_t scale_bits(fill f)
{
    const uint16_t any = (uint16_t)between(0, 65535);
    if (f != WIDE) return tern_f32_to_f16(test_float(&rng, TEST_ORDINARY));
    return (any & 0x7c00u) == 0x7c00u ? any ^ 0x4000u : any;
}

static void fill_block(const format *f, fill how, uint8_t *block)
{
    static const uint8_t extremes[] = {0xff, 0x80, 0x7f, 0};
    const uint8_t byte = extremes[between(0, 3)];
    for (uint32_t i = 0; i < f->bytes; i++) block[i] = how == LARGEST ? byte : (uint8_t)between(0, 255);
    unsigned halves[2];
    for (uint32_t i = 0, n = test_halves_of(f->id, halves); i < n; i++) {
        const uint16_t h = scale_bits(how);
        memcpy(block + halves[i], &h, sizeof h);
    }
    if (f->id == TERN_ENC_MXFP4) block[0] = (uint8_t)(how == WIDE ? between(0, 254) : between(110, 130));
}

/* Rows with a gap after them now and then; nothing readable after the last. */
static void fill_weights(product *p, fill how)
{
    const size_t packed = (size_t)p->cols / p->format->block * p->format->bytes;
    p->row_bytes = packed + (between(0, 3) == 0 ? between(1, 70) : 0);
    if (packed <= HALF_PAGE && between(0, 7) == 0)
        p->row_bytes = HALF_PAGE; /* streams of rows fall on the same lines */
    const size_t bytes = (p->n_rows - 1) * p->row_bytes + packed;
    uint8_t *w = test_guard_lend(&p->w_guard, bytes, between(0, 3) == 0);
    for (uint32_t r = 0; r < p->n_rows; r++)
        for (size_t at = 0; at < packed; at += p->format->bytes) fill_block(p->format, how, w + r * p->row_bytes + at);
    p->w = w;
}

static void fill_tokens(product *p, uint32_t n, fill how)
{
    const size_t stride = p->cols + between(0, 3) * 4;
    int8_t *q = test_guard_lend(&p->x_guard, (n - 1) * stride + p->cols, between(0, 3) == 0);
    const int8_t same = between(0, 1) ? 127 : -127;
    for (size_t t = 0; t < n; t++)
        for (uint32_t c = 0; c < p->cols; c++) {
            q[t * stride + c] = how == LARGEST ? same : (int8_t)((int)between(0, 254) - 127);
            int32_t *sum = &p->sums[(t * p->cols + c) / TERN_BLOCKS_RUN];
            *sum = (c % TERN_BLOCKS_RUN ? *sum : 0) + q[t * stride + c];
        }
    for (size_t i = 0; i < (size_t)n * p->cols / p->format->block; i++)
        p->scales[i] = test_float(&rng, how == WIDE ? TEST_MIXED : TEST_ORDINARY);
    p->x = (tern_q8_blocks){.x = q, .scales = p->scales, .sums = p->sums, .stride = stride, .n = n};
}

static void fill_product(product *p, const format *f, uint32_t n_rows, uint32_t cols, uint32_t n, fill how)
{
    p->format = f;
    p->n_rows = n_rows;
    p->cols = cols;
    fill_weights(p, how);
    fill_tokens(p, n, how);
    p->y_stride = n_rows + between(0, MAX_GAP);
    p->n_y = (n - 1) * p->y_stride + n_rows;
    for (size_t i = 0; i < p->n_y; i++) p->expected[i] = tern_f32_from_bits(POISON);
    f->ref(p->w, p->row_bytes, n_rows, cols, &p->x, p->expected, p->y_stride);
}

static bool gaps_intact(const product *p, const float *y)
{
    for (size_t i = 0; i < p->n_y; i++)
        if (i % p->y_stride >= p->n_rows && tern_f32_bits(y[i]) != POISON) return false;
    return true;
}

static bool agrees(product *p, tern_blocks_fn fn)
{
    const size_t bytes = p->n_y * sizeof(float);
    float *y = test_guard_lend(&p->y_guard, bytes, between(0, 1));
    for (size_t i = 0; i < p->n_y; i++) y[i] = tern_f32_from_bits(POISON);
    fn(p->w, p->row_bytes, p->n_rows, p->cols, &p->x, y, p->y_stride);
    return test_same_bits(y, p->expected, p->n_y) && gaps_intact(p, y) && test_guard_intact(&p->y_guard, y, bytes);
}

static void check(product *p, const format *f, uint32_t n_rows, uint32_t cols, uint32_t n, fill how)
{
    fill_product(p, f, n_rows, cols, n, how);
    size_t at = 0;
    for (const test_kernel *k; (k = test_kernel_next(f->slot, &at));)
        if (!agrees(p, (tern_blocks_fn)k->fn))
            fail_msg("%s %s: %u rows of %u columns (%zu bytes), %u tokens, %s", k->slot, k->level, n_rows, cols,
                     p->row_bytes, n, fill_names[how]);
}

static void every_width(void **state)
{
    static const uint32_t blocks[] = {1, 2, 3, 5, 7, 8};
    for (const format *f = formats; f < formats + N_FORMATS; f++)
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
            for (uint32_t n = 1; n <= 33; n += n < 5 ? 1 : n < 9 ? 4 : 12) {
                check(*state, f, between(1, 40), blocks[i] * f->block, n, ORDINARY);
                if (f->block == 32) check(*state, f, between(1, 40), (8 * blocks[i] + 1) * 32, n, ORDINARY);
            }
}

static void every_row_and_token_count(void **state)
{
    for (const format *f = formats; f < formats + N_FORMATS; f++) {
        for (uint32_t n_rows = 1; n_rows <= MAX_ROWS; n_rows++) check(*state, f, n_rows, 512, 1, ORDINARY);
        for (uint32_t n = 2; n <= MAX_TOKENS; n += n < 20 ? 1 : 7)
            check(*state, f, between(1, MAX_ROWS), 768, n, ORDINARY);
    }
}

static void extremes(void **state)
{
    static const uint32_t tokens[] = {1, 5, 20};
    for (const format *f = formats; f < formats + N_FORMATS; f++)
        for (int how = LARGEST; how < N_FILLS; how++)
            for (int i = 0; i < 24; i++) check(*state, f, between(1, 33), 512, tokens[i % 3], (fill)how);
}

/* The definition against the encoding's own decoder, in double precision. */
static void values_are_those_of_the_encoding(void **state)
{
    enum { ROWS = 5, COLS = 1024, TOKENS = 2 };
    product *p = *state;
    static float w[ROWS * COLS];
    for (const format *f = formats; f < formats + N_FORMATS; f++) {
        do {
            fill_product(p, f, ROWS, COLS, TOKENS, ORDINARY);
        } while (p->row_bytes != COLS / f->block * f->bytes);
        tern_error err = {0};
        assert_ok(tern_decode_rows(tern_encoding_find(f->id), p->w, ROWS, COLS, 0, ROWS, w, &err), err);
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t r = 0; r < ROWS; r++) {
                double sum = 0, size = 0;
                for (size_t c = 0; c < COLS; c++) {
                    const double x = p->x.x[t * p->x.stride + c] * (double)p->scales[(t * COLS + c) / f->block];
                    sum += x * w[r * COLS + c];
                    size += fabs(x * w[r * COLS + c]);
                }
                if (!(fabs(sum - p->expected[t * p->y_stride + r]) <= 1e-6 * size))
                    fail_msg("%s: row %zu of token %zu is %g, %g expected", f->slot, r, t,
                             p->expected[t * p->y_stride + r], sum);
            }
    }
}

static void quantised_rows(void **state)
{
    (void)state;
    static float x[MAX_COLS], scales[2][MAX_COLS / 32];
    static int8_t q[2][MAX_COLS];
    static int32_t sums[2][MAX_COLS / TERN_BLOCKS_RUN];
    for (int fill_x = 0; fill_x < TEST_N_FILLS; fill_x++)
        for (uint32_t block = 32; block <= 256; block *= 2)
            for (uint32_t cols = block; cols <= 1024; cols += block) {
                size_t at = 0;
                test_floats(&rng, (test_fill)fill_x, x, cols);
                if (between(0, 3) == 0) memset(x, 0, block * sizeof *x);
                tern_ref_quantize_blocks(x, cols, block, q[0], scales[0], sums[0]);
                for (const test_kernel *k; (k = test_kernel_next("quantize_blocks", &at));) {
                    memset(q[1], 99, sizeof q[1]);
                    ((tern_quantize_blocks_fn)k->fn)(x, cols, block, q[1], scales[1], sums[1]);
                    if (memcmp(q[0], q[1], cols) != 0 || q[1][cols] != 99 ||
                        memcmp(sums[0], sums[1], cols / TERN_BLOCKS_RUN * 4) != 0 ||
                        !test_same_bits(scales[0], scales[1], cols / block))
                        fail_msg("%s: %u columns in blocks of %u, %s", k->level, cols, block, test_fill_names[fill_x]);
                }
            }
}

/* No element is off by more than half a step of its block; a block with an infinity or a NaN says so. */
static void quantised_values(void **state)
{
    (void)state;
    float x[64], scales[2];
    int8_t q[64];
    int32_t sums[4];
    for (int i = 0; i < 200; i++) {
        test_floats(&rng, TEST_ORDINARY, x, 64);
        for (int c = 0; c < 32; c++) x[c] *= 1e-12f;
        tern_ref_quantize_blocks(x, 64, 32, q, scales, sums);
        for (int c = 0; c < 64; c++)
            assert_true(fabsf((float)q[c] * scales[c / 32] - x[c]) <= 0.5001f * scales[c / 32]);
        x[between(0, 31)] = i % 2 ? (float)NAN : -(float)INFINITY;
        tern_ref_quantize_blocks(x, 64, 32, q, scales, sums);
        assert_true(isnan(scales[0]) && !isnan(scales[1]));
    }
}

static void forgets_minima(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const tern_q8_blocks *x,
                           float *y, size_t y_stride)
{
    static int32_t zeros[MAX_TOKENS * MAX_COLS / TERN_BLOCKS_RUN];
    tern_q8_blocks changed = *x;
    changed.sums = zeros;
    tern_ref_int8_q4_k(w, row_bytes, n_rows, cols, &changed, y, y_stride);
}

static void takes_all_blocks_at_once(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,
                                     const tern_q8_blocks *x, float *y, size_t y_stride)
{
    tern_ref_int8_q4_k(w, row_bytes, n_rows, 256, x, y, y_stride);
    for (uint32_t r = 0; r < n_rows; r++) {
        float rest;
        tern_q8_blocks later = {x->x + 256, x->scales + 1, x->sums + 16, x->stride, 1};
        tern_ref_int8_q4_k(w + r * row_bytes + 144, row_bytes, 1, cols - 256, &later, &rest, 1);
        y[r] += rest;
    }
}

static void broken_kernels_are_caught(void **state)
{
    product *p = *state;
    const format *q4_k = formats;
    while (q4_k->id != TERN_ENC_Q4_K) q4_k++;
    fill_product(p, q4_k, 40, 1024, 1, ORDINARY);
    assert_true(agrees(p, tern_ref_int8_q4_k));
    assert_false(agrees(p, forgets_minima));
    assert_false(agrees(p, takes_all_blocks_at_once));
}

static int open_state(void **state)
{
    static product p;
    test_seed(&rng);
    p.w_guard = test_guard_open(MAX_ROWS * (MAX_COLS * 2 + 100));
    p.x_guard = test_guard_open(MAX_TOKENS * (MAX_COLS + 16));
    p.y_guard = test_guard_open(MAX_TOKENS * (MAX_ROWS + MAX_GAP) * sizeof(float));
    p.expected = calloc(MAX_TOKENS * (MAX_ROWS + MAX_GAP), sizeof(float));
    p.scales = calloc(MAX_TOKENS * MAX_COLS / 32, sizeof(float));
    p.sums = calloc(MAX_TOKENS * MAX_COLS / TERN_BLOCKS_RUN, sizeof(int32_t));
    assert_true(p.expected && p.scales && p.sums);
    *state = &p;
    return 0;
}

static int close_state(void **state)
{
    product *p = *state;
    test_guard_close(&p->w_guard);
    test_guard_close(&p->x_guard);
    test_guard_close(&p->y_guard);
    free(p->expected);
    free(p->scales);
    free(p->sums);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_width),
    cmocka_unit_test(every_row_and_token_count),
    cmocka_unit_test(extremes),
    cmocka_unit_test(values_are_those_of_the_encoding),
    cmocka_unit_test(quantised_rows),
    cmocka_unit_test(quantised_values),
    cmocka_unit_test(broken_kernels_are_caught),
};

TEST_GROUP(block_kernels, "web", tests, .setup = open_state, .teardown = close_state);
