/* The kernels of the screened output head against their definition: random and extreme codes and digits, and an
 * unreadable page behind. */
#include "support/test.h"

#include "base/rng.h"
#include "support/guard.h"
#include "support/kernels.h"

enum { MAX_ROWS = 9, MAX_HALVES = 14 };

/* fill 0: random; 1: all bits clear, digits at their least; 2: all bits set, digits at their least; 3: all bits set,
 * digits at their most. */
static void fill_case(tern_rng *rng, int fill, uint8_t *w, size_t bytes, int8_t *high, int8_t *low, size_t n)
{
    for (size_t i = 0; i < bytes; i++) w[i] = fill == 0 ? (uint8_t)tern_rng_u64(rng) : fill == 1 ? 0 : 255;
    for (size_t i = 0; i < n; i++) {
        high[i] = fill == 0 ? (int8_t)tern_rng_u64(rng) : fill == 3 ? 127 : -127;
        low[i] = fill == 0 ? (int8_t)tern_rng_u64(rng) : fill == 3 ? 127 : -128;
        if (high[i] == -128) high[i] = -127;
    }
}

static void check_bits(tern_screen_fn fn, const char *name, uint32_t bits, test_guard *guard, tern_rng *rng)
{
    static _Alignas(64) int8_t high[MAX_HALVES * TERN_SCREEN_HALF], low[MAX_HALVES * TERN_SCREEN_HALF];
    for (int fill = 0; fill < 4; fill++)
        for (uint32_t rows = 1; rows <= MAX_ROWS; rows += rows < 3 ? 1 : 3)
            for (uint32_t halves = 1; halves <= MAX_HALVES; halves++) {
                size_t bytes = (size_t)rows * halves * 32 * bits;
                uint8_t *w = test_guard_lend(guard, bytes, false);
                int32_t want[2 * MAX_ROWS], got[2 * MAX_ROWS + 1];
                fill_case(rng, fill, w, bytes, high, low, (size_t)halves * TERN_SCREEN_HALF);
                memset(got, 0x5a, sizeof got);
                tern_ref_screen(w, rows, halves, bits, high, low, want);
                fn(w, rows, halves, bits, high, low, got);
                const size_t n = bits == 3 ? 2 * rows : rows;
                if (memcmp(want, got, n * sizeof *got) != 0)
                    fail_msg("%s: %u bits, fill %d, %u rows, %u halves", name, bits, fill, rows, halves);
                assert_int_equal(got[n], 0x5a5a5a5a);
            }
}

static void every_level(void **state)
{
    (void)state;
    size_t at = 0;
    tern_rng rng = {.state = 11};
    test_guard guard = test_guard_open((size_t)MAX_ROWS * MAX_HALVES * 32 * 3);
    for (const test_kernel *k; (k = test_kernel_next("screen", &at));)
        for (uint32_t bits = 1; bits <= 3; bits++) check_bits((tern_screen_fn)k->fn, k->level, bits, &guard, &rng);
    test_guard_close(&guard);
}

/* The definition itself, by hand: in a whole group and in the half behind it. */
static void definition(void **state)
{
    (void)state;
    enum { COLS = 3 * TERN_SCREEN_HALF };
    uint8_t w[3 * 96] = {0};
    int8_t high[COLS] = {0}, low[COLS] = {0};
    int32_t dots[2];
    w[64 + 5] = 5 << 3; /* of vector 4, column 5 */
    high[4 * 64 + 5] = 3;
    w[9] = 1 << 6; /* of vector 6, column 9: bits 0 and 2 */
    w[2 * 64 + 9] = 1 << 6;
    low[6 * 64 + 9] = -2;
    w[192 + 2 * 32 + 31] = 1 << 7; /* behind: of vector 7, column 31: bit 2 */
    low[512 + 7 * 32 + 31] = 100;
    tern_ref_screen(w, 1, 3, 3, high, low, dots);
    assert_int_equal(dots[0], 15);
    assert_int_equal(dots[1], -10 + 400);
}

static void two_bits_and_one(void **state)
{
    (void)state;
    uint8_t w[128] = {0};
    int8_t high[2 * TERN_SCREEN_HALF] = {0}, low[2 * TERN_SCREEN_HALF] = {0};
    int32_t dots[1];
    w[64 + 7] = 2 << 4; /* two bits: of vector 6; one bit: there is no vector */
    high[6 * 64 + 7] = 11;
    tern_ref_screen(w, 1, 2, 2, high, low, dots);
    assert_int_equal(dots[0], 22);
    w[7] = 1 << 6;
    tern_ref_screen(w, 1, 2, 1, high, low, dots);
    assert_int_equal(dots[0], 11);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(definition),
    cmocka_unit_test(two_bits_and_one),
    cmocka_unit_test(every_level),
};

TEST_GROUP(screen_kernels, "web", tests);
