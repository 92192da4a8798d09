/* Which kind of memory suits which use. A pure function, tested on made-up devices. */
#include "backend/vulkan/device.h"

enum {
    LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
    COHERENT = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    NEVER = VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT,
    N_WISHES = 4
};

/* Flags that a type must have, and must not have. */
typedef struct wish {
    uint32_t with, without;
} wish;

/* The wishes of each use, best first: the first that a type fulfils is taken. */
/* clang-format off */
static const wish wishes[][N_WISHES] = {
    [TERN_VULKAN_DEVICE] = {{LOCAL, VISIBLE}, {LOCAL, 0}, {0, 0}},
    [TERN_VULKAN_SHARED] = {{LOCAL | VISIBLE | COHERENT, 0}, {VISIBLE | COHERENT, 0}, {VISIBLE, 0}},
    [TERN_VULKAN_UPLOAD] = {{VISIBLE | COHERENT, LOCAL | CACHED}, {VISIBLE | COHERENT, LOCAL},
                            {VISIBLE | COHERENT, 0}, {VISIBLE, 0}},
    [TERN_VULKAN_READBACK] = {{VISIBLE | CACHED | COHERENT, LOCAL}, {VISIBLE | CACHED, 0},
                              {VISIBLE | COHERENT, 0}, {VISIBLE, 0}},
};
static const wish unified_wishes[N_WISHES] = {{LOCAL | VISIBLE | CACHED, 0}, {LOCAL | VISIBLE, 0}, {LOCAL, 0}, {0, 0}};
/* clang-format on */

static uint32_t first_of(const VkPhysicalDeviceMemoryProperties *m, wish w, uint32_t bits)
{
    for (uint32_t i = 0; i < m->memoryTypeCount; i++) {
        VkMemoryPropertyFlags flags = m->memoryTypes[i].propertyFlags;
        if (bits >> i & 1 && (flags & w.with) == w.with && !(flags & (w.without | NEVER))) return i;
    }
    return UINT32_MAX;
}

uint32_t tern_vulkan__memory_type(const VkPhysicalDeviceMemoryProperties *m, bool unified, tern_vulkan_use use,
                                  uint32_t bits)
{
    bool both = unified && (use == TERN_VULKAN_DEVICE || use == TERN_VULKAN_SHARED);
    const wish *from = both ? unified_wishes : wishes[use];
    uint32_t type = UINT32_MAX;
    for (int i = 0; i < N_WISHES && type == UINT32_MAX; i++) type = first_of(m, from[i], bits);
    return type;
}
