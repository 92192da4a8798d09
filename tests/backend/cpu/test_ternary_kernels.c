/* Every ternary kernel that this CPU can run, against its definition, on inputs made to break it. */
#include "support/test.h"

#include "base/rng.h"
#include "quant/t160.h"
#include "support/guard.h"
#include "support/kernels.h"

enum { MAX_ROWS = 70, MAX_COLS = 14336, MAX_TOKENS = 49, POISON = 0x5eadbeef, MAX_ROW_BYTES = 4096 };

/* How the rows of an encoding lie, and bytes whose codes are all -1, all 0, all +1. */
typedef struct layout {
    const char *slot;
    tern_ternary_fn ref;
    uint32_t step; /* cols must be a multiple */
    size_t (*row_bytes)(uint32_t cols);
    uint8_t all[3];
    uint8_t (*valid)(uint8_t byte); /* a valid byte from a random one */
    const uint32_t *cols;
} layout;

static size_t bytes_i2_s(uint32_t cols)
{
    return cols / 4;
}

static size_t bytes_tq2_0(uint32_t cols)
{
    return cols / 256 * 66;
}

static size_t bytes_tq1_0(uint32_t cols)
{
    return cols / 256 * 54;
}

static size_t bytes_t160(uint32_t cols)
{
    return cols / TERN_T160_ELEMENTS * TERN_T160_BYTES + tern_t160_lanes(cols % TERN_T160_ELEMENTS);
}

/* Makes every field 11 a 10. */
static uint8_t without_11(uint8_t byte)
{
    return (uint8_t)(byte & ~(byte >> 1 & 0x55));
}

static uint8_t any_byte(uint8_t byte)
{
    return byte;
}

static const uint32_t cols_128[] = {128, 256, 384, 640, 896, 1152, 2560, 6912, 14336, 0};
static const uint32_t cols_256[] = {256, 512, 768, 1280, 2560, 6912, 14336, 0};
static const uint32_t cols_any[] = {1,   3,   4,   5,    16,   19,   63,   64,   65,    127, 128,
                                    192, 255, 256, 319,  320,  321,  324,  383,  500,   639, 640,
                                    641, 835, 960, 1000, 1279, 1281, 2560, 6912, 14336, 0};

static const layout layouts[] = {
    {"i2_s", tern_ref_i2_s, 128, bytes_i2_s, {0x00, 0x55, 0xaa}, without_11, cols_128},
    {"tq2_0", tern_ref_tq2_0, 256, bytes_tq2_0, {0x00, 0x55, 0xaa}, without_11, cols_256},
    {"tq1_0", tern_ref_tq1_0, 256, bytes_tq1_0, {0x00, 0x80, 0xff}, any_byte, cols_256},
    {"t160", tern_ref_t160, 1, bytes_t160, {0x00, 0x64, 0xf2}, any_byte, cols_any},
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };

typedef enum weights_fill { W_RANDOM, W_MINUS, W_ZERO, W_PLUS, W_MIXED, N_W_FILLS } weights_fill;
typedef enum x_fill { X_RANDOM, X_MIN, X_MAX, X_ENDS, X_ZERO, N_X_FILLS } x_fill;

/* The operands of one product, each between unreadable pages, and what it must give. */
typedef struct product {
    const layout *layout;
    uint32_t n_rows, cols;
    size_t row_bytes, dots_stride, n_dots;
    const uint8_t *w;
    tern_q8_rows x;
    int32_t sums[MAX_TOKENS];
    int32_t *expected;
    test_guard w_guard, x_guard, dots_guard;
} product;

static tern_rng rng;

static uint32_t between(uint32_t low, uint32_t high)
{
    return low + tern_rng_below(&rng, high - low + 1);
}

static void open_product(product *p)
{
    memset(p, 0, sizeof *p);
    p->w_guard = test_guard_open((MAX_ROWS + 1) * MAX_ROW_BYTES);
    p->x_guard = test_guard_open(MAX_TOKENS * (MAX_COLS + 256));
    p->dots_guard = test_guard_open(MAX_TOKENS * (MAX_ROWS + 8) * sizeof(int32_t));
    p->expected = calloc(MAX_TOKENS * (MAX_ROWS + 8), sizeof(int32_t));
    assert_non_null(p->expected);
}

