/* A screened LINEAR: several tokens at once, and tables as no model has them: rows of zeros, spikes, one value, huge
 * and tiny ones, NaN and infinity. Whatever is given has the full product's bits, and what is left out cannot win. */
#include "quant/weight.h"
#include "support/op_case.h"
#include "support/test.h"

#include <math.h>

enum { ROWS = 700, MAX_TOKENS = 11 };

static tern_rng rng;

static tern_view build(test_case *c, uint32_t cols, bool screened)
{
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = MAX_TOKENS, .wanted = true});
    const tern_view x = test_case_rows(c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY);
    const tern_view w = test_case_weight(c, "f32", ROWS, cols);
    const tern_view y = test_case_output(c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, ROWS);
    test_case_add(c, (tern_op){.kind = TERN_OP_LINEAR, .n_in = 2, .in = {x, w}, .n_parts = 1, .out = y});
    c->graph.ops[0].screened = screened;
    return y;
}

static void strange(float *row, uint32_t r, uint32_t cols)
{
    for (uint32_t c = 0; c < cols; c++) {
        if (r % 8 == 1) row[c] = 0;
        if (r % 8 == 2) row[c] = c == r % cols ? 30 : 0;
        if (r % 8 == 3) row[c] = 0.25f;
        if (r % 8 == 4) row[c] *= 1e30f;
        if (r % 8 == 5) row[c] *= 1e-42f;
    }
    /* not among the first: kernels read a little past a row and multiply by 0 */
    if (r == 77 && cols > 40) row[20] = NAN;
    if (r == 79 && cols > 40) row[20] = INFINITY;
}

/* Both cases from the same numbers. */
static tern_view build_strange(test_case *c, uint32_t cols, bool screened, uint64_t seed)
{
    rng.state = seed;
    const tern_view y = build(c, cols, screened);
    float *w = (float *)(uintptr_t)test_case_weight_of(c, c->graph.ops[0].in[1])->data;
    for (uint32_t r = 0; r < ROWS; r++) strange(w + (size_t)r * cols, r, cols);
    test_case_floats(c, c->graph.ops[0].in[0])[2 * cols] = seed % 3 ? 1 : NAN; /* of token 2 */
    return y;
}

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Returns how many rows were left out. */
static uint32_t compare(uint32_t t, const float *full, const float *screened, uint32_t wanted)
{
    float sorted[ROWS];
    uint32_t n = 0, n_out = 0;
    for (uint32_t r = 0; r < ROWS; r++)
        if (!isnan(full[r])) sorted[n++] = full[r];
    qsort(sorted, n, sizeof *sorted, descending);
    for (uint32_t r = 0; r < ROWS; r++) {
        const bool out = screened[r] == -INFINITY && full[r] != -INFINITY;
        const bool same = full[r] == screened[r] || (isnan(full[r]) && isnan(screened[r]));
        if (!out && !same)
            fail_msg("token %u, row %u: %a, %a expected (%u wanted)", t, r, (double)screened[r], (double)full[r],
                     wanted);
        if (out && (n < wanted || full[r] >= sorted[wanted - 1])) fail_msg("row %u is missing: %a", r, (double)full[r]);
        n_out += out;
    }
    return n_out;
}

static void any_table(void **state)
{
    static const uint32_t cols[] = {1, 31, 256, 300, 513, 800}, wanted[] = {1, 3, 40, 256}, n_tokens[] = {1, 8, 11};
    uint32_t n_out = 0;
    (void)state;
    test_seed(&rng);
    for (uint32_t i = 0; i < 72; i++) {
        const uint32_t n = n_tokens[i % 3], w = wanted[i / 3 % 4], k = cols[i / 12];
        const uint64_t seed = tern_rng_u64(&rng);
        test_case full, screened;
        test_results want, got;
        const tern_view y = build_strange(&full, k, false, seed);
        build_strange(&screened, k, true, seed);
        test_case_param(&screened, TERN_PARAM_COUNTS)[2] = w;
        test_case_run(&full, test_backend("cpu"), n, n, 1, &want);
        test_case_run(&screened, test_backend("cpu"), n, n, 1, &got);
        for (uint32_t t = 0; t < n; t++)
            n_out += compare(t, test_results_row(&full, &want, y, t), test_results_row(&screened, &got, y, t), w);
        test_results_free(&want);
        test_results_free(&got);
        test_case_close(&full);
        test_case_close(&screened);
        rng.state = seed + i;
    }
    assert_true(n_out > 100000); /* of 330,000 */
}

