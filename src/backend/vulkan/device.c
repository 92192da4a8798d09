/* Opening a device and its queue; command buffers, fences, and the errors of both. */
#include "backend/vulkan/device.h"

#include <stdio.h>

#include "base/alloc.h"

/* The features that are used, chained as vkCreateDevice takes them. */
typedef struct features {
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot;
    VkPhysicalDeviceSubgroupSizeControlFeatures size;
    VkPhysicalDeviceShaderFloat16Int8Features f16;
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperative;
    void *first;
} features;

static bool has_matrices(const tern_vulkan_physical *p)
{
    return p->cooperative || p->int8_matrices;
}

static void choose_features(const tern_vulkan_physical *p, features *f)
{
    *f = (features){.dot = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
                            .shaderIntegerDotProduct = VK_TRUE},
                    .size = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                             .pNext = &f->dot,
                             .subgroupSizeControl = VK_TRUE,
                             .computeFullSubgroups = VK_TRUE},
                    .f16 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
                            .pNext = &f->size,
                            .shaderFloat16 = p->cooperative,
                            .shaderInt8 = p->int8_matrices},
                    .memory_model = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
                                     .pNext = &f->f16,
                                     .vulkanMemoryModel = VK_TRUE,
                                     .vulkanMemoryModelDeviceScope = VK_TRUE},
                    .cooperative = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
                                    .pNext = &f->memory_model,
                                    .cooperativeMatrix = VK_TRUE}};
    f->first = has_matrices(p) ? (void *)&f->cooperative : p->subgroup_control ? (void *)&f->size : (void *)&f->dot;
}

