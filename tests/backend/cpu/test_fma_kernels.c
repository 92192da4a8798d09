/* Multiply-adds of every level whose sum is next to halfway between two floats, where a product and a sum rounded one
 * after the other go wrong. What is right follows from how the numbers are made. */
#include "support/test.h"

#include <math.h>

#include "backend/cpu/kernels.h"
#include "base/half.h"
#include "support/kernels.h"

enum { COLS = 61, MIXES = 3000, SMALLEST = -149 };

static tern_rng rng;

/* Products of floats: (2^46 + 1) and (2^46 - 1). */
static const float above[2] = {8384513, 8392705}, below[2] = {8388607, 8388609};

/* c = units * 2^unit; a * b is half of 2^unit and next to nothing more, or less. */
typedef struct mix {
    float a[1], b[COLS], c[COLS], expected[COLS];
} mix;

static void fill(mix *m, int unit)
{
    const bool more = test_between(&rng, 0, 1);
    const float *const factors = more ? above : below;
    const int half = (unit - 47) / 2;
    m->a[0] = ldexpf(factors[0], half);
    for (int i = 0; i < COLS; i++) {
        const uint32_t least = unit == SMALLEST ? 2 : (1u << 23) + 2;
        const uint32_t units = test_between(&rng, least, least + (1u << test_between(&rng, 2, 23)) - 4);
        const int sign = test_between(&rng, 0, 1) ? 1 : -1, way = test_between(&rng, 0, 1) ? 1 : -1;
        m->b[i] = ldexpf((float)(sign * way) * factors[1], unit - 47 - half);
        m->c[i] = ldexpf((float)sign * (float)units, unit);
        m->expected[i] = ldexpf((float)sign * (float)((int)units + (more ? way : 0)), unit);
    }
}

static bool agrees(tern_gemm_fn fn, const mix *m, float *workspace)
{
    float c[COLS];
    memcpy(c, m->c, sizeof c);
    fn(&(tern_gemm_args){.m = 1,
                         .n = COLS,
                         .k = 1,
                         .a = m->a,
                         .b = m->b,
                         .c = c,
                         .a_stride = 1,
                         .b_stride = COLS,
                         .c_stride = COLS,
                         .workspace = workspace});
    for (int i = 0; i < COLS; i++)
        if (tern_f32_bits(c[i]) != tern_f32_bits(m->expected[i])) {
            print_error("%a * %a + %a is %a, expected %a\n", (double)m->a[0], (double)m->b[i], (double)m->c[i],
                        (double)c[i], (double)m->expected[i]);
            return false;
        }
    return true;
}

static void check(const char *level, tern_gemm_fn fn, float *workspace)
{
    mix m;
    for (int i = 0; i < MIXES; i++) {
        fill(&m, i % 2 ? SMALLEST : (int)test_between(&rng, 0, 120) - 60);
        if (!agrees(fn, &m, workspace)) fail_msg("gemm %s", level);
    }
}

static void sums_next_to_halfway(void **state)
{
    float *workspace = calloc(TERN_GEMM_WORKSPACE, sizeof *workspace);
    const test_kernel *k;
    (void)state;
    test_seed(&rng);
    assert_non_null(workspace);
    check("scalar", tern_ref_gemm, workspace);
    for (size_t at = 0; (k = test_kernel_next("gemm", &at));) check(k->level, (tern_gemm_fn)k->fn, workspace);
    free(workspace);
}

/* The same, rounded twice. */
static void twice(const tern_gemm_args *g)
{
    for (uint32_t j = 0; j < g->n; j++) g->c[j] = (float)((double)g->a[0] * (double)g->b[j] + (double)g->c[j]);
}

static void rounding_twice_is_caught(void **state)
{
    bool caught[2] = {false, false};
    mix m;
    (void)state;
    test_seed(&rng);
    for (int i = 0; i < MIXES; i++) {
        fill(&m, i % 2 ? SMALLEST : -23);
        float c[COLS];
        memcpy(c, m.c, sizeof c);
        twice(&(tern_gemm_args){.n = COLS, .a = m.a, .b = m.b, .c = c});
        caught[i % 2] |= !test_same_bits(c, m.expected, COLS);
    }
    assert_true(caught[0] && caught[1]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_next_to_halfway),
    cmocka_unit_test(rounding_twice_is_caught),
};

TEST_GROUP(fma_kernels, "web", tests);
