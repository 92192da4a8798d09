/* Ranks by MPI: the module that a program opens when it is one of several. Built where there is MPI, linked with
 * nothing of Tern. Messages go from each to each, so that whoever waits knows for whom; a thread says that this process
 * lives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/mpi_internal.h"

static tern_status gather(tern_ranks *ranks, const void *mine, const size_t *bytes, void *all, tern_error *err)
{
    tern_mpi *r = tern_mpi__self(ranks);
    const int first = (int)ranks->first;
    tern_mpi_waits w = {.n = 0};
    char *at = all;
    for (int i = 0; i < (int)ranks->n; i++) {
        if (i == (int)ranks->rank) memmove(at, mine, bytes[i]);
        else if (bytes[i])
            MPI_Irecv(at, (int)bytes[i], MPI_BYTE, first + i, TERN_MPI_GATHER, r->data, tern_mpi__add(&w, first + i));
        at += bytes[i];
    }
    at = all;
    for (uint32_t i = 0; i < ranks->rank; i++) at += bytes[i];
    for (int i = 0; i < (int)ranks->n && bytes[ranks->rank]; i++)
        if (i != (int)ranks->rank)
            MPI_Isend(at, (int)bytes[ranks->rank], MPI_BYTE, first + i, TERN_MPI_GATHER, r->data,
                      tern_mpi__add(&w, first + i));
    return tern_mpi__await(r, &w, true, err);
}

static tern_status tell(tern_ranks *ranks, const void *head, size_t head_bytes, const void *data, size_t bytes,
                        tern_error *err)
{
    tern_mpi *r = tern_mpi__self(ranks);
    const tern_mpi_pieces what = {.head = head, .data = data, .head_bytes = head_bytes, .bytes = bytes};
    if (head_bytes + bytes > INT32_MAX)
        return tern_mpi__fail(err, TERN_LIMIT, "a message of rank %d is longer than 2 GB", 0);
    for (int i = 1; i < (int)r->base.n; i++)
        if (tern_mpi__post(r, i, TERN_MPI_TELL, &what, err) != TERN_OK) return err->code;
    return TERN_OK;
}

/* The bytes of the next message of rank 0, as long as it lives. */
static tern_status await_told(tern_mpi *r, int *n, tern_error *err)
{
    MPI_Status from;
    int there = 0;
    const long long since = tern_mpi__now_us();
    for (unsigned round = 1;; round++) {
        if (MPI_Iprobe(0, TERN_MPI_TELL, r->data, &there, &from) != MPI_SUCCESS)
            return tern_mpi__fail(err, TERN_IO, "MPI: a message of rank %d failed", 0);
        if (there) break;
        tern_mpi__idle(round, since, true);
        if (round % 4096 == 0 && tern_mpi__is_silent(r, 0)) return tern_mpi__fail_silent(0, err);
    }
    MPI_Get_count(&from, MPI_BYTE, n);
    return TERN_OK;
}

static tern_status hear(tern_ranks *ranks, void *head, size_t head_bytes, const void **data, size_t *bytes,
                        tern_error *err)
{
    tern_mpi *r = tern_mpi__self(ranks);
    tern_mpi_waits w = {.n = 0};
    int n = 0;
    if (await_told(r, &n, err) != TERN_OK) return err->code;
    if (n < 0 || (size_t)n < head_bytes)
        return tern_mpi__fail(err, TERN_INTERNAL, "a message of rank %d is too short", 0);
    if (r->heard_cap < (size_t)n) {
        void *room = realloc(r->heard, (size_t)n);
        if (!room) return tern_mpi__fail(err, TERN_OUT_OF_MEMORY, "no memory for a message of rank %d", 0);
        r->heard = room;
        r->heard_cap = (size_t)n;
    }
    MPI_Irecv(r->heard, n, MPI_BYTE, 0, TERN_MPI_TELL, r->data, tern_mpi__add(&w, 0));
    if (tern_mpi__await(r, &w, false, err) != TERN_OK) return err->code;
    if (head_bytes) memcpy(head, r->heard, head_bytes);
    *data = (const char *)r->heard + head_bytes;
    *bytes = (size_t)n - head_bytes;
    return TERN_OK;
}

