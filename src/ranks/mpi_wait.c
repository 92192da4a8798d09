/* How a call of MPI's waits: for as long as those live for whom it does. */
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "ranks/mpi_internal.h"

enum { SPINS = 64, SHORT_WAIT_US = 20000, LOOKS = 4096 };

long long tern_mpi__now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

tern_status tern_mpi__fail(tern_error *err, tern_status code, const char *what, int rank)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, what, rank, TERN_RANKS_SILENCE_MS / 1000);
    return code;
}

void tern_mpi__nap(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

bool tern_mpi__is_silent(tern_mpi *r, int rank)
{
    return tern_mpi__now_us() - atomic_load(&r->heard_us[rank]) > 1000LL * TERN_RANKS_SILENCE_MS;
}

void tern_mpi__idle(unsigned round, long long since, bool long_waits)
{
    if (round % SPINS) return;
    if (long_waits && tern_mpi__now_us() - since > SHORT_WAIT_US) tern_mpi__nap(TERN_MPI_NAP_US);
    else sched_yield();
}

tern_status tern_mpi__fail_silent(int rank, tern_error *err)
{
    return tern_mpi__fail(err, TERN_IO, "rank %d has not answered for %d s, so all ranks end", rank);
}

MPI_Request *tern_mpi__add(tern_mpi_waits *w, int peer)
{
    w->peers[w->n] = peer;
    return &w->requests[w->n++];
}

int tern_mpi__find_silent(tern_mpi *r, const tern_mpi_waits *w, unsigned round)
{
    for (int i = 0; round % LOOKS == 0 && i < w->n; i++) {
        int one = 0;
        MPI_Request_get_status(w->requests[i], &one, MPI_STATUS_IGNORE);
        if (!one && tern_mpi__is_silent(r, w->peers[i])) return w->peers[i];
    }
    return -1;
}

tern_status tern_mpi__await(tern_mpi *r, tern_mpi_waits *w, bool long_waits, tern_error *err)
{
    const long long since = tern_mpi__now_us();
    for (unsigned round = 1;; round++) {
        int done = 0;
        if (MPI_Testall(w->n, w->requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            return tern_mpi__fail(err, TERN_IO, "MPI: a message to or from another rank than %d failed",
                                  (int)r->base.rank);
        if (done) return TERN_OK;
        tern_mpi__idle(round, since, long_waits);
        const int silent = tern_mpi__find_silent(r, w, round);
        if (silent >= 0) return tern_mpi__fail_silent(silent, err);
    }
}
