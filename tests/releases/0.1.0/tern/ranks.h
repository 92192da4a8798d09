/* Processes that run one model together, each with a part of every weight (tensor parallel). */
#ifndef TERN_RANKS_H
#define TERN_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "tern/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The processes that mpirun has started together, as this one sees them. One for a process. */
typedef struct tern_ranks tern_ranks;

enum { TERN_MAX_RANKS = 16 };

/* Joins the other processes by MPI, which a module of its own has (tern-mpi.so, beside the program or in ../lib/tern):
 * all of them must call it. Errors: UNSUPPORTED (no such module, or no MPI library; more than TERN_MAX_RANKS), IO. */
TERN_API tern_status tern_ranks_open(tern_ranks **ranks, tern_error *err);
/* This process, from 0 on, and how many there are. */
TERN_API uint32_t tern_ranks_rank(const tern_ranks *ranks);
TERN_API uint32_t tern_ranks_count(const tern_ranks *ranks);
/* Leaves the others; with `failed` it ends all of them, and this process, with status 1. NULL is fine. */
TERN_API void tern_ranks_close(tern_ranks *ranks, bool failed);

#ifdef __cplusplus
}
#endif

#endif
