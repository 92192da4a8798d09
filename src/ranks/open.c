/* Opening the module that knows MPI, so that a program without MPI loses nothing. */
#include <dlfcn.h>
#include <string.h>

#include "base/program.h"
#include "ranks/ranks.h"

static tern_status open_module(const char *path, tern_ranks_module_open_fn *open, tern_error *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* for ever: MPI does not end before the process */
    void *function = library ? dlsym(library, TERN_RANKS_MODULE_OPEN) : NULL;
    if (!function) {
        const char *why = dlerror();
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s; several processes need OpenMPI (Debian: openmpi-bin)", path,
                         why ? why : "no module for ranks");
    }
    memcpy(open, &function, sizeof *open); /* ISO C has no cast for this */
    return TERN_OK;
}

tern_status tern_ranks_open(tern_ranks **ranks, tern_error *err)
{
    char path[4200];
    tern_ranks_module_open_fn open = NULL;
    *ranks = NULL;
    if (!tern_program_module("tern-mpi.so", path, sizeof path))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "several processes: no tern-mpi.so beside the program or in ../lib/tern; a build with MPI "
                         "(Debian: libopenmpi-dev, or the package tern-mpi) expected");
    TERN_TRY(open_module(path, &open, err));
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
