/* The kernels of ternary weights by columns against their definition, and the definition by hand. */
#include "support/test.h"

#include "base/rng.h"
#include "ops/ref/columns.h"
#include "support/kernels.h"

enum { COLS = 300, MOST = 200 };

static _Alignas(64) uint8_t panel[2 * COLS * TERN_COLUMNS_BYTES];

static void check(tern_columns_fn fn, const char *name)
{
    static const uint32_t numbers[] = {1, 2, 3, 4, 5, 31, 32, 33, 85, 86, 170, MOST};
    tern_rng rng = {.state = 7};
    for (int fill = 0; fill < 3; fill++) /* random; the most and the least that a sum can be, bytes of code 3 too */
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            _Alignas(64) int32_t want[TERN_COLUMNS_ROWS], got[TERN_COLUMNS_ROWS];
            uint32_t cols[MOST];
            int8_t x[MOST];
            for (size_t k = 0; k < sizeof panel; k++) panel[k] = fill ? 0xff : (uint8_t)tern_rng_u64(&rng);
            for (uint32_t k = 0; k < numbers[i]; k++) {
                cols[k] = (uint32_t)(tern_rng_u64(&rng) % COLS);
                x[k] = fill == 0 ? (int8_t)tern_rng_u64(&rng) : fill == 1 ? 127 : -128;
            }
            for (uint32_t r = 0; r < TERN_COLUMNS_ROWS; r++) want[r] = got[r] = (int32_t)r - 9;
            tern_ref_columns(panel, 2 * TERN_COLUMNS_BYTES, cols, x, numbers[i], want);
            fn(panel, 2 * TERN_COLUMNS_BYTES, cols, x, numbers[i], got);
            if (memcmp(want, got, sizeof got) != 0) fail_msg("%s: fill %d, %u columns", name, fill, numbers[i]);
        }
}

static void every_level(void **state)
{
    (void)state;
    size_t at = 0;
    for (const test_kernel *k; (k = test_kernel_next("columns", &at));) check((tern_columns_fn)k->fn, k->level);
}

/* +1 in row 0 of column 2, -1 in row 65, 0 in row 255: raw codes 2, 0 and 1. */
static void definition(void **state)
{
    (void)state;
    const uint32_t cols[] = {2};
    const int8_t x[] = {-5};
    int32_t dots[TERN_COLUMNS_ROWS] = {0};
    memset(panel, 0, sizeof panel);
    panel[2 * TERN_COLUMNS_BYTES] = 2;
    panel[2 * TERN_COLUMNS_BYTES + 63] = 1 << 6;
    tern_ref_columns(panel, TERN_COLUMNS_BYTES, cols, x, 1, dots);
    assert_int_equal(dots[0], -10);
    assert_int_equal(dots[65], 0);
    assert_int_equal(dots[255], -5);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(every_level), cmocka_unit_test(definition)};

TEST_GROUP(columns, "web", tests);
