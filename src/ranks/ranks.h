/* The interface between processes that run or train one model together: a table of functions, filled by a module. */
#ifndef TERN_RANKS_RANKS_H
#define TERN_RANKS_RANKS_H

#include <stddef.h>

#include "base/error.h"
#include "tern/ranks.h"

/* A process that says nothing for so long has stopped; all others end then: those that wait for it first, those that
 * compute after the long time. Each says every so often that it lives, also while it computes. */
enum { TERN_RANKS_SILENCE_MS = 5000, TERN_RANKS_LONG_SILENCE_MS = 6500, TERN_RANKS_BEAT_MS = 500 };

enum { TERN_RANKS_SWAPS = 8 }; /* on their way at once */

/* Memory that is sent or filled, at most INT32_MAX bytes; bytes 0: nothing is. */
typedef struct tern_ranks_block {
    void *data;
    size_t bytes;
} tern_ranks_block;

struct tern_ranks {
    uint32_t rank, n;
    uint32_t local;  /* of the ranks on this machine, from 0 on: which of its GPUs this one takes */
    tern_ranks *all; /* NULL: this is all of them; else they are n that follow each other, from `first` of all on */
    uint32_t first;
    /* The block of each rank, in order, into `all`, on every rank: mine has bytes[rank] bytes, of all together at most
     * INT32_MAX. All ranks make the same call with the same bytes[n]. mine may lie in `all`, at its place. Errors: IO
     * (which rank is silent). */
    tern_status (*gather)(tern_ranks *ranks, const void *mine, const size_t *bytes, void *all, tern_error *err);
    /* Starts a swap, in one of TERN_RANKS_SWAPS places: out[n] has a block for each rank, in[n] takes one of each; what
     * rank a has for b is as long as what b awaits of a. Blocks of this rank itself are left alone. All start the same
     * swaps in the same order, and finish each. The blocks' memory stays as it is until then, or for ever after an
     * error. Errors: IO. */
    tern_status (*swap_start)(tern_ranks *ranks, uint32_t place, const tern_ranks_block *out,
                              const tern_ranks_block *in, tern_error *err);
    /* Waits until what was started there has arrived and left. Errors: IO (which rank is silent). */
    tern_status (*swap_finish)(tern_ranks *ranks, uint32_t place, tern_error *err);
    /* To rank 0's others, of all: a head and what follows it are one message, which is copied and may still be on its
     * way afterwards. Messages arrive in their order. Several threads of rank 0 may tell. Errors: IO. */
    tern_status (*tell)(tern_ranks *ranks, const void *head, size_t head_bytes, const void *data, size_t bytes,
                        tern_error *err);
    /* Waits for what rank 0 tells, as long as it lives: the head is copied out; *data, of *bytes, is what follows, and
     * is there until the next message is heard. Errors: IO; INTERNAL (shorter than its head), OUT_OF_MEMORY. */
    tern_status (*hear)(tern_ranks *ranks, void *head, size_t head_bytes, const void **data, size_t *bytes,
                        tern_error *err);
    /* From one to one other, by its number of all: copied, and on its way afterwards; it arrives in order. To a later
     * rank it waits until that has taken all but the last ones. Errors: IO. */
    tern_status (*send)(tern_ranks *ranks, uint32_t to, const void *data, size_t bytes, tern_error *err);
    /* The bytes that `from`, by its number of all, has sent, as many as here. Errors: IO. */
    tern_status (*receive)(tern_ranks *ranks, uint32_t from, void *data, size_t bytes, tern_error *err);
    void (*close)(tern_ranks *ranks, bool failed);
};

/* Some of all ranks, for what they gather among themselves; as long as all are there. */
static inline tern_ranks tern_ranks_some(tern_ranks *all, uint32_t first, uint32_t n)
{
    tern_ranks some = *all;
    some.all = all;
    some.first = first;
    some.rank = all->rank - first;
    some.n = n;
    return some;
}

/* The one function of a module. */
#define TERN_RANKS_MODULE_OPEN "tern_ranks_module_open"
typedef tern_status (*tern_ranks_module_open_fn)(tern_ranks **ranks, tern_error *err);

/* Part `rank` of n of a whole of so many units, the first ones larger where it does not divide. */
typedef struct tern_share {
    uint32_t first, n;
} tern_share;

static inline tern_share tern_share_of(uint32_t whole, uint32_t rank, uint32_t n)
{
    const uint32_t each = whole / n, more = whole % n;
    return (tern_share){rank * each + (rank < more ? rank : more), each + (rank < more)};
}

#endif
