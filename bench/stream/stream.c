/* Clock, file and rates of the benchmarks that give shares of what the machine can do. */
#include "stream/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MAX_THREADS = 1024 };

double stream_seconds(uint32_t n_threads)
{
    struct timespec t;
    clock_gettime(n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double stream_best(tern_pool *pool, uint32_t n_tasks, tern_task_fn fn, void *context)
{
    const uint32_t n_threads = tern_pool_threads(pool);
    double best = 1e30;
    for (int i = 0; i < STREAM_REPEATS; i++) {
        const double start = stream_seconds(n_threads);
        tern_pool_for(pool, n_tasks, fn, context);
        const double taken = stream_seconds(n_threads) - start;
        if (taken < best) best = taken;
    }
    return best;
}

const uint8_t *stream_file(const void *piece)
{
    FILE *f = tmpfile();
    for (int i = 0; f && i <= STREAM_PIECES; i++)
        if (fwrite(piece, STREAM_PIECE, 1, f) != 1) f = NULL;
    void *map = MAP_FAILED;
    if (f && fflush(f) == 0)
        map = mmap(NULL, STREAM_BYTES + STREAM_PIECE, PROT_READ, MAP_SHARED | MAP_POPULATE, fileno(f), 0);
    if (map != MAP_FAILED) return map;
    perror("a scratch file of 640 MiB");
    exit(1);
}

typedef struct rate {
    const uint8_t *file;
    tern_cpu_peak_fn peak;
    volatile uint64_t seen[MAX_THREADS];
} rate;

/* Reads a piece as four streams, prefetched like the kernels do. */
static void read_task(void *context, uint32_t task, uint32_t thread)
{
    rate *r = context;
    const size_t stream = STREAM_PIECE / 4;
    const uint8_t *from = r->file + (size_t)task * STREAM_PIECE;
    uint64_t sums[8] = {0};
    for (size_t i = 0; i < stream; i += 64)
        for (size_t s = 0; s < 4; s++) {
            uint64_t line[8];
            memcpy(line, from + s * stream + i, sizeof line);
            __builtin_prefetch(from + s * stream + i + 3072);
            for (int k = 0; k < 8; k++) sums[k] += line[k];
        }
    for (int k = 0; k < 8; k++) r->seen[thread] += sums[k];
}

static void peak_task(void *context, uint32_t task, uint32_t thread)
{
    rate *r = context;
    (void)task;
    r->seen[thread] += r->peak(1000000);
}

double stream_read_rate(tern_pool *pool, const uint8_t *file)
{
    rate r = {.file = file};
    return (double)STREAM_BYTES / stream_best(pool, STREAM_PIECES, read_task, &r);
}

double stream_peak_rate(tern_pool *pool, tern_cpu_peak_fn peak)
{
    rate r = {.peak = peak};
    const uint32_t n = tern_pool_threads(pool) * 8;
    return peak ? (double)peak(0) * 1e6 * n / stream_best(pool, n, peak_task, &r) : 0;
}
