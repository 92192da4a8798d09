/* Ranks by MPI: the module that a program opens when it is one of several. Built where there is MPI, linked with
 * nothing of Tern. Messages go from each to each, so that whoever waits knows for whom; a thread says that this process
 * lives. */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks/ranks.h"

enum { TAG_GATHER = 1, TAG_SWAP, TAG_TELL, TAG_BEAT, SPINS = 64, SHORT_WAIT_US = 20000, NAP_US = 300 };

typedef struct mpi_ranks {
    tern_ranks base;
    MPI_Comm data, beats;
    MPI_Request requests[2 * TERN_MAX_RANKS];
    int peers[2 * TERN_MAX_RANKS];
    pthread_t heart;
    atomic_bool ends;
    atomic_llong heard_us[TERN_MAX_RANKS]; /* when each said last that it lives */
} mpi_ranks;

static mpi_ranks *self(tern_ranks *ranks)
{
    return (mpi_ranks *)ranks;
}

static long long now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static tern_status fail(tern_error *err, tern_status code, const char *what, int rank)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, what, rank, TERN_RANKS_SILENCE_MS / 1000);
    return code;
}

static void nap(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* ---- signs of life */

static void beat(mpi_ranks *r)
{
    static const char sign;
    for (int i = 0; i < (int)r->base.n; i++) /* one byte is on its way at once, whoever listens */
        if (i != (int)r->base.rank) MPI_Send(&sign, 1, MPI_CHAR, i, TAG_BEAT, r->beats);
}

static void listen(mpi_ranks *r)
{
    MPI_Status from;
    int there = 0;
    char sign;
    while (MPI_Iprobe(MPI_ANY_SOURCE, TAG_BEAT, r->beats, &there, &from) == MPI_SUCCESS && there) {
        MPI_Recv(&sign, 1, MPI_CHAR, from.MPI_SOURCE, TAG_BEAT, r->beats, MPI_STATUS_IGNORE);
        atomic_store(&r->heard_us[from.MPI_SOURCE], now_us());
    }
}

/* Whoever waits for a rank says that it is silent, and all end. One that computes for long waits for none: it is ended
 * from here, a little later. */
static void end_if_silent(mpi_ranks *r, long long now)
{
    for (int i = 0; i < (int)r->base.n; i++) {
        if (i == (int)r->base.rank || now - atomic_load(&r->heard_us[i]) < 1000LL * TERN_RANKS_LONG_SILENCE_MS)
            continue;
        fprintf(stderr, "tern: rank %d does not answer: nothing was heard of it for %d s, so all ranks end\n", i,
                TERN_RANKS_LONG_SILENCE_MS / 1000);
        fflush(NULL);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void *heart(void *context)
{
    mpi_ranks *r = context;
    for (long long last = now_us(); !atomic_load(&r->ends);) {
        const long long now = now_us();
        /* After a pause of this process itself the others have not been heard because nobody listened. */
        if (now - last > 2000LL * TERN_RANKS_BEAT_MS)
            for (uint32_t i = 0; i < r->base.n; i++) atomic_store(&r->heard_us[i], now);
        last = now;
        beat(r);
        listen(r);
        end_if_silent(r, now);
        nap(1000L * TERN_RANKS_BEAT_MS);
    }
    listen(r);
    return NULL;
}

static bool is_silent(mpi_ranks *r, int rank)
{
    return now_us() - atomic_load(&r->heard_us[rank]) > 1000LL * TERN_RANKS_SILENCE_MS;
}

/* ---- waiting */

/* Lets others run, more so the longer it takes. */
static void idle(unsigned round, long long since, bool long_waits)
{
    if (round % SPINS) return;
    if (long_waits && now_us() - since > SHORT_WAIT_US) nap(NAP_US);
    else sched_yield();
}

/* Until all n requests are done, or a rank that one of them waits for is silent. */
static tern_status await(mpi_ranks *r, int n, bool long_waits, tern_error *err)
{
    const long long since = now_us();
    for (unsigned round = 1;; round++) {
        int done = 0;
        if (MPI_Testall(n, r->requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            return fail(err, TERN_IO, "MPI: a message to or from another rank than %d failed", (int)r->base.rank);
        if (done) return TERN_OK;
        idle(round, since, long_waits);
        for (int i = 0; round % 4096 == 0 && i < n; i++) {
            int one = 0;
            MPI_Request_get_status(r->requests[i], &one, MPI_STATUS_IGNORE);
            if (!one && is_silent(r, r->peers[i]))
                return fail(err, TERN_IO, "rank %d does not answer: nothing was heard of it for %d s, so all ranks end",
                            r->peers[i]);
        }
    }
}

/* ---- the table */

static tern_status gather(tern_ranks *ranks, const void *mine, const size_t *bytes, void *all, tern_error *err)
{
    mpi_ranks *r = self(ranks);
    char *at = all;
    int n = 0;
    for (int i = 0; i < (int)ranks->n; i++) {
        if (i == (int)ranks->rank) memmove(at, mine, bytes[i]);
        else if (bytes[i]) {
            r->peers[n] = i;
            MPI_Irecv(at, (int)bytes[i], MPI_BYTE, i, TAG_GATHER, r->data, &r->requests[n++]);
        }
        at += bytes[i];
    }
    at = all;
    for (uint32_t i = 0; i < ranks->rank; i++) at += bytes[i];
    for (int i = 0; i < (int)ranks->n && bytes[ranks->rank]; i++) {
        if (i == (int)ranks->rank) continue;
        r->peers[n] = i;
        MPI_Isend(at, (int)bytes[ranks->rank], MPI_BYTE, i, TAG_GATHER, r->data, &r->requests[n++]);
    }
    return await(r, n, true, err);
}

static tern_status swap(tern_ranks *ranks, const void *out, const size_t *out_bytes, void *in, const size_t *in_bytes,
                        tern_error *err)
{
    mpi_ranks *r = self(ranks);
    const char *from = out;
    char *to = in;
    int n = 0;
    for (int i = 0; i < (int)ranks->n; from += out_bytes[i], to += in_bytes[i], i++) {
        if (i == (int)ranks->rank) {
            memcpy(to, from, in_bytes[i]);
            continue;
        }
        r->peers[n] = i;
        if (in_bytes[i]) MPI_Irecv(to, (int)in_bytes[i], MPI_BYTE, i, TAG_SWAP, r->data, &r->requests[n++]);
        r->peers[n] = i;
        if (out_bytes[i]) MPI_Isend(from, (int)out_bytes[i], MPI_BYTE, i, TAG_SWAP, r->data, &r->requests[n++]);
    }
    return await(r, n, true, err);
}

static tern_status tell(tern_ranks *ranks, const void *data, size_t bytes, tern_error *err)
{
    mpi_ranks *r = self(ranks);
    int n = 0;
    for (int i = 1; i < (int)ranks->n; i++) {
        r->peers[n] = i;
        MPI_Isend(data, (int)bytes, MPI_BYTE, i, TAG_TELL, r->data, &r->requests[n++]);
    }
    return await(r, n, false, err);
}

static tern_status hear(tern_ranks *ranks, void *data, size_t cap, size_t *bytes, tern_error *err)
{
    mpi_ranks *r = self(ranks);
    MPI_Status from;
    int there = 0, n = 0;
    const long long since = now_us();
    for (unsigned round = 1;; round++) {
        if (MPI_Iprobe(0, TAG_TELL, r->data, &there, &from) != MPI_SUCCESS)
            return fail(err, TERN_IO, "MPI: a message of rank %d failed", 0);
        if (there) break;
        idle(round, since, true);
        if (round % 4096 == 0 && is_silent(r, 0))
            return fail(err, TERN_IO, "rank %d does not answer: nothing was heard of it for %d s, so all ranks end", 0);
    }
    MPI_Get_count(&from, MPI_BYTE, &n);
    if (n < 0 || (size_t)n > cap) return fail(err, TERN_INTERNAL, "a message of rank %d is too long", 0);
    *bytes = (size_t)n;
    r->peers[0] = 0;
    MPI_Irecv(data, n, MPI_BYTE, 0, TAG_TELL, r->data, &r->requests[0]);
    return await(r, 1, false, err);
}

static void close_ranks(tern_ranks *ranks, bool failed)
{
    mpi_ranks *r = self(ranks);
    tern_error ignored;
    if (!failed) { /* all have come as far as this, unless one is silent */
        MPI_Ibarrier(r->data, &r->requests[0]);
        r->peers[0] = ranks->rank == 0 ? (int)ranks->n - 1 : 0;
        failed = await(r, 1, true, &ignored) != TERN_OK;
    }
    if (failed) {
        fflush(NULL);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    atomic_store(&r->ends, true);
    pthread_join(r->heart, NULL);
    MPI_Finalize();
    free(r);
}

__attribute__((visibility("default"))) tern_status tern_ranks_module_open(tern_ranks **ranks, tern_error *err);

tern_status tern_ranks_module_open(tern_ranks **ranks, tern_error *err)
{
    int threads = 0, rank = 0, n = 0;
    mpi_ranks *r = calloc(1, sizeof *r);
    if (!r) return fail(err, TERN_OUT_OF_MEMORY, "no memory for ranks", 0);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &threads) != MPI_SUCCESS || threads != MPI_THREAD_MULTIPLE) {
        free(r);
        return fail(err, TERN_UNSUPPORTED, "MPI: level %d of threads expected (MPI_THREAD_MULTIPLE)",
                    MPI_THREAD_MULTIPLE);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_dup(MPI_COMM_WORLD, &r->data);
    MPI_Comm_dup(MPI_COMM_WORLD, &r->beats);
    r->base = (tern_ranks){.rank = (uint32_t)rank,
                           .n = (uint32_t)n,
                           .gather = gather,
                           .swap = swap,
                           .tell = tell,
                           .hear = hear,
                           .close = close_ranks};
    for (int i = 0; i < TERN_MAX_RANKS; i++) atomic_store(&r->heard_us[i], now_us());
    *ranks = &r->base;
    if (n > TERN_MAX_RANKS || pthread_create(&r->heart, NULL, heart, r) == 0) return TERN_OK;
    free(r);
    return fail(err, TERN_IO, "MPI: rank %d cannot start a thread", rank);
}
