/* Measuring how fast memory can be read, and numbers multiplied. */
#include "backend/cpu/measure/measure.h"

#include <string.h>
#include <time.h>

#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/measure/peak.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/pool.h"

enum { PIECE = 1 << 20, STREAMS = 4, AHEAD = 2048 };
static const size_t least_bytes = (size_t)256 << 20;

typedef struct reading {
    tern_span *pieces; /* at most PIECE bytes each */
    size_t n, cap;
    _Atomic uint64_t seen; /* keeps the loads from being left out */
} reading;

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Several places at once, so that more lines are under way than one stream of loads would ask for. */
static uint64_t read_piece(const uint8_t *p, size_t bytes)
{
    const size_t part = bytes / STREAMS / 64 * 64;
    uint64_t sums[STREAMS][8] = {0};
    for (size_t at = 0; at < part; at += 64)
        for (int s = 0; s < STREAMS; s++) {
            uint64_t line[8];
            const uint8_t *from = p + (size_t)s * part + at;
            __builtin_prefetch(from + AHEAD);
            memcpy(line, from, sizeof line);
            for (int i = 0; i < 8; i++) sums[s][i] += line[i];
        }
    for (int s = 1; s < STREAMS; s++)
        for (int i = 0; i < 8; i++) sums[0][i] ^= sums[s][i];
    for (int i = 1; i < 8; i++) sums[0][0] ^= sums[0][i];
    return sums[0][0];
}

static void read_task(void *context, uint32_t task, uint32_t thread)
{
    reading *r = context;
    (void)thread;
    r->seen ^= read_piece(r->pieces[task].data, r->pieces[task].size);
}

static tern_status add_region(reading *r, tern_span region, tern_error *err)
{
    for (size_t at = 0; at < region.size; at += PIECE) {
        void *pieces = r->pieces;
        TERN_TRY(tern_grow(&pieces, &r->cap, r->n + 1, sizeof *r->pieces, err));
        r->pieces = pieces;
        r->pieces[r->n++] = (tern_span){region.data + at, region.size - at < PIECE ? region.size - at : PIECE};
    }
    return TERN_OK;
}

static double best_pass(tern_pool *pool, reading *r, double seconds)
{
    const double begun = seconds_now();
    double best = 0, bytes = 0;
    for (size_t i = 0; i < r->n; i++) bytes += (double)r->pieces[i].size;
    for (int pass = 0; pass < 2 || seconds_now() - begun < seconds; pass++) {
        const double start = seconds_now();
        tern_pool_for(pool, (uint32_t)r->n, read_task, r);
        const double rate = bytes / (seconds_now() - start);
        if (rate > best) best = rate;
    }
    return best;
}

static double measure_read(tern_cpu *cpu, tern_buffer *const *buffers, size_t n, double seconds)
{
    reading r = {0};
    tern_error err;
    tern_buffer large = {.bytes = least_bytes}, *own = &large;
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) total += buffers[i]->bytes;
    if (total < least_bytes) {
        large.data = tern_alloc_aligned(least_bytes, 64);
        if (!large.data) return 0;
        memset(large.data, 1, least_bytes); /* pages that were never written share one page of zeros */
        buffers = &own;
        n = 1;
    }
    tern_status status = TERN_OK;
    for (size_t i = 0; i < n && status == TERN_OK; i++)
        status = add_region(&r, (tern_span){buffers[i]->data, (size_t)buffers[i]->bytes}, &err);
    double best = status == TERN_OK ? best_pass(cpu->pool, &r, seconds) : 0;
    tern_free_aligned(large.data);
    tern_free(r.pieces);
    return best;
}

typedef struct products {
    tern_cpu_peak_fn loop;
    _Atomic uint64_t seen;
} products;

enum { TURNS = 200000, TASKS = 8, RUNS = 5 };

static void products_task(void *context, uint32_t task, uint32_t thread)
{
    products *d = context;
    (void)task;
    (void)thread;
    d->seen ^= d->loop(TURNS);
}

static double measure_products(tern_cpu *cpu, tern_cpu_peak_fn loop)
{
    products d = {.loop = loop};
    const uint32_t n_tasks = tern_pool_threads(cpu->pool) * TASKS;
    double best = 0;
    if (!d.loop) return 0;
    for (int i = 0; i < RUNS; i++) {
        const double start = seconds_now();
        tern_pool_for(cpu->pool, n_tasks, products_task, &d);
        const double rate = (double)d.loop(0) * TURNS * n_tasks / (seconds_now() - start);
        if (rate > best) best = rate;
    }
    return best;
}

double tern_cpu__measure(tern_backend *backend, tern_measure what, tern_buffer *const *buffers, size_t n,
                         double seconds)
{
    tern_cpu *cpu = (tern_cpu *)backend;
    pthread_mutex_lock(&cpu->running);
    double rate = 0;
    switch (what) {
    case TERN_MEASURE_READ: rate = measure_read(cpu, buffers, n, seconds); break;
    case TERN_MEASURE_DOTS: rate = measure_products(cpu, tern_cpu_peak_of(cpu->kernels.i2_s_level)); break;
    case TERN_MEASURE_FMA: rate = measure_products(cpu, tern_cpu_fma_peak_of(cpu->kernels.gemm_level)); break;
    }
    pthread_mutex_unlock(&cpu->running);
    return rate;
}
