/* Signs of life: each process says twice a second that it lives, and listens for those of the others. */
#include <stdio.h>

#include "ranks/mpi_internal.h"

static void beat(tern_mpi *r)
{
    static const char sign;
    for (int i = 0; i < (int)r->base.n; i++) /* one byte is on its way at once, whoever listens */
        if (i != (int)r->base.rank) MPI_Send(&sign, 1, MPI_CHAR, i, TERN_MPI_BEAT, r->beats);
}

static void listen(tern_mpi *r)
{
    MPI_Status from;
    int there = 0;
    char sign;
    while (MPI_Iprobe(MPI_ANY_SOURCE, TERN_MPI_BEAT, r->beats, &there, &from) == MPI_SUCCESS && there) {
        MPI_Recv(&sign, 1, MPI_CHAR, from.MPI_SOURCE, TERN_MPI_BEAT, r->beats, MPI_STATUS_IGNORE);
        atomic_store(&r->heard_us[from.MPI_SOURCE], tern_mpi__now_us());
    }
}

/* Whoever waits for a rank says that it is silent, and all end. One that computes for long waits for none: it is ended
 * from here, a little later. */
static void end_if_silent(tern_mpi *r, long long now)
{
    for (int i = 0; i < (int)r->base.n; i++) {
        if (i == (int)r->base.rank || now - atomic_load(&r->heard_us[i]) < 1000LL * TERN_RANKS_LONG_SILENCE_MS)
            continue;
        fprintf(stderr, "tern: rank %d has not answered for %d s, so all ranks end\n", i,
                TERN_RANKS_LONG_SILENCE_MS / 1000);
        fflush(NULL);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static bool is_busy(tern_mpi *r)
{
    return atomic_load(&r->n_busy) || atomic_load(&r->n_swaps);
}

/* Sleeps until then, or something is on its way. */
static void sleep_until(tern_mpi *r, long long end)
{
    const struct timespec at = {.tv_sec = end / 1000000, .tv_nsec = end % 1000000 * 1000};
    pthread_mutex_lock(&r->lock);
    if (!is_busy(r) && !atomic_load(&r->ends)) pthread_cond_timedwait(&r->posted, &r->lock, &at);
    pthread_mutex_unlock(&r->lock);
}

/* Until the next sign of life; what is on its way meanwhile is pushed on. */
static void rest(tern_mpi *r)
{
    const long long end = tern_mpi__now_us() + 1000LL * TERN_RANKS_BEAT_MS;
    while (!atomic_load(&r->ends) && tern_mpi__now_us() < end) {
        if (is_busy(r)) tern_mpi__push(r);
        if (is_busy(r)) tern_mpi__nap(TERN_MPI_NAP_US);
        else sleep_until(r, end);
    }
}

void *tern_mpi__heart(void *context)
{
    tern_mpi *r = context;
    for (long long last = tern_mpi__now_us(); !atomic_load(&r->ends);) {
        const long long now = tern_mpi__now_us();
        /* After a pause of this process itself the others have not been heard because nobody listened. */
        if (now - last > 2000LL * TERN_RANKS_BEAT_MS)
            for (uint32_t i = 0; i < r->base.n; i++) atomic_store(&r->heard_us[i], now);
        last = now;
        beat(r);
        listen(r);
        end_if_silent(r, now);
        rest(r);
    }
    listen(r);
    return NULL;
}
