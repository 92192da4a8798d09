/* Buffers of the device: made, filled, read. */
#include <string.h>

#include "backend/range.h"
#include "backend/vulkan/device.h"
#include "base/alloc.h"

enum { PADDING = 256, MIRROR_BYTES = 4 << 20 };

tern_status tern_vulkan__buffer_make(tern_vulkan *vk, uint64_t bytes, tern_vulkan_use use, tern_buffer **out,
                                     tern_error *err)
{
    tern_buffer *buffer = tern_calloc(1, sizeof *buffer);
    if (!buffer) return tern_fail_alloc(err, sizeof *buffer);
    *buffer = (tern_buffer){.bytes = bytes, .padded = bytes ? (bytes + PADDING - 1) / PADDING * PADDING : PADDING};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = buffer->padded,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    VkMemoryRequirements need;
    tern_status status = TERN_OK;
    if (buffer->padded < bytes || buffer->padded > vk->physical.max_buffer)
        TERN_GOTO(tern_fail(err, TERN_LIMIT, "vulkan: a buffer of %llu bytes: %s has at most %llu",
                            (unsigned long long)bytes, vk->physical.properties.deviceName,
                            (unsigned long long)vk->physical.max_buffer));
    TERN_GOTO(
        tern_vulkan__check(vk, vk->fn.CreateBuffer(vk->device, &info, NULL, &buffer->handle), "vkCreateBuffer", err));
    vk->counters.allocations++;
    vk->fn.GetBufferMemoryRequirements(vk->device, buffer->handle, &need);
    TERN_GOTO(tern_vulkan__allocate(vk, use, &need, &buffer->memory, err));
    TERN_GOTO(tern_vulkan__check(
        vk, vk->fn.BindBufferMemory(vk->device, buffer->handle, buffer->memory.memory, buffer->memory.offset),
        "vkBindBufferMemory", err));
    *out = buffer;
    return TERN_OK;
fail:
    tern_vulkan__buffer_free(vk, buffer);
    return status;
}

tern_status tern_vulkan__buffer_zero(tern_vulkan *vk, tern_buffer *buffer, tern_error *err)
{
    if (!buffer->memory.mapped) return tern_vulkan__upload_zeros(vk, buffer, err);
    memset(buffer->memory.mapped, 0, (size_t)buffer->padded);
    return tern_vulkan__flush(vk, &buffer->memory, err);
}

void tern_vulkan__buffer_free(tern_vulkan *vk, tern_buffer *buffer)
{
    tern_error ignored = {0};
    if (!buffer || vk->hangs) return;
    tern_vulkan__upload_wait(vk, &ignored); /* it may be written to */
    tern_vulkan__buffer_free(vk, buffer->mirror);
    if (buffer->handle) vk->fn.DestroyBuffer(vk->device, buffer->handle, NULL);
    tern_vulkan__release(vk, &buffer->memory);
    tern_free(buffer);
}

tern_status tern_vulkan__buffer_write(tern_vulkan *vk, tern_buffer *buffer, uint64_t offset, const void *data,
                                      uint64_t bytes, tern_error *err)
{
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    if (bytes == 0) return TERN_OK;
    buffer->mirror_fresh = false;
    vk->counters.uploaded_bytes += bytes;
    if (!buffer->memory.mapped) return tern_vulkan__upload(vk, buffer, offset, data, bytes, err);
    TERN_TRY(tern_vulkan__idle(vk, err));
    memcpy(buffer->memory.mapped + offset, data, (size_t)bytes);
    return tern_vulkan__flush(vk, &buffer->memory, err);
}

/* Copies from memory that the host sees. */
static tern_status read_mapped(tern_vulkan *vk, const tern_buffer *from, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    TERN_TRY(tern_vulkan__invalidate(vk, &from->memory, err));
    memcpy(data, from->memory.mapped + offset, (size_t)bytes);
    return TERN_OK;
}

tern_status tern_vulkan__buffer_read(tern_vulkan *vk, const tern_buffer *buffer, uint64_t offset, void *data,
                                     uint64_t bytes, tern_error *err)
{
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    TERN_TRY(tern_vulkan__idle(vk, err));
    if (bytes == 0) return TERN_OK;
    vk->counters.downloaded_bytes += bytes;
    if (buffer->memory.mapped && buffer->memory.cached) return read_mapped(vk, buffer, offset, data, bytes, err);
    const tern_buffer *mirror = buffer->mirror;
    if (mirror && buffer->mirror_fresh && offset >= buffer->mirror_offset &&
        offset + bytes <= buffer->mirror_offset + mirror->bytes)
        return read_mapped(vk, mirror, offset - buffer->mirror_offset, data, bytes, err);
    return tern_vulkan__download(vk, buffer, offset, data, bytes, err);
}

tern_status tern_vulkan__buffer_share(tern_vulkan *vk, tern_buffer *buffer, tern_error *err)
{
    if (buffer->memory.mapped) return TERN_OK;
    tern_buffer *shared;
    TERN_TRY(tern_vulkan__buffer_make(vk, buffer->bytes, TERN_VULKAN_SHARED, &shared, err));
    tern_status status = tern_vulkan__upload_wait(vk, err);
    if (status == TERN_OK) status = tern_vulkan__download(vk, buffer, 0, shared->memory.mapped, buffer->padded, err);
    if (status == TERN_OK) status = tern_vulkan__flush(vk, &shared->memory, err);
    if (status == TERN_OK) { /* the pointer stays, what is behind it changes */
        tern_buffer old = *buffer;
        buffer->handle = shared->handle;
        buffer->memory = shared->memory;
        shared->handle = old.handle;
        shared->memory = old.memory;
    }
    tern_vulkan__buffer_free(vk, shared);
    return status;
}

tern_status tern_vulkan__buffer_mirror(tern_vulkan *vk, tern_buffer *buffer, uint64_t offset, uint64_t bytes,
                                       tern_error *err)
{
    if (buffer->mirror || bytes > MIRROR_BYTES || (buffer->memory.mapped && buffer->memory.cached)) return TERN_OK;
    TERN_TRY(tern_vulkan__buffer_make(vk, bytes, TERN_VULKAN_READBACK, &buffer->mirror, err));
    buffer->mirror_offset = offset;
    return TERN_OK;
}
