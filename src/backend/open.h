/* Opening a backend by its name: the one place that knows which devices this build has. */
#ifndef TERN_BACKEND_OPEN_H
#define TERN_BACKEND_OPEN_H

#include <stdbool.h>

#include "backend/backend.h"

/* Zero-initialised: the CPU, with all its cores and features. */
typedef struct tern_backend_options {
    const char *name;         /* "cpu"; NULL is the same */
    uint32_t n_threads;       /* 0: one for each physical core */
    bool pin;                 /* tie threads to cores */
    const char *cpu_features; /* as tern_cpu_features_parse reads them; NULL: all that the machine has */
} tern_backend_options;

/* Errors: UNSUPPORTED (no such backend in this build), and those of the backend. */
tern_status tern_backend_open(tern_backend **backend, const tern_backend_options *options, tern_error *err);

#endif
