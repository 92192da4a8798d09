/* The CPU backend: a pool of threads and the best kernels that this machine has. */
#ifndef TERN_BACKEND_CPU_CPU_H
#define TERN_BACKEND_CPU_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tern/choices.h"

typedef struct tern_backend tern_backend;             /* backend/backend.h */
typedef struct tern_cpu_kernels tern_cpu_kernels;     /* backend/cpu/kernels.h */
typedef struct tern_kernel_choice tern_kernel_choice; /* backend/kernel_choice.h */
typedef struct tern_ranks tern_ranks;                 /* tern/ranks.h */

typedef struct tern_cpu_options {
    uint32_t n_threads; /* 0: one for each physical core */
    bool pin;
    uint32_t features;  /* tern_cpu_feature bits; used when features_set */
    bool features_set;  /* false: all that the machine has */
    const char *kernel; /* of ternary weights: "dot", "t160", "lut", "rsr", "rsr:6"; NULL: by `choices`, else "dot" */
    tern_ffn_mode ffn;  /* docs/decisions/0038-sparse-ffn.md */
    const tern_kernel_choice
        *choices; /* [n_choices], borrowed for the call; those of other numbers of threads do not count */
    size_t n_choices;
    tern_ranks *ranks; /* that ALL_GATHER is among, which the backend borrows; NULL: none */
} tern_cpu_options;

/* Opens the backend, after trying every chosen kernel once on a small case. A kernel that dies of an illegal
 * instruction, or computes something else than its definition, is TERN_UNSUPPORTED; the error has its name and the flag
 * that avoids it. The trial installs a handler for SIGILL while it runs; open backends from one thread at a time. */
tern_status tern_cpu_open(tern_backend **backend, const tern_cpu_options *options, tern_error *err);

/* Whether a --kernel is one. Errors: INVALID_ARGUMENT, with all names. */
tern_status tern_cpu_kernel_check(const char *kernel, tern_error *err);

uint32_t tern_cpu_n_threads(const tern_backend *backend);
const tern_cpu_kernels *tern_cpu_kernels_of(const tern_backend *backend);

#endif