/* ---- more than the highest */

/* What of the other rows is wanted must be there; the sum of what is left out is at most the tail. */
static uint32_t compare_more(const float *full, const float *screened, uint32_t n_top, const tern_wanted *more)
{
    bool pinned[ROWS] = {false};
    float sorted[ROWS];
    uint32_t n = 0, n_out = 0;
    double tail = 0;
    for (uint32_t i = 0; i < more->n_pinned; i++) pinned[more->pinned[i]] = true;
    for (uint32_t r = 0; r < ROWS; r++)
        if (!pinned[r]) sorted[n++] = full[r];
    qsort(sorted, n, sizeof *sorted, descending);
    for (uint32_t r = 0; r < ROWS; r++) {
        if (screened[r] == full[r]) continue;
        if (screened[r] != -INFINITY) fail_msg("row %u: %a, %a expected", r, (double)screened[r], (double)full[r]);
        n_out++;
        assert_false(pinned[r]);
        if (full[r] >= sorted[n_top - 1]) fail_msg("row %u is missing", r);
        if (more->reach > 0 && !(full[r] < sorted[0] - more->reach)) fail_msg("row %u is within reach", r);
        tail += exp(((double)full[r] - (double)sorted[0]) * (double)more->sharpness);
    }
    if (more->tail > 0 && !(tail <= (double)more->tail)) fail_msg("a tail of %g: %g", tail, (double)more->tail);
    return n_out;
}

static tern_wanted some_wanted(uint32_t i)
{
    tern_wanted w = {.n_pinned = i % 5 * 7};
    if (i % 2) w.reach = 3 * tern_rng_f32(&rng);
    if (i % 3 == 0) w.sharpness = 0.5f + 30 * tern_rng_f32(&rng), w.tail = i % 4 ? 0x1p-10f : 0.1f;
    for (uint32_t p = 0; p < w.n_pinned; p++) w.pinned[p] = tern_rng_below(&rng, ROWS);
    return w;
}

static void reach_tail_and_pins(void **state)
{
    static const uint32_t cols[] = {31, 256, 800}, n_tokens[] = {1, 8, 11};
    uint32_t n_out = 0;
    (void)state;
    test_seed(&rng);
    for (uint32_t i = 0; i < 120; i++) {
        const uint32_t n = n_tokens[i % 3], w = 1 + i % 7 * 3, k = cols[i / 40];
        const uint64_t seed = tern_rng_u64(&rng);
        const tern_wanted more = some_wanted(i);
        test_case full, screened;
        test_results want, got;
        rng.state = seed;
        const tern_view y = build(&full, k, false);
        rng.state = seed;
        build(&screened, k, true);
        test_case_param(&screened, TERN_PARAM_COUNTS)[2] = w;
        *(tern_wanted *)(void *)test_case_param(&screened, TERN_PARAM_WANTED) = more;
        test_case_run(&full, test_backend("cpu"), n, n, 1, &want);
        test_case_run(&screened, test_backend("cpu"), n, n, 1, &got);
        for (uint32_t t = 0; t < n; t++)
            n_out +=
                compare_more(test_results_row(&full, &want, y, t), test_results_row(&screened, &got, y, t), w, &more);
        test_results_free(&want);
        test_results_free(&got);
        test_case_close(&full);
        test_case_close(&screened);
        rng.state = seed + i;
    }
    assert_true(n_out > 100000);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(reach_tail_and_pins),
    cmocka_unit_test(any_table),
};

TEST_GROUP(screen, "web", tests, .teardown = test_backends_close);