static tern_status send(tern_ranks *ranks, uint32_t to, const void *data, size_t bytes, tern_error *err)
{
    const tern_mpi_pieces what = {.data = data, .bytes = bytes};
    return tern_mpi__post(tern_mpi__self(ranks), (int)to, TERN_MPI_SEND, &what, err);
}

static tern_status receive(tern_ranks *ranks, uint32_t from, void *data, size_t bytes, tern_error *err)
{
    tern_mpi *r = tern_mpi__self(ranks);
    tern_mpi_waits w = {.n = 0};
    MPI_Irecv(data, (int)bytes, MPI_BYTE, (int)from, TERN_MPI_SEND, r->data, tern_mpi__add(&w, (int)from));
    return tern_mpi__await(r, &w, true, err);
}

static void close_ranks(tern_ranks *ranks, bool failed)
{
    tern_mpi *r = tern_mpi__self(ranks);
    tern_error ignored;
    if (!failed) failed = tern_mpi__flush(r, &ignored) != TERN_OK;
    if (!failed) { /* all have come as far as this, unless one is silent */
        tern_mpi_waits w = {.n = 0};
        MPI_Ibarrier(r->data, tern_mpi__add(&w, ranks->rank == 0 ? (int)ranks->n - 1 : 0));
        failed = tern_mpi__await(r, &w, true, &ignored) != TERN_OK;
    }
    if (failed) {
        fflush(NULL);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    pthread_mutex_lock(&r->lock);
    atomic_store(&r->ends, true);
    pthread_cond_signal(&r->posted);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->heart, NULL);
    MPI_Finalize();
    for (int i = 0; i < TERN_MPI_PARCELS; i++) free(r->parcels[i].data);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->posted);
    free(r->heard);
    free(r);
}

static void init_locks(tern_mpi *r)
{
    pthread_condattr_t by_clock;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&r->posted, &by_clock);
    pthread_condattr_destroy(&by_clock);
}

__attribute__((visibility("default"))) tern_status tern_ranks_module_open(tern_ranks **ranks, tern_error *err);

/* Among the ranks that share this one's memory. */
static uint32_t local_rank(void)
{
    MPI_Comm here;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_rank(here, &rank);
    MPI_Comm_free(&here);
    return (uint32_t)rank;
}

tern_status tern_ranks_module_open(tern_ranks **ranks, tern_error *err)
{
    int threads = 0, rank = 0, n = 0;
    tern_mpi *r = calloc(1, sizeof *r);
    if (!r) return tern_mpi__fail(err, TERN_OUT_OF_MEMORY, "no memory for ranks", 0);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &threads) != MPI_SUCCESS || threads != MPI_THREAD_MULTIPLE) {
        free(r);
        return tern_mpi__fail(err, TERN_UNSUPPORTED, "MPI: level %d of threads expected (MPI_THREAD_MULTIPLE)",
                              MPI_THREAD_MULTIPLE);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_dup(MPI_COMM_WORLD, &r->data);
    MPI_Comm_dup(MPI_COMM_WORLD, &r->beats);
    r->base = (tern_ranks){.rank = (uint32_t)rank,
                           .n = (uint32_t)n,
                           .local = local_rank(),
                           .gather = gather,
                           .swap_start = tern_mpi__swap_start,
                           .swap_finish = tern_mpi__swap_finish,
                           .tell = tell,
                           .hear = hear,
                           .send = send,
                           .receive = receive,
                           .close = close_ranks};
    init_locks(r);
    for (int i = 0; i < TERN_MAX_RANKS; i++) atomic_store(&r->heard_us[i], tern_mpi__now_us());
    *ranks = &r->base;
    if (n > TERN_MAX_RANKS || pthread_create(&r->heart, NULL, tern_mpi__heart, r) == 0) return TERN_OK;
    free(r);
    return tern_mpi__fail(err, TERN_IO, "MPI: rank %d cannot start a thread", rank);
}