static uint32_t choose_extensions(const tern_vulkan_physical *p, const char *names[])
{
    uint32_t n = 0;
    if (p->dot_extension) names[n++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    if (p->control_extension) names[n++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (p->memory_budget) names[n++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    if (has_matrices(p)) names[n++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (p->feedback && p->properties.apiVersion < VK_API_VERSION_1_3)
        names[n++] = VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME;
    return n;
}

static tern_status device_create(tern_vulkan *vk, tern_error *err)
{
    const tern_vulkan_physical *p = &vk->physical;
    features wanted;
    choose_features(p, &wanted);
    const char *extensions[8];
    uint32_t n = choose_extensions(p, extensions);
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = p->queue_family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = wanted.first,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = n,
                               .ppEnabledExtensionNames = extensions};
    VkResult result = vk->instance.fn.CreateDevice(p->handle, &info, NULL, &vk->device);
    TERN_TRY(tern_vulkan__check(vk, result, "vkCreateDevice", err));
    TERN_TRY(tern_vulkan__load_device(&vk->instance.fn, vk->device, err));
    vk->fn = vk->instance.fn;
    vk->fn.GetDeviceQueue(vk->device, p->queue_family, 0, &vk->queue);
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = p->queue_family};
    return tern_vulkan__check(vk, vk->fn.CreateCommandPool(vk->device, &pool, NULL, &vk->command_pool),
                              "vkCreateCommandPool", err);
}

tern_status tern_vulkan__device_open(tern_vulkan *vk, const tern_vulkan_options *options, tern_error *err)
{
    tern_vulkan_physical *physicals = NULL;
    uint32_t n = 0, index = 0;
    TERN_TRY(tern_vulkan__instance_open(&vk->instance, options->validation, err));
    tern_status status = tern_vulkan__physicals(&vk->instance, &physicals, &n, err);
    if (status == TERN_OK) status = tern_vulkan__choose(physicals, n, options->device, &index, err);
    if (status == TERN_OK) vk->physical = physicals[index];
    tern_free(physicals);
    TERN_TRY(status);
    tern_vulkan__caps(&vk->physical, &vk->caps);
    if (options->limits) tern_gpu_limit(&vk->caps, options->limits);
    vk->unified = !options->staged && tern_vulkan__unified(&vk->physical);
    return device_create(vk, err);
}

void tern_vulkan__device_close(tern_vulkan *vk)
{
    if (vk->device) {
        if (vk->command_pool) vk->fn.DestroyCommandPool(vk->device, vk->command_pool, NULL);
        if (vk->fn.DestroyDevice) vk->fn.DestroyDevice(vk->device, NULL);
    }
    tern_vulkan__instance_close(&vk->instance);
}

static tern_status code_of(VkResult result)
{
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS: return TERN_OUT_OF_MEMORY;
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_INCOMPATIBLE_DRIVER: return TERN_UNSUPPORTED;
    default: return TERN_INTERNAL;
    }
}

tern_status tern_vulkan__check(tern_vulkan *vk, VkResult result, const char *what, tern_error *err)
{
    if (result >= 0) return TERN_OK;
    const char *device = vk->physical.properties.deviceName;
    if (result == VK_ERROR_DEVICE_LOST) {
        tern_fail(&vk->lost, TERN_INTERNAL,
                  "vulkan: the device %s was lost in %s: its driver has reset it or it was removed; start again "
                  "(the system's log may say more)",
                  device, what);
        return tern_vulkan__alive(vk, err);
    }
    return tern_fail(err, code_of(result), "vulkan: %s: %s gave %s (%d)", device, what,
                     tern_vulkan__result_name(result), (int)result);
}

tern_status tern_vulkan__alive(const tern_vulkan *vk, tern_error *err)
{
    if (vk->lost.code == TERN_OK) return TERN_OK;
    return tern_fail(err, vk->lost.code, "%s", vk->lost.message);
}

tern_status tern_vulkan__fence_create(tern_vulkan *vk, VkFence *fence, tern_error *err)
{
    VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    vk->counters.allocations++;
    return tern_vulkan__check(vk, vk->fn.CreateFence(vk->device, &info, NULL, fence), "vkCreateFence", err);
}

tern_status tern_vulkan__commands_create(tern_vulkan *vk, VkCommandBuffer *commands, tern_error *err)
{
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = vk->command_pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    vk->counters.allocations++;
    return tern_vulkan__check(vk, vk->fn.AllocateCommandBuffers(vk->device, &info, commands),
                              "vkAllocateCommandBuffers", err);
}

tern_status tern_vulkan__begin(tern_vulkan *vk, VkCommandBuffer commands, VkCommandBufferUsageFlags usage,
                               tern_error *err)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = usage};
    return tern_vulkan__check(vk, vk->fn.BeginCommandBuffer(commands, &info), "vkBeginCommandBuffer", err);
}

tern_status tern_vulkan__submit(tern_vulkan *vk, const VkCommandBuffer *commands, uint32_t n, VkFence fence,
                                tern_error *err)
{
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = n, .pCommandBuffers = commands};
    vk->counters.submits++;
    return tern_vulkan__check(vk, vk->fn.QueueSubmit(vk->queue, 1, &info, fence), "vkQueueSubmit", err);
}

tern_status tern_vulkan__fence_wait(tern_vulkan *vk, VkFence fence, uint64_t seconds, tern_error *err)
{
    TERN_TRY(tern_vulkan__alive(vk, err));
    VkResult result = vk->fn.WaitForFences(vk->device, 1, &fence, VK_TRUE, seconds * 1000000000u);
    if (result == VK_TIMEOUT) {
        vk->hangs = true;
        tern_fail(&vk->lost, TERN_INTERNAL,
                  "vulkan: the device %s has not finished within %llu s: it hangs or is far too slow",
                  vk->physical.properties.deviceName, (unsigned long long)seconds);
        return tern_vulkan__alive(vk, err);
    }
    TERN_TRY(tern_vulkan__check(vk, result, "vkWaitForFences", err));
    return tern_vulkan__check(vk, vk->fn.ResetFences(vk->device, 1, &fence), "vkResetFences", err);
}
