/* Messages that were copied and are on their way while this process goes on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/mpi_internal.h"

enum { MAX_SENT = 2 };

/* With the lock. */
static unsigned test_parcels(tern_mpi *r)
{
    unsigned n = 0;
    for (int i = 0; i < TERN_MPI_PARCELS; i++) {
        tern_mpi_parcel *p = &r->parcels[i];
        int done = 0;
        if (p->busy && MPI_Test(&p->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done) p->busy = false;
        n += p->busy;
    }
    atomic_store(&r->n_busy, n);
    return n;
}

void tern_mpi__push(tern_mpi *r)
{
    pthread_mutex_lock(&r->lock);
    test_parcels(r);
    for (int i = 0; i < TERN_RANKS_SWAPS; i++) tern_mpi__test_swap(r, &r->swaps[i]);
    pthread_mutex_unlock(&r->lock);
}

/* With the lock: one that is free, the smallest that is large enough if there is one; NULL: too much is on its way. */
static tern_mpi_parcel *find_parcel(tern_mpi *r, int to, int tag, size_t bytes)
{
    tern_mpi_parcel *best = NULL;
    int n_sent = 0;
    for (int i = 0; i < TERN_MPI_PARCELS; i++) {
        tern_mpi_parcel *p = &r->parcels[i];
        n_sent += p->busy && p->to == to && p->tag == TERN_MPI_SEND;
        if (p->busy) continue;
        const bool fits = p->cap >= bytes, best_fits = best && best->cap >= bytes;
        if (!best || (fits && (!best_fits || p->cap < best->cap))) best = p;
    }
    /* Those before it must not wait for one that waits for them. */
    return tag == TERN_MPI_SEND && to > (int)r->base.rank && n_sent >= MAX_SENT ? NULL : best;
}

static tern_status make_room(tern_mpi_parcel *p, size_t bytes, tern_error *err)
{
    if (p->cap >= bytes) return TERN_OK;
    void *data = realloc(p->data, bytes);
    if (!data) return tern_mpi__fail(err, TERN_OUT_OF_MEMORY, "no memory for a message to rank %d", p->to);
    p->data = data;
    p->cap = bytes;
    return TERN_OK;
}

/* With the lock. */
static tern_status post_now(tern_mpi *r, tern_mpi_parcel *p, int to, int tag, const tern_mpi_pieces *what,
                            tern_error *err)
{
    const size_t bytes = what->head_bytes + what->bytes;
    p->to = to;
    p->tag = tag;
    if (make_room(p, bytes ? bytes : 1, err) != TERN_OK) return err->code;
    if (what->head_bytes) memcpy(p->data, what->head, what->head_bytes);
    if (what->bytes) memcpy((char *)p->data + what->head_bytes, what->data, what->bytes);
    if (MPI_Isend(p->data, (int)bytes, MPI_BYTE, to, tag, r->data, &p->request) != MPI_SUCCESS)
        return tern_mpi__fail(err, TERN_IO, "MPI: a message to rank %d failed", to);
    int left = 0; /* short ones have, at once */
    MPI_Test(&p->request, &left, MPI_STATUS_IGNORE);
    p->busy = !left;
    if (left) return TERN_OK;
    atomic_fetch_add(&r->n_busy, 1);
    pthread_cond_signal(&r->posted);
    return TERN_OK;
}

tern_status tern_mpi__post(tern_mpi *r, int to, int tag, const tern_mpi_pieces *what, tern_error *err)
{
    const long long since = tern_mpi__now_us();
    for (unsigned round = 1;; round++) {
        pthread_mutex_lock(&r->lock);
        tern_mpi_parcel *p = find_parcel(r, to, tag, what->head_bytes + what->bytes);
        if (!p && test_parcels(r) < TERN_MPI_PARCELS) p = find_parcel(r, to, tag, what->head_bytes + what->bytes);
        const tern_status status = p ? post_now(r, p, to, tag, what, err) : TERN_OK;
        pthread_mutex_unlock(&r->lock);
        if (p) return status;
        tern_mpi__idle(round, since, true);
        if (round % 4096 == 0 && tern_mpi__is_silent(r, to)) return tern_mpi__fail_silent(to, err);
    }
}

tern_status tern_mpi__flush(tern_mpi *r, tern_error *err)
{
    const long long since = tern_mpi__now_us();
    for (unsigned round = 1; atomic_load(&r->n_busy); round++) {
        tern_mpi__push(r);
        tern_mpi__idle(round, since, true);
        for (int i = 0; round % 4096 == 0 && i < TERN_MPI_PARCELS; i++)
            if (r->parcels[i].busy && tern_mpi__is_silent(r, r->parcels[i].to))
                return tern_mpi__fail_silent(r->parcels[i].to, err);
    }
    return TERN_OK;
}
