/* Look-up kernels beside dot products: products of model shapes with weights that are not in any cache. Prints the
 * tables of docs/experiments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/pool.h"
#include "cold/cold.h"
#include "quant/encoding.h"

enum { DOT_TASKS = 64, NEAR = 1000 };

static const char usage[] =
    "usage: bench_lut [-t 1,2] [-n 10] [-s ROWSxCOLS]\n\n"
    "-t: two numbers of threads. -n: products with each copy, at most; a measurement also ends after 2 s.\n"
    "-s: one shape, multiples of 64 rows and 128 columns.\n"
    "Five shapes take 1.5 minutes and 0.8 GB of memory.\n";

/* One way to multiply a matrix. */
typedef struct job {
    const char *name, *level;
    uint32_t width; /* of look-ups; 0: a dot product */
    tern_ternary_fn dot;
    tern_lut_fn lut;
    tern_lut_tables_fn make;
    uint32_t rows, cols;
    tern_pool *pool;
    uint8_t *data;
    size_t bytes, row_bytes, n_copies, copy; /* row_bytes: of a dot product */
} job;

static _Alignas(64) int8_t x[COLD_MAX_COLS + 512];
static struct {
    _Alignas(64) int8_t tables[COLD_MAX_COLS / 5 * TERN_LUT5_TABLE + 4 * TERN_LUT5_TABLE];
    size_t product; /* whose they are */
} own[COLD_MAX_THREADS];
static size_t n_products;
static _Alignas(64) int32_t y[COLD_MAX_THREADS][COLD_MAX_ROWS];
static int32_t x_sum;

/* Every thread makes its own tables, as the engine does. */
static void strip_task(void *context, uint32_t task, uint32_t thread)
{
    const job *j = context;
    const size_t strip = tern_lut_strip_bytes(j->width, j->cols);
    if (own[thread].product != n_products) j->make(x, j->cols, own[thread].tables);
    own[thread].product = n_products;
    j->lut(j->data + j->copy * j->bytes + task * strip, own[thread].tables, tern_lut_groups(j->width, j->cols),
           y[thread] + task * TERN_LUT_ROWS);
}

static void dot_task(void *context, uint32_t task, uint32_t thread)
{
    const job *j = context;
    const uint32_t n = j->rows / DOT_TASKS;
    const tern_q8_rows in = {.x = x, .stride = COLD_MAX_COLS, .sums = &x_sum, .n = 1};
    j->dot(j->data + j->copy * j->bytes + task * n * j->row_bytes, j->row_bytes, n, j->cols, &in, y[thread], n);
}

static void run(void *context, size_t copy)
{
    job *j = context;
    j->copy = copy;
    if (j->width == 0) {
        tern_pool_for(j->pool, DOT_TASKS, dot_task, j);
        return;
    }
    n_products++;
    tern_pool_for(j->pool, (j->rows + TERN_LUT_ROWS - 1) / TERN_LUT_ROWS, strip_task, j);
}

static void make_tables(void *context, size_t copy)
{
    const job *j = context;
    (void)copy;
    if (j->width) j->make(x, j->cols, own[0].tables);
}

static uint8_t *pack(job *j, const int8_t *codes)
{
    tern_error err = {0};
    if (j->width == 0) {
        const tern_encoding *e = tern_encoding_by_name(j->name);
        size_t all;
        cold_check(tern_encoding_row_bytes(e, j->cols, &j->row_bytes, &err), &err);
        cold_check(tern_encoding_bytes(e, j->rows, j->cols, &all, &err), &err);
        uint8_t *packed = malloc(all);
        cold_check(tern_encode_codes(e, codes, 1.0f, j->rows, j->cols, packed, &err), &err);
        j->bytes = j->row_bytes * j->rows;
        return packed;
    }
    const size_t strip = tern_lut_strip_bytes(j->width, j->cols);
    const uint32_t n = (j->rows + TERN_LUT_ROWS - 1) / TERN_LUT_ROWS;
    uint8_t *packed = malloc(n * strip);
    for (uint32_t s = 0; s < n; s++) {
        const uint32_t left = j->rows - s * TERN_LUT_ROWS;
        tern_lut_pack(j->width, codes + (size_t)s * TERN_LUT_ROWS * j->cols,
                      left < TERN_LUT_ROWS ? left : TERN_LUT_ROWS, j->cols, packed + s * strip);
    }
    j->bytes = n * strip;
    return packed;
}

