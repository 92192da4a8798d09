/* The CUDA backend: NVIDIA GPUs through the CUDA runtime, which is linked statically and looks for the driver itself,
 * so that a program with this backend starts on machines without one. docs/internals/cuda.md. */
#ifndef TERN_BACKEND_CUDA_CUDA_H
#define TERN_BACKEND_CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/kernel_choice.h"

/* Zero-initialised: the first device. */
typedef struct tern_cuda_options {
    const char *device;                /* its index in the list, or a part of its name */
    uint32_t n_threads;                /* that pack weights; 0: one for each physical core, at most 16 */
    bool profile;                      /* time every op; each step is then waited for */
    const tern_kernel_choice *choices; /* [n_choices] borrowed for the call; those of other devices do not count */
    size_t n_choices;
} tern_cuda_options;

/* Errors: NOT_FOUND (no driver, no device, none of that name), INVALID_ARGUMENT (a name that fits several devices),
 * UNSUPPORTED (a device older than sm_80). */
tern_status tern_cuda_open(tern_backend **backend, const tern_cuda_options *options, tern_error *err);

/* For measuring kernels (backend/open.h): the device and its driver; other choices, from the next prepared graph on;
 * the i-th kernel in the place of one. */
void tern_cuda_key(const tern_backend *backend, char out[static TERN_KERNEL_DEVICE_BYTES]);
tern_status tern_cuda_choose(tern_backend *backend, const tern_kernel_choice *choices, size_t n, tern_error *err);
bool tern_cuda_is_kernel(const char *name);
bool tern_cuda_alternative(const tern_backend *backend, const char *kernel, size_t i,
                           char out[static TERN_KERNEL_NAME_BYTES]);

/* Starting a device takes some 0.2 s, most of it the driver's: begin does that on a thread of its own, end waits for
 * it. NULL: it could not begin. Whatever fails is met again by tern_cuda_open. `device` as in tern_cuda_options,
 * copied. */
typedef struct tern_cuda_start tern_cuda_start;
tern_cuda_start *tern_cuda_start_begin(const char *device);
void tern_cuda_start_end(tern_cuda_start *start);

/* What the GPUs of several processes exchange by: "NCCL 2.28.9"; NULL: through memory of the host, since *why (static
 * storage). */
const char *tern_cuda_exchange(const char **why);

/* What `tern devices` shows. */
typedef struct tern_cuda_device {
    char name[256], driver[64]; /* "NVIDIA H200", "13.0" (of the driver's CUDA) */
    uint32_t major, minor;      /* compute capability */
    uint32_t processors;        /* streaming multiprocessors */
    uint64_t memory;            /* bytes */
    bool unified;               /* of the host's */
    char lacks[64];             /* what this backend needs and the device has not; empty: it can be used */
} tern_cuda_device;

/* Fills devices[cap]; *n is how many there are. Errors: NOT_FOUND (no driver); no device at all is none. */
tern_status tern_cuda_devices(tern_cuda_device *devices, size_t cap, size_t *n, tern_error *err);

#endif
