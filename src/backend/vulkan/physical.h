/* The properties that a device reports, and their meaning to the kernels. */
#ifndef TERN_BACKEND_VULKAN_PHYSICAL_H
#define TERN_BACKEND_VULKAN_PHYSICAL_H

#include "backend/gpu/caps.h"
#include "backend/vulkan/instance.h"
#include "backend/vulkan/vulkan.h"

typedef struct tern_vulkan_physical {
    VkPhysicalDevice handle;
    VkPhysicalDeviceProperties properties;
    char driver[256];
    uint8_t driver_uuid[VK_UUID_SIZE], device_uuid[VK_UUID_SIZE];
    uint64_t max_allocation, max_buffer; /* bytes */
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceSubgroupProperties subgroups;
    uint32_t subgroup_min, subgroup_max;
    uint32_t most_subgroups;               /* for a workgroup with a required size of subgroups */
    bool subgroup_control;                 /* pipelines can ask for a subgroup size, and for full subgroups */
    bool dot_product, fast_dot_product;    /* of packed 4 x int8 */
    bool f16, int8;                        /* arithmetic */
    bool cooperative, int8_matrices;       /* see tern_gpu_caps */
    bool memory_budget, feedback;          /* VK_EXT_memory_budget, VK_EXT_pipeline_creation_feedback */
    bool control_extension, dot_extension; /* not yet core in its version: to be named when the device is created */
    uint32_t queue_family;                 /* the first that computes, or UINT32_MAX */
    uint32_t timestamp_bits;
} tern_vulkan_physical;

void tern_vulkan__describe(const tern_vulkan_functions *fn, VkPhysicalDevice handle, tern_vulkan_physical *out);
/* All devices, in the loader's order; *physicals is the caller's to free. */
tern_status tern_vulkan__physicals(const tern_vulkan_instance *instance, tern_vulkan_physical **physicals, uint32_t *n,
                                   tern_error *err);

/* Pure functions of the description. */

/* The features that the backend needs and the device lacks; NULL: nothing. */
const char *tern_vulkan__lacks(const tern_vulkan_physical *physical);
void tern_vulkan__caps(const tern_vulkan_physical *physical, tern_gpu_caps *caps);
/* Whether all memory that is local to the device can be mapped, and cached by the host. */
bool tern_vulkan__unified(const tern_vulkan_physical *physical);
/* Bytes of memory that is local to the device. */
/* Bytes of the largest buffer, as buffers and as memory go. */
uint64_t tern_vulkan__max_buffer(const tern_vulkan_physical *physical);
uint64_t tern_vulkan__memory(const tern_vulkan_physical *physical);
const char *tern_vulkan__type_name(VkPhysicalDeviceType type);

/* The device that `wanted` names: an index, a part of a name that only one has, or NULL for the best that lacks
 * nothing. Errors: NOT_FOUND, INVALID_ARGUMENT, UNSUPPORTED; they list what is there. */
tern_status tern_vulkan__choose(const tern_vulkan_physical *physicals, uint32_t n, const char *wanted, uint32_t *index,
                                tern_error *err);

#endif
