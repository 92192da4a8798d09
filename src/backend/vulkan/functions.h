/* The functions of Vulkan that are used, found when the library is loaded: the loader is needed only to run. */
#ifndef TERN_BACKEND_VULKAN_FUNCTIONS_H
#define TERN_BACKEND_VULKAN_FUNCTIONS_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "backend/vulkan/cooperative.h"
#include "base/error.h"

#define TERN_VULKAN_GLOBAL_FUNCTIONS(X)                                                                                \
    X(CreateInstance)                                                                                                  \
    X(EnumerateInstanceExtensionProperties)                                                                            \
    X(EnumerateInstanceLayerProperties)                                                                                \
    X(EnumerateInstanceVersion)

#define TERN_VULKAN_INSTANCE_FUNCTIONS(X)                                                                              \
    X(CreateDevice)                                                                                                    \
    X(DestroyInstance)                                                                                                 \
    X(EnumerateDeviceExtensionProperties)                                                                              \
    X(EnumeratePhysicalDevices)                                                                                        \
    X(GetDeviceProcAddr)                                                                                               \
    X(GetPhysicalDeviceFeatures2)                                                                                      \
    X(GetPhysicalDeviceMemoryProperties2)                                                                              \
    X(GetPhysicalDeviceProperties2)                                                                                    \
    X(GetPhysicalDeviceQueueFamilyProperties)

#define TERN_VULKAN_DEVICE_FUNCTIONS(X)                                                                                \
    X(AllocateCommandBuffers)                                                                                          \
    X(AllocateDescriptorSets)                                                                                          \
    X(AllocateMemory)                                                                                                  \
    X(BeginCommandBuffer)                                                                                              \
    X(BindBufferMemory)                                                                                                \
    X(CmdBindDescriptorSets)                                                                                           \
    X(CmdBindPipeline)                                                                                                 \
    X(CmdCopyBuffer)                                                                                                   \
    X(CmdDispatch)                                                                                                     \
    X(CmdFillBuffer)                                                                                                   \
    X(CmdPipelineBarrier)                                                                                              \
    X(CmdPushConstants)                                                                                                \
    X(CmdResetQueryPool)                                                                                               \
    X(CmdWriteTimestamp)                                                                                               \
    X(CreateBuffer)                                                                                                    \
    X(CreateCommandPool)                                                                                               \
    X(CreateComputePipelines)                                                                                          \
    X(CreateDescriptorPool)                                                                                            \
    X(CreateDescriptorSetLayout)                                                                                       \
    X(CreateFence)                                                                                                     \
    X(CreatePipelineCache)                                                                                             \
    X(CreatePipelineLayout)                                                                                            \
    X(CreateQueryPool)                                                                                                 \
    X(CreateShaderModule)                                                                                              \
    X(DestroyBuffer)                                                                                                   \
    X(DestroyCommandPool)                                                                                              \
    X(DestroyDescriptorPool)                                                                                           \
    X(DestroyDescriptorSetLayout)                                                                                      \
    X(DestroyDevice)                                                                                                   \
    X(DestroyFence)                                                                                                    \
    X(DestroyPipeline)                                                                                                 \
    X(DestroyPipelineCache)                                                                                            \
    X(DestroyPipelineLayout)                                                                                           \
    X(DestroyQueryPool)                                                                                                \
    X(DestroyShaderModule)                                                                                             \
    X(DeviceWaitIdle)                                                                                                  \
    X(EndCommandBuffer)                                                                                                \
    X(FlushMappedMemoryRanges)                                                                                         \
    X(FreeCommandBuffers)                                                                                              \
    X(FreeMemory)                                                                                                      \
    X(GetBufferMemoryRequirements)                                                                                     \
    X(GetDeviceQueue)                                                                                                  \
    X(GetPipelineCacheData)                                                                                            \
    X(GetQueryPoolResults)                                                                                             \
    X(InvalidateMappedMemoryRanges)                                                                                    \
    X(MapMemory)                                                                                                       \
    X(QueueSubmit)                                                                                                     \
    X(ResetFences)                                                                                                     \
    X(UpdateDescriptorSets)                                                                                            \
    X(WaitForFences)

typedef struct tern_vulkan_functions {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define X(name) PFN_vk##name name;
    TERN_VULKAN_GLOBAL_FUNCTIONS(X)
    TERN_VULKAN_INSTANCE_FUNCTIONS(X)
    TERN_VULKAN_DEVICE_FUNCTIONS(X)
#undef X
    /* of extensions; NULL without them */
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR GetPhysicalDeviceCooperativeMatrixPropertiesKHR;
    PFN_vkCreateDebugUtilsMessengerEXT CreateDebugUtilsMessengerEXT;
    PFN_vkDestroyDebugUtilsMessengerEXT DestroyDebugUtilsMessengerEXT;
} tern_vulkan_functions;

/* Loads the Vulkan loader and the functions that need no instance. *library is closed with tern_vulkan__unload.
 * Errors: NOT_FOUND (no loader), UNSUPPORTED (a loader without a function). */
tern_status tern_vulkan__load(tern_vulkan_functions *fn, void **library, tern_error *err);
void tern_vulkan__unload(void *library);
tern_status tern_vulkan__load_instance(tern_vulkan_functions *fn, VkInstance instance, tern_error *err);
tern_status tern_vulkan__load_device(tern_vulkan_functions *fn, VkDevice device, tern_error *err);

/* "VK_ERROR_DEVICE_LOST"; numbers that are not known come as "VkResult". */
const char *tern_vulkan__result_name(VkResult result);

#endif
