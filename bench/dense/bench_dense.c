/* How fast the float kernels are, as shares of what this machine can do in the same run.
 *
 * usage: bench_dense [SLOT [LEVEL [THREADS]]]
 *
 * One token: weights stream from a mapped file far larger than the caches; share of the read bandwidth of the same
 * file. More tokens: share of the f32 multiply-adds of a loop that touches registers only. Attention: decode is a share
 * of the bandwidth over a long cache, prefill a share of the multiply-adds. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/measure/peak.h"
#include "base/half.h"
#include "base/pool.h"
#include "base/rng.h"
#include "stream/stream.h"

enum { TOKENS = 512, ROWS_PER_TASK = 64, FEW_ROWS = 256, MAX_THREADS = 64, MAX_COLS = 6912, COLS = 2560, QUERIES = 64 };

static const struct encoding {
    const char *slot;
    uint32_t block_cols, block_bytes;
} encodings[] = {{"f32", 1, 4},      {"f16", 1, 2},      {"bf16", 1, 2},    {"q8_0", 32, 34},
                 {"q6_k", 256, 210}, {"q4_k", 256, 144}, {"q5_k", 256, 176}};

/* Everything a task needs; written before the threads start. */
typedef struct work {
    tern_pool *pool;
    const uint8_t *file;
    float *x, *y;
    tern_dense_fn dense;
    tern_attention_fn attention;
    uint32_t rows, cols, n, head_dim, n_queries;
    tern_dtype cache; /* of keys and values */
    size_t row_bytes;
    uint32_t pages[TERN_ATTENTION_CHUNK / TERN_PAGE_POSITIONS * 8], lo[QUERIES], hi[QUERIES];
} work;

static void dense_task(void *context, uint32_t task, uint32_t thread)
{
    const work *w = context;
    w->dense(w->file + (size_t)task * w->rows * w->row_bytes, w->row_bytes, w->rows, w->cols, w->x, w->cols, w->n,
             w->y + thread * ROWS_PER_TASK * TOKENS, w->rows);
}

static void bench_dense(work *w, const tern_cpu_kernel *k, const struct encoding *e, double read_rate)
{
    static const uint32_t tokens[] = {1, 2, 4, 8, TOKENS};
    const double peak = stream_peak_rate(w->pool, tern_cpu_fma_peak_of(k->level));
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        w->dense = (tern_dense_fn)k->fn;
        w->n = tokens[i];
        w->cols = COLS;
        w->row_bytes = (size_t)COLS / e->block_cols * e->block_bytes;
        w->rows = w->n > 8 ? ROWS_PER_TASK : FEW_ROWS;
        const uint32_t n_tasks = w->n > 8 ? 32 : (uint32_t)(STREAM_BYTES / (w->rows * w->row_bytes));
        const double taken = stream_best(w->pool, n_tasks, dense_task, w), rows = (double)n_tasks * w->rows;
        const double bytes = rows * (double)w->row_bytes / taken, products = rows * COLS * w->n / taken;
        printf("%-6s %-10s %u thr  n=%-4u  %6.1f GB/s %5.1f %% of %.1f   %6.1f GMAC/s %5.1f %% of %.0f\n", k->slot,
               k->level, tern_pool_threads(w->pool), w->n, bytes / 1e9, 100 * bytes / read_rate, read_rate / 1e9,
               products / 1e9, 100 * products / peak, peak / 1e9);
    }
}

/* One KV head over eight chunks: all its pages one after the other. */
static void attention_task(void *context, uint32_t task, uint32_t thread)
{
    const work *w = context;
    float m[QUERIES], l[QUERIES] = {0}, *acc = w->y + thread * ROWS_PER_TASK * TOKENS;
    const size_t page_bytes = tern_cache_bytes(w->cache, (size_t)TERN_PAGE_POSITIONS * w->head_dim);
    const size_t head = page_bytes * sizeof w->pages / sizeof *w->pages, n_heads = STREAM_BYTES / 2 / head;
    for (uint32_t i = 0; i < w->n_queries; i++) m[i] = -HUGE_VALF;
    memset(acc, 0, w->n_queries * w->head_dim * sizeof *acc);
    tern_attention_args a = {.q = w->x,
                             .q_stride = w->head_dim,
                             .n_queries = w->n_queries,
                             .head_dim = w->head_dim,
                             .k = w->file + task % n_heads * head,
                             .types = {w->cache, w->cache},
                             .k_page_bytes = page_bytes,
                             .v_page_bytes = page_bytes,
                             .pages = w->pages,
                             .lo = w->lo,
                             .hi = w->hi,
                             .n = TERN_ATTENTION_CHUNK,
                             .scale = 0.1f,
                             .m = m,
                             .l = l,
                             .acc = acc};
    a.v = a.k + STREAM_BYTES / 2;
    for (; a.first < 8 * TERN_ATTENTION_CHUNK; a.first += TERN_ATTENTION_CHUNK) w->attention(&a);
}

