/* RSR beside the packed dot product: products of model shapes with weights that are not in any cache, each step from
 * the algorithm to the slices, what preprocessing takes, and what sharing an input among siblings saves. Prints the
 * tables of docs/experiments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "rsr/multipliers/sorted.h"
#include "rsr/products.h"
#include "rsr/public.h"

static const char usage[] =
    "usage: bench_rsr [--public LIBRARY ...] [-t 1,2] [-n 10] [-s ROWSxCOLS] [TABLE ...]\n\n"
    "  shapes    five shapes: dot products, and RSR with k 3 to 8                     2 minutes\n"
    "  steps     the ladder: from a dot product in plain C to the slices              4 minutes\n"
    "  levels    plain C, AVX2 and AVX-512, with int8 and f32 inputs; one thread      1.5 minutes\n"
    "  sort      preprocessing: comparison, counting and radix sort                   7 seconds\n"
    "  siblings  layers that share an input                                           16 seconds\n\n"
    "All of them without a word: 8 minutes, 1.1 GB of memory.\n"
    "--public: the table of shapes has the kernels of this library too (compare-public.sh).\n"
    "-t: two numbers of threads. -n: products with each copy, at most; a measurement also ends after 2 s.\n"
    "-s: one shape for the first four tables, multiples of 64 rows and 128 columns.\n";

/* Libraries of the public code. */
static const char *libraries[8];
static int n_libraries;

static void print_shape(const matrix *m, const cold_options *o)
{
    static const char *const names[] = {"i2_s", "tq2_0", "t160"};
    const char *const levels[] = {work.kernels.i2_s_level, work.kernels.tq2_0_level, work.kernels.t160_level};
    const double n = (double)m->rows * m->cols;
    for (int i = 0; i < 3; i++) {
        cold_progress("%u x %u: dot, %s", m->rows, m->cols, names[i]);
        const timing t = time_dot(m, names[i], o, 2);
        cold_progress(NULL);
        if (t.bytes)
            printf("| %u x %u | dot, %s (%s) | %.0f | %.0f | %.2f | %.3f |\n", m->rows, m->cols, names[i], levels[i],
                   t.us[0], t.us[1], 8.0 * (double)t.bytes / n, 1.0);
        fflush(stdout);
    }
    for (uint32_t k = 3; k <= 8; k++) {
        cold_progress("%u x %u: rsr, k %u", m->rows, m->cols, k);
        const timing t = time_slices(m, k, false, o, 2);
        cold_progress(NULL);
        printf("| %u x %u | rsr, k %u (%s) | %.0f | %.0f | %.2f | %.3f |\n", m->rows, m->cols, k,
               work.kernels.rsr_i8_level, t.us[0], t.us[1], 8.0 * (double)t.bytes / n, 1.0 / k);
        fflush(stdout);
    }
    for (int i = 0; i < n_libraries; i++) print_public(libraries[i], m, o);
}

static void print_half(const matrix *m, bool floats, const char *level, const cold_options *o)
{
    cold_progress("%s: dot, %s", level, floats ? "f32" : "int8");
    timing t = floats ? time_decoded(m, o, 1) : time_dot(m, "i2_s", o, 1);
    printf(" %.0f |", t.us[0]);
    for (uint32_t k = 4; k <= 6; k++) {
        t = time_slices(m, k, floats, o, 1);
        printf(" %.0f |", t.us[0]);
    }
}

/* The same products with less of the CPU, and with f32 inputs; one thread. */
static void print_levels(const matrix *m, const cold_options *o)
{
    static const char *const levels[] = {"scalar", "avx2", "avx512-vnni", "neon", "neon-dotprod"};
    uint32_t features;
    printf("\n| %u x %u | dot, int8, us | rsr k 4 | rsr k 5 | rsr k 6 | dot, f32, us | rsr k 4 | rsr k 5 | rsr k 6 |\n"
           "|---|---|---|---|---|---|---|---|---|\n",
           m->rows, m->cols);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (tern_cpu_features_parse(levels[i], tern_cpu_features(), &features, NULL) != TERN_OK) continue;
        choose_kernels(features);
        printf("| %s |", levels[i]);
        print_half(m, false, levels[i], o);
        print_half(m, true, levels[i], o);
        cold_progress(NULL);
        puts("");
        fflush(stdout);
    }
    choose_kernels(tern_cpu_features());
}

