/* Inside the module that knows MPI: what its files share. */
#ifndef TERN_RANKS_MPI_INTERNAL_H
#define TERN_RANKS_MPI_INTERNAL_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "ranks/ranks.h"

enum { TERN_MPI_GATHER = 1, TERN_MPI_SWAP, TERN_MPI_TELL, TERN_MPI_SEND, TERN_MPI_BEAT }; /* tags */
enum { TERN_MPI_PARCELS = 256, TERN_MPI_NAP_US = 300 };

/* A message that was copied, and is on its way or free. */
typedef struct tern_mpi_parcel {
    void *data;
    size_t cap;
    MPI_Request request;
    int to, tag;
    bool busy;
} tern_mpi_parcel;

/* Two pieces as one message. */
typedef struct tern_mpi_pieces {
    const void *head, *data;
    size_t head_bytes, bytes;
} tern_mpi_pieces;

/* The state of one waiting call. */
typedef struct tern_mpi_waits {
    MPI_Request requests[2 * TERN_MAX_RANKS];
    int peers[2 * TERN_MAX_RANKS], n; /* by their numbers of all */
} tern_mpi_waits;

/* A swap that was started. */
typedef struct tern_mpi_swap {
    tern_mpi_waits waits;
    bool under_way, failed;
} tern_mpi_swap;

typedef struct tern_mpi {
    tern_ranks base;
    MPI_Comm data, beats;
    pthread_mutex_t lock; /* of the parcels and swaps */
    pthread_cond_t posted;
    tern_mpi_parcel parcels[TERN_MPI_PARCELS];
    tern_mpi_swap swaps[TERN_RANKS_SWAPS];
    atomic_uint n_busy, n_swaps; /* on their way */
    void *heard;                 /* what was told last */
    size_t heard_cap;
    pthread_t heart;
    atomic_bool ends;
    atomic_llong heard_us[TERN_MAX_RANKS]; /* when each said last that it lives */
} tern_mpi;

static inline tern_mpi *tern_mpi__self(tern_ranks *ranks)
{
    return (tern_mpi *)(ranks->all ? ranks->all : ranks);
}

/* ---- time, errors, waiting (mpi_wait.c) */

long long tern_mpi__now_us(void);
void tern_mpi__nap(long us);
/* `what` may have two %d: a rank, and the seconds of silence. */
tern_status tern_mpi__fail(tern_error *err, tern_status code, const char *what, int rank);
tern_status tern_mpi__fail_silent(int rank, tern_error *err);
bool tern_mpi__is_silent(tern_mpi *r, int rank);
/* Lets others run, more so the longer it takes. */
void tern_mpi__idle(unsigned round, long long since, bool long_waits);
/* Waits for one more. */
MPI_Request *tern_mpi__add(tern_mpi_waits *w, int peer);
/* A rank that one of them waits for and that is silent, or -1; now and then, by the number of the round. */
int tern_mpi__find_silent(tern_mpi *r, const tern_mpi_waits *w, unsigned round);
/* Until all requests are done, or a rank that one of them waits for is silent. */
tern_status tern_mpi__await(tern_mpi *r, tern_mpi_waits *w, bool long_waits, tern_error *err);

/* ---- signs of life (mpi_heart.c) */

/* The thread that says that this process lives, ends all when another does not, and pushes on what is on its way. */
void *tern_mpi__heart(void *context);

/* ---- messages that are on their way while this process goes on (mpi_parcels.c) */

/* Pushes parcels and swaps on, and notes which have arrived. */
void tern_mpi__push(tern_mpi *r);
tern_status tern_mpi__post(tern_mpi *r, int to, int tag, const tern_mpi_pieces *what, tern_error *err);
/* Until all that was posted has left. */
tern_status tern_mpi__flush(tern_mpi *r, tern_error *err);

/* ---- swaps (mpi_swaps.c), as in the table */

tern_status tern_mpi__swap_start(tern_ranks *ranks, uint32_t place, const tern_ranks_block *out,
                                 const tern_ranks_block *in, tern_error *err);
tern_status tern_mpi__swap_finish(tern_ranks *ranks, uint32_t place, tern_error *err);
/* With the lock. */
void tern_mpi__test_swap(tern_mpi *r, tern_mpi_swap *swap);

#endif