static void bench_attention(work *w, const tern_cpu_kernel *k, const tern_cache_type *type, double read_rate)
{
    static const uint32_t queries[] = {1, 4, 8, QUERIES};
    const double peak = stream_peak_rate(w->pool, tern_cpu_fma_peak_of(k->level));
    for (uint32_t head_dim = 64; head_dim <= 128; head_dim *= 2)
        for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
            w->attention = (tern_attention_fn)k->fn;
            w->cache = type->dtype;
            w->head_dim = head_dim;
            w->n_queries = queries[i];
            const size_t positions = 8 * TERN_ATTENTION_CHUNK,
                         bytes = tern_cache_bytes(type->dtype, positions * head_dim) * 2;
            const uint32_t n_tasks = w->n_queries > 8 ? 64 : (uint32_t)(STREAM_BYTES / bytes);
            const double taken = stream_best(w->pool, n_tasks, attention_task, w),
                         rate = (double)bytes * n_tasks / taken,
                         products = 2.0 * (double)positions * head_dim * w->n_queries * n_tasks / taken;
            printf("attention %-5s %-7s %u thr  head %3u, %2u queries  %6.1f GB/s %5.1f %% of %.1f   %6.1f GMAC/s "
                   "%5.1f %% of "
                   "%.0f\n",
                   type->name, k->level, tern_pool_threads(w->pool), head_dim, w->n_queries, rate / 1e9,
                   100 * rate / read_rate, read_rate / 1e9, products / 1e9, 100 * products / peak, peak / 1e9);
        }
}

/* One call over a row in the first cache. */
static void bench_row(work *w, const tern_cpu_kernel *k)
{
    enum { CALLS = 20000 };
    float inv;
    int32_t sum;
    double best = 1e30;
    for (int i = 0; i < STREAM_REPEATS; i++) {
        const double start = stream_seconds(1);
        for (int j = 0; j < CALLS; j++) {
            if (!strcmp(k->slot, "rms_norm")) ((tern_rms_norm_fn)k->fn)(w->x, w->x + COLS, 1e-5f, COLS, w->y);
            else if (!strcmp(k->slot, "quantize"))
                ((tern_quantize_fn)k->fn)(w->x, COLS, (int8_t *)w->y, COLS, &inv, &sum);
            else if (!strcmp(k->slot, "silu") || !strcmp(k->slot, "relu2") || !strcmp(k->slot, "add"))
                ((tern_gate_fn)k->fn)(w->x, w->x + COLS, COLS, w->y);
            else if (!strcmp(k->slot, "kv_store_f16")) ((tern_kv_store_fn)k->fn)(w->x, COLS, w->y);
            else ((tern_rope_fn)k->fn)(w->y, COLS / 128, 128, w->x);
        }
        const double taken = stream_seconds(1) - start;
        if (taken < best) best = taken;
    }
    printf("%-13s %-7s %u floats: %.0f ns\n", k->slot, k->level, (unsigned)COLS, best / CALLS * 1e9);
}

static void bench_kernel(work *w, const tern_cpu_kernel *k, double read_rate)
{
    static const char *const rows[] = {"rms_norm", "quantize",    "relu2",         "silu",
                                       "add",      "rope_halves", "rope_adjacent", "kv_store_f16"};
    for (size_t e = 0; e < sizeof encodings / sizeof *encodings; e++)
        if (!strcmp(k->slot, encodings[e].slot)) bench_dense(w, k, &encodings[e], read_rate);
    for (size_t i = 0; tern_cache_type_at(i) && !strcmp(k->slot, "attention"); i++)
        bench_attention(w, k, tern_cache_type_at(i), read_rate);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(k->slot, rows[i]) && tern_pool_threads(w->pool) == 1) bench_row(w, k);
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
    for (const tern_cpu_kernel *k = tern_cpu__kernels; k->slot; k++) {
        if ((features & k->needed) != k->needed) continue;
        if ((slot && strcmp(k->slot, slot)) || (level && strcmp(k->level, level))) continue;
        bench_kernel(w, k, read_rate);
    }
    tern_pool_close(w->pool);
}

/* f16 values of 1/8 .. 1 everywhere: normal numbers in every encoding. */
static const uint8_t *make_file(void)
{
    static uint16_t values[STREAM_PIECE / 2];
    tern_rng rng = {1};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = (uint16_t)(0x3000 | (tern_rng_u64(&rng) & 0x8bff));
    return stream_file(values);
}

int main(int argc, char **argv)
{
    static _Alignas(64) float x[TOKENS * MAX_COLS], y[MAX_THREADS * ROWS_PER_TASK * TOKENS];
    static work w;
    tern_rng rng = {2};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = tern_rng_f32(&rng) - 0.5f;
    w = (work){.file = make_file(), .x = x, .y = y};
    for (uint32_t i = 0; i < sizeof w.pages / sizeof *w.pages; i++)
        w.pages[i] = i * 37 % (sizeof w.pages / sizeof *w.pages);
    for (uint32_t i = 0; i < QUERIES; i++) w.hi[i] = UINT32_MAX;
    const char *slot = argc > 1 ? argv[1] : NULL, *level = argc > 2 ? argv[2] : NULL;
    const uint32_t only = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    for (uint32_t n = 1; n <= 2; n++)
        if (!only || only == n) bench_threads(&w, n, slot, level);
    return 0;
}
