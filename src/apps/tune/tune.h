/* Declarations that `tern tune` and `tern bench --kernels` share: they measure kernels of the CPU backend one by one,
 * so they use it directly. */
#ifndef TERN_APPS_TUNE_TUNE_H
#define TERN_APPS_TUNE_TUNE_H

#include "apps/open.h"
#include "backend/cpu/tune/tune.h"
#include "backend/open.h"
#include "infer/tune/file.h"

/* The numbers of threads of --threads (1 and all cores when not given), a CPU backend for each, none twice. */
typedef struct tern_app_backends {
    tern_backend *at[TERN_TUNE_MAX_BACKENDS];
    uint32_t n;
} tern_app_backends;

tern_status tern_app_backends_open(tern_app_backends *out, const tern_options *options, tern_error *err);
void tern_app_backends_close(tern_app_backends *backends);
/* Bytes of copies that no cache holds: a third more than the largest one, 64 MiB to 1 GiB, at most a quarter of memory;
 * or --cold-mib. */
uint64_t tern_app_cold_bytes(const tern_options *options);
/* --ms, as seconds. */
double tern_app_measure_seconds(const tern_options *options);

#endif
