/* Kernels chosen by measurement: giving choices to backends, and what measuring shares. */
#ifndef TERN_APPS_TUNE_H
#define TERN_APPS_TUNE_H

#include "apps/app.h"
#include "backend/cpu/tune/tune.h"
#include "infer/tune_file.h"

/* Gives the backend what was measured for it, unless --kernel, --no-tune or --cpu-features says otherwise. A file that
 * does not hold here is named on standard error, once, and the defaults stay. The choices stay until the program ends.
 */
void tern_app_tuned(const tern_options *options, tern_backend_options *out);

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
