/* Whole RSR products of binary, sign and ternary matrices: every multiplier by the name that the documents have for it,
 * and the slices at every level, against dot products; any shape, panels, inputs at both ends. */
#include "support/test.h"

#include <math.h>

#include "base/cpu.h"
#include "rsr/multipliers/product.h"
#include "rsr/multipliers/slices_f32.h"
#include "support/kernels.h"

typedef enum fill { RANDOM, ALL_EQUAL, ALL_LEAST, N_FILLS } fill;

static const char *const kinds[] = {"ternary", "binary", "signs"};
static tern_rng rng;

typedef struct matrix {
    tern_rsr_kind kind;
    uint32_t rows, cols, k;
    int8_t *codes;
    rsr_groups groups;
    tern_rsr_slices slices;
    rsr_lists lists;
} matrix;

static int8_t code_of(tern_rsr_kind kind, uint32_t i)
{
    static const int8_t codes[][3] = {{-1, 0, 1}, {0, 1, 1}, {-1, 1, 1}};
    return codes[kind][i];
}

static tern_status read_rows(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    (void)err;
    const matrix *m = context;
    memcpy(codes, m->codes + (size_t)first * m->cols, (size_t)n * m->cols);
    return TERN_OK;
}

static matrix open_matrix(tern_rsr_kind kind, uint32_t rows, uint32_t cols, uint32_t k, uint32_t panel_cols, fill f)
{
    matrix m = {.kind = kind, .rows = rows, .cols = cols, .k = k, .codes = malloc((size_t)rows * cols)};
    const tern_rsr_source source = {.read = read_rows, .context = &m, .rows = rows, .cols = cols};
    const tern_rsr_options options = {.kind = kind, .k = k, .panel_cols = panel_cols};
    tern_error err = {0};
    const uint32_t one = test_between(&rng, 0, 2);
    for (size_t i = 0; i < (size_t)rows * cols; i++)
        m.codes[i] = code_of(kind, f == RANDOM ? test_between(&rng, 0, 2) : f == ALL_EQUAL ? one : 0);
    assert_ok(rsr_groups_build(&m.groups, &source, &options, &err), err);
    assert_ok(tern_rsr_slices_build(&m.slices, &source, &options, 0, &err), err);
    assert_ok(rsr_lists_make(&m.lists, &m.groups, &err), err);
    return m;
}

static void close_matrix(matrix *m)
{
    rsr_lists_deinit(&m->lists);
    rsr_groups_deinit(&m->groups);
    tern_rsr_slices_deinit(&m->slices);
    free(m->codes);
}

/* One vector in both types, what it gives, and scratch; outputs have a canary behind them. */
typedef struct vectors {
    int8_t *x;
    float *f;
    int32_t *want, *y, *scratch;
    double *exact, *size;
} vectors;

enum { CANARY = 0x5ca1ab1e };

static vectors open_vectors(const matrix *m, int extreme)
{
    vectors v = {.x = malloc(m->cols + 3),
                 .f = malloc(m->cols * sizeof *v.f),
                 .want = calloc(m->rows, sizeof *v.want),
                 .y = malloc((m->rows + 1) * sizeof *v.y),
                 .scratch = malloc((m->cols + 16) * sizeof *v.scratch),
                 .exact = calloc(m->rows, sizeof *v.exact),
                 .size = calloc(m->rows, sizeof *v.size)};
    test_floats(&rng, TEST_ORDINARY, v.f, m->cols);
    for (uint32_t c = 0; c < m->cols; c++)
        v.x[c] = (int8_t)(extreme ? (extreme < 0 ? -128 : 127) : (int)test_between(&rng, 0, 255) - 128);
    for (uint32_t r = 0; r < m->rows; r++)
        for (uint32_t c = 0; c < m->cols; c++) {
            const int8_t code = m->codes[(size_t)r * m->cols + c];
            v.want[r] += code * v.x[c];
            v.exact[r] += code * (double)v.f[c];
            v.size[r] += 3 * fabs((double)v.f[c]);
        }
    return v;
}

static void close_vectors(vectors *v)
{
    free(v->x);
    free(v->f);
    free(v->want);
    free(v->y);
    free(v->scratch);
    free(v->exact);
    free(v->size);
}

static void poison(const matrix *m, const vectors *v)
{
    for (uint32_t r = 0; r <= m->rows; r++) v->y[r] = CANARY;
}

static void check_i8(const matrix *m, const vectors *v, const char *what)
{
    for (uint32_t r = 0; r < m->rows; r++)
        if (v->y[r] != v->want[r])
            fail_msg("%s, %s, k %u, %u x %u, int8: row %u: %d found, %d expected", what, kinds[m->kind], m->k, m->rows,
                     m->cols, r, v->y[r], v->want[r]);
    assert_int_equal(v->y[m->rows], CANARY);
}

