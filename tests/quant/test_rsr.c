/* RSR matrices: both forms against the definition by sorting and against plain dot products; limits, threads, damaged
 * bytes. */
#include "quant/rsr_cases.h"

#include "base/pool.h"

static int64_t row_total(const int32_t *x, uint32_t cols)
{
    int64_t total = 0;
    for (uint32_t c = 0; c < cols; c++) total += x[c];
    return total;
}

/* The definition: a dot product for each row. */
static void multiply_plain(const matrix *m, const int32_t *x, int64_t *y)
{
    for (uint32_t r = 0; r < m->rows; r++) {
        y[r] = 0;
        for (uint32_t c = 0; c < m->cols; c++) y[r] += m->codes[(size_t)r * m->cols + c] * x[c];
    }
}

/* The number of a pattern as the format has it: row 0 is the highest digit, -1 is 1, +1 is 2 (binary: 1). */
static uint32_t number_of(tern_rsr_kind kind, uint32_t k, uint32_t pos, uint32_t neg)
{
    const uint32_t base = kind == TERN_RSR_TERNARY ? 3 : 2;
    uint32_t number = 0;
    for (uint32_t r = 0; r < k; r++) number = number * base + (neg >> r & 1) + (pos >> r & 1) * (base - 1);
    return number;
}

static void multiply_groups(const rsr_groups *g, const int32_t *x, int64_t *y)
{
    memset(y, 0, g->rows * sizeof *y);
    for (uint32_t u = 0; u < g->n_blocks * g->n_panels; u++) {
        const uint32_t first_row = u / g->n_panels * g->k;
        const int32_t *panel = x + u % g->n_panels * g->panel_cols;
        uint32_t at = 0, last = 0;
        for (uint32_t i = g->first_group[u]; i < g->first_group[u + 1]; i++) {
            const uint32_t number = number_of(g->kind, g->k, g->groups[i].pos, g->groups[i].neg);
            int64_t sum = 0;
            assert_true(number > last); /* one group for each pattern, in their order */
            last = number;
            assert_true(g->groups[i].end > at); /* no group is empty */
            assert_true(g->groups[i].pos | g->groups[i].neg);
            for (uint32_t before = at; at < g->groups[i].end; at++) {
                const uint16_t *perm = g->perm + g->first_column[u];
                assert_true(at == before || perm[at] > perm[at - 1]); /* columns ascend */
                sum += panel[perm[at]];
            }
            for (uint32_t r = 0; r < g->k; r++) {
                const int64_t sign = (g->groups[i].pos >> r & 1) - (g->groups[i].neg >> r & 1);
                assert_true(sign == 0 || first_row + r < g->rows);
                if (first_row + r < g->rows) y[first_row + r] += sign * sum;
            }
        }
        assert_int_equal(at, g->first_column[u + 1] - g->first_column[u]);
    }
    for (uint32_t r = 0; r < g->rows && g->kind == TERN_RSR_SIGNS; r++) y[r] = 2 * y[r] - row_total(x, g->cols);
}

/* The columns of a lane, which stand before the places without one. */
static uint32_t length_of(const uint16_t *index, uint32_t steps, uint32_t lane, uint32_t width)
{
    uint32_t n = 0;
    while (n < steps && index[n * 16 + lane] != width) n++;
    for (uint32_t s = n; s < steps; s++) assert_int_equal(index[s * 16 + lane], width);
    return n;
}

/* One part of a group: the longest first, those of one length by the numbers of their patterns, the columns of one
 * pattern ascending. */
typedef struct lane_part {
    uint32_t length, number, first_column;
} lane_part;

static void check_order(const lane_part *before, const lane_part *part)
{
    if (!before->length) return;
    assert_true(before->length >= part->length);
    if (before->length != part->length) return;
    assert_true(before->number <= part->number);
    if (before->number == part->number) assert_true(before->first_column < part->first_column);
}

/* The order of the format, which makes the bytes those of the matrix alone; and no part longer than a sixteenth of the
 * unit's columns. */
