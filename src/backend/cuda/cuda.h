/* The CUDA backend: NVIDIA GPUs through the CUDA runtime, which is linked statically and looks for the driver itself,
 * so that a program with this backend starts on machines without one. docs/internals/cuda.md. */
#ifndef TERN_BACKEND_CUDA_CUDA_H
#define TERN_BACKEND_CUDA_CUDA_H

#include "backend/backend.h"

/* Zero-initialised: the first device. */
typedef struct tern_cuda_options {
    const char *device; /* its index in the list, or a part of its name */
    uint32_t n_threads; /* that pack weights; 0: one for each physical core, at most 16 */
    bool profile;       /* time every op; each step is then waited for */
} tern_cuda_options;

/* Errors: NOT_FOUND (no driver, no device, none of that name), INVALID_ARGUMENT (a name that fits several devices),
 * UNSUPPORTED (a device older than sm_80). */
tern_status tern_cuda_open(tern_backend **backend, const tern_cuda_options *options, tern_error *err);

/* What `tern devices` shows. */
typedef struct tern_cuda_device {
    char name[256], driver[64]; /* "NVIDIA H200", "13.0" (of the driver's CUDA) */
    uint32_t major, minor;      /* compute capability */
    uint32_t processors;        /* streaming multiprocessors */
    uint64_t memory;            /* bytes */
    char lacks[64];             /* what this backend needs and the device has not; empty: it can be used */
} tern_cuda_device;

/* Fills devices[cap]; *n is how many there are. Errors: NOT_FOUND (no driver); no device at all is none. */
tern_status tern_cuda_devices(tern_cuda_device *devices, size_t cap, size_t *n, tern_error *err);

#endif
