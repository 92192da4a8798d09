/* RSR beside the packed dot product: products of model shapes with weights that are not in any cache, each step from the algorithm to the
 * slices, what preprocessing takes, and what sharing an input among siblings saves. Prints the tables of docs/rsr.md.
 *
 * usage: bench_rsr [THREADS,THREADS] [PASSES] [ROWSxCOLS | siblings]
 *
 * Copies of a matrix fill COLD_BYTES, so that each is out of the caches when its turn comes again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/rsr_steps.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/pool.h"
#include "base/rng.h"
#include "quant/encoding.h"
#include "quant/rsr.h"

enum { MAX_THREADS = 64, TASKS = 64, MAX_ROWS = 1 << 15, MAX_COLS = 1 << 15, MAX_COPIES = 2000, MAX_PASSES = 50 };
static const size_t COLD_BYTES = (size_t)640 << 20;
static int passes = 5;

typedef struct matrix {
    uint32_t rows, cols;
    int8_t *codes;
} matrix;

/* One way to multiply: everything a task needs. */
typedef struct job job;
struct job {
    const char *name;
    void (*task)(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread); /* blocks or rows */
    uint32_t units;
    size_t bytes; /* of one copy */
    size_t n_copies, copy;
    tern_pool *pool;
    tern_cpu__rsr_step_i8 *i8;
    tern_cpu__rsr_step_f32 *f32;
    uint8_t *data;
    tern_rsr_groups *groups;
    tern_cpu__rsr_lists *lists;
    tern_rsr_slices *slices;
    tern_ternary_fn dot;
    uint32_t cols;
};

static tern_cpu_kernels kernels;
static _Alignas(64) int8_t x_i8[MAX_COLS + 128];
static _Alignas(64) float x_f32[MAX_COLS + 128];
static int32_t room[MAX_THREADS][MAX_COLS + 16], y_i8[MAX_THREADS][MAX_ROWS + 16];
static int32_t x_sum;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const tern_error *err)
{
    fprintf(stderr, "bench_rsr: %s\n", err->message);
    exit(1);
}

static matrix make(uint32_t rows, uint32_t cols)
{
    matrix m = {rows, cols, malloc((size_t)rows * cols)};
    tern_rng rng = {.state = rows + 31 * cols};
    for (size_t i = 0; i < (size_t)rows * cols; i++) m.codes[i] = (int8_t)((int)tern_rng_below(&rng, 3) - 1);
    return m;
}

static tern_status read_rows(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    (void)err;
    const matrix *m = context;
    memcpy(codes, m->codes + (size_t)first * m->cols, (size_t)n * m->cols);
    return TERN_OK;
}