static void check_slices(const tern_rsr_slices *s)
{
    for (uint32_t u = 0; u < s->n_blocks * s->n_panels; u++) {
        const uint32_t width = tern_rsr_panel_width(s->cols, s->panel_cols, u % s->n_panels);
        const uint16_t *index = s->index + (size_t)s->first_vector[u] * 16;
        uint32_t n_columns = 0, longest = 0;
        lane_part before = {0};
        for (uint32_t i = s->first_slice[u]; i < s->first_slice[u + 1]; index += s->lengths[i++] * 16u)
            for (uint32_t lane = 0; lane < 16; lane++) {
                const uint16_t *masks = s->masks + (size_t)i * 2 * s->k;
                uint32_t pos = 0, neg = 0;
                for (uint32_t r = 0; r < s->k; r++) {
                    pos |= (masks[r] >> lane & 1u) << r;
                    neg |= (masks[s->k + r] >> lane & 1u) << r;
                }
                const lane_part part = {length_of(index, s->lengths[i], lane, width),
                                        number_of(s->kind, s->k, pos, neg), index[lane]};
                assert_true(part.length ? part.number != 0 : part.number == 0);
                if (lane == 0) assert_int_equal(part.length, s->lengths[i]);
                if (part.length) check_order(&before, &part);
                if (part.length) before = part;
                n_columns += part.length;
                longest = part.length > longest ? part.length : longest;
            }
        assert_true(longest <= (n_columns + 15) / 16);
    }
}

/* One unit by the reference kernel, on int8 inputs. */
static void multiply_slices(const tern_rsr_slices *s, const int32_t *x, int64_t *y)
{
    int8_t *panel = calloc(s->panel_cols + 4u, 1);
    memset(y, 0, s->rows * sizeof *y);
    for (uint32_t u = 0; u < s->n_blocks * s->n_panels; u++) {
        const uint32_t first_row = u / s->n_panels * s->k, p = u % s->n_panels;
        const uint32_t width = tern_rsr_panel_width(s->cols, s->panel_cols, p);
        const tern_rsr_unit unit = tern_rsr_unit_of(s, u);
        int32_t dots[16] = {0};
        for (uint32_t c = 0; c < width; c++) panel[c] = (int8_t)x[p * s->panel_cols + c];
        panel[width] = 0;
        tern_ref_rsr_i8(&unit, panel, dots);
        for (uint32_t r = 0; r < s->k; r++) {
            assert_true(first_row + r < s->rows || dots[r] == 0);
            if (first_row + r < s->rows) y[first_row + r] += dots[r];
        }
    }
    for (uint32_t r = 0; r < s->rows && s->kind == TERN_RSR_SIGNS; r++) y[r] = 2 * y[r] - row_total(x, s->cols);
    free(panel);
}

static void check(matrix *m, tern_rsr_options o)
{
    const size_t bytes = m->rows * sizeof(int64_t);
    int32_t *x = malloc(m->cols * sizeof *x);
    int64_t *expected = malloc(bytes), *y = malloc(bytes);
    tern_rsr_source source = rsr_source_of(m);
    rsr_groups groups;
    tern_rsr_slices slices, again;
    tern_error err = {0};
    for (uint32_t c = 0; c < m->cols; c++) x[c] = (int8_t)(uint8_t)rsr_between(0, 255);
    o.kind = m->kind;
    multiply_plain(m, x, expected);
    assert_ok(rsr_sorted(m->codes, m->rows, m->cols, o.k, x, y, &err), err);
    assert_memory_equal(y, expected, bytes);
    assert_ok(rsr_groups_build(&groups, &source, &o, &err), err);
    multiply_groups(&groups, x, y);
    assert_memory_equal(y, expected, bytes);
    assert_ok(tern_rsr_slices_build(&slices, &source, &o, 7, &err), err);
    check_slices(&slices);
    multiply_slices(&slices, x, y);
    assert_memory_equal(y, expected, bytes);
    assert_ok(tern_rsr_slices_open(&again, slices.bytes, slices.n_bytes, &err), err);
    assert_true(again.k == o.k && again.rows == m->rows && again.cols == m->cols && again.kind == m->kind);
    assert_int_equal(tern_rsr_slices_origin(&again), 7);
    multiply_slices(&again, x, y);
    assert_memory_equal(y, expected, bytes);
    tern_rsr_slices_deinit(&again);
    tern_rsr_slices_deinit(&slices);
    rsr_groups_deinit(&groups);
    free(x);
    free(expected);
    free(y);
}

