/* The WebGPU backend of the WebAssembly build: the WGSL kernels of backend/gpu on the device that JavaScript has given
 * to the module (web/lib/gpu.js). It never waits. */
#ifndef TERN_BACKEND_WEBGPU_WEBGPU_H
#define TERN_BACKEND_WEBGPU_WEBGPU_H

#include "backend/backend.h"

struct tern_gpu_caps;

typedef struct tern_webgpu_options {
    const char *kernel;                 /* names of pipelines with commas between (gpu/choices.h); NULL: the table's */
    bool unfused;                       /* ask for no fusions in graphs of one token */
    const struct tern_gpu_caps *limits; /* use no more than this of the device, for tests; NULL: all */
} tern_webgpu_options;

/* All calls of the backend come from the thread in which the module was made. Errors: NOT_FOUND (JavaScript has given
 * no device). */
tern_status tern_webgpu_open(tern_backend **backend, const tern_webgpu_options *options, tern_error *err);

#endif
