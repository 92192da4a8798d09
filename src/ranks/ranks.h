/* What processes that run or train one model together ask of each other: a table of functions, which a module fills. */
#ifndef TERN_RANKS_RANKS_H
#define TERN_RANKS_RANKS_H

#include <stddef.h>

#include "base/error.h"
#include "tern/ranks.h"

/* A process that says nothing for so long has stopped; all others end then: those that wait for it first, those that
 * compute after the long time. Each says every so often that it lives, also while it computes. */
enum { TERN_RANKS_SILENCE_MS = 6000, TERN_RANKS_LONG_SILENCE_MS = 7500, TERN_RANKS_BEAT_MS = 500 };

struct tern_ranks {
    uint32_t rank, n;
    /* The block of each rank, in order, into `all`, on every rank: mine has bytes[rank] bytes, of all together at most
     * INT32_MAX. The same call with the same bytes[n] is made by all. mine may lie in `all`, at its place. Errors: IO
     * (which rank is silent). */
    tern_status (*gather)(tern_ranks *ranks, const void *mine, const size_t *bytes, void *all, tern_error *err);
    /* A block for each rank, in order in `out`, and one of each, in order into `in`: what rank a has for b is as long
     * as what b awaits of a. Its own block is copied; out and in are apart. Errors: IO. */
    tern_status (*swap)(tern_ranks *ranks, const void *out, const size_t *out_bytes, void *in, const size_t *in_bytes,
                        tern_error *err);
    /* Sends bytes from rank 0 to all others. */
    tern_status (*tell)(tern_ranks *ranks, const void *data, size_t bytes, tern_error *err);
    /* Waits for what rank 0 tells, as long as it lives. Errors: IO; INTERNAL (more than `cap` bytes). */
    tern_status (*hear)(tern_ranks *ranks, void *data, size_t cap, size_t *bytes, tern_error *err);
    void (*close)(tern_ranks *ranks, bool failed);
};

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
