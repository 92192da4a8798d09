/* The RSR kernels of every level against their definition: every k, random and extreme codes and inputs, an unreadable
 * page behind every operand. */
#include "support/test.h"

#include "backend/cpu/kernels.h"
#include "quant/rsr.h"
#include "support/guard.h"
#include "support/kernels.h"
#include "support/rsr_matrix.h"

static tern_rng rng;

/* A copy that ends at an unreadable page. */
static const void *guarded(test_guard *g, const void *bytes, size_t n)
{
    return memcpy(test_guard_lend(g, n, false), bytes, n);
}

typedef struct operands {
    test_guard lengths, masks, index, x;
} operands;

static tern_rsr_unit unit_of(operands *o, const tern_rsr_slices *s, uint32_t unit)
{
    const uint32_t slice = s->first_slice[unit], n = s->first_slice[unit + 1] - slice;
    const size_t n_index = (size_t)(s->first_vector[unit + 1] - s->first_vector[unit]) * 16;
    return (tern_rsr_unit){.lengths = guarded(&o->lengths, s->lengths + slice, n * 2),
                           .masks = guarded(&o->masks, s->masks + (size_t)slice * 2 * s->k, (size_t)n * 4 * s->k),
                           .index = guarded(&o->index, s->index + (size_t)s->first_vector[unit] * 16, n_index * 2),
                           .n_slices = n,
                           .k = s->k};
}

static bool same_i8(operands *o, const tern_rsr_unit *u, uint32_t cols, int extreme, tern_rsr_i8_fn fn)
{
    int32_t want[17], got[17];
    int8_t *x = test_guard_lend(&o->x, cols + 4, false);
    memset(x, 0, cols + 4);
    for (uint32_t c = 0; c < cols; c++)
        x[c] = extreme ? (int8_t)(extreme < 0 ? -128 : 127) : (int8_t)test_between(&rng, 0, 255);
    memset(x + cols + 1, 0x55, 3); /* readable, but no inputs */
    for (int i = 0; i < 17; i++) want[i] = got[i] = (int32_t)tern_rng_u64(&rng) >> 4;
    tern_ref_rsr_i8(u, x, want);
    fn(u, x, got);
    return memcmp(want, got, sizeof want) == 0;
}

static bool same_i8x4(operands *o, const tern_rsr_unit *u, uint32_t cols, int extreme, tern_rsr_i8x4_fn fn)
{
    int32_t want[4 * TERN_RSR_Y + 1], got[4 * TERN_RSR_Y + 1];
    int8_t *x = test_guard_lend(&o->x, 4 * ((size_t)cols + 1), false);
    for (size_t c = 0; c < 4 * (size_t)cols; c++)
        x[c] = extreme ? (int8_t)(extreme < 0 ? -128 : 127) : (int8_t)test_between(&rng, 0, 255);
    memset(x + 4 * (size_t)cols, 0, 4);
    for (int i = 0; i <= 4 * TERN_RSR_Y; i++) want[i] = got[i] = (int32_t)tern_rng_u64(&rng) >> 4;
    tern_ref_rsr_i8x4(u, x, want);
    fn(u, x, got);
    return memcmp(want, got, sizeof want) == 0;
}

/* The definition for 4 tokens, against that for one. */
static void check_four(operands *o, const tern_rsr_unit *u, uint32_t cols)
{
    int8_t four[4 * 401] = {0};
    int32_t y[4 * TERN_RSR_Y] = {0};
    if (cols > 400) return;
    for (uint32_t c = 0; c < 4 * cols; c++) four[c] = (int8_t)test_between(&rng, 0, 255);
    tern_ref_rsr_i8x4(u, four, y);
    for (uint32_t t = 0; t < 4; t++) {
        int8_t *x = test_guard_lend(&o->x, cols + 4, false);
        int32_t want[16] = {0};
        memset(x, 0, cols + 4);
        for (uint32_t c = 0; c < cols; c++) x[c] = four[4 * c + t];
        tern_ref_rsr_i8(u, x, want);
        assert_memory_equal(want, y + t * TERN_RSR_Y, u->k * sizeof *want);
    }
}