static void run_task(void *context, uint32_t task, uint32_t thread)
{
    const job *j = context;
    const uint32_t per = (j->units + TASKS - 1) / TASKS, first = task * per;
    if (first < j->units) j->task(j, j->copy, first, j->units - first < per ? j->units - first : per, thread);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Microseconds of one product: the fastest fiftieth ends there, as other programs may run beside this one. */
static double measure(job *j)
{
    static double times[MAX_PASSES * MAX_COPIES];
    size_t n = 0;
    for (int pass = 0; pass < passes; pass++)
        for (j->copy = 0; j->copy < j->n_copies; j->copy++) {
            const double start = seconds();
            tern_pool_for(j->pool, TASKS, run_task, j);
            times[n++] = seconds() - start;
        }
    qsort(times, n, sizeof *times, by_value);
    return times[n / 50] * 1e6;
}

static size_t copies_of(size_t bytes)
{
    const size_t n = COLD_BYTES / bytes + 1;
    return n < MAX_COPIES ? n : MAX_COPIES;
}

static void *many(const void *data, size_t bytes, size_t n)
{
    uint8_t *all = tern_alloc_aligned(bytes * n, 4096);
    if (!all) exit(1);
    for (size_t i = 0; i < n; i++) memcpy(all + i * bytes, data, bytes);
    return all;
}

/* ---- slices and dot products */

static void slices_task(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread)
{
    const tern_rsr_slices *s = j->slices;
    const ptrdiff_t at = (ptrdiff_t)(copy * j->bytes);
    const uint8_t *base = j->data + at;
#define MOVED(p) (const void *)(base + ((const uint8_t *)(p)-s->bytes))
    for (uint32_t u = first; u < first + n; u++) {
        const tern_rsr_unit unit = {.steps = MOVED(s->steps + s->first_slice[u]), .masks = MOVED(s->masks + (size_t)s->first_slice[u] * 2 * s->k),
                                    .index = MOVED(s->index + (size_t)s->first_vector[u] * 16),
                                    .n_slices = s->first_slice[u + 1] - s->first_slice[u], .k = s->k};
        if (j->f32) kernels.rsr_f32(&unit, x_f32, (float *)(void *)(y_i8[thread] + u * s->k));
        else kernels.rsr_i8(&unit, x_i8, y_i8[thread] + u * s->k);
    }
#undef MOVED
}

static double time_slices(const matrix *m, uint32_t k, bool floats, tern_pool *pool, size_t *bytes)
{
    tern_rsr_slices s;
    tern_error err = {0};
    const tern_rsr_source source = {.read = read_rows, .context = (void *)(uintptr_t)m, .rows = m->rows, .cols = m->cols};
    if (tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = k, .pool = pool}, 0, &err) != TERN_OK) die(&err);
    job j = {.task = slices_task, .units = s.n_blocks, .bytes = s.n_bytes, .n_copies = copies_of(s.n_bytes), .pool = pool, .slices = &s,
             .f32 = floats ? tern_cpu__rsr_masks_f32 : NULL};
    j.data = many(s.bytes, s.n_bytes, j.n_copies);
    const double us = measure(&j);
    *bytes = s.n_bytes;
    tern_free_aligned(j.data);
    tern_rsr_slices_deinit(&s);
    return us;
}

static void dot_task(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread)
{
    const size_t row_bytes = j->bytes / (j->units * 16);
    const tern_q8_rows x = {.x = x_i8, .stride = MAX_COLS, .sums = &x_sum, .n = 1};
    j->dot(j->data + copy * j->bytes + first * 16 * row_bytes, row_bytes, n * 16, j->cols, &x, y_i8[thread], n * 16);
}

static double time_dot(const matrix *m, const char *encoding, tern_ternary_fn fn,
                       void (*task)(const job *, size_t, uint32_t, uint32_t, uint32_t), tern_pool *pool, size_t *bytes)
{
    const tern_encoding *e = tern_encoding_by_name(encoding);
    tern_error err = {0};
    size_t row_bytes, all;
    if (tern_encoding_row_bytes(e, m->cols, &row_bytes, &err) != TERN_OK) return 0;
    if (tern_encoding_bytes(e, m->rows, m->cols, &all, &err) != TERN_OK) die(&err);
    uint8_t *packed = malloc(all);
    if (tern_encode_codes(e, m->codes, 1.0f, m->rows, m->cols, packed, &err) != TERN_OK) die(&err);
    job j = {.task = task, .units = m->rows / 16, .bytes = row_bytes * m->rows, .pool = pool, .dot = fn, .cols = m->cols};
    j.n_copies = copies_of(j.bytes);
    j.data = many(packed, j.bytes, j.n_copies);
    const double us = measure(&j);
    *bytes = j.bytes;
    tern_free_aligned(j.data);
    free(packed);
    return us;
}

/* ---- steps on groups */

static void groups_task(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread)
{
    for (uint32_t u = first; u < first + n; u++) {
        const tern_cpu__rsr_block b = tern_cpu__rsr_block_of(&j->groups[copy], j->lists ? &j->lists[copy] : NULL, u);
        int32_t *y = y_i8[thread] + u * j->groups->k;
        if (j->f32) j->f32(&b, x_f32, (float *)(void *)room[thread], (float *)(void *)y);
        else j->i8(&b, x_i8, room[thread], y);
    }
}

static void shuffle_groups(tern_rsr_groups *g)
{
    tern_rng rng = {.state = 3};
    for (uint32_t u = 0; u < g->n_blocks; u++)
        for (uint32_t i = g->first_group[u], at = 0; i < g->first_group[u + 1]; at = g->groups[i++].end)
            for (uint32_t c = at; c < g->groups[i].end; c++) {
                uint16_t *perm = g->perm + g->first_column[u];
                const uint32_t other = at + tern_rng_below(&rng, g->groups[i].end - at);
                const uint16_t swap = perm[c];
                perm[c] = perm[other];
                perm[other] = swap;
            }
}

