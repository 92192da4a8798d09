/* Copies between host and device through staging buffers: uploads gathered in a ring, downloads one by one. */
#include <string.h>

#include "backend/vulkan/device.h"

enum { WAIT_SECONDS = 600 };

static tern_status slot_open(tern_vulkan *vk, tern_vulkan_slot *slot, tern_error *err)
{
    if (!slot->staging)
        TERN_TRY(tern_vulkan__buffer_make(vk, TERN_VULKAN_UPLOAD_BYTES, TERN_VULKAN_UPLOAD, &slot->staging, err));
    if (!slot->commands) TERN_TRY(tern_vulkan__commands_create(vk, &slot->commands, err));
    if (!slot->fence) TERN_TRY(tern_vulkan__fence_create(vk, &slot->fence, err));
    return TERN_OK;
}

static const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                  transfer = VK_PIPELINE_STAGE_TRANSFER_BIT;

static tern_status slot_wait(tern_vulkan *vk, tern_vulkan_slot *slot, tern_error *err)
{
    if (!slot->submitted) return TERN_OK;
    slot->submitted = false;
    return tern_vulkan__fence_wait(vk, slot->fence, WAIT_SECONDS, err);
}

static tern_status slot_begin(tern_vulkan *vk, tern_vulkan_slot *slot, tern_error *err)
{
    if (slot->recording) return TERN_OK;
    TERN_TRY(slot_open(vk, slot, err));
    TERN_TRY(slot_wait(vk, slot, err));
    TERN_TRY(tern_vulkan__begin(vk, slot->commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, err));
    tern_vulkan__barrier(vk, slot->commands, compute | transfer,
                         VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, transfer,
                         VK_ACCESS_TRANSFER_WRITE_BIT);
    slot->recording = true;
    slot->used = 0;
    slot->hazards.n = 0;
    return TERN_OK;
}

tern_status tern_vulkan__upload_flush(tern_vulkan *vk, tern_error *err)
{
    tern_vulkan_slot *slot = &vk->slots[vk->slot];
    if (!slot->recording) return TERN_OK;
    slot->recording = false;
    TERN_TRY(tern_vulkan__flush(vk, &slot->staging->memory, err));
    TERN_TRY(tern_vulkan__check(vk, vk->fn.EndCommandBuffer(slot->commands), "vkEndCommandBuffer", err));
    TERN_TRY(tern_vulkan__submit(vk, &slot->commands, 1, slot->fence, err));
    slot->submitted = true;
    vk->slot = (vk->slot + 1) % TERN_VULKAN_UPLOAD_SLOTS;
    return TERN_OK;
}

tern_status tern_vulkan__upload_wait(tern_vulkan *vk, tern_error *err)
{
    TERN_TRY(tern_vulkan__upload_flush(vk, err));
    for (uint32_t i = 0; i < TERN_VULKAN_UPLOAD_SLOTS; i++) TERN_TRY(slot_wait(vk, &vk->slots[i], err));
    return TERN_OK;
}

/* A barrier where the slot has written the range before. */
static void order(tern_vulkan *vk, tern_vulkan_slot *slot, const tern_buffer *buffer, uint64_t offset, uint64_t bytes)
{
    tern_vulkan_access access = {.buffer = buffer, .offset = offset, .bytes = bytes, .written = true};
    if (tern_vulkan__hazard(&slot->hazards, &access, 1, false))
        tern_vulkan__barrier(vk, slot->commands, transfer, VK_ACCESS_TRANSFER_WRITE_BIT, transfer,
                             VK_ACCESS_TRANSFER_WRITE_BIT);
}

tern_status tern_vulkan__upload_reserve(tern_vulkan *vk, tern_buffer *buffer, uint64_t offset, uint64_t bytes,
                                        uint8_t **at, tern_error *err)
{
    uint64_t aligned = (bytes + 15) / 16 * 16;
    TERN_TRY(tern_vulkan__alive(vk, err));
    if (vk->slots[vk->slot].recording && vk->slots[vk->slot].used + aligned > TERN_VULKAN_UPLOAD_BYTES)
        TERN_TRY(tern_vulkan__upload_flush(vk, err));
    tern_vulkan_slot *slot = &vk->slots[vk->slot];
    TERN_TRY(slot_begin(vk, slot, err));
    order(vk, slot, buffer, offset, bytes);
    VkBufferCopy copy = {.srcOffset = slot->used, .dstOffset = offset, .size = bytes};
    vk->fn.CmdCopyBuffer(slot->commands, slot->staging->handle, buffer->handle, 1, &copy);
    *at = slot->staging->memory.mapped + slot->used;
    slot->used += aligned;
    return TERN_OK;
}

