/* The order of training rows: a permutation for each epoch, even, and the same after a resume. */
#include <math.h>

#include "base/rng.h"
#include "train/data/order.h"
#include "train/data/pack.h"
#include "train/support.h"

static void each_epoch_is_a_permutation(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 300; n += n < 70 ? 1 : 23)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            const tern_train_order order = {.n_rows = n, .shuffled = true, .seed = n * 7 + 1};
            uint8_t seen[300] = {0};
            for (uint32_t i = 0; i < n; i++) {
                uint32_t row = tern_train_order_row(&order, epoch * n + i);
                assert_true(row < n);
                assert_int_equal(seen[row]++, 0);
            }
        }
}

/* Places move evenly: over many seeds, each row comes first about as often as any other. */
static void shuffles_are_even(void **state)
{
    (void)state;
    enum { N = 10, SEEDS = 20000 };
    uint32_t counts[3][N] = {{0}};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const tern_train_order order = {.n_rows = N, .shuffled = true, .seed = seed};
        counts[0][tern_train_order_row(&order, 0)]++;
        counts[1][tern_train_order_row(&order, N - 1)]++;
        counts[2][tern_train_order_row(&order, 5 * N)]++;
    }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < N; i++) /* the standard deviation is 42 */
            if (!(counts[k][i] > SEEDS / N - 300 && counts[k][i] < SEEDS / N + 300))
                fail_msg("row %d: %u of %d times", i, counts[k][i], SEEDS);
}

static void epochs_and_seeds_differ(void **state)
{
    (void)state;
    const tern_train_order a = {.n_rows = 1000, .shuffled = true, .seed = 1}, b = {1000, true, 2}, c = {1000, false, 1};
    uint32_t same_epoch = 0, same_seed = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        same_epoch += tern_train_order_row(&a, i) == tern_train_order_row(&a, 1000 + i);
        same_seed += tern_train_order_row(&a, i) == tern_train_order_row(&b, i);
        assert_int_equal(tern_train_order_row(&c, 1000 + i), i);
    }
    assert_true(same_epoch < 20 && same_seed < 20);
}

/* A run that stops after any step and begins again there reads the same rows, across the ends of epochs. */
static void resumed_batches_are_the_same(void **state)
{
    (void)state;
    const tern_train_order order = {.n_rows = 37, .shuffled = true, .seed = 3};
    uint32_t all[50 * 8], batch[8], seen[37] = {0};
    for (uint64_t step = 0; step < 50; step++) tern_train_order_batch(&order, step, 8, all + 8 * step);
    for (uint64_t step = 50; step-- > 0;) {
        const tern_train_order again = {.n_rows = 37, .shuffled = true, .seed = 3};
        tern_train_order_batch(&again, step, 8, batch);
        assert_memory_equal(batch, all + 8 * step, sizeof batch);
        assert_int_equal(tern_train_order_epoch(&again, step, 8), step * 8 / 37);
    }
    for (uint32_t i = 0; i < 37 * 10; i++) seen[all[i]]++;
    for (uint32_t i = 0; i < 37; i++) assert_int_equal(seen[i], 10);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_epoch_is_a_permutation),
    cmocka_unit_test(shuffles_are_even),
    cmocka_unit_test(epochs_and_seeds_differ),
    cmocka_unit_test(resumed_batches_are_the_same),
};

TEST_GROUP(pack_order, "", tests);
