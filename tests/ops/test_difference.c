/* The measure by which results of two backends are compared. */
#include "ops/difference.h"

#include <math.h>

#include "ops/op.h"
#include "ops/ref/ref.h"
#include "support/test.h"

enum { ROWS = 3, COLS = 8, N = ROWS * COLS };

static tern_error err;

static tern_difference find(tern_value v, const void *got, const void *want, uint32_t cols, tern_tolerance t)
{
    tern_difference d;
    const tern_compared c = {.value = &v, .got = got, .want = want, .n_rows = ROWS, .cols = cols, .max_rows = ROWS};
    assert_ok(tern_difference_find(&c, &t, &d, &err), err);
    return d;
}

static const tern_value f32 = {.dtype = TERN_DTYPE_F32};

static void floats(void **state)
{
    (void)state;
    float want[N], got[N];
    for (int i = 0; i < N; i++) got[i] = want[i] = (float)(i % COLS) - 2; /* -2 .. 5 */
    const tern_tolerance t = {.of_row = 1e-3};
    tern_difference d = find(f32, got, want, COLS, t);
    assert_true(d.ok && d.identical && d.worst == 0 && d.n_flips == 0);
    got[COLS + 3] += 0.004f; /* of 5: 8e-4 */
    d = find(f32, got, want, COLS, t);
    assert_true(d.ok && !d.identical && fabs(d.worst - 8e-4) < 1e-6);
    got[2 * COLS + 1] -= 0.006f;
    got[2 * COLS + 5] -= 0.007f;
    d = find(f32, got, want, COLS, t);
    assert_true(!d.ok && fabs(d.worst - 1.4e-3) < 1e-6 && d.row == 2 && d.col == 1 && d.row_most == 5);
    char words[200];
    tern_difference_words(&d, "x", words, sizeof words);
    assert_string_equal(words,
                        "x: row 2, column 1 of 8: -1.00600004, -1 expected (off by 0.006; the row's largest is 5)");
    got[0] = NAN;
    d = find(f32, got, want, COLS, t);
    assert_true(!d.ok && isnan(d.worst) && d.row == 0 && d.col == 0);
    want[0] = NAN;
    d = find(f32, got, want, COLS, t);
    assert_true(d.row == 2 && !isnan(d.worst));
}

static void exact_means_bits(void **state)
{
    (void)state;
    float want[N] = {0}, got[N] = {0};
    got[5] = -0.0f;
    assert_false(find(f32, got, want, COLS, (tern_tolerance){0}).ok);
    assert_true(find(f32, got, want, COLS, (tern_tolerance){.absolute = 1e-9}).ok);
    got[5] = INFINITY;
    assert_false(find(f32, got, want, COLS, (tern_tolerance){.absolute = 1e30}).ok);
}

static bool hundred(void *context, uint64_t row, uint32_t cols, double *terms)
{
    ++*(int *)context;
    for (uint32_t c = 0; c < cols; c++) terms[c] = row == 1 ? 100 : 0;
    return row == 1;
}

/* Terms are asked for where the row alone does not explain what is off, and only there. */
static void terms(void **state)
{
    (void)state;
    int n_asked = 0;
    float want[N] = {0}, got[N] = {0};
    tern_difference d;
    tern_tolerance t = {.of_row = 1e-4, .of_terms = 1e-4};
    const tern_compared c = {.value = &f32,
                             .got = (const uint8_t *)got,
                             .want = (const uint8_t *)want,
                             .n_rows = ROWS,
                             .cols = COLS,
                             .terms = hundred,
                             .context = &n_asked};
    got[COLS + 2] = 0.005f;
    assert_ok(tern_difference_find(&c, &t, &d, &err), err);
    assert_true(d.ok && n_asked == 1 && fabs(d.worst - 5e-5) < 1e-9);
    got[COLS + 2] = 0.02f;
    assert_ok(tern_difference_find(&c, &t, &d, &err), err);
    assert_true(!d.ok && n_asked == 2 && fabs(d.worst - 2e-4) < 1e-9);
    got[COLS + 2] = 0;
    got[2 * COLS] = 1e-6f; /* the terms of that row are not known */
    assert_ok(tern_difference_find(&c, &t, &d, &err), err);
    assert_true(!d.ok && d.row == 2);
}