/* Cold on both pools; near: the same copy over and over, which shows what is left when the weights are. */
static void print(job j, uint32_t rows, uint32_t cols, const int8_t *codes, const cold_options *o)
{
    double us[2];
    j.rows = rows;
    j.cols = cols;
    cold_progress("%u x %u: %s (%s)", rows, cols, j.name, j.level);
    uint8_t *packed = pack(&j, codes);
    j.n_copies = cold_n_copies(j.bytes);
    j.data = cold_copies(packed, j.bytes, j.n_copies);
    for (int p = 0; p < 2; p++) {
        j.pool = o->pools[p];
        us[p] = cold_time(o->passes, j.n_copies, run, &j);
    }
    j.pool = o->pools[0];
    const double near = cold_time(NEAR, 1, run, &j), made = j.width ? cold_time(NEAR, 1, make_tables, &j) : 0;
    cold_progress(NULL);
    printf("| %u x %u | %s%s (%s) | %.0f | %.0f | %.2f | %.1f | %.0f | %.1f |\n", rows, cols, j.width ? "" : "dot, ",
           j.name, j.level, us[0], us[1], 8.0 * (double)j.bytes / rows / cols, (double)j.bytes * 1e-3 / us[0], near,
           made);
    fflush(stdout);
    tern_free_aligned(j.data);
    free(packed);
}

static void print_shape(uint32_t rows, uint32_t cols, const cold_options *o)
{
    int8_t *codes = cold_codes(rows, cols);
    static const char *const levels[] = {"avx2", "avx512-vbmi", "neon-dotprod"};
    for (int i = 0; i < 3; i++) {
        uint32_t features;
        tern_cpu_kernels k;
        if (tern_cpu_features_parse(levels[i], tern_cpu_features(), &features, NULL) != TERN_OK) continue;
        tern_cpu_kernels_choose(features, &k);
        print((job){.name = "i2_s", .level = k.i2_s_level, .dot = k.i2_s}, rows, cols, codes, o);
        print((job){.name = "t160", .level = k.t160_level, .dot = k.t160}, rows, cols, codes, o);
        const job luts[] = {{.name = "lut:2", .level = k.lut2_level, .width = 2, .lut = k.lut2, .make = k.lut2_tables},
                            {.name = "lut:3", .level = k.lut3_level, .width = 3, .lut = k.lut3, .make = k.lut3_tables},
                            {.name = "lut:5", .level = k.lut5_level, .width = 5, .lut = k.lut5, .make = k.lut5_tables}};
        for (size_t w = 0; w < sizeof luts / sizeof *luts; w++)
            if (strcmp(luts[w].level, "scalar") != 0) print(luts[w], rows, cols, codes, o);
    }
    free(codes);
}

int main(int argc, char **argv)
{
    static const char *const no_tables[] = {NULL};
    static const uint32_t shapes[][2] = {{2560, 2560}, {6912, 2560}, {2560, 6912}, {4096, 14336}, {640, 2560}};
    cold_options o;
    cold_open(&o, argc, argv, no_tables, usage);
    for (size_t i = 0; i < sizeof x; i++) x[i] = (int8_t)(i * 37);
    printf("| shape | kernel | us, %u thread | us, %u threads | bits a weight | GB/s, %u thread | us, in cache | of it "
           "tables |\n|---|---|---|---|---|---|---|---|\n",
           o.n_threads[0], o.n_threads[1], o.n_threads[0]);
    for (size_t i = 0; i < (o.rows ? 1 : sizeof shapes / sizeof *shapes); i++)
        print_shape(o.rows ? o.rows : shapes[i][0], o.rows ? o.cols : shapes[i][1], &o);
    cold_close(&o);
    return 0;
}
