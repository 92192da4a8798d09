/* Opening a backend by its name: the one place that knows which devices this build has. */
#ifndef TERN_BACKEND_OPEN_H
#define TERN_BACKEND_OPEN_H

#include <stdbool.h>

#include "backend/backend.h"
#include "backend/kernel_choice.h"
#include "tern/choices.h"

typedef struct tern_ranks tern_ranks; /* tern/ranks.h */

/* Zero-initialised: the CPU, with all its cores and features. Strings are borrowed for the call. */
typedef struct tern_backend_options {
    const char *name;         /* "cpu", "vulkan", "cuda", "webgpu", "auto" (tern_backend_auto); NULL: "cpu" */
    uint32_t n_threads;       /* 0: one for each physical core */
    bool pin;                 /* tie threads to cores */
    const char *cpu_features; /* as tern_cpu_features_parse reads them; NULL: all that the machine has */
    /* CPU: how ternary weights are multiplied with a few tokens: "dot", "t160", "lut", "rsr", "rsr:6" (blocks of 6
     * rows). GPU: names of pipelines with commas between, each in the place of those that compute the same
     * (gpu/choices.h). NULL: by `choices`, else the default. */
    const char *kernel;
    tern_ffn_mode ffn;                 /* CPU: backend/cpu/linear/sparse.h */
    const tern_kernel_choice *choices; /* [n_choices], borrowed for the call; those of other numbers of threads, and of
                                        * other devices, do not count */
    size_t n_choices;
    tern_ranks *ranks; /* that graphs of a cut model are run with, borrowed; NULL: none. GPUs of a machine are taken in
                        * turn; where they cannot be joined (backend/peers.h), and between stages, the CPU sends and
                        * receives (a split backend of all layers) */
    uint32_t turn;     /* of processes of this machine that train together, from 1 on, as `ranks`; 0: alone */
    /* of GPUs */
    const char *device;  /* its index in the list of devices, or a part of its name; NULL: what should be fastest */
    bool split;          /* only the model's last gpu_layers layers run on the device, all else on the CPU; when */
    uint32_t gpu_layers; /* there are fewer layers than that, embedding and output head go with them. "cpu" is split
                          * over two CPU backends (for tests) */
    bool validation;     /* the driver's checking layers: what they say is an error */
    bool profile;        /* time every dispatch */
} tern_backend_options;

/* The backends of this build, up to NULL. */
extern const char *const tern_backend_names[];

/* The backend of "auto" on this machine: "cuda" where its first device can be used, else "vulkan" where a discrete GPU
 * can, else "cpu". Devices are looked for, none is opened. */
const char *tern_backend_auto(void);
/* Whether it passes over an NVIDIA driver that is here, for want of the module of CUDA: *why says what is wrong. */
bool tern_backend_auto_misses(tern_error *why);

/* Beside reading a model: what a backend's device needs to start, on a thread of its own. NULL: nothing.
 * tern_backend_open reports failures again. */
typedef struct tern_cuda_start tern_backend_start;
tern_backend_start *tern_backend_start_begin(const tern_backend_options *options);
void tern_backend_start_end(tern_backend_start *start);

/* Errors: UNSUPPORTED (no such backend in this build), and those of the backend. */
tern_status tern_backend_open(tern_backend **backend, const tern_backend_options *options, tern_error *err);

enum { TERN_BACKEND_MAX_SIDES = 2 };

/* The backends that an op may run on: of a split one its two, else itself. Returns how many. */
uint32_t tern_backend_sides(tern_backend *backend, tern_backend *sides[TERN_BACKEND_MAX_SIDES]);
/* Which of them runs an op of a graph. */
uint32_t tern_backend_side_of(const tern_backend *backend, const tern_graph *graph, const tern_op *op);

/* For measuring the kernels of a GPU, on a backend that is open; false, UNSUPPORTED of any other. */
/* "NVIDIA H200, NVIDIA 570.124.06": device and driver, which measurements hold for. */
bool tern_backend_key(const tern_backend *backend, char out[static TERN_KERNEL_DEVICE_BYTES]);
/* From the next prepared graph on, these choices and no others. Errors: OUT_OF_MEMORY. */
tern_status tern_backend_choose(tern_backend *backend, const tern_kernel_choice *choices, size_t n, tern_error *err);
/* The i-th kernel that computes what `kernel`, a name of its profile or of --kernel, does on this device, itself
 * included; false behind the last. */
bool tern_backend_alternative(const tern_backend *backend, const char *kernel, size_t i,
                              char out[static TERN_KERNEL_NAME_BYTES]);

/* Whether `kernel` is one, of a GPU or of the CPU. Errors: INVALID_ARGUMENT, with the names that there are. */
tern_status tern_backend_kernel_check(const char *kernel, bool gpu, tern_error *err);

#endif
