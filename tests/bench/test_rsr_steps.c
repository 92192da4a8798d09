/* The RSR multipliers that bench_rsr compares: every step on groups against dot products, and slices with f32 inputs at
 * every level against plain C, for every k, on random and extreme matrices. */
#include "support/test.h"

#include <math.h>

#include "base/cpu.h"
#include "rsr/multipliers/slices_f32.h"
#include "rsr/multipliers/steps.h"
#include "support/guard.h"
#include "support/kernels.h"
#include "support/rsr_matrix.h"

static tern_rng rng;

/* The same bits as plain C gives; inputs end at an unreadable page. */
static void check_f32(const tern_rsr_unit *u, uint32_t cols, test_fill inputs, const rsr_f32_kernel *kernel)
{
    float want[17], got[17];
    test_guard guard = test_guard_open((cols + 1) * sizeof(float));
    float *x = test_guard_lend(&guard, (cols + 1) * sizeof *x, false);
    test_floats(&rng, inputs, x, cols);
    x[cols] = 0;
    test_floats(&rng, TEST_ORDINARY, want, 17);
    memcpy(got, want, sizeof got);
    rsr_f32_kernels[0].fn(u, x, want);
    kernel->fn(u, x, got);
    if (!test_same_bits(want, got, 17))
        fail_msg("%s: k %u, %u columns, inputs %s", kernel->level, u->k, cols, test_fill_names[inputs]);
    test_guard_close(&guard);
}

static void slices_of_floats(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= 16; k++)
        for (int f = 0; f < RSR_N_FILLS; f++) {
            rsr_matrix m = rsr_matrix_make(&rng, k, k == 5 ? 65535 : test_between(&rng, 1, 700), (rsr_fill)f);
            tern_rsr_slices s = rsr_matrix_slices(&m, k);
            const tern_rsr_unit u = tern_rsr_unit_of(&s, 0);
            for (const rsr_f32_kernel *kernel = rsr_f32_kernels; kernel->level; kernel++)
                for (int i = 0; i < TEST_N_FILLS && !(kernel->needed & ~tern_cpu_features()); i++)
                    check_f32(&u, m.cols, (test_fill)i, kernel);
            tern_rsr_slices_deinit(&s);
            free(m.codes);
        }
}

/* Every step on groups: integers exactly, floats near the exact sum. */

typedef struct inputs {
    test_guard x_guard;
    int8_t *x;
    float *f;
    int32_t *scratch;
} inputs;

static void check_step(const rsr_matrix *m, const rsr_groups *g, const rsr_lists *lists, const inputs *in,
                       const char *name, rsr_step_i8 *i8, rsr_step_f32 *f32)
{
    for (uint32_t u = 0; u < g->n_blocks; u++) {
        const rsr_block b = rsr_block_of(g, lists, u);
        int32_t y[16];
        float z[16];
        for (int r = 0; r < 16; r++) y[r] = r, z[r] = 0.0f;
        i8(&b, in->x, in->scratch, y);
        f32(&b, in->f, (float *)(void *)in->scratch, z);
        for (uint32_t r = 0; r < 16; r++) {
            int32_t want = (int32_t)r;
            double exact = 0, size = 0;
            for (uint32_t c = 0; r < g->k && u * g->k + r < m->rows && c < m->cols; c++) {
                const int8_t code = m->codes[(size_t)(u * g->k + r) * m->cols + c];
                want += code * in->x[c];
                exact += code * (double)in->f[c];
                size += code ? fabs((double)in->f[c]) : 0;
            }
            if (y[r] != want) fail_msg("%s: k %u, row %u: %d found, %d expected", name, g->k, r, y[r], want);
            if (!(fabs((double)z[r] - exact) <= size * 1e-5))
                fail_msg("%s: k %u, row %u: %g found, %g expected", name, g->k, r, (double)z[r], exact);
        }
    }
}

static void check_steps(uint32_t k, uint32_t rows, uint32_t cols, rsr_fill f)
{
    rsr_matrix m = rsr_matrix_make(&rng, rows, cols, f);
    const tern_rsr_source source = rsr_matrix_source(&m);
    inputs in = {.x_guard = test_guard_open(cols + 3),
                 .f = malloc(cols * sizeof(float)),
                 .scratch = malloc(((size_t)cols + 16) * 4)};
    rsr_groups g;
    rsr_lists lists;
    tern_error err = {0};
    in.x = test_guard_lend(&in.x_guard, cols + 3, false);
    for (uint32_t c = 0; c < cols; c++) in.x[c] = (int8_t)test_between(&rng, 0, 255);
    test_floats(&rng, TEST_ORDINARY, in.f, cols);
    assert_ok(rsr_groups_build(&g, &source, &(tern_rsr_options){.k = k}, &err), err);
    assert_ok(rsr_lists_make(&lists, &g, &err), err);
    for (const rsr_step *p = rsr_steps; p->name; p++) check_step(&m, &g, &lists, &in, p->name, p->i8, p->f32);
    for (uint32_t features = tern_cpu_features(), i = 0; i < 2; i++, features &= ~(uint32_t)TERN_CPU_AVX512)
        if (rsr_gather_i8(features))
            check_step(&m, &g, &lists, &in, "gather", rsr_gather_i8(features), rsr_gather_f32(features));
    rsr_lists_deinit(&lists);
    rsr_groups_deinit(&g);
    test_guard_close(&in.x_guard);
    free(in.f);
    free(in.scratch);
    free(m.codes);
}

static void every_step(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= 16; k++)
        for (int f = 0; f < RSR_N_FILLS; f++) {
            check_steps(k, test_between(&rng, 1, 2 * k), test_between(&rng, 1, 700), (rsr_fill)f);
            if (k == 5) check_steps(k, k, 65535, (rsr_fill)f);
        }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(every_step), cmocka_unit_test(slices_of_floats)};

TEST_GROUP(rsr_steps, "web", tests, .setup = seed);