static void check_unit(operands *o, const tern_rsr_unit *u, uint32_t cols)
{
    const test_kernel *k;
    for (size_t at = 0; (k = test_kernel_next("rsr_i8", &at));)
        for (int extreme = -1; extreme <= 1; extreme++)
            if (!same_i8(o, u, cols, extreme, (tern_rsr_i8_fn)k->fn))
                fail_msg("rsr_i8 %s: k %u, %u columns, extreme %d", k->level, u->k, cols, extreme);
    check_four(o, u, cols);
    for (size_t at = 0; (k = test_kernel_next("rsr_i8x4", &at));)
        for (int extreme = -1; extreme <= 1; extreme++)
            if (!same_i8x4(o, u, cols, extreme, (tern_rsr_i8x4_fn)k->fn))
                fail_msg("rsr_i8x4 %s: k %u, %u columns, extreme %d", k->level, u->k, cols, extreme);
}

static operands open_operands(uint32_t max_cols)
{
    const size_t bytes = (size_t)max_cols * 64 + 65536;
    return (operands){test_guard_open(bytes), test_guard_open(bytes), test_guard_open(bytes), test_guard_open(bytes)};
}

static void close_operands(operands *o)
{
    test_guard_close(&o->lengths);
    test_guard_close(&o->masks);
    test_guard_close(&o->index);
    test_guard_close(&o->x);
}

static void check(operands *o, uint32_t k, uint32_t rows, uint32_t cols, rsr_fill f)
{
    rsr_matrix m = rsr_matrix_make(&rng, rows, cols, f);
    tern_rsr_slices s = rsr_matrix_slices(&m, k);
    for (uint32_t u = 0; u < s.n_blocks; u++) {
        const tern_rsr_unit unit = unit_of(o, &s, u);
        check_unit(o, &unit, cols);
    }
    tern_rsr_slices_deinit(&s);
    free(m.codes);
}

static void every_k(void **state)
{
    (void)state;
    operands o = open_operands(3000);
    for (uint32_t k = 1; k <= 16; k++)
        for (int f = 0; f < RSR_N_FILLS; f++) {
            check(&o, k, test_between(&rng, 1, 2 * k), test_between(&rng, 1, 400), (rsr_fill)f);
            check(&o, k, k, test_between(&rng, 1000, 2560), (rsr_fill)f);
        }
    close_operands(&o);
}

static void widest_panel(void **state)
{
    (void)state;
    operands o = open_operands(65535);
    for (int f = 0; f < RSR_N_FILLS; f++) check(&o, 5, 5, 65535, (rsr_fill)f);
    close_operands(&o);
}

/* Broken kernels that the checks above must catch. */

static void forgets_last_slice(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    tern_rsr_unit shorter = *u;
    shorter.n_slices--;
    tern_ref_rsr_i8(&shorter, x, y);
}

static void overwrites(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    memset(y, 0, u->k * sizeof *y);
    tern_ref_rsr_i8(u, x, y);
}

static void mixes_up_rows(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    tern_ref_rsr_i8(u, x, y);
    const int32_t first = y[0];
    y[0] = y[1];
    y[1] = first;
}

static void sums_in_int16(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    int32_t sums[16] = {0};
    tern_ref_rsr_i8(u, x, sums);
    for (uint32_t r = 0; r < u->k; r++) y[r] += (int16_t)sums[r];
}

static void broken_kernels_are_caught(void **state)
{
    (void)state;
    operands o = open_operands(3000);
    rsr_matrix m = rsr_matrix_make(&rng, 4, 2560, RSR_ALL_EQUAL), n = rsr_matrix_make(&rng, 4, 2560, RSR_RANDOM);
    tern_rsr_slices equal = rsr_matrix_slices(&m, 4), random = rsr_matrix_slices(&n, 4);
    tern_rsr_unit u = unit_of(&o, &equal, 0);
    assert_true(same_i8(&o, &u, 2560, 1, tern_ref_rsr_i8));
    assert_false(same_i8(&o, &u, 2560, 1, sums_in_int16));
    u = unit_of(&o, &random, 0);
    assert_false(same_i8(&o, &u, 2560, 0, forgets_last_slice));
    assert_false(same_i8(&o, &u, 2560, 0, overwrites));
    assert_false(same_i8(&o, &u, 2560, 0, mixes_up_rows));
    tern_rsr_slices_deinit(&equal);
    tern_rsr_slices_deinit(&random);
    free(m.codes);
    free(n.codes);
    close_operands(&o);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_k),
    cmocka_unit_test(widest_panel),
    cmocka_unit_test(broken_kernels_are_caught),
};

TEST_GROUP(rsr_kernels, "web", tests, .setup = seed);
