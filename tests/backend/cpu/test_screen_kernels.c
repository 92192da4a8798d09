/* The kernels of the screened output head against their definition: random and extreme codes and digits, and an
 * unreadable page behind. */
#include "support/test.h"

#include "base/rng.h"
#include "support/guard.h"
#include "support/kernels.h"

enum { MAX_ROWS = 9, MAX_GROUPS = 14 };

/* fill 0: random; 1: all bits clear, digits at their least; 2: codes 62, digits at their least; 3: codes 62, digits at
 * their most. */
static void fill_case(tern_rng *rng, int fill, uint8_t *w, size_t bytes, int8_t *high, int8_t *low, size_t n)
{
    for (size_t i = 0; i < bytes; i++) {
        w[i] = (uint8_t)tern_rng_u64(rng);
        if (fill == 1) w[i] = 0;
        if (fill >= 2) w[i] = (uint8_t)(62 | (i / 64 % 3 ? 0xc0 : 0x80)); /* 62 is 11 11 10, lowest bits in plane 0 */
    }
    for (size_t i = 0; i < n; i++) {
        high[i] = fill == 0 ? (int8_t)tern_rng_u64(rng) : fill == 3 ? 127 : -127;
        low[i] = fill == 0 ? (int8_t)tern_rng_u64(rng) : fill == 3 ? 127 : -128;
        if (high[i] == -128) high[i] = -127;
    }
}

static void check(tern_screen_fn fn, const char *name)
{
    tern_rng rng = {.state = 11};
    test_guard guard = test_guard_open((size_t)MAX_ROWS * MAX_GROUPS * TERN_SCREEN_BYTES);
    for (int fill = 0; fill < 4; fill++)
        for (uint32_t rows = 1; rows <= MAX_ROWS; rows++)
            for (uint32_t groups = 1; groups <= MAX_GROUPS; groups++) {
                static _Alignas(64) int8_t high[MAX_GROUPS * TERN_SCREEN_GROUP], low[MAX_GROUPS * TERN_SCREEN_GROUP];
                size_t bytes = (size_t)rows * groups * TERN_SCREEN_BYTES;
                uint8_t *w = test_guard_lend(&guard, bytes, false);
                int32_t want[2 * MAX_ROWS], got[2 * MAX_ROWS + 1];
                fill_case(&rng, fill, w, bytes, high, low, (size_t)groups * TERN_SCREEN_GROUP);
                memset(got, 0x5a, sizeof got);
                tern_ref_screen(w, rows, groups, high, low, want);
                fn(w, rows, groups, high, low, got);
                if (memcmp(want, got, 2 * rows * sizeof *got) != 0)
                    fail_msg("%s: fill %d, %u rows, %u groups", name, fill, rows, groups);
                assert_int_equal(got[2 * rows], 0x5a5a5a5a);
            }
    test_guard_close(&guard);
}

static void every_level(void **state)
{
    (void)state;
    size_t at = 0;
    for (const test_kernel *k; (k = test_kernel_next("screen", &at));) check((tern_screen_fn)k->fn, k->level);
}

/* The definition itself, by hand: a weight in a plane, and one in the top bits of all three. */
static void definition(void **state)
{
    (void)state;
    uint8_t w[TERN_SCREEN_BYTES] = {0};
    int8_t high[TERN_SCREEN_GROUP] = {0}, low[TERN_SCREEN_GROUP] = {0};
    int32_t dots[2];
    w[2 * 64 + 5] = 61;
    high[2 * 64 + 5] = 3;
    w[0 * 64 + 9] = 0x40; /* bit 0 */
    w[2 * 64 + 9] = 0x80; /* bit 5: 33 */
    low[192 + 9] = -2;
    tern_ref_screen(w, 1, 1, high, low, dots);
    assert_int_equal(dots[0], 183);
    assert_int_equal(dots[1], -66);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(definition),
    cmocka_unit_test(every_level),
};

TEST_GROUP(screen_kernels, "web", tests);
