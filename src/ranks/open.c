/* Opening the module that knows MPI, so that a program without MPI loses nothing. */
#include "base/module.h"
#include "ranks/ranks.h"

static const tern_module module = {
    .file = "tern-mpi.so",
    .function = TERN_RANKS_MODULE_OPEN,
    .use = "several processes",
    .get = "a build with MPI (Debian: libopenmpi-dev) and the package tern-mpi have it",
    .library = "need OpenMPI (Debian: openmpi-bin)",
    .global = true,
};

tern_status tern_ranks_open(tern_ranks **ranks, tern_error *err)
{
    tern_ranks_module_open_fn open = NULL;
    *ranks = NULL;
    TERN_TRY(tern_module_open(&module, &open, err)); /* for ever: MPI does not end before the process */
    TERN_TRY(open(ranks, err));
    if ((*ranks)->n <= TERN_MAX_RANKS) return TERN_OK;
    const uint32_t n = (*ranks)->n;
    (*ranks)->close(*ranks, false);
    *ranks = NULL;
    return tern_fail(err, TERN_UNSUPPORTED, "%u processes: at most %d expected", n, TERN_MAX_RANKS);
}

uint32_t tern_ranks_rank(const tern_ranks *ranks)
{
    return ranks->rank;
}

uint32_t tern_ranks_count(const tern_ranks *ranks)
{
    return ranks->n;
}

void tern_ranks_close(tern_ranks *ranks, bool failed)
{
    if (ranks) ranks->close(ranks, failed);
}
