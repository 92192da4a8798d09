/* The pipeline cache on disk: what the driver made of the kernels, kept from one start to the next. */
#include "backend/vulkan/cache.h"

#include <string.h>

#include "base/alloc.h"

/* Whether the data begins as this device's: drivers check it as well, but not all of them well. */
static bool is_ours(const tern_vulkan_physical *p, const tern_buf *data)
{
    VkPipelineCacheHeaderVersionOne h;
    if (data->size < sizeof h) return false;
    memcpy(&h, data->data, sizeof h);
    return h.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && h.vendorID == p->properties.vendorID &&
           h.deviceID == p->properties.deviceID &&
           memcmp(h.pipelineCacheUUID, p->properties.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

static tern_status create(tern_vulkan *vk, const tern_buf *data, tern_error *err)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (is_ours(&vk->physical, data)) {
        info.initialDataSize = data->size;
        info.pInitialData = data->data;
        vk->cache_bytes = data->size;
    }
    return tern_vulkan__check(vk, vk->fn.CreatePipelineCache(vk->device, &info, NULL, &vk->cache),
                              "vkCreatePipelineCache", err);
}

tern_status tern_vulkan__cache_open(tern_vulkan *vk, const char *folder, tern_error *err)
{
    tern_buf data = {0};
    if (folder && *folder) {
        vk->cache_path = tern_vulkan__cache_file(&vk->physical, folder, "pipelines");
        if (!vk->cache_path) return tern_fail_alloc(err, strlen(folder));
        if (!tern_vulkan__cache_read(&vk->physical, vk->cache_path, &data)) data.size = 0;
    }
    tern_status status = create(vk, &data, err);
    tern_buf_deinit(&data);
    return status;
}

void tern_vulkan__cache_save(tern_vulkan *vk)
{
    if (!vk->cache_path || vk->n_unsaved == 0) return;
    vk->n_unsaved = 0;
    size_t n = 0;
    if (vk->fn.GetPipelineCacheData(vk->device, vk->cache, &n, NULL) != VK_SUCCESS || n <= vk->cache_bytes) return;
    void *data = tern_alloc(n);
    tern_error ignored = {0};
    if (data && vk->fn.GetPipelineCacheData(vk->device, vk->cache, &n, data) == VK_SUCCESS &&
        tern_vulkan__cache_write(&vk->physical, vk->cache_path, data, n, &ignored) == TERN_OK)
        vk->cache_bytes = n;
    tern_free(data);
}
