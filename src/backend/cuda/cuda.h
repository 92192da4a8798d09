/* The CUDA backend: NVIDIA GPUs, through a module that has its kernels and CUDA's runtime (tern-cuda.so,
 * docs/decisions/0066-cuda-module.md). docs/internals/cuda.md. */
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

/* The lines of `tern devices`. */
typedef struct tern_cuda_device {
    char name[256], driver[64]; /* "NVIDIA H200", "13.0" (of the driver's CUDA) */
    uint32_t major, minor;      /* compute capability */
    uint32_t processors;        /* streaming multiprocessors */
    uint64_t memory;            /* bytes */
    bool unified;               /* of the host's */
    char lacks[160];            /* what this backend needs and the device has not; empty: it can be used */
} tern_cuda_device;

typedef struct tern_cuda_start tern_cuda_start;

/* The functions that the module gives to the program. */
typedef struct tern_cuda_module {
    /* Errors: NOT_FOUND (no driver, no device, none of that name), INVALID_ARGUMENT (a name that fits several devices),
     * UNSUPPORTED (a device older than sm_80, or one for which the module has no code). */
    tern_status (*open)(tern_backend **backend, const tern_cuda_options *options, tern_error *err);

    /* For measuring kernels (backend/open.h): the device and its driver; other choices, from the next prepared graph
     * on; the i-th kernel in the place of one. */
    void (*key)(const tern_backend *backend, char out[static TERN_KERNEL_DEVICE_BYTES]);
    tern_status (*choose)(tern_backend *backend, const tern_kernel_choice *choices, size_t n, tern_error *err);
    bool (*alternative)(const tern_backend *backend, const char *kernel, size_t i,
                        char out[static TERN_KERNEL_NAME_BYTES]);

    /* Starting a device takes some 0.2 s, most of it the driver's: begin does that on a thread of its own, end waits
     * for it. NULL: it could not begin. Whatever fails is met again by `open`. `device` as in tern_cuda_options,
     * copied. */
    tern_cuda_start *(*start_begin)(const char *device);
    void (*start_end)(tern_cuda_start *start);

    /* The transport between the GPUs of several processes: "NCCL 2.28.9"; NULL: through memory of the host, since *why
     * (static storage). */
    const char *(*exchange)(const char **why);

    /* Fills devices[cap]; *n is how many there are. Errors: NOT_FOUND (no driver); no device at all is none. */
    tern_status (*devices)(tern_cuda_device *devices, size_t cap, size_t *n, tern_error *err);
} tern_cuda_module;

#define TERN_CUDA_MODULE_FILE "tern-cuda.so"

/* The module, which is opened once, for ever. Errors: those of tern_module_open. */
tern_status tern_cuda_load(const tern_cuda_module **module, tern_error *err);

/* Whether this machine has NVIDIA's driver, with the module or without. */
bool tern_cuda_has_driver(void);

/* The kernels of products by name, which files of choices have: known without the module. */
#define TERN_CUDA_PRODUCT_LIST(X)                                                                                      \
    X(TERNARY_VEC, "ternary_vec")                                                                                      \
    X(TERNARY_MMA, "ternary_mma")                                                                                      \
    X(TERNARY_WGMMA, "ternary_wgmma")                                                                                  \
    X(DENSE_VEC, "dense_vec")                                                                                          \
    X(DENSE_MMA, "dense_mma")                                                                                          \
    X(DENSE_WGMMA, "dense_wgmma")
bool tern_cuda_is_kernel(const char *name);

#endif