static void check_f32(const matrix *m, const vectors *v, const char *what)
{
    const float *y = (const float *)(const void *)v->y;
    for (uint32_t r = 0; r < m->rows; r++)
        if (!(fabs((double)y[r] - v->exact[r]) <= v->size[r] * 1e-5))
            fail_msg("%s, %s, k %u, %u x %u, f32: row %u: %g found, %g expected", what, kinds[m->kind], m->k, m->rows,
                     m->cols, r, (double)y[r], v->exact[r]);
    assert_int_equal(v->y[m->rows], CANARY);
}

static void check_multipliers(const matrix *m, const vectors *v, uint32_t features)
{
    const char *version;
    tern_error err = {0};
    for (size_t i = 0; (version = rsr_multiplier_version(i)); i++) {
        rsr_multiplier p;
        const tern_status status = rsr_multiplier_find(version, features, &p, &err);
        if (status == TERN_UNSUPPORTED && !(features & TERN_CPU_AVX2)) continue;
        assert_ok(status, err);
        poison(m, v);
        rsr_i8_groups(&m->groups, &m->lists, p.i8, v->x, v->scratch, v->y);
        check_i8(m, v, version);
        poison(m, v);
        rsr_f32_groups(&m->groups, &m->lists, p.f32, v->f, (float *)(void *)v->scratch, (float *)(void *)v->y);
        check_f32(m, v, version);
    }
}

static void check_slices(const matrix *m, const vectors *v)
{
    const test_kernel *k;
    for (size_t at = 0; (k = test_kernel_next("rsr_i8", &at));) {
        poison(m, v);
        rsr_i8_slices(&m->slices, (tern_rsr_i8_fn)k->fn, v->x, (int8_t *)v->scratch, v->y);
        check_i8(m, v, k->level);
    }
    for (const rsr_f32_kernel *f = rsr_f32_kernels; f->level; f++) {
        if (f->needed & ~tern_cpu_features()) continue;
        poison(m, v);
        rsr_f32_slices(&m->slices, f->fn, v->f, (float *)(void *)v->scratch, (float *)(void *)v->y);
        check_f32(m, v, f->level);
    }
}

static void check(matrix *m)
{
    for (int extreme = -1; extreme <= 1; extreme++) {
        vectors v = open_vectors(m, extreme);
        check_multipliers(m, &v, tern_cpu_features());
        check_multipliers(m, &v, tern_cpu_features() & ~(uint32_t)TERN_CPU_AVX512);
        check_slices(m, &v);
        close_vectors(&v);
    }
}

static void every_kind(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= TERN_RSR_MAX_K; k++)
        for (int kind = TERN_RSR_TERNARY; kind <= TERN_RSR_SIGNS; kind++)
            for (int f = 0; f < N_FILLS; f++) {
                const uint32_t cols = test_between(&rng, 1, 400), panel = f == RANDOM ? test_between(&rng, 1, cols) : 0;
                matrix m = open_matrix((tern_rsr_kind)kind, test_between(&rng, 1, 3 * k), cols, k, panel, (fill)f);
                check(&m);
                close_matrix(&m);
            }
}

static void ends_of_the_range(void **state)
{
    (void)state;
    static const struct {
        uint32_t rows, cols, k;
    } shapes[] = {{1, 1, 1}, {1, 1, 16}, {1, 300, 5}, {300, 1, 5}, {3, 65535, 4}, {3, 65536, 4}, {2, 131071, 6}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = TERN_RSR_TERNARY; kind <= TERN_RSR_SIGNS; kind++) {
            matrix m = open_matrix((tern_rsr_kind)kind, shapes[i].rows, shapes[i].cols, shapes[i].k, 0, RANDOM);
            check(&m);
            close_matrix(&m);
        }
}

/* The names of the documents are all there, and no others. */
static void names(void **state)
{
    (void)state;
    static const char *const steps[][2] = {{"binary 1", "gather"},     {"binary 2.4", "permuted"},
                                           {"binary 4.2", "direct"},   {"ternary 1.4", "lists"},
                                           {"ternary 3.1", "lists16"}, {"ternary 3.3", "masks"}};
    const size_t n = sizeof steps / sizeof *steps;
    rsr_multiplier p;
    tern_error err = {0};
    assert_null(rsr_multiplier_version(n));
    for (size_t i = 1; i < n; i++) { /* all but the first on any CPU */
        assert_ok(rsr_multiplier_find(steps[i][0], 0, &p, &err), err);
        assert_string_equal(p.step, steps[i][1]);
        assert_int_equal(p.ternary, i >= 3);
    }
    assert_int_equal(rsr_multiplier_find(steps[0][0], 0, &p, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "rsr: multiplier \"binary 1\" needs a CPU with gathers: AVX2");
    assert_int_equal(rsr_multiplier_find("ternary 3", 0, &p, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(
        err.message,
        "rsr: multiplier \"ternary 3\" found, one of binary 1, binary 2.4, binary 4.2, ternary 1.4, ternary 3.1, "
        "ternary 3.3 expected");
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_kind),
    cmocka_unit_test(ends_of_the_range),
    cmocka_unit_test(names),
};

TEST_GROUP(rsr_products, "", tests, .setup = seed);
