/* From a device's properties to what the kernels ask for. Pure functions, tested on made-up devices. */
#include <stddef.h>

#include "backend/gpu/pipelines.h"
#include "backend/vulkan/physical.h"

static const VkSubgroupFeatureFlags subgroup_operations =
    VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT |
    VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT;

const char *tern_vulkan__lacks(const tern_vulkan_physical *p)
{
    if (p->properties.apiVersion < VK_API_VERSION_1_1) return "Vulkan 1.1";
    if (p->queue_family == UINT32_MAX) return "a queue that computes";
    if (!p->dot_product) return "shaderIntegerDotProduct";
    return NULL;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void tern_vulkan__caps(const tern_vulkan_physical *p, tern_gpu_caps *caps)
{
    const VkPhysicalDeviceLimits *l = &p->properties.limits;
    const uint32_t *count = l->maxComputeWorkGroupCount;
    *caps = (tern_gpu_caps){.workgroup_bytes = l->maxComputeSharedMemorySize,
                            .workgroup_invocations =
                                smaller(l->maxComputeWorkGroupInvocations, l->maxComputeWorkGroupSize[0]),
                            .max_groups = smaller(count[0], smaller(count[1], count[2])),
                            .max_binding = l->maxStorageBufferRange,
                            .binding_alignment = (uint32_t)l->minStorageBufferOffsetAlignment,
                            .f16 = p->f16,
                            .cooperative = p->cooperative,
                            .int8_matrices = p->int8_matrices,
                            .waits = l->maxPerStageDescriptorStorageBuffers > TERN_GPU_MAX_BINDINGS &&
                                     l->maxDescriptorSetStorageBuffers > TERN_GPU_MAX_BINDINGS,
                            .device_fences = true};
    bool complete = (p->subgroups.supportedOperations & subgroup_operations) == subgroup_operations &&
                    p->subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT;
    if (!complete || p->subgroups.subgroupSize < 4) return;
    /* Where the size can be chosen, pipelines ask for the usual one; elsewhere it may vary only where the two differ.
     */
    caps->subgroup_min = p->subgroup_control ? p->subgroups.subgroupSize : p->subgroup_min;
    caps->subgroup_max = p->subgroup_control ? p->subgroups.subgroupSize : p->subgroup_max;
}

bool tern_vulkan__unified(const tern_vulkan_physical *p)
{
    const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    if (p->properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU &&
        p->properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU)
        return false;
    for (uint32_t i = 0; i < p->memory.memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = p->memory.memoryTypes[i].propertyFlags;
        if (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT && (flags & host) == host) return true;
    }
    return false;
}

uint64_t tern_vulkan__max_buffer(const tern_vulkan_physical *p)
{
    return p->max_buffer < p->max_allocation ? p->max_buffer : p->max_allocation;
}

uint64_t tern_vulkan__memory(const tern_vulkan_physical *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->memory.memoryHeapCount; i++)
        if (p->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) bytes += p->memory.memoryHeaps[i].size;
    return bytes;
}

const char *tern_vulkan__type_name(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "cpu";
    default: return "other";
    }
}
