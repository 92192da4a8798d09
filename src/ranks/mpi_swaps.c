/* Swaps: blocks from each to each that are on their way while this process does something else. */
#include "ranks/mpi_internal.h"

void tern_mpi__test_swap(tern_mpi *r, tern_mpi_swap *swap)
{
    int done = 0;
    if (!swap->under_way) return;
    swap->failed = MPI_Testall(swap->waits.n, swap->waits.requests, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS;
    if (!done && !swap->failed) return;
    swap->under_way = false;
    atomic_fetch_sub(&r->n_swaps, 1);
}

static bool post(tern_mpi *r, tern_mpi_waits *w, int peer, const tern_ranks_block *out, const tern_ranks_block *in)
{
    int status = MPI_SUCCESS;
    if (in->bytes)
        status = MPI_Irecv(in->data, (int)in->bytes, MPI_BYTE, peer, TERN_MPI_SWAP, r->data, tern_mpi__add(w, peer));
    if (out->bytes && status == MPI_SUCCESS)
        status = MPI_Isend(out->data, (int)out->bytes, MPI_BYTE, peer, TERN_MPI_SWAP, r->data, tern_mpi__add(w, peer));
    return status == MPI_SUCCESS;
}

tern_status tern_mpi__swap_start(tern_ranks *ranks, uint32_t place, const tern_ranks_block *out,
                                 const tern_ranks_block *in, tern_error *err)
{
    tern_mpi *r = tern_mpi__self(ranks);
    tern_mpi_swap *swap = &r->swaps[place];
    bool posted = true;
    pthread_mutex_lock(&r->lock);
    *swap = (tern_mpi_swap){.under_way = true};
    atomic_fetch_add(&r->n_swaps, 1);
    for (uint32_t i = 0; i < ranks->n && posted; i++)
        if (i != ranks->rank) posted = post(r, &swap->waits, (int)(ranks->first + i), &out[i], &in[i]);
    tern_mpi__test_swap(r, swap);
    pthread_cond_signal(&r->posted);
    pthread_mutex_unlock(&r->lock);
    if (posted) return TERN_OK;
    return tern_mpi__fail(err, TERN_IO, "MPI: a block of rank %d cannot be sent", (int)ranks->rank);
}

tern_status tern_mpi__swap_finish(tern_ranks *ranks, uint32_t place, tern_error *err)
{
    tern_mpi *r = tern_mpi__self(ranks);
    tern_mpi_swap *swap = &r->swaps[place];
    const long long since = tern_mpi__now_us();
    for (unsigned round = 1;; round++) {
        pthread_mutex_lock(&r->lock);
        tern_mpi__test_swap(r, swap);
        const bool done = !swap->under_way, failed = swap->failed;
        const int silent = done ? -1 : tern_mpi__find_silent(r, &swap->waits, round);
        pthread_mutex_unlock(&r->lock);
        if (failed) return tern_mpi__fail(err, TERN_IO, "MPI: a block to or from rank %d failed", (int)ranks->rank);
        if (done) return TERN_OK;
        if (silent >= 0) return tern_mpi__fail_silent(silent, err);
        tern_mpi__idle(round, since, true);
    }
}
