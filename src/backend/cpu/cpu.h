/* The CPU backend: a pool of threads and the best kernels that this machine has. */
#ifndef TERN_BACKEND_CPU_CPU_H
#define TERN_BACKEND_CPU_CPU_H

#include <stdbool.h>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"

typedef struct tern_cpu_options {
    uint32_t n_threads; /* 0: one for each physical core */
    bool pin;
    uint32_t features;   /* tern_cpu_feature bits; used when features_set */
    bool features_set;   /* false: all that the machine has */
    const char *kernel;  /* of ternary weights: "dot", "lut", "lut:2", "rsr", "rsr:6"; NULL: "dot" */
} tern_cpu_options;

/* Opens the backend, after trying every chosen kernel once on a small case: one that dies of an illegal instruction or computes
 * something else than its definition is TERN_UNSUPPORTED with the kernel's name and the flag that avoids it. The trial installs a handler for SIGILL
 * while it runs; open backends from one thread at a time. */
tern_status tern_cpu_open(tern_backend **backend, const tern_cpu_options *options, tern_error *err);

uint32_t tern_cpu_n_threads(const tern_backend *backend);
const tern_cpu_kernels *tern_cpu_kernels_of(const tern_backend *backend);

#endif