typedef struct forms {
    tern_rsr_groups groups[MAX_COPIES];
    tern_cpu__rsr_lists lists[MAX_COPIES];
    size_t n;
    bool with_lists;
} forms;

static void *dup(const void *p, size_t n)
{
    void *q = tern_alloc(n + 64);
    if (!q) exit(1);
    return memcpy(q, p, n);
}

/* Copies of the arrays that a step reads; where units begin is shared. */
static void open_forms(forms *f, const tern_rsr_groups *g, const tern_cpu__rsr_lists *l, size_t n)
{
    const size_t columns = g->first_column[g->n_blocks], groups = g->first_group[g->n_blocks];
    f->n = n;
    f->with_lists = l != NULL;
    for (size_t i = 0; i < n; i++) {
        f->groups[i] = *g;
        f->groups[i].perm = dup(g->perm, columns * 2);
        f->groups[i].groups = dup(g->groups, groups * sizeof *g->groups);
        if (!l) continue;
        f->lists[i] = (tern_cpu__rsr_lists){dup(l->perm, columns * 4), dup(l->ends, groups * 4), dup(l->first_row, (groups + 1) * 4),
                                            dup(l->rows, l->first_row[groups] * 2), dup(l->signs, l->first_row[groups])};
    }
}

static void close_forms(forms *f)
{
    for (size_t i = 0; i < f->n; i++) {
        tern_free(f->groups[i].perm);
        tern_free(f->groups[i].groups);
        if (f->with_lists) tern_cpu__rsr_lists_deinit(&f->lists[i]);
    }
}

static void print_step(const char *words, job *j, tern_pool *const pools[2])
{
    printf("| %s |", words);
    for (int p = 0; p < 2; p++) {
        j->pool = pools[p];
        printf(" %.0f |", measure(j));
        fflush(stdout);
    }
    printf(" %.1f |\n", (double)j->bytes * 1e-6);
}

static void print_steps(const matrix *m, uint32_t k, bool floats, tern_pool *const pools[2])
{
    static forms f;
    tern_rsr_groups g;
    tern_cpu__rsr_lists l;
    tern_error err = {0};
    const tern_rsr_source source = {.read = read_rows, .context = (void *)(uintptr_t)m, .rows = m->rows, .cols = m->cols};
    if (tern_rsr_groups_build(&g, &source, &(tern_rsr_options){.k = k, .pool = pools[1]}, &err) != TERN_OK) die(&err);
    if (tern_cpu__rsr_lists_make(&l, &g, &err) != TERN_OK) die(&err);
    const size_t columns = g.first_column[g.n_blocks], groups = g.first_group[g.n_blocks], entries = l.first_row[groups];
    const size_t narrow = columns * 2 + groups * sizeof *g.groups, wide = columns * 4 + groups * 8 + entries * 3;
    printf("\n%u x %u, k %u, %s inputs\n\n| step | us, %u thread | us, %u threads | MB |\n|---|---|---|---|\n", m->rows, m->cols, k,
           floats ? "f32" : "int8", tern_pool_threads(pools[0]), tern_pool_threads(pools[1]));
    open_forms(&f, &g, &l, copies_of(wide));
    job j = {.task = groups_task, .units = g.n_blocks, .groups = f.groups, .lists = f.lists, .n_copies = f.n};
#define STEP(step, words, size)                                                                                                  \
    j.i8 = tern_cpu__rsr_##step##_i8, j.f32 = floats ? tern_cpu__rsr_##step##_f32 : NULL, j.bytes = (size);                      \
    print_step(words, &j, pools);
    STEP(lists, "signed scatter lists, 32-bit numbers", wide)
    STEP(lists16, "16-bit columns, groups of up to 4 without a loop", columns * 2 + groups * 6 + entries * 3)
    close_forms(&f);
    open_forms(&f, &g, NULL, copies_of(narrow));
    j.lists = NULL, j.n_copies = f.n;
    for (size_t i = 0; i < f.n; i++) shuffle_groups(&f.groups[i]);
    STEP(masks, "two 16-bit masks for each group, columns in any order", narrow)
    close_forms(&f);
    open_forms(&f, &g, NULL, copies_of(narrow));
    STEP(masks, "columns ascending in each group", narrow)
    STEP(permuted, "inputs copied in the order of the columns, then summed", narrow)
    STEP(direct, "no copy: loads unrolled by 8, prefetched", narrow)
    j.i8 = tern_cpu__rsr_gather_i8(tern_cpu_features());
    j.f32 = floats ? tern_cpu__rsr_gather_f32(tern_cpu_features()) : NULL;
    if (j.i8) print_step("SIMD gathers in each group", &j, pools);
#undef STEP
    close_forms(&f);
    tern_cpu__rsr_lists_deinit(&l);
    tern_rsr_groups_deinit(&g);
    size_t bytes = 0;
    double us[2];
    for (int p = 0; p < 2; p++) us[p] = time_slices(m, k, floats, pools[p], &bytes);
    printf("| 16 groups of like length side by side (slices) | %.0f | %.0f | %.1f |\n", us[0], us[1], (double)bytes * 1e-6);
}

