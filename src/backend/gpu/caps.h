/* The abilities of a GPU, as far as the choice of kernels and the lowering of graphs depend on them. */
#ifndef TERN_BACKEND_GPU_CAPS_H
#define TERN_BACKEND_GPU_CAPS_H

#include <stdbool.h>
#include <stdint.h>

struct tern_gpu_choices;

/* Heads of caches in blocks are multiples of this: rows are then whole words. */
enum { TERN_GPU_BLOCK_HEADS = 64 };

/* Filled by the backend, or made up by a test. */
typedef struct tern_gpu_caps {
    uint32_t subgroup_min, subgroup_max;    /* 0: no subgroup arithmetic and shuffles in compute shaders */
    uint32_t workgroup_bytes;               /* of workgroup memory, at least 16384 */
    uint32_t workgroup_invocations;         /* at least 128 */
    uint32_t max_groups;                    /* of one dispatch, in each dimension; at least 65535 */
    uint64_t max_binding;                   /* bytes of one storage binding, at least 128 MiB */
    uint32_t binding_alignment;             /* of a binding's offset, at most 256 */
    bool f16;                               /* f16 arithmetic (shader-f16); only cooperative kernels need it */
    bool cooperative, int8_matrices;        /* see TERN_GPU_NEEDS_COOPERATIVE, TERN_GPU_NEEDS_INT8_MATRICES */
    const struct tern_gpu_choices *choices; /* other pipelines than the table's (choices.h); NULL: none */
    bool waits;         /* see TERN_GPU_NEEDS_WAITS; a device may still fail the trial (vulkan/waits.c) */
    bool device_fences; /* storageBarrier orders storage for other workgroups too: Vulkan, not WebGPU */
} tern_gpu_caps;

/* No more than `limits` of the device: lesser numbers, and what both have. */
void tern_gpu_limit(tern_gpu_caps *caps, const tern_gpu_caps *limits);

#endif
