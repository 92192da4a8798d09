/* Device memory: blocks that buffers get pieces of. */
#include <stdio.h>

#include "backend/vulkan/device.h"
#include "base/alloc.h"
#include "base/cpu.h"

enum { FIRST_BLOCK = 16 << 20, LARGEST_BLOCK = 256 << 20 };

typedef struct used {
    uint64_t offset, bytes;
} used;

struct tern_vulkan_block {
    tern_vulkan_block *next;
    VkDeviceMemory memory;
    uint32_t type;
    uint64_t bytes;
    uint8_t *mapped;
    used *pieces; /* in order of offset */
    size_t n, cap;
};

/* Bytes that are free in the heap of a memory type, as the driver says; 0: it does not say. */
static uint64_t free_bytes(const tern_vulkan *vk, uint32_t type)
{
    if (!vk->physical.memory_budget) return 0;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                .pNext = &budget};
    vk->fn.GetPhysicalDeviceMemoryProperties2(vk->physical.handle, &memory);
    uint32_t heap = memory.memoryProperties.memoryTypes[type].heapIndex;
    return budget.heapBudget[heap] > budget.heapUsage[heap] ? budget.heapBudget[heap] - budget.heapUsage[heap] : 0;
}

uint64_t tern_vulkan__memory_free(const tern_vulkan *vk)
{
    const VkPhysicalDeviceMemoryProperties *m = &vk->physical.memory;
    const uint32_t type = tern_vulkan__memory_type(m, vk->unified, TERN_VULKAN_DEVICE, UINT32_MAX);
    if (type == UINT32_MAX) return 0;
    const uint64_t heap = m->memoryHeaps[m->memoryTypes[type].heapIndex].size, told = free_bytes(vk, type);
    uint64_t bytes = heap > vk->held_bytes ? heap - vk->held_bytes : 1;
    if (vk->physical.memory_budget) bytes = told ? told : 1;
    const uint64_t host = vk->unified ? tern_cpu_memory_free() : 0; /* the same memory */
    return host && host < bytes ? host : bytes;
}

static tern_status out_of_memory(const tern_vulkan *vk, uint64_t bytes, uint32_t type, tern_error *err)
{
    char free_text[64] = "";
    uint64_t free_now = free_bytes(vk, type);
    uint64_t heap = vk->physical.memory.memoryHeaps[vk->physical.memory.memoryTypes[type].heapIndex].size;
    if (free_now) snprintf(free_text, sizeof free_text, ", %.1f free", (double)free_now / (1 << 20));
    return tern_fail(err, TERN_OUT_OF_MEMORY,
                     "vulkan: %s is out of memory: %.1f MiB more are needed; %.1f MiB are held (of %.1f%s); "
                     "--gpu-layers moves layers to the "
                     "CPU, a smaller context or batch takes less",
                     vk->physical.properties.deviceName, (double)bytes / (1 << 20), (double)vk->held_bytes / (1 << 20),
                     (double)heap / (1 << 20), free_text);
}

/* The first gap of the block that holds `bytes` at `alignment`; *at: before which piece. */
static bool find_gap(const tern_vulkan_block *block, uint64_t bytes, uint64_t alignment, uint64_t *offset, size_t *at)
{
    uint64_t begin = 0;
    for (size_t i = 0; i <= block->n; i++) {
        uint64_t end = i < block->n ? block->pieces[i].offset : block->bytes;
        if (begin <= end && bytes <= end - begin) {
            *offset = begin;
            *at = i;
            return true;
        }
        if (i < block->n)
            begin = (block->pieces[i].offset + block->pieces[i].bytes + alignment - 1) / alignment * alignment;
    }
    return false;
}

static tern_status take(tern_vulkan *vk, tern_vulkan_use use, tern_vulkan_block *block, uint64_t offset, uint64_t bytes,
                        size_t at, tern_vulkan_piece *out, tern_error *err)
{
    void *items = block->pieces;
    TERN_TRY(tern_grow(&items, &block->cap, block->n + 1, sizeof *block->pieces, err));
    block->pieces = items;
    for (size_t i = block->n++; i > at; i--) block->pieces[i] = block->pieces[i - 1];
    block->pieces[at] = (used){offset, bytes};
    VkMemoryPropertyFlags flags = vk->physical.memory.memoryTypes[block->type].propertyFlags;
    bool seen =
        block->mapped && (use != TERN_VULKAN_DEVICE || vk->unified); /* else it is slow for the host, or may be */
    *out = (tern_vulkan_piece){.block = block,
                               .memory = block->memory,
                               .offset = offset,
                               .bytes = bytes,
                               .mapped = seen ? block->mapped + offset : NULL,
                               .coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0,
                               .cached = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0};
    return TERN_OK;
}

static void block_free(tern_vulkan *vk, tern_vulkan_block *block)
{
    if (block->memory) {
        vk->fn.FreeMemory(vk->device, block->memory, NULL);
        vk->n_allocations--;
        vk->held_bytes -= block->bytes;
    }
    tern_free(block->pieces);
    tern_free(block);
}

/* Gives back a block that holds nothing. */
static void drop(tern_vulkan *vk, tern_vulkan_block *block)
{
    tern_vulkan_block **link = &vk->blocks;
    while (*link != block) link = &(*link)->next;
    *link = block->next;
    block_free(vk, block);
}

static tern_status block_map(tern_vulkan *vk, tern_vulkan_block *block, tern_error *err)
{
    VkMemoryPropertyFlags flags = vk->physical.memory.memoryTypes[block->type].propertyFlags;
    if (!(flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)) return TERN_OK;
    void *mapped = NULL;
    TERN_TRY(tern_vulkan__check(vk, vk->fn.MapMemory(vk->device, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped),
                                "vkMapMemory", err));
    block->mapped = mapped;
    return TERN_OK;
}

