/* Look-up kernels beside dot products: products of model shapes with weights that are not in any cache. Prints the
 * tables of docs/lut.md.
 *
 * usage: bench_lut [THREADS,THREADS] [PASSES] [ROWSxCOLS]
 *
 * Copies of a matrix fill COLD_BYTES, so that each is out of the caches when its turn comes again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/kernels.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/pool.h"
#include "base/rng.h"
#include "quant/encoding.h"

enum { MAX_THREADS = 64, MAX_COLS = 1 << 15, MAX_COPIES = 2000, MAX_PASSES = 100, DOT_TASKS = 64 };
static const size_t COLD_BYTES = (size_t)640 << 20;

/* One way to multiply a matrix. */
typedef struct job {
    const char *name, *level;
    uint32_t width; /* of look-ups; 0: a dot product */
    tern_ternary_fn dot;
    tern_lut_fn lut;
    tern_lut_tables_fn make;
    uint32_t rows, cols;
    uint8_t *data;
    size_t bytes, row_bytes, n_copies, copy; /* row_bytes: of a dot product */
} job;

static _Alignas(64) int8_t x[MAX_COLS];
static struct {
    _Alignas(64) int8_t tables[MAX_COLS / 5 * TERN_LUT5_TABLE + 4 * TERN_LUT5_TABLE];
    size_t product; /* whose they are */
} own[MAX_THREADS];
static size_t n_products;
static _Alignas(64) int32_t y[MAX_THREADS][1 << 15];
static double times[MAX_PASSES * MAX_COPIES];
static int32_t x_sum;
static int passes = 10;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(tern_status status, const tern_error *err)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "bench_lut: %s\n", err->message);
    exit(1);
}

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
    const tern_q8_rows in = {.x = x, .stride = MAX_COLS, .sums = &x_sum, .n = 1};
    j->dot(j->data + j->copy * j->bytes + task * n * j->row_bytes, j->row_bytes, n, j->cols, &in, y[thread], n);
}

static void run(job *j, tern_pool *pool)
{
    if (j->width == 0) {
        tern_pool_for(pool, DOT_TASKS, dot_task, j);
        return;
    }
    n_products++;
    tern_pool_for(pool, (j->rows + TERN_LUT_ROWS - 1) / TERN_LUT_ROWS, strip_task, j);
}

static int by_value(const void *a, const void *b)
{
    const double p = *(const double *)a, q = *(const double *)b;
    return p < q ? -1 : p > q;
}

/* Microseconds that the fastest fiftieth of n stays below: other programs may run beside this one. */
static double fast(size_t n)
{
    qsort(times, n, sizeof *times, by_value);
    return times[n / 50] * 1e6;
}

static double measure(job *j, tern_pool *pool)
{
    size_t n = 0;
    for (int pass = 0; pass < passes; pass++)
        for (j->copy = 0; j->copy < j->n_copies; j->copy++) {
            const double start = seconds();
            run(j, pool);
            times[n++] = seconds() - start;
        }
    return fast(n);
}

static double measure_tables(const job *j)
{
    if (j->width == 0) return 0;
    for (int i = 0; i < 1000; i++) {
        const double start = seconds();
        j->make(x, j->cols, own[0].tables);
        times[i] = seconds() - start;
    }
    return fast(1000);
}

/* The same copy over and over: what is left when the weights are near. */
static double measure_near(job *j, tern_pool *pool)
{
    j->copy = 0;
    for (int i = 0; i < 1000; i++) {
        const double start = seconds();
        run(j, pool);
        times[i] = seconds() - start;
    }
    return fast(1000);
}

