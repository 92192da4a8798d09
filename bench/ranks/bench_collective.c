/* How fast processes that train exchange gradients and masters through memory of the host, beside what memcpy copies in
 * the same run while all processes do.
 *
 *     mpirun -n 2 build/release/bench_collective [MIB [TENSORS [ROUNDS]]]
 *
 * MIB of gradients in TENSORS tensors on each rank, f32 on the CPU backend; the best of ROUNDS. Needs tern-mpi.so
 * beside it (target tern_mpi). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu.h"
#include "base/alloc.h"
#include "train/collective.h"

typedef struct bench {
    tern_backend *backend;
    tern_ranks *ranks;
    tern_collective *collective;
    tern_collective_tensor *tensors;
    size_t n;
    uint64_t bytes; /* of all */
} bench;

static tern_error err;

static void must(tern_status status)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void make_tensors(bench *b, size_t n, uint64_t bytes)
{
    const tern_cpu_options one = {.n_threads = 1};
    must(tern_cpu_open(&b->backend, &one, &err));
    b->n = n;
    b->tensors = tern_calloc(n, sizeof *b->tensors);
    b->bytes = bytes / n / 4096 * 4096 * n;
    for (size_t i = 0; i < n; i++) {
        tern_collective_tensor *t = &b->tensors[i];
        *t = (tern_collective_tensor){.bytes = b->bytes / n, .owner = (uint32_t)i % b->ranks->n};
        must(b->backend->buffer_create(b->backend, t->bytes, &t->buffer, &err));
        if (t->owner == b->ranks->rank) must(b->backend->buffer_create(b->backend, t->bytes, &t->sum, &err));
    }
    must(tern_collective_open(&b->collective, b->backend, b->ranks, b->bytes, &err));
}

static void add(bench *b, bool first)
{
    bool infinite = false;
    const tern_collective_passes passes = {.n = b->ranks->n, .first = first, .infinite = &infinite};
    must(tern_collective_add(b->collective, b->tensors, b->n, &passes, &err));
    must(tern_collective_end(b->collective, &err));
}

static void add_first(bench *b)
{
    add(b, true);
}

static void add_more(bench *b)
{
    add(b, false);
}

static void spread(bench *b)
{
    must(tern_collective_spread(b->collective, b->tensors, b->n, &err));
    must(tern_collective_end(b->collective, &err));
}

static void copy(bench *b)
{
    static uint8_t *from, *to;
    if (!from) {
        from = tern_calloc(1, (size_t)b->bytes);
        to = tern_calloc(1, (size_t)b->bytes);
        if (!from || !to) exit(1);
        memset(from, 1, (size_t)b->bytes);
    }
    memcpy(to, from, (size_t)b->bytes);
}

static void meet(const bench *b)
{
    uint8_t all[TERN_MAX_RANKS], mine = 0;
    size_t bytes[TERN_MAX_RANKS];
    for (uint32_t r = 0; r < b->ranks->n; r++) bytes[r] = 1;
    must(b->ranks->gather(b->ranks, &mine, bytes, all, &err));
}

/* The best of some rounds, of one until all have come as far. */
static void measure(bench *b, const char *name, void (*what)(bench *b), uint32_t n_rounds)
{
    double best = 1e9;
    for (uint32_t i = 0; i < n_rounds; i++) {
        meet(b);
        const double start = now();
        what(b);
        meet(b);
        const double took = now() - start;
        best = took < best ? took : best;
    }
    if (b->ranks->rank == 0) printf("%-24s %7.2f GB/s %8.1f ms\n", name, (double)b->bytes / best / 1e9, best * 1e3);
}

int main(int argc, char **argv)
{
    const uint64_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 256;
    const size_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 32;
    const uint32_t n_rounds = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 5;
    bench b = {0};
    must(tern_ranks_open(&b.ranks, &err));
    make_tensors(&b, n ? n : 1, mib << 20);
    measure(&b, "memcpy", copy, n_rounds);
    measure(&b, "gradients, first pass", add_first, n_rounds);
    measure(&b, "gradients, later passes", add_more, n_rounds);
    measure(&b, "masters", spread, n_rounds);
    tern_collective_close(b.collective);
    tern_ranks_close(b.ranks, false);
    return 0;
}