static void close_product(product *p)
{
    test_guard_close(&p->w_guard);
    test_guard_close(&p->x_guard);
    test_guard_close(&p->dots_guard);
    free(p->expected);
}

static uint8_t weight_byte(const layout *l, weights_fill fill)
{
    if (fill == W_RANDOM) return l->valid((uint8_t)between(0, 255));
    return l->all[fill == W_MIXED ? between(0, 2) : (uint32_t)fill - W_MINUS];
}

/* Rows with a gap after them now and then, so that they start at any address; nothing readable after the last. */
static void fill_weights(product *p, weights_fill fill, bool at_begin)
{
    const size_t packed = p->layout->row_bytes(p->cols);
    p->row_bytes = packed + (between(0, 3) == 0 ? between(1, 70) : 0);
    const size_t bytes = (p->n_rows - 1) * p->row_bytes + packed;
    uint8_t *w = test_guard_lend(&p->w_guard, bytes, at_begin);
    for (size_t i = 0; i < bytes; i++) w[i] = weight_byte(p->layout, fill);
    p->w = w;
}

static int8_t activation(x_fill fill, uint32_t i)
{
    switch (fill) {
    case X_MIN: return -128;
    case X_MAX: return 127;
    case X_ENDS: return i % 2 ? 127 : -128;
    case X_ZERO: return 0;
    default: return (int8_t)(uint8_t)between(0, 255);
    }
}

static void fill_x(product *p, uint32_t n, x_fill fill, bool at_begin)
{
    const size_t stride = (p->cols + 63u) / 64 * 64 + 64 * between(0, 2);
    int8_t *x = test_guard_lend(&p->x_guard, n * stride, at_begin);
    memset(x, 0, n * stride);
    for (uint32_t t = 0; t < n; t++) {
        p->sums[t] = 0;
        for (uint32_t c = 0; c < p->cols; c++) p->sums[t] += x[t * stride + c] = activation(fill, c);
    }
    p->x = (tern_q8_rows){x, stride, p->sums, n};
}

static void poison(int32_t *dots, size_t n)
{
    for (size_t i = 0; i < n; i++) dots[i] = POISON;
}

static void fill_product(product *p, const layout *l, uint32_t n_rows, uint32_t cols, uint32_t n, weights_fill w,
                         x_fill x)
{
    p->layout = l;
    p->n_rows = n_rows;
    p->cols = cols;
    fill_weights(p, w, between(0, 3) == 0);
    fill_x(p, n, x, between(0, 3) == 0);
    p->dots_stride = n_rows + between(0, 8);
    p->n_dots = (n - 1) * p->dots_stride + n_rows;
    poison(p->expected, p->n_dots);
    l->ref(p->w, p->row_bytes, n_rows, cols, &p->x, p->expected, p->dots_stride);
}

/* Whether fn gives exactly what is expected, poison between rows included, and touches nothing else. */
static bool agrees(product *p, tern_ternary_fn fn)
{
    const size_t bytes = p->n_dots * sizeof(int32_t);
    int32_t *dots = test_guard_lend(&p->dots_guard, bytes, between(0, 1));
    poison(dots, p->n_dots);
    fn(p->w, p->row_bytes, p->n_rows, p->cols, &p->x, dots, p->dots_stride);
    return memcmp(dots, p->expected, bytes) == 0 && test_guard_intact(&p->dots_guard, dots, bytes);
}

static void check_kernels(product *p, const char *fills)
{
    size_t at = 0;
    for (const test_kernel *k; (k = test_kernel_next(p->layout->slot, &at));)
        if (!agrees(p, (tern_ternary_fn)k->fn))
            fail_msg("%s %s: %u rows of %u columns (%zu bytes), %u tokens (stride %zu), %s", k->slot, k->level,
                     p->n_rows, p->cols, p->row_bytes, p->x.n, p->x.stride, fills);
}

static void check(product *p, const layout *l, uint32_t n_rows, uint32_t cols, uint32_t n, weights_fill w, x_fill x)
{
    static const char *const w_names[] = {"random", "-1", "0", "+1", "mixed"};
    static const char *const x_names[] = {"random", "-128", "127", "-128 and 127", "0"};
    char fills[80];
    snprintf(fills, sizeof fills, "weights %s, activations %s", w_names[w], x_names[x]);
    fill_product(p, l, n_rows, cols, n, w, x);
    check_kernels(p, fills);
}

