/* The Vulkan backend: the WGSL kernels of backend/gpu on any device with Vulkan 1.1. The loader is found at run time.
 */
#ifndef TERN_BACKEND_VULKAN_VULKAN_H
#define TERN_BACKEND_VULKAN_VULKAN_H

#include "backend/backend.h"
#include "backend/kernel_choice.h"

struct tern_gpu_caps;

/* Whether the dispatches of a token wait for each other on counters, without barriers (decision 0061). */
typedef enum tern_vulkan_waits {
    TERN_VULKAN_WAITS_DEFAULT, /* see waits.c */
    TERN_VULKAN_WAITS_ON,      /* opening fails where the device does not pass the trial */
    TERN_VULKAN_WAITS_OFF
} tern_vulkan_waits;

/* Zero-initialised: the device that should be fastest. */
typedef struct tern_vulkan_options {
    const char *device; /* its index in the list, or a part of its name */
    const char *kernel; /* names of pipelines with commas between (gpu/choices.h); NULL: by `choices`, else by table */
    const tern_kernel_choice *choices; /* [n_choices] borrowed for the call; those of other devices do not count */
    size_t n_choices;
    const char *cache_dir; /* where compiled pipelines are kept; NULL: the user's cache folder; "": nowhere */
    uint32_t n_threads;    /* that pack weights; 0: one for each physical core, at most 16 */
    bool validation;       /* run under VK_LAYER_KHRONOS_validation: the first thing it says becomes an error */
    bool profile;          /* time every dispatch; each step is then waited for */
    bool staged;           /* never map the device's memory, as if it were not the host's; for tests */
    bool trusting;         /* do not try kernels before they are used */
    bool unfused;          /* ask for no fusions in graphs of one token */
    tern_vulkan_waits waits;
    const struct tern_gpu_caps *limits; /* use no more than this of the device, for tests; NULL: all */
} tern_vulkan_options;

/* Errors: NOT_FOUND (no loader, no device, none of that name), INVALID_ARGUMENT (a name that fits several devices),
 * UNSUPPORTED (the device lacks something that is needed: it is named). */
tern_status tern_vulkan_open(tern_backend **backend, const tern_vulkan_options *options, tern_error *err);

/* "NVIDIA H200, NVIDIA 570.124.06": what measurements on an open one hold for. */
void tern_vulkan_key(const tern_backend *backend, char out[static TERN_KERNEL_DEVICE_BYTES]);
/* These choices hold from the next prepared graph on, in place of earlier ones, except for names. Those of other
 * devices do not count. Errors: OUT_OF_MEMORY. */
tern_status tern_vulkan_choose(tern_backend *backend, const tern_kernel_choice *choices, size_t n, tern_error *err);
/* The i-th kernel that computes what `kernel` does on this device, itself included, into out; false behind the last. */
bool tern_vulkan_alternative(const tern_backend *backend, const char *kernel, size_t i,
                             char out[static TERN_KERNEL_NAME_BYTES]);

/* Whether workgroups of an open device may wait for those of the dispatch before: runs the trial. On failure err says
 * what it got wrong. */
tern_status tern_vulkan_try_waits(tern_backend *backend, tern_error *err);

/* The lines of `tern devices`. */
typedef struct tern_vulkan_device {
    char name[256], driver[256];         /* "NVIDIA H200", "NVIDIA 570.124.06" */
    const char *type;                    /* "discrete", "integrated", "virtual", "cpu", "other" */
    uint32_t version[3];                 /* of Vulkan */
    uint64_t memory;                     /* bytes that are local to the device */
    bool unified;                        /* that memory is the host's as well */
    uint32_t subgroup_min, subgroup_max; /* 0: no subgroup operations */
    uint32_t workgroup_bytes, workgroup_invocations;
    uint64_t max_binding;
    bool dot_product, fast_dot_product, f16, timestamps;
    char lacks[64]; /* what this backend needs and the device has not; empty: it can be used */
} tern_vulkan_device;

/* Fills devices[cap]; *n is how many there are. Errors: as tern_vulkan_open; no device at all is none. */
tern_status tern_vulkan_devices(tern_vulkan_device *devices, size_t cap, size_t *n, tern_error *err);

#endif