static void every_k_and_fill(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= TERN_RSR_MAX_K; k++)
        for (int kind = TERN_RSR_TERNARY; kind <= TERN_RSR_SIGNS; kind++)
            for (int f = 0; f < N_FILLS; f++) {
                matrix m = rsr_make((tern_rsr_kind)kind, rsr_between(1, 3 * k + 5), rsr_between(1, 700), (fill)f);
                check(&m, (tern_rsr_options){.k = k});
                check(&m, (tern_rsr_options){.k = k, .panel_cols = rsr_between(1, m.cols)});
                free(m.codes);
            }
}

static void squares_and_ragged_shapes(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{1, 1}, {1, 2560}, {64, 64}, {65, 63}, {127, 1}, {2560, 3}, {33, 6912}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t k = 2; k <= 8; k += 3) {
            matrix m = rsr_make(TERN_RSR_TERNARY, shapes[i][0], shapes[i][1], RANDOM);
            check(&m, (tern_rsr_options){.k = k});
            free(m.codes);
        }
}

static void widest_panel_and_wider(void **state)
{
    (void)state;
    static const uint32_t cols[] = {32767, 32768, 65534, 65535, 65536, 131071};
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++)
        for (int f = 0; f < N_FILLS; f++) {
            matrix m = rsr_make(TERN_RSR_TERNARY, 5, cols[i], (fill)f);
            check(&m, (tern_rsr_options){.k = 4});
            check(&m, (tern_rsr_options){.k = 16});
            free(m.codes);
        }
}

static void sorts_give_the_same_bytes(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= TERN_RSR_MAX_COUNTING_K; k++) {
        matrix m = rsr_make(k % 2 ? TERN_RSR_TERNARY : TERN_RSR_BINARY, 30, 900, RANDOM);
        tern_rsr_source source = rsr_source_of(&m);
        tern_rsr_slices a, b;
        tern_error err = {0};
        assert_ok(tern_rsr_slices_build(&a, &source,
                                        &(tern_rsr_options){.k = k, .kind = m.kind, .sort = TERN_RSR_SORT_COUNTING}, 0,
                                        &err),
                  err);
        assert_ok(tern_rsr_slices_build(
                      &b, &source, &(tern_rsr_options){.k = k, .kind = m.kind, .sort = TERN_RSR_SORT_RADIX}, 0, &err),
                  err);
        assert_int_equal(a.n_bytes, b.n_bytes);
        assert_memory_equal(a.bytes, b.bytes, a.n_bytes);
        tern_rsr_slices_deinit(&a);
        tern_rsr_slices_deinit(&b);
        free(m.codes);
    }
}

static void threads_give_the_same_bytes(void **state)
{
    (void)state;
    static const uint32_t n_threads[] = {1, 2, 3, 8};
    matrix m = rsr_make(TERN_RSR_TERNARY, 203, 1111, RANDOM);
    tern_rsr_source source = rsr_source_of(&m);
    tern_rsr_slices alone, shared;
    tern_error err = {0};
    assert_ok(tern_rsr_slices_build(&alone, &source, &(tern_rsr_options){.k = 5}, 0, &err), err);
    for (size_t i = 0; i < sizeof n_threads / sizeof *n_threads; i++) {
        tern_pool *pool;
        assert_ok(tern_pool_open(&pool, n_threads[i], false, &err), err);
        assert_ok(tern_rsr_slices_build(&shared, &source, &(tern_rsr_options){.k = 5, .pool = pool}, 0, &err), err);
        assert_int_equal(alone.n_bytes, shared.n_bytes);
        assert_memory_equal(alone.bytes, shared.bytes, alone.n_bytes);
        tern_rsr_slices_deinit(&shared);
        tern_pool_close(pool);
    }
    tern_rsr_slices_deinit(&alone);
    free(m.codes);
}

static void origins_differ(void **state)
{
    (void)state;
    uint8_t bytes[100];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)rsr_between(0, 255);
    const uint64_t whole = tern_rsr_origin(bytes, sizeof bytes);
    assert_true(whole != 0 && whole != tern_rsr_origin(bytes, sizeof bytes - 1));
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1;
        assert_true(tern_rsr_origin(bytes, sizeof bytes) != whole);
        bytes[i] ^= 1;
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rsr_rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_k_and_fill),
    cmocka_unit_test(squares_and_ragged_shapes),
    cmocka_unit_test(widest_panel_and_wider),
    cmocka_unit_test(sorts_give_the_same_bytes),
    cmocka_unit_test(threads_give_the_same_bytes),
    cmocka_unit_test(origins_differ),
};

TEST_GROUP(rsr, "web", tests, .setup = seed);