/* ---- the other tables */

static void print_shape(const matrix *m, tern_pool *const pools[2])
{
    static const char *const names[] = {"i2_s", "tq2_0", "t160"};
    const tern_ternary_fn fns[] = {kernels.i2_s, kernels.tq2_0, kernels.t160};
    const double n = (double)m->rows * m->cols;
    for (int i = 0; i < 3; i++) {
        size_t bytes = 0;
        const double a = time_dot(m, names[i], fns[i], dot_task, pools[0], &bytes), b = time_dot(m, names[i], fns[i], dot_task, pools[1], &bytes);
        if (bytes)
            printf("| %u x %u | dot, %s (%s) | %.0f | %.0f | %.2f | %.3f |\n", m->rows, m->cols, names[i],
                   i == 0 ? kernels.i2_s_level : i == 1 ? kernels.tq2_0_level : kernels.t160_level, a, b, 8.0 * (double)bytes / n, 1.0);
        fflush(stdout);
    }
    for (uint32_t k = 3; k <= 8; k++) {
        size_t bytes = 0;
        const double a = time_slices(m, k, false, pools[0], &bytes), b = time_slices(m, k, false, pools[1], &bytes);
        printf("| %u x %u | rsr, k %u (%s) | %.0f | %.0f | %.2f | %.3f |\n", m->rows, m->cols, k, kernels.rsr_i8_level, a, b,
               8.0 * (double)bytes / n, 1.0 / k);
        fflush(stdout);
    }
}

/* f32 inputs (W1.58A32): rows decoded and multiplied as f32, as the engine does it, beside RSR. */
static void decoded_task(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread)
{
    enum { ROWS = 8 };
    static float values[MAX_THREADS][ROWS * MAX_COLS];
    const size_t row_bytes = j->bytes / (j->units * 16), stride = (j->cols + 255) / 256 * 256;
    for (uint32_t r = first * 16; r < (first + n) * 16; r += ROWS) {
        kernels.decode_i2_s(j->data + copy * j->bytes + r * row_bytes, row_bytes, ROWS, j->cols, values[thread], stride);
        kernels.f32((const uint8_t *)values[thread], stride * sizeof(float), ROWS, j->cols, x_f32, MAX_COLS, 1,
                    (float *)(void *)y_i8[thread], ROWS);
    }
}

/* The same products with less of the CPU, and with f32 inputs; one thread. */
static void print_levels(const matrix *m, tern_pool *const pools[2])
{
    static const char *const levels[] = {"scalar", "avx2", "avx512-vnni"};
    uint32_t features;
    size_t bytes = 0;
    printf("\n| %u x %u | dot, int8, us | rsr k 4 | rsr k 5 | rsr k 6 | dot, f32, us | rsr k 4 | rsr k 5 | rsr k 6 |\n|---|---|---|---|---|---|---|---|---|\n",
           m->rows, m->cols);
    for (int i = 0; i < 3; i++) {
        if (tern_cpu_features_parse(levels[i], tern_cpu_features(), &features, NULL) != TERN_OK) continue;
        tern_cpu_kernels_choose(features, &kernels);
        printf("| %s | %.0f |", levels[i], time_dot(m, "i2_s", kernels.i2_s, dot_task, pools[0], &bytes));
        for (uint32_t k = 4; k <= 6; k++) printf(" %.0f |", time_slices(m, k, false, pools[0], &bytes));
        printf(" %.0f |", time_dot(m, "i2_s", kernels.i2_s, decoded_task, pools[0], &bytes));
        for (uint32_t k = 4; k <= 6; k++) printf(" %.0f |", time_slices(m, k, true, pools[0], &bytes));
        puts("");
        fflush(stdout);
    }
    tern_cpu_kernels_choose(tern_cpu_features(), &kernels);
}