/* Milliseconds; 0: that this sort does not do. */
static double time_build(const matrix *m, uint32_t k, tern_rsr_sort sort, tern_pool *pool)
{
    tern_rsr_slices s;
    tern_error err = {0};
    const tern_rsr_source source = matrix_source(m);
    const double start = cold_seconds();
    if (tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = k, .sort = sort, .pool = pool}, 0, &err) != TERN_OK)
        return 0;
    const double taken = cold_seconds() - start;
    tern_rsr_slices_deinit(&s);
    return taken * 1e3;
}

static double time_comparison(const matrix *m, uint32_t k)
{
    int32_t *x = calloc(m->cols, sizeof *x);
    int64_t *y = calloc(m->rows, sizeof *y);
    tern_error err = {0};
    if (!x || !y) cold_check(tern_fail_alloc(&err, m->rows * sizeof *y), &err);
    const double start = cold_seconds();
    cold_check(rsr_sorted(m->codes, m->rows, m->cols, k, x, y, &err), &err);
    const double taken = cold_seconds() - start;
    free(x);
    free(y);
    return taken * 1e3;
}

static void print_sorts(const matrix *m, const cold_options *o)
{
    printf("\n| sorting %u x %u, ms | comparison, 1 thread | counting, %u | radix, %u | the one chosen, %u |\n"
           "|---|---|---|---|---|\n",
           m->rows, m->cols, o->n_threads[0], o->n_threads[0], o->n_threads[1]);
    for (uint32_t k = 4; k <= 16; k += 2) {
        cold_progress("sorting, k %u", k);
        const double counting =
                         k <= TERN_RSR_MAX_COUNTING_K ? time_build(m, k, TERN_RSR_SORT_COUNTING, o->pools[0]) : 0,
                     comparison = time_comparison(m, k), radix = time_build(m, k, TERN_RSR_SORT_RADIX, o->pools[0]),
                     chosen = time_build(m, k, TERN_RSR_SORT_AUTO, o->pools[1]);
        cold_progress(NULL);
        printf("| k %u | %.0f | %.0f | %.0f | %.0f |\n", k, comparison, counting, radix, chosen);
        fflush(stdout);
    }
}

static void print_step_tables(const matrix *m, const cold_options *o)
{
    print_steps(m, 4, true, o);
    print_steps(m, 4, false, o);
    print_steps(m, 6, false, o);
}

/* One table over shapes, or over the one of -s. */
static void each_shape(const uint32_t (*shapes)[2], size_t n, void (*print)(const matrix *, const cold_options *),
                       const cold_options *o)
{
    for (size_t i = 0; i < (o->rows ? 1 : n); i++) {
        const matrix m = o->rows ? matrix_of(o->rows, o->cols) : matrix_of(shapes[i][0], shapes[i][1]);
        print(&m, o);
        free(m.codes);
    }
}

int main(int argc, char **argv)
{
    static const char *const tables[] = {"shapes", "steps", "levels", "sort", "siblings", NULL};
    static const uint32_t shapes[][2] = {{2560, 2560}, {640, 2560}, {6912, 2560}, {2560, 6912}, {4096, 14336}};
    static const uint32_t two[][2] = {{2560, 2560}, {2560, 6912}};
    cold_options o;
    for (; argc > 2 && n_libraries < 8 && strcmp(argv[1], "--public") == 0; argc -= 2, argv += 2)
        libraries[n_libraries++] = argv[2];
    cold_open(&o, argc, argv, tables, usage);
    choose_kernels(tern_cpu_features());
    for (int i = 0; i < COLD_MAX_COLS; i++) work.x_f32[i] = (float)(work.x_i8[i] = (int8_t)(i * 37));
    if (cold_wants(&o, "shapes")) {
        printf("| shape | kernel | us, %u thread | us, %u threads | bits a weight | additions a weight |\n"
               "|---|---|---|---|---|---|\n",
               o.n_threads[0], o.n_threads[1]);
        each_shape(shapes, 5, print_shape, &o);
    }
    if (cold_wants(&o, "steps")) each_shape(two, 2, print_step_tables, &o);
    if (cold_wants(&o, "levels")) each_shape(two, 2, print_levels, &o);
    if (cold_wants(&o, "sort")) each_shape(two, 2, print_sorts, &o);
    if (cold_wants(&o, "siblings")) {
        printf("\n| layers, k 6 | what they share | us, %u thread | us, %u threads |\n|---|---|---|---|\n",
               o.n_threads[0], o.n_threads[1]);
        print_siblings("q, k, v", (const uint32_t[]){2560, 640, 640}, 3, 2560, &o);
        print_siblings("gate, up", (const uint32_t[]){6912, 6912}, 2, 2560, &o);
    }
    cold_close(&o);
    return 0;
}
