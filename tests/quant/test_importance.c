/* Encoding with an importance for each column: the errors that count become smaller, and without one nothing changes.
 */
#include <math.h>

#include "base/rng.h"
#include "quant/encoding.h"
#include "support/test.h"

enum { ROWS = 24, COLS = 512 };

static const char *const names[] = {"q6_k", "q5_k", "q4_k", "q3_k",   "q2_k", "q5_1",
                                    "q5_0", "q4_1", "q4_0", "iq4_nl", "q2_0", "mxfp4"};

static float values[ROWS * COLS], importance[COLS];

/* Bell-shaped numbers; a few columns count a hundred times as much as most. */
static void fill(void)
{
    tern_rng rng = {.state = 7};
    for (size_t i = 0; i < ROWS * COLS; i++) {
        float sum = -6;
        for (int k = 0; k < 12; k++) sum += tern_rng_f32(&rng);
        values[i] = 0.02f * sum;
    }
    for (size_t c = 0; c < COLS; c++) importance[c] = tern_rng_below(&rng, 8) == 0 ? 10.0f : 0.1f * tern_rng_f32(&rng);
}

static double error_of(const tern_encoding *e, const void *bytes)
{
    static float back[ROWS * COLS];
    tern_error err = {0};
    double sum = 0;
    assert_ok(tern_decode_rows(e, bytes, ROWS, COLS, 0, ROWS, back, &err), err);
    for (size_t i = 0; i < ROWS * COLS; i++) {
        const double d = (double)values[i] - (double)back[i];
        sum += (double)importance[i % COLS] * d * d;
    }
    return sum;
}

static void what_counts_is_nearer(void **state)
{
    (void)state;
    fill();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tern_encoding *e = tern_encoding_by_name(names[i]);
        tern_error err = {0};
        size_t n;
        assert_ok(tern_encoding_bytes(e, ROWS, COLS, &n, &err), err);
        uint8_t *plain = malloc(n), *weighted = malloc(n);
        assert_ok(tern_encode(e, values, ROWS, COLS, plain, &err), err);
        assert_ok(tern_encode_weighted(e, values, NULL, ROWS, COLS, weighted, &err), err);
        assert_memory_equal(plain, weighted, n);
        assert_ok(tern_encode_weighted(e, values, importance, ROWS, COLS, weighted, &err), err);
        const double a = error_of(e, plain), b = error_of(e, weighted);
        print_message("%-7s weighted error %.4g of the plain one\n", names[i], b / a);
        assert_true(b < 0.97 * a);
        free(plain);
        free(weighted);
    }
}

/* Columns that nothing reads do not make a NaN, nor a block of zeros. */
static void no_importance_at_all(void **state)
{
    (void)state;
    fill();
    float none[COLS] = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tern_encoding *e = tern_encoding_by_name(names[i]);
        tern_error err = {0};
        size_t n;
        float back[COLS];
        assert_ok(tern_encoding_bytes(e, ROWS, COLS, &n, &err), err);
        uint8_t *bytes = malloc(n);
        assert_ok(tern_encode_weighted(e, values, none, ROWS, COLS, bytes, &err), err);
        assert_ok(tern_decode_rows(e, bytes, ROWS, COLS, 0, 1, back, &err), err);
        for (size_t c = 0; c < COLS; c++) assert_true(isfinite(back[c]));
        memcpy(none, importance, sizeof none / 2); /* the second half of the columns is not read */
        assert_ok(tern_encode_weighted(e, values, none, ROWS, COLS, bytes, &err), err);
        assert_ok(tern_decode_rows(e, bytes, ROWS, COLS, 0, 1, back, &err), err);
        double sum = 0;
        for (size_t c = COLS / 2; c < COLS; c++) sum += fabs((double)back[c]);
        assert_true(sum > 0.1);
        memset(none, 0, sizeof none);
        free(bytes);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(what_counts_is_nearer),
                                          cmocka_unit_test(no_importance_at_all)};

TEST_GROUP(importance, "", tests);
