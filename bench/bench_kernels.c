/* How fast the ternary kernels are, as shares of what this machine can do in the same run.
 *
 * usage: bench_kernels [SLOT [LEVEL [THREADS]]]
 *
 * One token: weights stream from a mapped file far larger than the caches; share of the read bandwidth of the same
 * file. 512 tokens: products of model shapes; share of the multiply-add rate of a loop that touches registers only. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/measure/peak.h"
#include "base/pool.h"
#include "base/rng.h"
#include "stream/stream.h"

enum { TOKENS = 512, ROWS_PER_TASK = 64, MAX_THREADS = 64, MAX_ROWS = 6912, MAX_COLS = 6912 };

static const struct encoding {
    const char *slot;
    uint32_t block_cols, block_bytes; /* a row of any width is near enough as whole blocks */
} encodings[] = {{"i2_s", 128, 32}, {"tq2_0", 256, 66}, {"tq1_0", 256, 54}, {"t160", 320, 64}};

/* Everything a task needs; written before the threads start. */
typedef struct work {
    tern_pool *pool;
    const uint8_t *file;
    const int8_t *x;
    int32_t *dots;
    tern_ternary_fn fn;
    uint32_t rows, cols;
    size_t row_bytes;
    tern_q8_rows tokens;
} work;

static void gemv_task(void *context, uint32_t task, uint32_t thread)
{
    const work *w = context;
    w->fn(w->file + (size_t)task * w->rows * w->row_bytes, w->row_bytes, w->rows, w->cols, &w->tokens,
          w->dots + thread * 1024, w->rows);
}

static void gemm_task(void *context, uint32_t task, uint32_t thread)
{
    const work *w = context;
    const uint32_t first = task * ROWS_PER_TASK, left = w->rows - first;
    (void)thread;
    w->fn(w->file + first * w->row_bytes, w->row_bytes, left < ROWS_PER_TASK ? left : ROWS_PER_TASK, w->cols,
          &w->tokens, w->dots + first, w->rows);
}

static void take_kernel(work *w, const tern_cpu_kernel *k, const struct encoding *e, uint32_t rows, uint32_t cols,
                        uint32_t n)
{
    w->fn = (tern_ternary_fn)k->fn;
    w->rows = rows;
    w->cols = cols / e->block_cols * e->block_cols;
    w->row_bytes = w->cols / e->block_cols * e->block_bytes;
    w->tokens.n = n;
}

static void bench_gemv(work *w, const tern_cpu_kernel *k, const struct encoding *e, double read_rate)
{
    static const uint32_t widths[] = {2560, 6912};
    for (size_t i = 0; i < 2; i++) {
        take_kernel(w, k, e, ROWS_PER_TASK, widths[i], 1);
        const uint32_t n_tasks = (uint32_t)(STREAM_BYTES / (w->rows * w->row_bytes));
        const double bytes = (double)n_tasks * w->rows * (double)w->row_bytes,
                     rate = bytes / stream_best(w->pool, n_tasks, gemv_task, w);
        const double weights = rate / (double)w->row_bytes * w->cols;
        printf("%-6s %-11s %u thr  n=1    %5u cols       %6.1f GB/s  %5.1f %% of %.1f  %6.1f Gweights/s\n", k->slot,
               k->level, tern_pool_threads(w->pool), w->cols, rate / 1e9, 100 * rate / read_rate, read_rate / 1e9,
               weights / 1e9);
    }
}

static void bench_gemm(work *w, const tern_cpu_kernel *k, const struct encoding *e)
{
    static const uint32_t shapes[][2] = {{2560, 2560}, {6912, 2560}, {2560, 6912}, {640, 2560}};
    const double peak = stream_peak_rate(w->pool, tern_cpu_peak_of(k->level));
    for (size_t i = 0; i < 4; i++) {
        take_kernel(w, k, e, shapes[i][0], shapes[i][1], TOKENS);
        const double products = (double)w->rows * w->cols * TOKENS;
        const double rate =
            products / stream_best(w->pool, (w->rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK, gemm_task, w);
        printf("%-6s %-11s %u thr  n=%u  %4u x %4u     %6.0f GMAC/s %5.1f %% of %.0f\n", k->slot, k->level,
               tern_pool_threads(w->pool), TOKENS, w->rows, w->cols, rate / 1e9, peak > 0 ? 100 * rate / peak : 0,
               peak / 1e9);
    }
}

static void bench_threads(work *w, uint32_t n_threads, const char *slot, const char *level)
{
    tern_error err = {0};
    const uint32_t features = tern_cpu_features();
    if (tern_pool_open(&w->pool, n_threads, false, &err)) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    const double read_rate = stream_read_rate(w->pool, w->file);
    for (const tern_cpu_kernel *k = tern_cpu__kernels; k->slot; k++)
        for (size_t e = 0; e < sizeof encodings / sizeof *encodings; e++) {
            if (strcmp(k->slot, encodings[e].slot) || (features & k->needed) != k->needed) continue;
            if ((slot && strcmp(k->slot, slot)) || (level && strcmp(k->level, level))) continue;
            bench_gemv(w, k, &encodings[e], read_rate);
            bench_gemm(w, k, &encodings[e]);
        }
    tern_pool_close(w->pool);
}

/* Random bytes without 11 fields, valid in every encoding. */
static const uint8_t *make_file(void)
{
    static uint8_t bytes[STREAM_PIECE];
    tern_rng rng = {1};
    for (size_t i = 0; i < sizeof bytes; i++) {
        const uint8_t b = (uint8_t)tern_rng_u64(&rng);
        bytes[i] = (uint8_t)(b & ~(b >> 1 & 0x55));
    }
    return stream_file(bytes);
}

int main(int argc, char **argv)
{
    static _Alignas(64) int8_t x[TOKENS * MAX_COLS];
    static int32_t dots[TOKENS * MAX_ROWS], sums[TOKENS];
    static work w;
    tern_rng rng = {2};
    for (size_t i = 0; i < sizeof x; i++) {
        x[i] = (int8_t)(tern_rng_u64(&rng) & 0xff);
        sums[i / MAX_COLS] += x[i];
    }
    w = (work){.file = make_file(), .x = x, .dots = dots, .tokens = {x, MAX_COLS, sums, 1}};
    const char *slot = argc > 1 ? argv[1] : NULL, *level = argc > 2 ? argv[2] : NULL;
    const uint32_t only = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    for (uint32_t n = 1; n <= 2; n++)
        if (!only || only == n) bench_threads(&w, n, slot, level);
    return 0;
}