static double time_build(const matrix *m, uint32_t k, tern_rsr_sort sort, tern_pool *pool)
{
    tern_rsr_slices s;
    tern_error err = {0};
    const tern_rsr_source source = {.read = read_rows, .context = (void *)(uintptr_t)m, .rows = m->rows, .cols = m->cols};
    const double start = seconds();
    if (tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = k, .sort = sort, .pool = pool}, 0, &err) != TERN_OK) return 0;
    const double taken = seconds() - start;
    tern_rsr_slices_deinit(&s);
    return taken * 1e3;
}

static double time_comparison(const matrix *m, uint32_t k)
{
    int32_t *x = calloc(m->cols, sizeof *x);
    int64_t *y = calloc(m->rows, sizeof *y);
    tern_error err = {0};
    const double start = seconds();
    if (tern_ref_rsr_sorted(m->codes, m->rows, m->cols, k, x, y, &err) != TERN_OK) die(&err);
    const double taken = seconds() - start;
    free(x);
    free(y);
    return taken * 1e3;
}

static void print_sorts(const matrix *m, tern_pool *const pools[2])
{
    printf("\n| sorting %u x %u, ms | comparison, 1 thread | counting, %u | radix, %u | the one chosen, %u |\n|---|---|---|---|---|\n", m->rows,
           m->cols, tern_pool_threads(pools[0]), tern_pool_threads(pools[0]), tern_pool_threads(pools[1]));
    for (uint32_t k = 4; k <= 16; k += 2) {
        const double counting = k <= TERN_RSR_MAX_COUNTING_K ? time_build(m, k, TERN_RSR_SORT_COUNTING, pools[0]) : 0;
        printf("| k %u | %.0f | %.0f | %.0f | %.0f |\n", k, time_comparison(m, k), counting, time_build(m, k, TERN_RSR_SORT_RADIX, pools[0]),
               time_build(m, k, TERN_RSR_SORT_AUTO, pools[1]));
        fflush(stdout);
    }
}

/* ---- layers that share an input */

typedef struct siblings {
    job jobs[3];
    uint32_t n;
} siblings;

/* Task t of all layers together: TASKS of each. */
static void sibling_task(void *context, uint32_t task, uint32_t thread)
{
    const siblings *s = context;
    run_task((void *)(uintptr_t)&s->jobs[task / TASKS], task % TASKS, thread);
}

enum sharing { NOTHING, INPUT, INPUT_AND_POOL };

static void run_siblings(siblings *s, tern_pool *pool, uint32_t cols, enum sharing sharing)
{
    static float scale;
    for (uint32_t i = 0; i < s->n; i++) {
        if (i == 0 || sharing == NOTHING) kernels.quantize(x_f32, cols, x_i8, (cols + 127u) / 128 * 128, &scale, &x_sum);
        if (sharing != INPUT_AND_POOL) tern_pool_for(pool, TASKS, run_task, &s->jobs[i]);
    }
    if (sharing == INPUT_AND_POOL) tern_pool_for(pool, TASKS * s->n, sibling_task, s);
}

static double time_siblings(siblings *s, tern_pool *pool, uint32_t cols, enum sharing sharing)
{
    static double times[MAX_PASSES * MAX_COPIES];
    size_t n = 0;
    for (int pass = 0; pass < passes; pass++)
        for (size_t copy = 0; copy < s->jobs[0].n_copies; copy++) {
            for (uint32_t i = 0; i < s->n; i++) s->jobs[i].copy = copy;
            const double start = seconds();
            run_siblings(s, pool, cols, sharing);
            times[n++] = seconds() - start;
        }
    qsort(times, n, sizeof *times, by_value);
    return times[n / 50] * 1e6;
}