static uint8_t *pack(job *j, const int8_t *codes)
{
    tern_error err = {0};
    if (j->width == 0) {
        const tern_encoding *e = tern_encoding_by_name(j->name);
        size_t all;
        check(tern_encoding_row_bytes(e, j->cols, &j->row_bytes, &err), &err);
        check(tern_encoding_bytes(e, j->rows, j->cols, &all, &err), &err);
        uint8_t *packed = malloc(all);
        check(tern_encode_codes(e, codes, 1.0f, j->rows, j->cols, packed, &err), &err);
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

static void print(job j, uint32_t rows, uint32_t cols, const int8_t *codes, tern_pool *const pools[2])
{
    j.rows = rows;
    j.cols = cols;
    uint8_t *packed = pack(&j, codes);
    j.n_copies = COLD_BYTES / j.bytes + 1 < MAX_COPIES ? COLD_BYTES / j.bytes + 1 : MAX_COPIES;
    j.data = tern_alloc_aligned(j.bytes * j.n_copies, 4096);
    if (!j.data) exit(1);
    for (size_t i = 0; i < j.n_copies; i++) memcpy(j.data + i * j.bytes, packed, j.bytes);
    const double one = measure(&j, pools[0]), two = measure(&j, pools[1]);
    const double near = measure_near(&j, pools[0]), made = measure_tables(&j);
    printf("| %u x %u | %s%s (%s) | %.0f | %.0f | %.2f | %.1f | %.0f | %.1f |\n", rows, cols, j.width ? "" : "dot, ",
           j.name, j.level, one, two, 8.0 * (double)j.bytes / rows / cols, (double)j.bytes * 1e-3 / one, near, made);
    fflush(stdout);
    tern_free_aligned(j.data);
    free(packed);
}

static void print_shape(uint32_t rows, uint32_t cols, tern_pool *const pools[2])
{
    int8_t *codes = malloc((size_t)rows * cols);
    tern_rng rng = {.state = rows + 31 * cols};
    for (size_t i = 0; i < (size_t)rows * cols; i++) codes[i] = (int8_t)((int)tern_rng_below(&rng, 3) - 1);
    static const char *const levels[] = {"avx2", "avx512-vbmi", "neon-dotprod"};
    for (int i = 0; i < 3; i++) {
        uint32_t features;
        tern_cpu_kernels k;
        if (tern_cpu_features_parse(levels[i], tern_cpu_features(), &features, NULL) != TERN_OK) continue;
        tern_cpu_kernels_choose(features, &k);
        print((job){.name = "i2_s", .level = k.i2_s_level, .dot = k.i2_s}, rows, cols, codes, pools);
        print((job){.name = "t160", .level = k.t160_level, .dot = k.t160}, rows, cols, codes, pools);
        print((job){.name = "lut:2", .level = k.lut2_level, .width = 2, .lut = k.lut2, .make = k.lut2_tables}, rows,
              cols, codes, pools);
        if (strcmp(k.lut5_level, "scalar") != 0)
            print((job){.name = "lut:5", .level = k.lut5_level, .width = 5, .lut = k.lut5, .make = k.lut5_tables}, rows,
                  cols, codes, pools);
    }
    free(codes);
}

int main(int argc, char **argv)
{
    static const uint32_t shapes[][2] = {{2560, 2560}, {6912, 2560}, {2560, 6912}, {4096, 14336}, {640, 2560}};
    uint32_t threads[2] = {1, 2}, rows = 0, cols = 0;
    tern_pool *pools[2];
    tern_error err = {0};
    if (argc > 1 && sscanf(argv[1], "%u,%u", &threads[0], &threads[1]) != 2) return 2;
    if (argc > 2) passes = atoi(argv[2]);
    if (passes < 1 || passes > MAX_PASSES) return 2;
    if (argc > 3 && sscanf(argv[3], "%ux%u", &rows, &cols) != 2) return 2;
    if (rows % DOT_TASKS || rows > 1 << 15 || cols > MAX_COLS - 320 || cols % 128) return 2;
    for (int p = 0; p < 2; p++) check(tern_pool_open(&pools[p], threads[p], false, &err), &err);
    for (int i = 0; i < MAX_COLS; i++) x[i] = (int8_t)(i * 37);
    printf("| shape | kernel | us, %u thread | us, %u threads | bits a weight | GB/s, %u thread | us, in cache | of it "
           "tables |\n|---|---|---|---|---|---|---|---|\n",
           threads[0], threads[1], threads[0]);
    for (size_t i = 0; i < (rows ? 1 : sizeof shapes / sizeof *shapes); i++)
        print_shape(rows ? rows : shapes[i][0], rows ? cols : shapes[i][1], pools);
    for (int p = 0; p < 2; p++) tern_pool_close(pools[p]);
    return 0;
}