/* Caches in blocks: to the bit where that is asked, otherwise few codes may be off by one, and scales by a share. */
static void blocks(void **state)
{
    (void)state;
    enum { HEAD = 64, POSITIONS = 3 };
    static const tern_dtype types[] = {TERN_DTYPE_Q8_0, TERN_DTYPE_Q4_0};
    for (size_t i = 0; i < 2; i++) {
        const tern_value cache = {.kind = TERN_VALUE_CACHE, .dtype = types[i]};
        const tern_tolerance near = {.of_row = 2e-3, .of_int8 = 1, .few_int8 = true}, exact = {0};
        const size_t row = tern_cache_bytes(types[i], HEAD);
        uint8_t want[POSITIONS * 68], got[POSITIONS * 68];
        float x[HEAD];
        tern_difference d;
        for (int j = 0; j < HEAD; j++) x[j] = (float)(j % 13 - 6) / 7;
        for (size_t r = 0; r < POSITIONS; r++) tern_ref_kv_store(types[i])(x, HEAD, want + r * row);
        memcpy(got, want, sizeof got);
        const tern_compared c = {.value = &cache, .got = got, .want = want, .n_rows = POSITIONS, .cols = HEAD};
        assert_ok(tern_difference_find(&c, &near, &d, &err), err);
        assert_true(d.ok && d.identical);
        got[row + 4 + 5]++; /* a code; of q4_0 that of column 5 */
        got[2 * row]++;     /* the last bit of a scale */
        assert_ok(tern_difference_find(&c, &near, &d, &err), err);
        assert_true(d.ok && !d.identical && d.n_flips == 1);
        assert_ok(tern_difference_find(&c, &exact, &d, &err), err);
        assert_false(d.ok);
        got[row + 4 + 5]++;
        assert_ok(tern_difference_find(&c, &near, &d, &err), err);
        assert_true(!d.ok && d.row == 1 && d.col == 5);
        got[row + 4 + 5] = want[row + 4 + 5];
        for (size_t j = 0; j < 3; j++) got[4 + j]++;
        assert_ok(tern_difference_find(&c, &near, &d, &err), err);
        assert_true(!d.ok && d.n_flips == 3);
        memcpy(got, want, sizeof got);
        got[3] ^= 4; /* a scale */
        assert_ok(tern_difference_find(&c, &near, &d, &err), err);
        assert_false(d.ok);
    }
}

/* One int8 that is off by one is no fault, three of 24 are, nor may one be off by two. */
static void int8(void **state)
{
    (void)state;
    const tern_value q8 = {.dtype = TERN_DTYPE_Q8};
    uint8_t want[1024] = {0}, got[1024] = {0};
    assert_true(tern_row_bytes(TERN_DTYPE_Q8, COLS, ROWS) <= sizeof want);
    const tern_tolerance t = {.of_row = 1e-5, .of_int8 = 1, .few_int8 = true};
    int32_t *sums = (int32_t *)(void *)(got + tern_q8_sums_offset(COLS, ROWS));
    for (int i = 1; i <= 3; i++) {
        got[i] = 1;
        sums[0]++;
        const tern_difference d = find(q8, got, want, COLS, t);
        assert_int_equal(d.ok, i < 3);
        assert_int_equal(d.n_flips, i);
        assert_false(d.identical);
    }
    tern_tolerance many = t;
    many.few_int8 = false;
    assert_true(find(q8, got, want, COLS, many).ok);
    sums[0]++;
    tern_difference d = find(q8, got, want, COLS, many);
    assert_true(!d.ok && d.got == 4 && d.want == 3);
    got[1] = 2;
    d = find(q8, got, want, COLS, many);
    assert_true(!d.ok && d.col == 1 && d.got == 2 && d.want == 0);
}

static void halves_and_codes(void **state)
{
    (void)state;
    uint16_t want[N] = {0}, got[N] = {0};
    want[9] = 0x3c00, got[9] = 0x3c01; /* 1, 1 + 2^-10 */
    const tern_value f16 = {.dtype = TERN_DTYPE_F16};
    assert_true(find(f16, got, want, COLS, (tern_tolerance){.of_row = 1e-3}).ok);
    assert_false(find(f16, got, want, COLS, (tern_tolerance){.of_row = 9e-4}).ok);
    const tern_difference d =
        find((tern_value){.dtype = TERN_DTYPE_BF16}, got, want, COLS, (tern_tolerance){.of_row = 1});
    assert_true(!d.ok && d.row == 1 && d.col == 1);
}

/* A table that forgets an op gives it the ordinary share, not none. */
static void tolerances(void **state)
{
    (void)state;
    for (int kind = 0; kind < TERN_OP_COUNT; kind++) {
        const tern_op op = {.kind = (tern_op_kind)kind, .norm_weight = {.value = TERN_NO_VALUE}};
        const tern_tolerance t = tern_op_tolerance(&op);
        assert_true(t.of_row >= 0 && t.of_row <= 2e-3 && t.of_row == t.of_terms);
        assert_true(t.absolute == 0 && t.of_value == 0 && t.of_int8 <= 1);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(floats),     cmocka_unit_test(exact_means_bits),
    cmocka_unit_test(terms),      cmocka_unit_test(blocks),
    cmocka_unit_test(int8),       cmocka_unit_test(halves_and_codes),
    cmocka_unit_test(tolerances),
};

TEST_GROUP(difference, "web", tests);