static void print_siblings(const char *name, const uint32_t *rows, uint32_t n, uint32_t cols, tern_pool *const pools[2])
{
    static const char *const words[] = {"an input and a call for each", "one input, a call for each", "one input, one pool of blocks"};
    siblings s = {.n = n};
    tern_rsr_slices slices[3];
    matrix m[3];
    tern_error err = {0};
    size_t all = 0;
    for (uint32_t i = 0; i < n; i++) {
        m[i] = make(rows[i], cols);
        const tern_rsr_source source = {.read = read_rows, .context = &m[i], .rows = rows[i], .cols = cols};
        if (tern_rsr_slices_build(&slices[i], &source, &(tern_rsr_options){.k = 6, .pool = pools[1]}, 0, &err) != TERN_OK) die(&err);
        all += slices[i].n_bytes;
    }
    for (uint32_t i = 0; i < n; i++) {
        s.jobs[i] = (job){.task = slices_task, .units = slices[i].n_blocks, .bytes = slices[i].n_bytes, .n_copies = copies_of(all), .slices = &slices[i]};
        s.jobs[i].data = many(slices[i].bytes, slices[i].n_bytes, s.jobs[i].n_copies);
    }
    for (int sharing = NOTHING; sharing <= INPUT_AND_POOL; sharing++)
        printf("| %s | %s | %.0f | %.0f |\n", name, words[sharing], time_siblings(&s, pools[0], cols, (enum sharing)sharing),
               time_siblings(&s, pools[1], cols, (enum sharing)sharing));
    fflush(stdout);
    for (uint32_t i = 0; i < n; i++) {
        tern_free_aligned(s.jobs[i].data);
        tern_rsr_slices_deinit(&slices[i]);
        free(m[i].codes);
    }
}

int main(int argc, char **argv)
{
    static const uint32_t shapes[][2] = {{2560, 2560}, {640, 2560}, {6912, 2560}, {2560, 6912}, {4096, 14336}};
    uint32_t threads[2] = {1, 2}, rows = 0, cols = 0;
    tern_pool *pools[2];
    tern_error err = {0};
    if (argc > 1 && sscanf(argv[1], "%u,%u", &threads[0], &threads[1]) != 2) return 2;
    if (argc > 2) passes = atoi(argv[2]);
    if (passes < 1 || passes > MAX_PASSES) return 2;
    const bool only_siblings = argc > 3 && !strcmp(argv[3], "siblings");
    if (argc > 3 && !only_siblings && sscanf(argv[3], "%ux%u", &rows, &cols) != 2) return 2;
    for (int p = 0; p < 2; p++)
        if (tern_pool_open(&pools[p], threads[p], false, &err) != TERN_OK) die(&err);
    tern_cpu_kernels_choose(tern_cpu_features(), &kernels);
    for (int i = 0; i < MAX_COLS; i++) x_f32[i] = (float)(x_i8[i] = (int8_t)(i * 37));
    printf("| shape | kernel | us, %u thread | us, %u threads | bits a weight | additions a weight |\n|---|---|---|---|---|---|\n", threads[0], threads[1]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !only_siblings; i++) {
        if (rows && (rows != shapes[i][0] || cols != shapes[i][1])) continue;
        matrix m = make(shapes[i][0], shapes[i][1]);
        print_shape(&m, pools);
        free(m.codes);
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !only_siblings; i++) {
        if (rows ? rows != shapes[i][0] || cols != shapes[i][1] : i != 0 && i != 3) continue;
        matrix m = make(shapes[i][0], shapes[i][1]);
        print_steps(&m, 4, true, pools);
        print_steps(&m, 4, false, pools);
        print_steps(&m, 6, false, pools);
        print_levels(&m, pools);
        print_sorts(&m, pools);
        free(m.codes);
    }
    if (!rows) {
        printf("\n| layers, k 6 | what they share | us, %u thread | us, %u threads |\n|---|---|---|---|\n", threads[0], threads[1]);
        print_siblings("q, k, v", (const uint32_t[]){2560, 640, 640}, 3, 2560, pools);
        print_siblings("gate, up", (const uint32_t[]){6912, 6912}, 2, 2560, pools);
    }
    for (int p = 0; p < 2; p++) tern_pool_close(pools[p]);
    return 0;
}