static tern_status block_make(tern_vulkan *vk, uint64_t bytes, uint32_t type, tern_vulkan_block **out, tern_error *err)
{
    uint32_t most = vk->physical.properties.limits.maxMemoryAllocationCount;
    if (vk->n_allocations >= most)
        return tern_fail(err, TERN_LIMIT, "vulkan: %s allows %u allocations of memory, and all are used",
                         vk->physical.properties.deviceName, most);
    tern_vulkan_block *block = tern_calloc(1, sizeof *block);
    if (!block) return tern_fail_alloc(err, sizeof *block);
    *block = (tern_vulkan_block){.type = type, .bytes = bytes};
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = bytes, .memoryTypeIndex = type};
    VkResult result = vk->fn.AllocateMemory(vk->device, &info, NULL, &block->memory);
    if (result != VK_SUCCESS) {
        tern_free(block);
        if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY && result != VK_ERROR_OUT_OF_HOST_MEMORY)
            return tern_vulkan__check(vk, result, "vkAllocateMemory", err);
        return out_of_memory(vk, bytes, type, err);
    }
    vk->counters.allocations++;
    vk->n_allocations++;
    vk->held_bytes += bytes;
    tern_status status = block_map(vk, block, err);
    if (status != TERN_OK) {
        block_free(vk, block);
        return status;
    }
    block->next = vk->blocks;
    vk->blocks = block;
    *out = block;
    return TERN_OK;
}

/* Blocks grow with what is held: small models take little, large ones few allocations. Large buffers get a block of
 * their own. */
static uint64_t block_bytes(const tern_vulkan *vk, uint64_t bytes)
{
    uint64_t size = FIRST_BLOCK;
    while (size < LARGEST_BLOCK && size < vk->held_bytes / 2) size *= 2;
    return bytes > size / 4 ? bytes : size;
}

tern_status tern_vulkan__allocate(tern_vulkan *vk, tern_vulkan_use use, const VkMemoryRequirements *need,
                                  tern_vulkan_piece *out, tern_error *err)
{
    uint32_t type = tern_vulkan__memory_type(&vk->physical.memory, vk->unified, use, need->memoryTypeBits);
    if (type == UINT32_MAX)
        return tern_fail(err, TERN_UNSUPPORTED, "vulkan: %s has no memory type for buffers",
                         vk->physical.properties.deviceName);
    uint64_t atom = vk->physical.properties.limits.nonCoherentAtomSize,
             alignment = need->alignment > atom ? need->alignment : atom;
    uint64_t bytes = (need->size + alignment - 1) / alignment * alignment, offset;
    size_t at;
    for (tern_vulkan_block *block = vk->blocks; block; block = block->next)
        if (block->type == type && find_gap(block, bytes, alignment, &offset, &at)) {
            vk->counters.buffers++;
            vk->counters.reused++;
            return take(vk, use, block, offset, bytes, at, out, err);
        }
    if (bytes > vk->physical.max_allocation)
        return tern_fail(err, TERN_LIMIT, "vulkan: %s allocates at most %llu bytes at once, %llu are needed",
                         vk->physical.properties.deviceName, (unsigned long long)vk->physical.max_allocation,
                         (unsigned long long)bytes);
    tern_vulkan_block *block = NULL;
    uint64_t size = block_bytes(vk, bytes);
    tern_error first = {0};
    if (block_make(vk, size, type, &block, &first) != TERN_OK) TERN_TRY(block_make(vk, bytes, type, &block, err));
    if (!block) return tern_fail(err, TERN_INTERNAL, "vulkan: memory was allocated, but its block could not be");
    vk->counters.buffers++;
    tern_status status = take(vk, use, block, 0, bytes, 0, out, err);
    if (status != TERN_OK) drop(vk, block);
    return status;
}

void tern_vulkan__release(tern_vulkan *vk, tern_vulkan_piece *piece)
{
    tern_vulkan_block *block = piece->block;
    if (!block) return;
    size_t at = 0;
    while (block->pieces[at].offset != piece->offset) at++;
    block->n--;
    for (size_t i = at; i < block->n; i++) block->pieces[i] = block->pieces[i + 1];
    *piece = (tern_vulkan_piece){0};
    if (block->n == 0) drop(vk, block);
}

static VkMappedMemoryRange mapped_range(const tern_vulkan_piece *piece)
{
    return (VkMappedMemoryRange){.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
                                 .memory = piece->memory,
                                 .offset = piece->offset,
                                 .size = piece->bytes};
}

tern_status tern_vulkan__flush(tern_vulkan *vk, const tern_vulkan_piece *piece, tern_error *err)
{
    if (piece->coherent || !piece->mapped) return TERN_OK;
    VkMappedMemoryRange range = mapped_range(piece);
    return tern_vulkan__check(vk, vk->fn.FlushMappedMemoryRanges(vk->device, 1, &range), "vkFlushMappedMemoryRanges",
                              err);
}

tern_status tern_vulkan__invalidate(tern_vulkan *vk, const tern_vulkan_piece *piece, tern_error *err)
{
    if (piece->coherent || !piece->mapped) return TERN_OK;
    VkMappedMemoryRange range = mapped_range(piece);
    return tern_vulkan__check(vk, vk->fn.InvalidateMappedMemoryRanges(vk->device, 1, &range),
                              "vkInvalidateMappedMemoryRanges", err);
}