tern_status tern_vulkan__upload(tern_vulkan *vk, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    const uint8_t *from = data;
    while (bytes) {
        uint64_t n = bytes < TERN_VULKAN_UPLOAD_BYTES ? bytes : TERN_VULKAN_UPLOAD_BYTES;
        uint8_t *at;
        TERN_TRY(tern_vulkan__upload_reserve(vk, buffer, offset, n, &at, err));
        memcpy(at, from, (size_t)n);
        from += n;
        offset += n;
        bytes -= n;
    }
    return TERN_OK;
}

tern_status tern_vulkan__upload_zeros(tern_vulkan *vk, tern_buffer *buffer, tern_error *err)
{
    TERN_TRY(tern_vulkan__alive(vk, err));
    tern_vulkan_slot *slot = &vk->slots[vk->slot];
    TERN_TRY(slot_begin(vk, slot, err));
    order(vk, slot, buffer, 0, buffer->padded);
    vk->fn.CmdFillBuffer(slot->commands, buffer->handle, 0, buffer->padded, 0);
    return TERN_OK;
}

static tern_status download_open(tern_vulkan *vk, tern_error *err)
{
    if (!vk->download_commands) TERN_TRY(tern_vulkan__commands_create(vk, &vk->download_commands, err));
    if (!vk->download_fence) TERN_TRY(tern_vulkan__fence_create(vk, &vk->download_fence, err));
    if (vk->download_staging) return TERN_OK;
    return tern_vulkan__buffer_make(vk, TERN_VULKAN_UPLOAD_BYTES, TERN_VULKAN_READBACK, &vk->download_staging, err);
}

static tern_status download_part(tern_vulkan *vk, const tern_buffer *buffer, uint64_t offset, void *data,
                                 uint64_t bytes, tern_error *err)
{
    VkCommandBuffer commands = vk->download_commands;
    TERN_TRY(tern_vulkan__begin(vk, commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, err));
    tern_vulkan__barrier(vk, commands, compute | transfer, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                         transfer, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    VkBufferCopy copy = {.srcOffset = offset, .dstOffset = 0, .size = bytes};
    vk->fn.CmdCopyBuffer(commands, buffer->handle, vk->download_staging->handle, 1, &copy);
    tern_vulkan__barrier(vk, commands, transfer, VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                         VK_ACCESS_HOST_READ_BIT);
    TERN_TRY(tern_vulkan__check(vk, vk->fn.EndCommandBuffer(commands), "vkEndCommandBuffer", err));
    TERN_TRY(tern_vulkan__submit(vk, &commands, 1, vk->download_fence, err));
    TERN_TRY(tern_vulkan__fence_wait(vk, vk->download_fence, WAIT_SECONDS, err));
    TERN_TRY(tern_vulkan__invalidate(vk, &vk->download_staging->memory, err));
    memcpy(data, vk->download_staging->memory.mapped, (size_t)bytes);
    return TERN_OK;
}

tern_status tern_vulkan__download(tern_vulkan *vk, const tern_buffer *buffer, uint64_t offset, void *data,
                                  uint64_t bytes, tern_error *err)
{
    TERN_TRY(tern_vulkan__upload_flush(vk, err));
    TERN_TRY(download_open(vk, err));
    uint8_t *to = data;
    while (bytes) {
        uint64_t n = bytes < TERN_VULKAN_UPLOAD_BYTES ? bytes : TERN_VULKAN_UPLOAD_BYTES;
        TERN_TRY(download_part(vk, buffer, offset, to, n, err));
        to += n;
        offset += n;
        bytes -= n;
    }
    return TERN_OK;
}

void tern_vulkan__upload_close(tern_vulkan *vk)
{
    for (uint32_t i = 0; i < TERN_VULKAN_UPLOAD_SLOTS; i++) {
        tern_vulkan__buffer_free(vk, vk->slots[i].staging);
        if (vk->slots[i].fence) vk->fn.DestroyFence(vk->device, vk->slots[i].fence, NULL);
    }
    tern_vulkan__buffer_free(vk, vk->download_staging);
    if (vk->download_fence) vk->fn.DestroyFence(vk->device, vk->download_fence, NULL);
}