static void every_width_and_token_count(void **state)
{
    static const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 48, 49};
    product *p = *state;
    for (const layout *l = layouts; l < layouts + N_LAYOUTS; l++)
        for (const uint32_t *cols = l->cols; *cols; cols++)
            for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
                check(p, l, between(1, *cols > 1000 ? 20 : MAX_ROWS), *cols, tokens[i], W_RANDOM, X_RANDOM);
}

static void every_row_count(void **state)
{
    product *p = *state;
    for (const layout *l = layouts; l < layouts + N_LAYOUTS; l++)
        for (uint32_t n_rows = 1; n_rows <= MAX_ROWS; n_rows++) {
            check(p, l, n_rows, l->step * between(1, 2), 1, W_RANDOM, X_RANDOM);
            check(p, l, n_rows, l->step * between(1, 2), between(2, MAX_TOKENS), W_RANDOM, X_RANDOM);
            if (n_rows <= 10) check(p, l, n_rows, MAX_COLS, 1, W_RANDOM, X_RANDOM); /* long rows, in another order */
        }
}

static void extremes(void **state)
{
    product *p = *state;
    for (const layout *l = layouts; l < layouts + N_LAYOUTS; l++)
        for (int w = W_MINUS; w < N_W_FILLS; w++)
            for (int x = X_MIN; x < N_X_FILLS; x++) {
                check(p, l, 5, MAX_COLS, 1, (weights_fill)w, (x_fill)x);
                check(p, l, 17, MAX_COLS, 7, (weights_fill)w, (x_fill)x);
            }
}

/* Broken kernels that the checks above must catch. */

static void sums_in_int16(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const tern_q8_rows *x,
                          int32_t *dots, size_t dots_stride)
{
    tern_ref_i2_s(w, row_bytes, n_rows, cols, x, dots, dots_stride);
    for (uint32_t t = 0; t < x->n; t++)
        for (uint32_t r = 0; r < n_rows; r++) dots[t * dots_stride + r] = (int16_t)dots[t * dots_stride + r];
}

static void forgets_last_row(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const tern_q8_rows *x,
                             int32_t *dots, size_t dots_stride)
{
    if (n_rows > 1) tern_ref_i2_s(w, row_bytes, n_rows - 1, cols, x, dots, dots_stride);
}

static void writes_past_rows(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const tern_q8_rows *x,
                             int32_t *dots, size_t dots_stride)
{
    tern_ref_i2_s(w, row_bytes, n_rows, cols, x, dots, dots_stride);
    if (x->n > 1 && dots_stride > n_rows) dots[n_rows] = 0;
}

static void forgets_last_group(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,
                               const tern_q8_rows *x, int32_t *dots, size_t dots_stride)
{
    tern_ref_i2_s(w, row_bytes, n_rows, cols - 128, x, dots, dots_stride);
}

static void broken_kernels_are_caught(void **state)
{
    product *p = *state;
    fill_product(p, &layouts[0], 9, 2560, 2, W_PLUS, X_MIN);
    assert_true(agrees(p, tern_ref_i2_s));
    assert_false(agrees(p, sums_in_int16));
    do {
        fill_product(p, &layouts[0], 9, 2560, 3, W_RANDOM, X_RANDOM);
    } while (p->dots_stride == p->n_rows);
    assert_true(agrees(p, tern_ref_i2_s));
    assert_false(agrees(p, forgets_last_row));
    assert_false(agrees(p, forgets_last_group));
    assert_false(agrees(p, writes_past_rows));
}

static void print_kernels(void)
{
    const uint32_t features = tern_cpu_features();
    for (const test_kernel *k = tern_cpu__kernels; k->slot; k++)
        for (const layout *l = layouts; l < layouts + N_LAYOUTS; l++)
            if (!strcmp(k->slot, l->slot))
                print_message("%s %s%s\n", k->slot, k->level,
                              (features & k->needed) == k->needed ? "" : ": not run, this CPU lacks the level");
}

static int open_state(void **state)
{
    static product p;
    test_seed(&rng);
    print_kernels();
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
    cmocka_unit_test(every_width_and_token_count),
    cmocka_unit_test(every_row_count),
    cmocka_unit_test(extremes),
    cmocka_unit_test(broken_kernels_are_caught),
};

TEST_GROUP(ternary_kernels, "web", tests, .setup = open_state, .teardown = close_state);
