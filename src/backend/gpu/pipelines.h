/* The pipelines of the GPU backends as data: which kernel with which overrides, and what it needs of a device.
 * generated/kernels.h has the facts of the kernels' texts (uniforms, bindings, values of overrides).
 *
 * Kernels (FAMILY/NAME.wgsl or .wesl): group 0; binding 0 is the uniform struct P of at most TERN_GPU_UNIFORM_WORDS
 * words, bindings 1.. are storage buffers in the order of the pipeline's signature. 'r' is var<storage, read> (weights,
 * norm_weights, constants), 'w' var<storage, read_write>: all activations, caches and parameters, also where they are
 * only read, because WebGPU refuses one buffer as both in one dispatch; and biases, bound as the residuals for which
 * the kernels take them. */
#ifndef TERN_BACKEND_GPU_PIPELINES_H
#define TERN_BACKEND_GPU_PIPELINES_H

#include <stddef.h>

#include "backend/gpu/caps.h"

/* Bindings that lowering fills. */
enum { TERN_GPU_MAX_BINDINGS = 8, TERN_GPU_UNIFORM_WORDS = 32 };

/* The requirements of a pipeline, beyond invocations and workgroup memory. */
enum {
    TERN_GPU_NEEDS_SUBGROUPS = 1,
    TERN_GPU_NEEDS_COOPERATIVE = 2, /* cooperative matrices of 16 x 16 x 16, f16 inputs and f32 sums, by subgroups of
                                     * 32: Vulkan alone, the kernel is in naga's dialect of WGSL */
    TERN_GPU_NEEDS_WAITS = 4, /* workgroups wait for those of the dispatch before (shared/waits.wesl): Vulkan alone,
                               * which binds the counters behind what lowering has bound */
    TERN_GPU_NEEDS_INT8_MATRICES = 8, /* cooperative matrices of int8, 16 x 32 times 32 x 16, with i32 sums, likewise */
    TERN_GPU_NEEDS_VULKAN = 16        /* no need of the kernel: it is left out of the page, which is to stay small */
};

/* The table. X(NAME, file, signature, needs, smallest subgroup, invocations, workgroup bytes, overrides):
 * the kernel FAMILY/file with its `override`s set to "KEY=VALUE ..." (others keep their default); the signature has one
 * letter for each storage binding. Without NEEDS_SUBGROUPS what the file has under @if(subgroups) is left out, without
 * NEEDS_WAITS what it has under @if(waits).
 * tools/wgsl checks the signature, invocations and workgroup bytes against the file. */
typedef enum tern_gpu_pipeline {
#define X(name, file, signature, needs, subgroup, invocations, bytes, overrides) TERN_GPU_##name,
#include "backend/gpu/pipelines.def"
#undef X
    TERN_GPU_PIPELINE_COUNT
} tern_gpu_pipeline;

typedef struct tern_gpu_pipeline_info {
    const char *name, *file, *signature;
    uint32_t n_bindings; /* letters of the signature */
    uint32_t needs, subgroup, invocations, workgroup_bytes;
    const char *overrides;
} tern_gpu_pipeline_info;

extern const tern_gpu_pipeline_info tern_gpu_pipelines[TERN_GPU_PIPELINE_COUNT];

/* Whether a device with `caps` can run the pipeline. */
bool tern_gpu_pipeline_fits(tern_gpu_pipeline pipeline, const tern_gpu_caps *caps);
/* The first of candidates[n] that fits, or TERN_GPU_PIPELINE_COUNT. */
tern_gpu_pipeline tern_gpu_first_fit(const tern_gpu_pipeline *candidates, size_t n, const tern_gpu_caps *caps);

/* The pipeline that does the same as `pipeline` and waits for the dispatch before, or TERN_GPU_PIPELINE_COUNT. Lowering
 * never chooses one of these. */
tern_gpu_pipeline tern_gpu_waiting(tern_gpu_pipeline pipeline);

#endif
